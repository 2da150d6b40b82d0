"""Token classification: why did this token get this tag?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pathlens.errors import InputError
from pathlens.text.adapter import Case, Request
from pathlens.text.language import LanguageModel, Target, choose_label, form, labels_of, whole_number
from pathlens.text.tokens import Tokens


@dataclass(frozen=True)
class ReadTag:
    """(B, S, C) logits → the tag at the token each row asks for; target = (token, label)."""

    score: str

    def __call__(self, output: Tensor, cases: Sequence[Case]) -> Tensor:
        place = torch.tensor([case.target for case in cases], device=output.device)
        rows = torch.arange(len(cases), device=output.device)
        return form(output[rows, place[:, 0]], place[:, 1], self.score)


@dataclass(frozen=True)
class ReadTags:
    """(B, S, C) logits as they are: one vector per token."""

    def __call__(self, output: Tensor, cases: Sequence[Case]) -> Tensor:
        return output


class Tagger(LanguageModel):
    """`AutoModelForTokenClassification`. Target: (token index, label); default: the surest tag that is not O."""

    kind = "token classification"
    token_axis = True

    def output(self, raw: Any, cases: Sequence[Case]) -> Tensor:
        return raw.logits

    def target(self, tokens: Tokens, output: Tensor, request: Request) -> Target:
        labels = labels_of(self.module, output.shape[-1])
        if request.vector:
            return Target("all tags", ReadTags(), outputs=tokens.tokens)
        sure = output[0].double().log_softmax(-1)  # probabilities of sure tags round to 1 and would tie
        place, wanted = self._place(tokens, sure, labels, request.target)
        label = choose_label(wanted, labels, int(sure[place].argmax()), "the target's label")
        score = request.score or "logit"
        name = f"{labels[label]} at token {place} {tokens.tokens[place]!r} ({score})"
        return Target(name, ReadTag(score), (place, label), again=(place, label), score=score)

    def _place(self, tokens: Tokens, sure: Tensor, labels: dict[int, str], wanted: Any) -> tuple[int, Any]:
        if wanted is None:
            tagged = sure.clone()
            tagged[[i for i, s in enumerate(tokens.segments) if s < 0]] = -torch.inf
            tagged[:, [i for i, name in labels.items() if name == "O"]] = -torch.inf
            best = int(tagged.argmax())
            return best // len(labels), best % len(labels)
        wanted = tuple(map(whole_number, wanted)) if isinstance(wanted, tuple | list) else whole_number(wanted)
        if isinstance(wanted, int) and not isinstance(wanted, bool):
            wanted = (wanted, None)
        if not (isinstance(wanted, tuple | list) and len(wanted) == 2 and isinstance(wanted[0], int)):
            raise InputError(f"target of a tagger is (token index, label), got {wanted!r}")
        if not 0 <= wanted[0] < len(tokens):
            raise InputError(
                f"target={tuple(wanted)!r}: token index {wanted[0]} is out of range; the text has {len(tokens)} tokens: "
                + ", ".join(f"{i} {t!r}" for i, t in enumerate(tokens.tokens[:40]))
            )
        return wanted[0], wanted[1]
