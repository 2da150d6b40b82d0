"""Which tokens may be deleted, and how many are meant by "20 %"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pathlens.errors import InputError

SHARE = 0.2  # what the papers report
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # the curve; AOPC is its mean


@dataclass(frozen=True)
class Protocol:
    """`counted_specials`: special tokens count as tokens and may be deleted, as the papers' code has it."""

    name: str
    counted_specials: bool
    least: int  # tokens, however short the text
    words: str

    def candidates(self, special: Sequence[bool], fixed: Sequence[int] = ()) -> np.ndarray:
        """Indices of tokens that may be deleted; `fixed` are places the output itself lives at."""
        return np.array(
            [i for i, flag in enumerate(special) if (self.counted_specials or not flag) and i not in set(fixed)],
            dtype=int,
        )

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


def find_protocol(name: str) -> Protocol:
    if name not in PROTOCOLS:
        raise InputError(f"protocol={name!r} is not known; protocols: {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def ordered(scores: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Candidates from the highest signed score to the lowest; equal scores in the order of the text."""
    return candidates[np.argsort(-np.asarray(scores, dtype=float)[candidates], kind="stable")]
