"""The metrics' formulas, loop by loop, on the Hugging Face model itself: token ids in, probabilities out."""

from __future__ import annotations

import math

import numpy as np
import torch


class Reader:
    """A classifier, one text and its class; ids in, log-probability (or logit) of that class out."""

    def __init__(self, model, tokenizer, text, text_b=None):
        self.model = model
        result = tokenizer(text, text_b) if text_b is not None else tokenizer(text)
        self.ids = list(result["input_ids"])
        self.types = list(result["token_type_ids"]) if "token_type_ids" in result else None
        self.special = [part is None for part in result.sequence_ids(0)]
        self.label = int(self.logits(self.ids, self.types).argmax())

    def logits(self, ids, types=None):
        given = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
        if types is not None and hasattr(self.model.config, "type_vocab_size"):
            given["token_type_ids"] = torch.tensor([types])
        with torch.no_grad():
            return self.model(**given).logits[0].double()

    def logit(self, ids, types):
        return float(self.logits(ids, types)[self.label])

    def log_p(self, ids, types):
        return float(torch.log_softmax(self.logits(ids, types), -1)[self.label])

    def without(self, gone):
        left = [i for i in range(len(self.ids)) if i not in gone]
        return [self.ids[i] for i in left], None if self.types is None else [self.types[i] for i in left]

    def swapped(self, places, token):
        return [token if i in places else old for i, old in enumerate(self.ids)], self.types


def top(scores, able, k):
    """The k able tokens with the largest signed score, by looking for the largest again and again."""
    left, chosen = list(able), []
    for _ in range(k):
        best = left[0]
        for i in left:
            if scores[i] > scores[best]:
                best = i
        chosen.append(best)
        left.remove(best)
    return set(chosen)


def deletion(reader, scores, share, protocol, reference):
    """(log-odds, comprehensiveness, sufficiency) of one text."""
    size = len(reader.ids)
    if protocol == "paper":
        able = list(range(size))
        k = int(size * round(100 * share) / 100)
    else:
        able = [i for i in range(size) if not reader.special[i]]
        k = max(1, int(len(able) * round(100 * share) / 100))
    if k == 0:
        return 0.0, 0.0, 0.0
    chosen = top(scores, able, k)
    whole = reader.log_p(reader.ids, reader.types)
    rest = {i for i in able if i not in chosen}
    return (
        reader.log_p(*reader.swapped(chosen, reference)) - whole,
        math.exp(whole) - math.exp(reader.log_p(*reader.without(chosen))),
        math.exp(whole) - math.exp(reader.log_p(*reader.without(rest))),
    )


def leave_one_out(reader):
    whole = reader.logit(reader.ids, reader.types)
    return np.array(
        [0.0 if flag else whole - reader.logit(*reader.without({i})) for i, flag in enumerate(reader.special)]
    )


def replace_one(reader, token):
    """SIG's token score: F(x) − F(x with one token at the reference)."""
    whole = reader.logit(reader.ids, reader.types)
    return np.array(
        [0.0 if flag else whole - reader.logit(*reader.swapped({i}, token)) for i, flag in enumerate(reader.special)]
    )


def infidelity(reader, scores, sets, token):
    total = 0.0
    for chosen in sets:
        words = 0.0
        for i in chosen:
            words += scores[i]
        change = reader.logit(reader.ids, reader.types) - reader.logit(*reader.swapped(set(chosen), token))
        total += (words - change) ** 2
    return total / len(sets)


def word_error(table, points):
    """Mean over points of the distance to the nearest row, one distance at a time."""
    total = 0.0
    for point in points:
        total += min(float(np.linalg.norm(row - point)) for row in table)
    return total / len(points)
