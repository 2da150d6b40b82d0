"""Log-odds, comprehensiveness and sufficiency: what the model says when the tokens with the highest scores go.

c is fixed, p its probability, T the k highest signed scores:
    log-odds           log p(x with T's rows replaced by the reference) − log p(x)     lower is better
    comprehensiveness  p(x) − p(x with T deleted, the rest re-packed)                  higher is better
    sufficiency        p(x) − p(only T kept, re-packed)                                lower is better

A deleted token is gone: the tokens after it move up, so their position ids shift (re-packed). A replaced token
keeps its place and takes another row of the embedding table.

Paper: DeYoung et al., "ERASER" (ACL 2020); log-odds: Shrikumar et al. (2017), as used by DIG, SIG and UDIG.

Limits: an edited text is none the model was trained on; and a token's score by leave-one-out (SIG) is nearly what
is measured here, so it leads by construction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pathlens.errors import InputError
from pathlens.integrand.products import kept_layouts, kept_products
from pathlens.text.adapter import BUSY_TOKENS, WASTE, Case
from pathlens.text.heads import ReadSpan, ReadTag

SHARE = 0.2  # what the papers report
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # the curve; AOPC is its mean


@dataclass(frozen=True)
class Protocol:
    """Which tokens may be deleted, and how many are meant by "20 %".

    `counted_specials`: special tokens count as tokens and may be deleted, as the papers' code has it.
    """

    name: str
    counted_specials: bool
    least: int  # tokens, however short the text
    words: str

    def candidates(self, special: Sequence[bool], fixed: Sequence[int] = ()) -> np.ndarray:
        """Indices of tokens that may be deleted; `fixed` are places the output itself lives at."""
        able = (i for i, flag in enumerate(special) if (self.counted_specials or not flag) and i not in fixed)
        return np.fromiter(able, dtype=int)

    def count(self, share: float, candidates: int) -> int:
        """k for a share; the paper's ⌊share·S⌋ may be 0, and then nothing is deleted and every change is 0."""
        return min(candidates, max(self.least, math.floor(share * candidates + 1e-9)))


PROTOCOLS = {
    "default": Protocol(
        "default", False, 1, "special tokens are never deleted or counted; k = ⌊share · real tokens⌋, at least 1"
    ),
    "paper": Protocol(
        "paper", True, 0, "as published: special tokens are counted and may be deleted; k = ⌊share · S⌋, which may be 0"
    ),
}


