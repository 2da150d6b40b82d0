"""Edit, mask or delete a unit: the change the scores predict beside the change the model makes.

>>> from pathlens.studies.whatif import whatif
>>> whatif("sentiment", "Not really funny, but moving.").show()                    # every word masked, one by one
>>> whatif("sentiment", "Not really funny.", [("Not", "replace", "Very")]).show()

A score is a share of the way from the baseline, so it predicts what putting a unit back to the baseline does:
−score. For a replacement the mean slope along the path is used: ḡ · (new row − old row). The prediction is exact
for a linear model (and, masking, for SIG); how far it is off says how much the model is not linear there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from pathlens.engine.explainer import Explainer, loaded
from pathlens.engine.options import IG, Accuracy
from pathlens.engine.typed import StudyOptions
from pathlens.errors import InputError
from pathlens.explanation.record import Continuation, Explanation
from pathlens.explanation.view import TableExport, Viewable
from pathlens.metrics.contenders import SCORED
from pathlens.metrics.statistics import spearman
from pathlens.text.adapter import Case, Request, TextModel
from pathlens.text.language import LanguageModel
from pathlens.types import brief

KINDS = ("mask", "delete", "replace")


@dataclass(frozen=True)
class Edit:
    """One edit of the text and what it did."""

    unit: int
    name: str
    kind: str  # "mask", "delete" or "replace"
    replacement: str
    text: str  # after the edit; for a mask the text is as before
    predicted: float
    actual: float
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class WhatIf(TableExport, Viewable):
    """Edits, one at a time, each against the same text."""

    explanation: Explanation
    f_before: float
    edits: tuple[Edit, ...]
    agreement: float  # Spearman's ρ of predicted and actual changes

    def __repr__(self) -> str:
        agreement = "" if np.isnan(self.agreement) else f"Spearman {self.agreement:+.2f} of predicted and actual"
        edits = f"{len(self.edits)} edit{'' if len(self.edits) == 1 else 's'}"
        return brief(self, self.explanation.method, *self.explanation.about, edits, agreement)

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary per edit, with how far the prediction is off."""
        return [{**asdict(edit), "difference": edit.actual - edit.predicted} for edit in self.edits]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; no agreement is nothing in JSON."""
        return {**super().to_dict(), "agreement": None if np.isnan(self.agreement) else self.agreement}


def whatif(
    model: Any,
    text: str,
    edits: Sequence[tuple] | None = None,
    *,
    text_b: str | None = None,
    **choices: Unpack[StudyOptions],
) -> WhatIf:
    """Explain a text, then make each edit and run the model again.

    edits: (unit, kind) or (unit, "replace", new text); unit is an index or the unit's text (its first
        occurrence); kind is "mask" (put to the baseline), "delete" or "replace". Default: every unit masked.
    choices: as in `pl.explain`; a method with one score per unit. What is explained stays fixed through all edits. Of several
        output tokens it is their sum, and units of the prompt can be masked.
    """
    if not isinstance(text, str):
        raise InputError(f"what-if edits a text; got {type(text).__name__}")
    one, named = loaded(model, choices)
    if one.two_texts_are_a_pair():  # one number is needed, not a matrix
        named.setdefault("method", "ig")
    explainer = Explainer(one, **named).of_one_target("what-if")
    explanation = explainer(text, text_b)
    several = isinstance(explanation, Continuation)
    if isinstance(explanation, Continuation):
        explanation = explanation.aggregate()
    if not isinstance(explanation, Explanation):
        able = ", ".join(SCORED)
        raise InputError(f"what-if needs one score per unit ({able}); {explanation.method} gives something else")
    scene = _Scene.of(explainer, explanation, text, text_b)
    special = explanation.added
    ours = [segment != 1 for segment in explanation.homes] if several else [True] * len(special)
    every = [(i, "mask", "") for i, flag in enumerate(special) if not flag and ours[i]]
    wanted = every if edits is None else [_parsed(edit, explanation) for edit in edits]
    if several and not all(kind == "mask" and ours[unit] for unit, kind, _ in wanted):
        raise InputError(
            "of several output tokens, units of the prompt can be masked; explain one token for other edits"
        )
    slope = scene.mean_slope(explainer) if any(kind == "replace" for _, kind, _ in wanted) else None
    with explainer.model.quiet():
        made = tuple(scene.make(explanation, *edit, slope) for edit in wanted)
    agree = spearman(np.array([e.predicted for e in made]), np.array([e.actual for e in made]))
    return WhatIf(explanation, scene.before, made, agree)


def _parsed(edit: Any, explanation: Explanation) -> tuple[int, str, str]:
    if not isinstance(edit, tuple | list) or len(edit) not in (2, 3):
        raise InputError(f"an edit is (unit, kind) or (unit, 'replace', new text); got {edit!r}")
    unit, kind, new = (*edit, "")[:3]
    if kind not in KINDS:
        raise InputError(f"the kind of an edit is one of {', '.join(KINDS)}; got {kind!r}")
    if isinstance(unit, str):
        if unit not in explanation.tokens:
            raise InputError(f"{unit!r} is not a unit of this text; units: {', '.join(explanation.tokens)}")
        unit = explanation.tokens.index(unit)
    if not isinstance(unit, int) or not 0 <= unit < len(explanation.tokens):
        raise InputError(f"unit {unit!r} is not in this text: it has {len(explanation.tokens)} units, from 0")
    start, end = explanation.offsets[unit]
    if end <= start:
        raise InputError(f"unit {unit} ({explanation.tokens[unit]!r}) is not part of the text, so it cannot be edited")
    if kind == "replace" and not str(new).strip():
        raise InputError("a replacement needs words; use 'delete' to remove a unit")
    return unit, kind, str(new)


@dataclass(frozen=True, eq=False)
class _Scene:
    """The text at the word embeddings, and how to run the model on an edited one."""

    model: TextModel
    request: Request
    case: Case
    text_b: str | None
    before: float

    @staticmethod
    def of(explainer: Explainer, explanation: Explanation, text: str, text_b: str | None) -> _Scene:
        """The case at layer 0: the very target and score that are explained, whatever the model's own defaults there are."""
        model, choices, chosen = explainer.model, explainer.choices, explanation.origin.chosen or {}
        request = replace(choices.request(), baseline=_first(choices.baseline))
        request = replace(request, **{name: chosen[name] for name in ("target", "score") if name in chosen})
        with model.quiet():
            case = model.case(text, text_b, request=request)
            return _Scene(model, request, case, text_b, _run(case, case.ends.end))

    def make(self, explanation: Explanation, unit: int, kind: str, new: str, slope: Tensor | None) -> Edit:
        """Run the model on one edit."""
        start, end = explanation.offsets[unit]
        segment = explanation.homes[unit]
        places = enumerate(zip(self.case.offsets, self.case.segments, strict=True))
        rows = [i for i, ((low, high), s) in places if s == segment and low < end and high > start]
        texts = [self.case.texts[0], self.text_b]
        old, predicted, note = texts[segment] or "", -float(explanation.scores[unit]), ""
        if kind == "mask":
            edited, point = self.case, self.case.ends.end.clone()
            point[rows] = self.case.ends.start[rows]
            text = old
        else:
            text = (old[:start] + new + old[end:]) if kind == "replace" else _closed(old, start, end)
            if not text.strip():
                raise InputError(f"deleting {explanation.tokens[unit]!r} leaves no text")
            texts[segment] = text
            edited = self._edited(texts, rows)
            point = edited.ends.end
        change = _run(edited, point) - self.before
        if kind == "replace":
            predicted, note = self._replaced(edited, rows, slope, predicted)
        return Edit(unit, explanation.tokens[unit], kind, new, text, predicted, change, note)

    def _edited(self, texts: list[str | None], rows: list[int]) -> Case:
        """The edited text, asked for what the text is asked for: a place after the edit moves with what comes or goes."""
        target, model, request = self.case.target, self.model, self.request
        if getattr(request.options, "generate", None) is not None:
            raise InputError("generate writes anew after every edit: give the words as target, or mask")
        if not isinstance(target, tuple) or not isinstance(model, LanguageModel):
            return model.case(*texts, request=request)
        shift = len(model.tokenise(texts[0], texts[1], request)) - len(self.case)

        def moved(place: int) -> int:
            if place in rows and shift:
                raise InputError(f"token {place} is what is explained; mask it, or replace it by as many tokens")
            return place + shift * (place > min(rows, default=place))

        if isinstance(request.target, tuple):  # (token, label) or (token, word)
            return model.case(*texts, request=replace(request, target=(moved(target[0]), target[1])))
        return replace(model.case(*texts, request=request), target=tuple(map(moved, target)))  # an answer's two ends

    def _replaced(self, case: Case, rows: list[int], slope: Tensor | None, otherwise: float) -> tuple[float, str]:
        """ḡ · (new − old) over the rows that changed; rows that come or go are counted from the baseline."""
        if slope is None:
            return otherwise, "predicted from what leaves; what comes is not known to this method"
        count = len(rows) + len(case) - len(self.case)  # rows the replacement has
        if count < 1 or not rows:
            return otherwise, "the replacement shares tokens with its neighbours; predicted from what leaves"
        new = case.ends.end[rows[0] : rows[0] + count].double().cpu()
        old, base = (side[rows].double().cpu() for side in (self.case.ends.end, self.case.ends.start))
        mean, shared = slope[rows], min(len(rows), count)
        total = float((mean[:shared] * (new[:shared] - old[:shared])).sum())
        total -= float((mean[shared:] * (old[shared:] - base[shared:])).sum())
        if count > shared:
            total += float((mean.mean(0) * (new[shared:] - base.mean(0))).sum())
        other = "another number of tokens: what comes or goes is counted from the baseline"
        return total, "" if count == len(rows) else other

    def mean_slope(self, explainer: Explainer) -> Tensor | None:
        """ḡ (S, d): IG's integral before it is multiplied by δ, from its score of every coordinate, of the same at layer 0."""
        asked, choices = self.request, explainer.choices
        accuracy = Accuracy(tolerance=choices.accuracy.tolerance, n_steps=choices.accuracy.n_steps)
        fixed = {"target": asked.target, "score": asked.score, "baseline": asked.baseline, "layer": 0, "unit": "token"}
        slope = explainer.asking(IG(coordinates=True), accuracy=accuracy, check=False, **fixed)
        result = slope(self.case.texts[0], self.text_b)
        if not isinstance(result, Explanation) or result.coordinates is None:
            return None
        delta = self.case.ends.delta.double().cpu()
        shares = torch.tensor(result.coordinates, dtype=torch.float64)
        return torch.where(delta.abs() > 1e-12, shares / torch.where(delta == 0, torch.ones_like(delta), delta), 0.0)


def _closed(text: str, start: int, end: int) -> str:
    """The text without these characters, and without the blank they leave double."""
    before, after = text[:start], text[end:]
    if after.startswith(" ") and (not before or before.endswith(" ")):
        after = after[1:]
    return before + after


def _first(baseline: Any) -> Any:
    return baseline[0] if isinstance(baseline, list) else baseline


def _run(case: Case, rows: Tensor) -> float:
    with torch.no_grad():
        return float(case.score(rows[None], [case])[0])
