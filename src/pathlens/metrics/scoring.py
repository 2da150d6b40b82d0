"""Texts → their scores under every way, the number explained, and the probability that deletions are judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from pathlens.errors import InputError, PathlensError
from pathlens.metrics.contenders import RANDOM, TOGETHER, Pair, Scores, Way, explained, leave_one_out, random_scores
from pathlens.metrics.deletion import Subject
from pathlens.text.adapter import Case, Request, TextModel

KINDS = ("sequence classification", "question answering", "token classification")
OF_THE_TEXT = ("target", "truncation")  # choices that decide what a text is, besides how it is explained


@dataclass(frozen=True, eq=False)
class Judged:
    """One text with its scores under every way: `subject` gives log p, `case` the number that is explained."""

    pair: Pair
    number: int  # in the texts as given
    subject: Subject
    case: Case
    scores: tuple[Scores, ...]

    @property
    def table(self) -> np.ndarray:
        """(ways, S)"""
        return np.stack([each.values for each in self.scores])


def score_texts(
    model: TextModel,
    rows: Sequence[Way],
    pairs: Sequence[Pair],
    *,
    reference: str | Sequence[str] | None = None,
    seed: int = 0,
    choices: Mapping[str, Any] | None = None,
    tick: Callable[[Any], None] | None = None,
) -> tuple[list[Judged], dict[int, Exception]]:
    """Every text's scores under every way. A text that fails under one is left out of all: rows stay paired."""
    choices = dict(choices or {})
    if model.kind not in KINDS:
        raise InputError(
            f"evaluation needs the probability of a class, an answer or a tag; {model.name!r} is a {model.kind} model"
        )
    subjects, cases, failed = _cases(model, pairs, reference, choices)
    good = [n for n in range(len(pairs)) if n not in failed]
    by_way: list[dict[int, Scores]] = []
    with model.quiet():
        for way in rows:
            own = [n for n in good if n not in failed]
            found = _scores_of(way, model, own, pairs, cases, seed, choices, tick)
            failed |= {n: e for n, e in zip(own, found, strict=True) if isinstance(e, Exception)}
            by_way.append({n: e for n, e in zip(own, found, strict=True) if isinstance(e, Scores)})
    judged = [
        Judged(pairs[n], n, subjects[n], cases[n], tuple(own[n] for own in by_way)) for n in good if n not in failed
    ]
    if not judged:
        raise InputError(f"no text could be explained; the first error: {next(iter(failed.values()))}")
    return judged, failed


def _scores_of(
    way: Way,
    model: TextModel,
    own: Sequence[int],
    pairs: Sequence[Pair],
    cases: Mapping[int, Case],
    seed: int,
    choices: Mapping[str, Any],
    tick: Callable[[Any], None] | None,
) -> list[Scores | Exception]:
    if not way.control:
        return explained(way, model, [pairs[n] for n in own], choices, tick)
    found: list[Scores | Exception] = []
    for start in range(0, len(own), TOGETHER):
        some = own[start : start + TOGETHER]
        if way.method == RANDOM:
            found += [random_scores(cases[n], seed, n) for n in some]
        else:
            found += leave_one_out([cases[n] for n in some])
        for n in some if tick is not None else ():
            tick(n)
    return found


def _cases(
    model: TextModel, pairs: Sequence[Pair], reference: Any, choices: Mapping[str, Any]
) -> tuple[dict[int, Subject], dict[int, Case], dict[int, Exception]]:
    asked = {name: choices[name] for name in OF_THE_TEXT if name in choices}
    likely, cases, failed = {}, {}, {}
    with model.quiet():
        for n, pair in enumerate(pairs):
            try:
                likely[n] = model.case(*pair, request=Request(score="logprob", **asked))
                cases[n] = model.case(*pair, request=Request(score=choices.get("score"), **asked))
            except PathlensError as error:
                failed[n] = error
        good = [n for n in cases if n not in failed]
        rows = reference_rows(model, pairs[good[0]], reference, asked) if good else {}
    return {n: Subject(likely[n], rows) for n in good}, cases, failed


def reference_rows(
    model: TextModel, pair: Pair, reference: str | Sequence[str] | None, asked: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Name → embedding row of the tokens that stand for nothing in log-odds."""
    names = [reference] if reference is None or isinstance(reference, str) else list(reference)
    found = {}
    for name in names:
        case = model.case(*pair, request=Request(baseline=name, **asked))
        first = int((~case.ends.held).nonzero()[0])
        found[case.baseline] = case.ends.start[first]
    return found
