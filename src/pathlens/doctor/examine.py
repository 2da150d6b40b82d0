"""Every law that applies to a model, one after another; a law that breaks never stops the others."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from pathlens.doctor.record import FAILS, LEFT_OUT, Check, Diagnosis
from pathlens.errors import InputError, PathlensError
from pathlens.text.adapter import Case, Request, TextModel
from pathlens.text.language import LanguageModel
from pathlens.text.load import load

TEXT = "The film was not really funny, but it moved me."
OTHER = "A short text."
SECOND = "I laughed little and cried a lot."


@dataclass(frozen=True, eq=False)
class Patient:
    """The model, the texts it is examined with, and the choices every run shares."""

    model: TextModel
    text: Any
    text_b: Any = None
    tolerance: float = 1e-3

    @property
    def pair(self) -> bool:
        """Does it compare two texts?"""
        return self.model.two_texts_are_a_pair()

    @cached_property
    def predicted(self) -> Case:
        """The patient's text as the model itself reads it: its class, token or span is what every run explains."""
        with self.model.quiet():
            return self.model.case(self.text, self.text_b, request=Request())

    def fixed(self, model: TextModel) -> TextModel:
        """The model with the target fixed: a close call that other rounding decides otherwise is no drift of scores."""
        chosen = self.predicted
        if isinstance(chosen.target, torch.Tensor):  # the other text's vector: computed, not chosen
            return model

        def case(text: Any, text_b: Any = None, *, request: Request) -> Case:
            made = model.case(text, text_b, request=request)
            if request.vector or made.texts != chosen.texts:
                return made
            return replace(made, target=chosen.target, target_name=chosen.target_name)

        same = copy.copy(model)
        same.case = case  # type: ignore[method-assign]
        return same

    @cached_property
    def subject(self) -> TextModel:
        """The model as every law sees it: with its target fixed."""
        return self.fixed(self.model)

    def explain(self, text: Any = None, model: TextModel | None = None, **choices: Any) -> Any:
        """A result for the patient's text (or another); warnings are the checks' business, not the user's."""
        from pathlens.engine.explainer import Explainer

        choices.setdefault("method", "ig")
        choices.setdefault("tolerance", self.tolerance)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = Explainer(self.subject if model is None else self.fixed(model), **choices)
            if isinstance(text, list):
                return run(text, [self.text_b] * len(text) if self.text_b is not None else None)
            return run(self.text if text is None else text, self.text_b)


def examine(
    model: Any,
    text: Any = None,
    text_b: Any = None,
    *,
    tolerance: float = 1e-3,
    tell: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Run the laws of the library on a model and a text; `tell` hears the name of each law before it is tried."""
    from pathlens.doctor import laws, precision

    patient = _patient(load(model), text, text_b, tolerance)
    checks = []
    for name, law in (*laws.LAWS, *precision.LAWS):
        if tell is not None:
            tell(name)
        checks.append(_try(name, law, patient))
    meta = {"text": patient.text if isinstance(patient.text, str) else "a given input", "tolerance": tolerance,
            "torch": torch.__version__}  # fmt: skip
    return Diagnosis(patient.model.name, patient.model.kind, tuple(checks), meta)


def _patient(model: TextModel, text: Any, text_b: Any, tolerance: float) -> Patient:
    if text is None and model.kind == "tabular":
        raise InputError("a model of tensors is examined with one of its inputs: examine(model, row)")
    for given in (text, text_b):
        if isinstance(given, str) and not given.strip():
            raise InputError(f"the text to examine with is empty ({given!r}); give one with words, or none")
    if not tolerance > 0:  # no law can be tried: that is the asker's mistake, not the model's
        raise InputError(f"tolerance must be a positive number, got {tolerance!r}")
    needs_two = model.two_texts_are_a_pair() or model.kind == "question answering"
    if text is None and model.kind == "question answering":
        text, text_b = "What was the film?", TEXT
    text = TEXT if text is None else text
    return Patient(model, text, SECOND if needs_two and text_b is None else text_b, tolerance)


def _try(name: str, law: Callable[[Patient], tuple[str, str, str]], patient: Patient) -> Check:
    started = time.perf_counter()
    try:
        state, found, advice = law(patient)
    except PathlensError as error:
        state, found, advice = FAILS, str(error), ""
    except Exception as error:  # whatever a model does, the other laws are still tried
        told = (str(error).strip() or type(error).__name__).splitlines()[0]
        state, found, advice = (
            FAILS,
            f"{type(error).__name__}: {told}",
            "this model does something unusual; see docs/extending.md",
        )
    return Check(name, state, found, advice, time.perf_counter() - started)


def left_out(why: str) -> tuple[str, str, str]:
    """A law that does not apply."""
    return LEFT_OUT, why, ""


def language(patient: Patient) -> LanguageModel | None:
    """The model as one made of a network and a tokenizer, or None."""
    return patient.model if isinstance(patient.model, LanguageModel) else None
