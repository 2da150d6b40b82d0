"""Texts with tokens deleted or replaced, and the model's output on many of them at once.

A deleted token is gone: the tokens after it move up, so their position ids shift (re-packed). A replaced token
keeps its place and takes another row of the embedding table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pathlens.errors import InputError
from pathlens.integrate.memory import BUSY_TOKENS, WASTE
from pathlens.text.adapter import Case
from pathlens.text.question import ReadSpan
from pathlens.text.tagger import ReadTag
from pathlens.types import Ends


@dataclass(frozen=True)
class Variant:
    """One text after an edit: which tokens are left, in order, and which of those hold the reference row."""

    kept: tuple[int, ...]
    replaced: frozenset[int] = frozenset()
    reference: str = ""  # names the row that replaced tokens hold


def places(case: Case) -> tuple[int, ...]:
    """Tokens the target speaks of (an answer's first and last, a tagged token): without them there is no output."""
    reader = getattr(case.score, "read", None)
    if isinstance(reader, ReadSpan):
        return tuple(dict.fromkeys(case.target))
    return (case.target[0],) if isinstance(reader, ReadTag) else ()


def repacked(case: Case, rows: Sequence[int]) -> Case:
    """The text with only these tokens left, in order, as if it had been written so."""
    own = torch.as_tensor(list(rows), dtype=torch.long, device=case.ends.end.device)
    ends, numbers = case.ends, list(rows)
    shorter = Ends(
        ends.start[own],
        ends.end[own],
        ends.held[own],
        None if ends.ids is None else tuple(ends.ids[i] for i in numbers),
        None if ends.start_ids is None else tuple(ends.start_ids[i] for i in numbers),
        ends.vocabulary,
    )
    meta = dict(case.meta)
    if "read_at" in meta:  # a decoder's last token that is not padding; if it is gone, the last one left before it
        meta["read_at"] = max(sum(1 for i in numbers if i <= meta["read_at"]) - 1, 0)
    return replace(
        case,
        ends=shorter,
        tokens=tuple(case.tokens[i] for i in numbers),
        offsets=tuple(case.offsets[i] for i in numbers),
        segments=tuple(case.segments[i] for i in numbers),
        context={name: value[own.to(value.device)] for name, value in case.context.items()},
        target=_moved(case, numbers),
        meta=meta,
    )


def _moved(case: Case, rows: list[int]) -> Any:
    """The target's own places, where they are now."""
    fixed = places(case)
    if not fixed:
        return case.target
    now = {old: new for new, old in enumerate(rows)}
    if any(place not in now for place in fixed):
        raise InputError("a token that the target speaks of cannot be deleted")
    if isinstance(case.score.read, ReadTag):
        return (now[case.target[0]], case.target[1])
    return tuple(now[place] for place in case.target)


def made(case: Case, variant: Variant, row: Tensor | None) -> Case:
    """The text after the edit; `row` (d,) stands for the reference."""
    if variant.replaced:
        rows = case.ends.end.clone()
        rows[sorted(variant.replaced)] = row
        case = replace(case, ends=replace(case.ends, end=rows, ids=None))
    return case if len(variant.kept) == len(case) else repacked(case, variant.kept)


@dataclass(frozen=True, eq=False)
class Question:
    """An edited text whose output is wanted."""

    case: Case
    variant: Variant
    row: Tensor | None = None

    def __len__(self) -> int:
        return len(self.variant.kept)


def outputs(questions: Sequence[Question], *, tokens: int = BUSY_TOKENS) -> np.ndarray:
    """(Q,) the score of every question: sorted by length, packed into batches of about `tokens` tokens.

    Equal questions about the same text are asked once.
    """
    asked: dict[tuple[int, Variant], int] = {}
    distinct: list[Question] = []
    place = np.empty(len(questions), dtype=int)
    for number, question in enumerate(questions):
        key = (id(question.case), question.variant)
        if key not in asked:
            asked[key] = len(distinct)
            distinct.append(question)
        place[number] = asked[key]
    packs: dict[Any, int] = {}
    group = [packs.setdefault(question.case.pack, len(packs)) for question in distinct]
    order = sorted(range(len(distinct)), key=lambda i: (group[i], len(distinct[i])))
    found = np.empty(len(distinct))
    batch: list[int] = []
    for index in order:
        if batch and not _fits(distinct, batch, index, tokens):
            found[batch] = _scores([distinct[i] for i in batch])
            batch = []
        batch.append(index)
    if batch:
        found[batch] = _scores([distinct[i] for i in batch])
    return found[place]


def _fits(questions: Sequence[Question], batch: list[int], index: int, tokens: int) -> bool:
    shortest, longest = len(questions[batch[0]]), len(questions[index])
    return (
        questions[batch[0]].case.pack == questions[index].case.pack
        and (len(batch) + 1) * longest <= tokens
        and longest <= WASTE * shortest + 1
    )


def _scores(questions: Sequence[Question]) -> np.ndarray:
    cases = [made(question.case, question.variant, question.row) for question in questions]
    length = max(len(case) for case in cases)
    points = cases[0].ends.end.new_zeros((len(cases), length, cases[0].ends.end.shape[-1]))
    for number, case in enumerate(cases):
        points[number, : len(case)] = case.ends.end
    with torch.no_grad():
        return cases[0].score(points, cases).double().cpu().numpy()
