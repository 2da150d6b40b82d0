"""Sequence classification: one text or a pair, encoders and decoders, cross-encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from pathlens.errors import ModelError
from pathlens.text.adapter import Case, Request, index_of
from pathlens.text.first_token import first_token_alone, linears_of_the_first_token
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
    alone and the head is applied here to the token it would have found. The logits are the same.
    """

    kind = "sequence classification"

    def __init__(self, module: nn.Module, tokenizer: Any, *, name: str | None = None) -> None:
        self.decoder = _reads_last_token(module)
        super().__init__(module, tokenizer, name=name)

    def body(self) -> nn.Module:
        return self.module.base_model if self.decoder else self.module

    @cached_property
    def read_first(self) -> list[nn.Linear]:
        """Layers whose results are read at the first token alone ([CLS]); a decoder reads its last."""
        return [] if self.decoder else linears_of_the_first_token(self.network, lambda raw: raw.logits)

    def forward(self, points: Tensor, cases: Sequence[Case], layer: int) -> Any:
        if self.network.runs_again:  # blocks run a second time in the reverse pass, as they are then
            return super().forward(points, cases, layer)
        with first_token_alone(self.read_first):
            return super().forward(points, cases, layer)

    def output(self, raw: Any, cases: Sequence[Case]) -> Tensor:
        if not self.decoder:
            return raw.logits
        hidden = raw.last_hidden_state
        last = torch.tensor([case.meta.get("read_at", len(case) - 1) for case in cases], device=hidden.device)
        return self.module.score(hidden[torch.arange(len(cases), device=hidden.device), last])

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        """A decoder reads its answer at the last token that is not padding, also where the text ends in that token."""
        tokens = super().tokenise(text, text_b, request)
        pad = getattr(self.module.config, "pad_token_id", None)
        read_at = max((i for i, token in enumerate(tokens.ids) if token != pad), default=len(tokens) - 1)
        if not self.decoder or read_at == len(tokens) - 1:
            return tokens
        note = f"the model reads its answer at token {read_at}: what follows is its padding token"
        return replace(tokens, notes=(*tokens.notes, note), meta={**tokens.meta, "read_at": read_at})

    def target(self, tokens: Tokens, output: Tensor, request: Request) -> Target:
        if output.ndim != 2:
            raise ModelError(f"expected one row of logits per text, the model gave shape {tuple(output.shape)}")
        labels = labels_of(self.module, output.shape[1])
        if request.vector:
            return Target("all logits", ReadAll(), outputs=("logits",))
        index = choose_label(request.target, labels, int(output[0].argmax()))
        score = request.score or "logit"
        named = len(labels) > 1 or request.target is not None
        name = f"{labels[index] if named else 'score'} ({score})"
        return Target(name, ReadClass(score), index, again=index if named else None, score=score)


def _reads_last_token(module: nn.Module) -> bool:
    return isinstance(getattr(module, "score", None), nn.Linear) and hasattr(module, "base_model")
