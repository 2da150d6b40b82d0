"""The model that is examined, and what a law says of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from pathlens.engine.explainer import Explainer
from pathlens.errors import PathlensError
from pathlens.text.adapter import Altered, Case, Request, TextModel
from pathlens.text.language import LanguageModel
from pathlens.text.zeroshot import Candidates
from pathlens.types import SIMILARITIES, TOLERANCE

ROUNDING = 2e-4  # relative to the largest score: float32 sums in another order
HALF_ROUNDING = 0.05  # … of numbers with half the digits
LEAST = 0.05  # scores below this share of the output are held to it: the output's own digits are all there is
HOLDS, FAILS, LEFT_OUT = "holds", "fails", "left out"


@dataclass(frozen=True)
class Check:
    """One law: its state, what was measured, and what to do when it does not hold."""

    state: str  # HOLDS, FAILS or LEFT_OUT
    measured: str
    advice: str = ""
    law: str = ""
    seconds: float = 0.0


def within_limit(size: float, limit: float, words: str, advice: str) -> Check:
    """Holds when `size` is at most `limit`."""
    measured = f"{words} ({size:.1e}, allowed {limit:.1e})"
    return Check(HOLDS, measured) if size <= limit else Check(FAILS, measured, advice)


def left_out(why: str) -> Check:
    """A law that does not apply."""
    return Check(LEFT_OUT, why)


@dataclass(frozen=True, eq=False)
class Patient:
    """The model, the texts it is examined with, and the choices every run shares."""

    model: TextModel
    text: Any
    text_b: Any = None
    tolerance: float = TOLERANCE
    asked: Mapping[str, Any] = field(default_factory=dict)  # what every run of this kind of model needs to be told

    @property
    def language(self) -> LanguageModel | None:
        """The model as one made of a network and a tokenizer, or None."""
        return self.model if isinstance(self.model, LanguageModel) else None

    @property
    def half(self) -> bool:
        """Does the model run in half precision?"""
        return self.model.dtype_name in ("float16", "bfloat16")

    @cached_property
    def size(self) -> float:
        """|F(x)|, at least 1: the digits of scores are those of outputs, and logits near zero have others beside them."""
        return max(1.0, abs(self.value(self.case().ends.end)))

    def rounding(self, values: Any) -> float:
        """How far numbers of this size may differ by rounding alone."""
        share = HALF_ROUNDING if self.half else ROUNDING
        return share * max(float(np.abs(values).max()), LEAST * self.size)

    @cached_property
    def predicted(self) -> Case:
        """The patient's text as the model itself reads it: its class, token or span is what every run explains."""
        with self.model.quiet():
            return self.model.case(self.text, self.text_b, request=self.request())

    def request(self, **choices: Any) -> Request:
        return Request(**{**self.asked, **choices})

    def like(self, text: str) -> str:
        """Another text that this kind of model takes: with a gap, where it fills one."""
        return with_gap(self.model, text)

    def fixed(self, model: TextModel) -> TextModel:
        """The model with the target fixed: a close call that other rounding decides otherwise is no drift of scores."""
        chosen = self.predicted

        def fix(case: Case, pair: Any, request: Request) -> Case:
            if request.vector or case.texts != chosen.texts:
                return case
            if isinstance(chosen.target, Candidates):  # it holds rows of the model itself: asked again by its name
                return model.case(*pair, request=replace(request, target=chosen.chosen.target))
            return replace(case, target=chosen.target, target_name=chosen.target_name)

        computed = isinstance(chosen.target, torch.Tensor)  # the other text's vector, not a choice
        return model if computed else Altered(model, fix)

    @cached_property
    def subject(self) -> TextModel:
        """The model as every law sees it: with its target fixed."""
        return self.fixed(self.model)

    @cached_property
    def has_layers(self) -> bool:
        """Can a deeper layer be entered?"""
        if self.language is None or self.language.depth == 0:
            return False
        try:
            with self.model.quiet():
                self.model.case(self.text, self.text_b, request=self.request(layer=1))
        except PathlensError:
            return False
        return True

    def case(self, **choices: Any) -> Case:
        """The patient's text, read."""
        with self.model.quiet():
            return self.subject.case(self.text, self.text_b, request=self.request(**choices))

    def value(self, rows: torch.Tensor, case: Case | None = None) -> float:
        """The model's output when the patient's text, or the case, enters as these rows."""
        case = case or self.case()
        with self.model.quiet(), torch.no_grad():
            return float(case.score(rows[None], [case])[0])

    def explain(self, text: Any = None, *, model: TextModel | None = None, **choices: Any) -> Any:
        """A result for the patient's text (or another); warnings are the laws' business, not the user's."""
        choices = {"method": "ig", "tolerance": self.tolerance, "check": False, **self.asked, **choices}
        if choices["method"] == "vaig":  # explains the whole output, which has no score
            choices.pop("score", None)
        if self.model.similarity not in (None, *SIMILARITIES):  # a distance: its vectors are examined all the same
            choices.setdefault("similarity", SIMILARITIES[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = Explainer(self.subject if model is None else self.fixed(model), **choices)
            if isinstance(text, list):
                return run(text, [self.text_b] * len(text) if self.text_b is not None else None)
            return run(self.text if text is None else text, self.text_b)


def with_gap(model: TextModel, text: str) -> str:
    """The text with its last word missing, for a model that fills gaps; else as it is."""
    tokenizer = getattr(model, "tokenizer", None)
    if model.kind != "masked language model" or tokenizer is None or tokenizer.mask_token in text:
        return text
    return f"{text.rstrip('.').rpartition(' ')[0]} {tokenizer.mask_token}."


Law = Callable[[Patient], Check]
