"""Sequence classification: one text or a pair, encoders and decoders, cross-encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pathlens.errors import ModelError
from pathlens.text.adapter import Case, Request, index_of
from pathlens.text.language import LanguageModel, Target, choose_label, form, labels_of
from pathlens.text.tokens import Tokens


@dataclass(frozen=True)
class ReadClass:
    """(B, C) logits → the class each row asks for."""

    score: str

    def __call__(self, output: Tensor, cases: Sequence[Case]) -> Tensor:
        return form(output, index_of(cases, output.device), self.score)


@dataclass(frozen=True)
class ReadAll:
    """(B, C) logits → (B, 1, C), all of them as one vector."""

    def __call__(self, output: Tensor, cases: Sequence[Case]) -> Tensor:
        return output[:, None]


class Classifier(LanguageModel):
    """`AutoModelForSequenceClassification` and kin.

    A decoder's own head looks for its last real token through token ids, which a path has not; so the body runs
    alone and the head is applied to the last token here. The logits are the same.
    """

    kind = "sequence classification"

    def __init__(self, module: nn.Module, tokenizer: Any, *, name: str | None = None) -> None:
        self.decoder = _reads_last_token(module)
        super().__init__(module, tokenizer, name=name)

    def body(self) -> nn.Module:
        return self.module.base_model if self.decoder else self.module

    def output(self, raw: Any, cases: Sequence[Case]) -> Tensor:
        if not self.decoder:
            return raw.logits
        hidden = raw.last_hidden_state
        last = torch.tensor([len(case) - 1 for case in cases], device=hidden.device)
        return self.module.score(hidden[torch.arange(len(cases), device=hidden.device), last])

    def target(self, tokens: Tokens, output: Tensor, request: Request) -> Target:
        if output.ndim != 2:
            raise ModelError(
                f"expected one row of logits per text, the model gave shape {tuple(output.shape)}"
            )
        labels = labels_of(self.module, output.shape[1])
        if request.vector:
            return Target("all logits", ReadAll(), outputs=("logits",))
        index = choose_label(request.target, labels, int(output[0].argmax()))
        score = request.score or "logit"
        name = labels[index] if len(labels) > 1 or request.target is not None else "score"
        return Target(f"{name} ({score})", ReadClass(score), index)


def _reads_last_token(module: nn.Module) -> bool:
    return isinstance(getattr(module, "score", None), nn.Linear) and hasattr(module, "base_model")
