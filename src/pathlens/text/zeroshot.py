"""Zero-shot classification: does this text entail "This example is sports."?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pathlens.errors import InputError, ModelError
from pathlens.text.adapter import Case, Request
from pathlens.text.heads import Classifier
from pathlens.text.language import Target, form, labels_of
from pathlens.text.options import HypothesisOptions
from pathlens.text.tokens import Tokens


@dataclass(frozen=True)
class ReadEntailment:
    """Logits → entailment's; as a probability against contradiction alone, as the pipeline does for every label."""

    score: str
    entails: int
    contradicts: int

    def __call__(self, output: Float[Tensor, "B C"], cases: Sequence[Case]) -> Float[Tensor, " B"]:
        both = output[:, [self.contradicts, self.entails]]
        return form(both, torch.ones(len(both), dtype=torch.long, device=both.device), self.score)


class ZeroShot(Classifier):
    """A `zero-shot-classification` pipeline. Target: the label, in words; its hypothesis is held along the path."""

    kind = "zero-shot classification"
    options = HypothesisOptions

    def __init__(self, module: nn.Module, tokenizer: Any, *, name: str | None = None) -> None:
        super().__init__(module, tokenizer, name=name)
        labels = labels_of(module, int(getattr(module.config, "num_labels", 0)))
        self.entails = next((i for i, label in labels.items() if label.lower().startswith("entail")), -1)
        if self.entails < 0:
            raise ModelError(
                f"zero-shot classification needs a model with a label 'entailment'; this one has {', '.join(labels.values())}"
            )
        self.contradicts = len(labels) - 1 if self.entails == 0 else 0  # as the pipeline takes it

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        if text_b is not None or not isinstance(request.target, str) or not request.target.strip():
            raise InputError("zero-shot classification takes one text and the label in words: target='sports'")
        template = request.options_of(HypothesisOptions).hypothesis
        hypothesis = template.format(request.target)
        pair = super().tokenise(text, hypothesis, request)
        held = pair.holding([segment != 0 for segment in pair.segments])
        return replace(held.noted(f"the hypothesis {hypothesis!r} is part of the input and held"), texts=(text,))

    def target(self, tokens: Tokens, output: Float[Tensor, "..."], request: Request) -> Target:
        if request.vector:
            return super().target(tokens, output, request)
        score, label = request.score or "logit", str(request.target)
        read = ReadEntailment(score, self.entails, self.contradicts)
        return Target(f"{label} ({score})", read, again=label, score=score)
