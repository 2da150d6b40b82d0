"""The laws, run on the user's own model: what holds, what does not, and what to do.

>>> from pathlens.doctor import examine
>>> examine("sentiment").show()
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pathlens.doctor.patient import FAILS, HOLDS, LEFT_OUT, Check, Law, Patient, left_out, with_gap
from pathlens.errors import InputError, PathlensError, first_line, or_error
from pathlens.explanation.view import Viewable
from pathlens.text.generator import Generator
from pathlens.text.zeroshot import ZeroShot
from pathlens.types import TOLERANCE, brief

__all__ = ["Check", "Diagnosis", "examine"]
MARKS = {HOLDS: "✓", FAILS: "✗", LEFT_OUT: "·"}
TEXT = "The film was not really funny, but it moved me."
SECOND = "I laughed little and cried a lot."
QUESTION = "What was the film?"
LABEL = "cinema"  # a zero-shot pipeline without labels of its own is asked about one


@dataclass(frozen=True, repr=False)
class Diagnosis(Viewable):
    """All checks of one model."""

    model: str
    kind: str
    checks: tuple[Check, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        wrong = [check.law for check in self.checks if check.state == FAILS]
        count = f"{len(wrong)} of {len(self.checks)} laws do NOT hold"
        return brief(self, self.model, f"{count}: {', '.join(wrong)}" if wrong else "every law holds")

    @property
    def healthy(self) -> bool:
        """Does every law that was tried hold?"""
        return all(check.state != FAILS for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**super().to_dict(), "healthy": self.healthy}

    def to_page(self) -> Any:
        """The checks as a table."""
        from pathlens.draw.blocks import Listing, Page

        advice = [f"\n→ {check.advice}" if check.advice else "" for check in self.checks]
        rows = tuple((c.law, c.state, c.measured + more) for c, more in zip(self.checks, advice, strict=True))
        count = {state: sum(check.state == state for check in self.checks) for state in MARKS}
        marks = tuple(MARKS[check.state] for check in self.checks)
        return Page(
            f"{self.model} ({self.kind}): {count[HOLDS]} hold, {count[FAILS]} fail, {count[LEFT_OUT]} left out",
            blocks=(Listing(("law", "", "what was measured, and what to do"), rows, marks),),
            notes=(f"examined with the text {self.meta.get('text', '')!r}",),
        )


def examine(
    model: Any,
    text: Any = None,
    text_b: Any = None,
    *,
    tolerance: float = TOLERANCE,
    tell: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Run the laws of the library on a model and a text; `tell` hears the name of each law before it is tried."""
    import torch

    from pathlens.doctor.laws import LAWS
    from pathlens.text.load import load

    patient = _patient(load(model), text, text_b, tolerance)
    checks: list[Check] = []
    for name, law in LAWS:
        if tell is not None:
            tell(name)
        started = time.perf_counter()
        check = _once(_tried(law, patient), checks)
        checks.append(replace(check, law=name, seconds=time.perf_counter() - started))
    shown = patient.text if isinstance(patient.text, str) else "a given input"
    meta = {"text": shown, "tolerance": tolerance, "torch": torch.__version__}
    return Diagnosis(patient.model.name, patient.model.kind, tuple(checks), meta)


def _patient(model: Any, text: Any, text_b: Any, tolerance: float) -> Patient:
    if text is None and model.kind == "tabular":
        raise InputError("a model of tensors is examined with one of its inputs: examine(model, row)")
    for given in (text, text_b):
        if isinstance(given, str) and not given.strip():
            raise InputError(f"the text to examine with is empty ({given!r}); give one with words, or none")
    if not tolerance > 0:  # no law can be tried: that is the asker's mistake, not the model's
        raise InputError(f"tolerance must be a positive number, got {tolerance!r}")
    asks = model.kind in ("question answering", "multiple choice")
    if text is None:
        text, text_b = (QUESTION, text_b or TEXT) if asks else (with_gap(model, TEXT), text_b)
    if text_b is None and (asks or model.two_texts_are_a_pair()):
        text_b = SECOND
    asked: dict[str, Any] = {}  # what is the same in every law
    if isinstance(model, ZeroShot) and not model.defaults.candidate_labels:
        asked = {"target": LABEL}
    elif isinstance(model, Generator):  # one may have a layer and a score of its own for integrals alone
        asked = {"layer": model.default_layer, "score": model.default_score}
    patient = Patient(model, text, text_b, tolerance, asked)
    refusal = or_error(lambda: patient.predicted)
    if isinstance(refusal, InputError):  # of the text: again the asker's, and every law would say the same
        raise refusal
    return patient


def _once(check: Check, before: list[Check]) -> Check:
    """One cause is said once: a law that fails in the very words of another was not tried, and advice is given once."""
    failed = [each for each in before if each.state == check.state == FAILS]
    law = next((each.law for each in failed if each.measured == check.measured), None)
    if law is not None:
        return left_out(f"the same as of {law!r}")
    advised = next((each.law for each in failed if check.advice and each.advice == check.advice), None)
    return check if advised is None else replace(check, advice=f"as for {advised!r}")


def _tried(law: Law, patient: Patient) -> Check:
    """A law that breaks never stops the others."""
    try:
        return law(patient)
    except PathlensError as error:
        return Check(FAILS, str(error))
    except Exception as error:  # whatever a model does
        advice = "this model does something unusual; see docs/extending.md"
        return Check(FAILS, f"the model's own code ended this ({type(error).__name__}: {first_line(error)})", advice)
