"""An encoder on its way to being exact: its vectors with the shift and without, and how well they fit scored pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pathlens.engine.progress import Progress
from pathlens.errors import InputError, ModelError
from pathlens.metrics.statistics import spearman
from pathlens.text.adapter import Request
from pathlens.text.baseline import token_ids
from pathlens.text.fingerprint import fingerprint
from pathlens.text.load import load
from pathlens.text.sentence import SentenceTransformerEncoder

SCALE = 2.0  # of the product, as usual: the step of B·A is this much longer than one of W
Pair = tuple[str, str, float]


@dataclass(eq=False)
class Tuner:
    """An encoder in the making: its modules but for a last Normalize, and the reference of every length."""

    encoder: Any  # a SentenceTransformer of our own
    name: str
    mark: str  # fingerprint of what it is made of
    reference: str  # the token
    before: tuple[int, ...]  # special tokens before the text, and after it
    after: tuple[int, ...]
    prompt: str
    matrix: Tensor | None = None  # after the shift, where one was learned

    @classmethod
    def of(cls, model: Any, reference: str) -> Tuner:
        loaded = load(model)
        if not isinstance(loaded, SentenceTransformerEncoder):
            raise ModelError(
                f"{loaded.name!r} is a {loaded.kind}; an exact encoder is made of a sentence-transformers model: minilm, a "
                "folder, a hub id, or a SentenceTransformer"
            )
        if loaded.static:
            raise ModelError(
                f"{loaded.name!r} is a table of words with no transformer after it: there is nothing to tune"
            )
        if loaded.shift is not None:
            raise ModelError(f"{loaded.name!r} is exact already: it subtracts its own reference")
        encoder = deepcopy(loaded.sentence_transformer).float()
        tokenizer = encoder.tokenizer
        known = {name: tokenizer.convert_ids_to_tokens(number) for name, number in token_ids(tokenizer).items()}
        token = known.get(reference, reference)
        number = tokenizer.convert_tokens_to_ids(token)
        if number is None or (number == tokenizer.unk_token_id and token != tokenizer.unk_token):
            raise InputError(
                f"reference={reference!r} is no token of this model; use {', '.join(known)}, or one as it is written"
            )
        bare = tokenizer("a", add_special_tokens=False)["input_ids"]
        whole = tokenizer("a")["input_ids"]
        place = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
        sides = tuple(whole[:place]), tuple(whole[place + len(bare) :])
        return cls(encoder, loaded.name, fingerprint(loaded), token, *sides, loaded.prompt(Request()))

    @property
    def body(self) -> nn.Module:
        body: nn.Module = self.encoder[0].auto_model
        return body

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        longest = {"truncation": True, "max_length": self.encoder.max_seq_length}
        rows: list[list[int]] = self.encoder.tokenizer([self.prompt + text for text in texts], **longest)["input_ids"]
        return rows

    def blank(self, length: int) -> list[int]:
        """r of so many tokens."""
        number = self.encoder.tokenizer.convert_tokens_to_ids(self.reference)
        between = max(0, length - len(self.before) - len(self.after))
        return [*self.before, *[number] * between, *self.after][:length]

    def plain(self, rows: Sequence[list[int]]) -> Tensor:
        """e'."""
        tokenizer = self.encoder.tokenizer
        features: dict[str, Any] = dict(tokenizer.pad({"input_ids": list(rows)}, return_tensors="pt"))
        width = features["input_ids"].shape[1]
        features["attention_mask"] = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        features = {name: value.to(self.body.device) for name, value in features.items()}
        for part in self.encoder:
            if type(part).__name__ != "Normalize":
                features = part(features)
        vectors: Tensor = features["sentence_embedding"]
        return vectors

    def cosines(self, vectors: Tensor) -> Tensor:
        """Of the first half of the rows with the second, cut as the encoder cuts them."""
        a, b = vectors[..., : self.encoder.truncate_dim].chunk(2)
        return torch.cosine_similarity(a, b)

    def shifted(self, rows: Sequence[list[int]]) -> Tensor:
        """e: texts and the references of their lengths in one batch."""
        lengths = sorted({len(row) for row in rows})
        vectors = self.plain([*rows, *map(self.blank, lengths)])
        moved = vectors[: len(rows)] - vectors[[len(rows) + lengths.index(len(row)) for row in rows]]
        return moved if self.matrix is None else moved @ self.matrix.T

    @torch.no_grad()
    def sides(self, pairs: Sequence[Pair], shifted: bool, size: int = 64, bar: Progress | None = None) -> Tensor:
        """Vectors of all first texts, then of all second ones: (2 · pairs, k)."""
        self.encoder.eval()
        rows = self.ids([a for a, *_ in pairs]) + self.ids([b for _, b, _ in pairs])
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        read, parts = self.shifted if shifted else self.plain, list[Tensor]()
        for start in range(0, len(order), size):
            parts.append(read([rows[i] for i in order[start : start + size]]).cpu())
            if bar is not None:
                bar.advance(len(parts[-1]), "encoding")
        vectors = torch.cat(parts)
        return vectors[torch.tensor(order).argsort()]

    def spearman(self, pairs: Sequence[Pair], shifted: bool) -> float:
        """Of the cosines with the scores."""
        cosines = self.cosines(self.sides(pairs, shifted)).numpy()
        return spearman(cosines, np.array([score for *_, score in pairs]))

    @torch.no_grad()
    def table(self) -> Tensor:
        """e'(r) of every length the model takes; texts without a word are their own reference."""
        self.encoder.eval()
        lengths = range(1, int(self.encoder.max_seq_length) + 1)
        rows = [self.plain([self.blank(length)])[0].float().cpu() for length in lengths]
        return torch.stack([torch.zeros_like(rows[0]), *rows])


# ---- a LoRA of our own: every linear layer gets W + B·A, trained alone, kept as two small factors


class LowRank(nn.Module):
    """W ↦ W + B·A; B begins at zero, so nothing changes before the first step."""

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        outputs, inputs = weight.shape
        self.lora_A = nn.Parameter(torch.empty(rank, inputs, dtype=weight.dtype, device=weight.device))
        self.lora_B = nn.Parameter(torch.zeros(outputs, rank, dtype=weight.dtype, device=weight.device))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + SCALE * self.lora_B @ self.lora_A


def attach(module: nn.Module, rank: int) -> list[nn.Parameter]:
    """Freeze the module, put factors on its linear layers, and return what is to be trained."""
    module.requires_grad_(False)
    linear = [(name, part) for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    trained: list[nn.Parameter] = []
    for name, part in linear:
        if name.startswith("pooler"):  # of BERT: made, never used by a sentence encoder
            continue
        factors = LowRank(part.weight, min(rank, *part.weight.shape))
        parametrize.register_parametrization(part, "weight", factors)
        trained += [factors.lora_A, factors.lora_B]
    return trained


def detach(module: nn.Module) -> dict[str, Tensor]:
    """Take the factors off again: {layer.lora_A, layer.lora_B} in 16 bits; the module is as it was."""
    factors: dict[str, Tensor] = {}
    for name, part in list(module.named_modules()):
        if isinstance(part, nn.Linear) and parametrize.is_parametrized(part, "weight"):
            kept: Any = part.parametrizations
            adapter = kept.weight[0]
            factors[f"{name}.lora_A"] = adapter.lora_A.detach().half().cpu().contiguous()
            factors[f"{name}.lora_B"] = (SCALE * adapter.lora_B.detach()).half().cpu().contiguous()
            parametrize.remove_parametrizations(part, "weight", leave_parametrized=False)
    return factors