def ordered(scores: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Candidates from the highest signed score to the lowest; equal scores in the order of the text."""
    return candidates[np.argsort(-np.asarray(scores, dtype=float)[candidates], kind="stable")]


def curves(
    cases: Sequence[Case],
    references: Mapping[str, Tensor],
    scores: Sequence[np.ndarray],
    shares: Sequence[float],
    protocol: Protocol,
) -> list[dict[str, np.ndarray]]:
    """For each text with scores (lists, S): metric → its changes (lists, shares). The edited texts of all of them are packed together.

    A case's score is the log-probability of its class; references: name → embedding row (d,).
    """
    plans = [_questions(case, references, lists, shares, protocol) for case, lists in zip(cases, scores, strict=True)]
    log_p = iter(outputs([question for questions in plans for question in questions]))
    answers = [np.array([next(log_p) for _ in questions]) for questions in plans]
    return [_changes(answer, len(shares), tuple(references)) for answer in answers]


def _questions(
    case: Case, references: Mapping[str, Tensor], scores: np.ndarray, shares: Sequence[float], protocol: Protocol
) -> list[Question]:
    """One text's questions: itself, then per list and share deleted, kept, replaced."""
    every = tuple(range(len(case)))
    able = protocol.candidates(case.special, places(case))
    questions = [Question(case, every)]
    for one in scores:
        order = ordered(one, able).tolist()
        for count in (protocol.count(share, len(able)) for share in shares):
            top, rest = frozenset(order[:count]), frozenset(order[count:])
            for gone in (top, rest if count else frozenset()):  # no k, no edit: the change is 0
                left = tuple(i for i in every if i not in gone)
                # where nothing at all is left, one reference token stands in
                stand_in = Question(case, (0,), frozenset((0,)), next(iter(references.values()), None))
                questions.append(Question(case, left) if left else stand_in)
            questions += [Question(case, every, top, row) for row in references.values()]
    return questions


def _changes(log_p: np.ndarray, shares: int, references: Sequence[str]) -> dict[str, np.ndarray]:
    """From the answers to `_questions`, in their order."""
    whole, table = log_p[0], log_p[1:].reshape(-1, shares, 2 + len(references))
    return {
        **{f"log-odds ({name})": table[..., 2 + i] - whole for i, name in enumerate(references)},
        "comprehensiveness": np.exp(whole) - np.exp(table[..., 0]),
        "sufficiency": np.exp(whole) - np.exp(table[..., 1]),
    }


@dataclass(frozen=True, eq=False)
class Question:
    """A text after an edit, whose output is wanted: the tokens that are left, and which of those hold another row."""

    case: Case
    kept: tuple[int, ...]  # in order
    replaced: frozenset[int] = frozenset()
    row: Tensor | None = None  # (d,) of the reference

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for questions that have the same answer."""
        return id(self.case), self.kept, self.replaced, id(self.row)

    def edited(self) -> Case:
        case = self.case
        if self.replaced and self.row is not None:
            rows = case.ends.end.clone()
            rows[sorted(self.replaced)] = self.row
            case = replace(case, ends=replace(case.ends, end=rows, ids=None))
        return case if len(self.kept) == len(case) else repacked(case, self.kept)


def outputs(questions: Sequence[Question], *, tokens: int = BUSY_TOKENS) -> np.ndarray:
    """(Q,) the score of every question: sorted by length, packed into batches of about `tokens` tokens.

    Equal questions about the same text are asked once.
    """
    distinct = {question.key: question for question in questions}
    packs = {question.case.pack: number for number, question in enumerate(questions)}
    batches: list[list[Question]] = []
    for question in sorted(distinct.values(), key=lambda each: (packs[each.case.pack], len(each))):
        if batches and _fits(batches[-1], question, tokens):
            batches[-1].append(question)
        else:
            batches.append([question])
    values: dict[tuple[Any, ...], float] = {}
    with kept_layouts(), kept_products():  # many passes through the same weights: 1.6 × on 300 tokens
        for batch in batches:
            values.update(zip((question.key for question in batch), _scores(batch), strict=True))
    return np.array([values[question.key] for question in questions])


def _fits(batch: Sequence[Question], question: Question, tokens: int) -> bool:
    return (
        batch[0].case.pack == question.case.pack
        and (len(batch) + 1) * len(question) <= tokens
        and len(question) <= WASTE * len(batch[0]) + 1
    )


def _scores(questions: Sequence[Question]) -> np.ndarray:
    cases = [question.edited() for question in questions]
    length = max(len(case) for case in cases)
    points = cases[0].ends.end.new_zeros((len(cases), length, cases[0].ends.end.shape[-1]))
    for number, case in enumerate(cases):
        points[number, : len(case)] = case.ends.end
    with torch.no_grad():
        return cases[0].score(points, cases).double().cpu().numpy()


def places(case: Case) -> tuple[int, ...]:
    """Tokens the target speaks of (an answer's first and last, a tagged token): without them there is no output."""
    reader = getattr(case.score, "read", None)
    if isinstance(reader, ReadSpan):
        return tuple(dict.fromkeys(case.target))
    return (case.target[0],) if isinstance(reader, ReadTag) else ()


def repacked(case: Case, rows: Sequence[int]) -> Case:
    """The text with only these tokens left, in order, as if it had been written so."""
    numbers, ends = list(rows), case.ends
    index = torch.as_tensor(numbers, dtype=torch.long, device=ends.end.device)

    def left(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(values[i] for i in numbers)

    tensors = {name: getattr(ends, name)[index] for name in ("start", "end", "held")}
    ids: dict[str, Any] = {name: (known := getattr(ends, name)) and left(known) for name in ("ids", "start_ids")}
    meta = dict(case.meta)
    if "read_at" in meta:  # a decoder's last token that is not padding; if it is gone, the last one left before it
        meta["read_at"] = max(sum(1 for i in numbers if i <= meta["read_at"]) - 1, 0)
    return replace(
        case,
        ends=replace(ends, **tensors, **ids),
        tokens=left(case.tokens),
        offsets=left(case.offsets),
        segments=left(case.segments),
        context={name: value[index.to(value.device)] for name, value in case.context.items()},
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
    if isinstance(getattr(case.score, "read", None), ReadTag):  # (token, label)
        return (now[case.target[0]], case.target[1])
    return tuple(now[place] for place in case.target)
