"""Log-odds, comprehensiveness and sufficiency: what the model says when the tokens with the highest scores go.

c is fixed, p its probability, T the k highest signed scores:
    log-odds           log p(x with T's rows replaced by the reference) − log p(x)     lower is better
    comprehensiveness  p(x) − p(x with T deleted, the rest re-packed)                  higher is better
    sufficiency        p(x) − p(only T kept, re-packed)                                lower is better

Paper: DeYoung et al., "ERASER" (ACL 2020); log-odds: Shrikumar et al. (2017), as used by DIG, SIG and UDIG.

Limits: an edited text is none the model was trained on; and a token's score by leave-one-out (SIG) is nearly what
is measured here, so it leads by construction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from pathlens.metrics.protocol import Protocol, ordered
from pathlens.metrics.variants import Question, Variant, outputs, places
from pathlens.text.adapter import Case


@dataclass(frozen=True, eq=False)
class Subject:
    """One text: `case.score` is the log-probability of its class; `rows` the reference tokens' embeddings."""

    case: Case
    rows: Mapping[str, Tensor]

    @property
    def special(self) -> tuple[bool, ...]:
        return self.case.special


@dataclass(frozen=True, eq=False)
class Curves:
    """What happened to one text under several lists of scores; axes (lists, shares)."""

    k: np.ndarray  # (shares,) tokens
    log_odds: Mapping[str, np.ndarray]  # by reference
    comprehensiveness: np.ndarray
    sufficiency: np.ndarray


def curves(
    subjects: Sequence[Subject], scores: Sequence[np.ndarray], shares: Sequence[float], protocol: Protocol
) -> list[Curves]:
    """For each text with scores (lists, S): all its changes. The edited texts of all of them are packed together."""
    plans = [_Plan.of(subject, own, shares, protocol) for subject, own in zip(subjects, scores, strict=True)]
    found = outputs([question for plan in plans for question in plan.questions])
    parts = np.split(found, np.cumsum([len(plan.questions) for plan in plans])[:-1]) if plans else []
    return [plan.read(values) for plan, values in zip(plans, parts, strict=True)]


@dataclass(frozen=True, eq=False)
class _Plan:
    """One text's questions, in a fixed order: itself, then per list and share deleted, kept, replaced."""

    questions: list[Question]
    k: np.ndarray
    lists: int
    references: tuple[str, ...]

    @staticmethod
    def of(subject: Subject, scores: np.ndarray, shares: Sequence[float], protocol: Protocol) -> _Plan:
        case, every = subject.case, tuple(range(len(subject.case)))
        able = protocol.candidates(subject.special, places(case))
        k = np.array([protocol.count(share, len(able)) for share in shares])
        references = tuple(subject.rows)
        stand_in = next(iter(subject.rows), None)
        found = [Question(case, Variant(every))]
        for own in scores:
            order = ordered(own, able)
            for count in k:
                top, rest = set(order[:count].tolist()), set(order[count:].tolist())
                for gone in (top, rest if count else set()):  # no k, no edit: the change is 0
                    found.append(_deleted(subject, every, gone, stand_in))
                for name in references:
                    found.append(Question(case, Variant(every, frozenset(top), name), subject.rows[name]))
        return _Plan(found, k, len(scores), references)

    def read(self, log_p: np.ndarray) -> Curves:
        whole, table = log_p[0], log_p[1:].reshape(self.lists, len(self.k), 2 + len(self.references))
        p = np.exp(whole)
        return Curves(
            k=self.k,
            log_odds={name: table[..., 2 + i] - whole for i, name in enumerate(self.references)},
            comprehensiveness=p - np.exp(table[..., 0]),
            sufficiency=p - np.exp(table[..., 1]),
        )


def _deleted(subject: Subject, every: tuple[int, ...], gone: set[int], stand_in: str | None) -> Question:
    """The text without these tokens; where nothing at all is left, one reference token stands in."""
    left = tuple(i for i in every if i not in gone)
    if left:
        return Question(subject.case, Variant(left))
    row = subject.rows[stand_in] if stand_in is not None else None
    return Question(subject.case, Variant(every[:1], frozenset(every[:1]), stand_in or ""), row)
