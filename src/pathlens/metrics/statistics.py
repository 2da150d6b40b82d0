"""Do two lists put things in the same order (Spearman's ρ, Kendall's τ-b), and how sure is a mean over texts?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ROWS = 512  # of the table of pairs at once
DRAWS = 2000
LEVEL = 0.95


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0, equal values share the mean of theirs."""
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return ((2 * last - count - 1) / 2)[group]


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """Correlation of the ranks; NaN where one list is constant or has fewer than two numbers."""
    if len(one) < 2:
        return float("nan")
    a, b = (ranks(np.asarray(values, dtype=float)) for values in (one, other))
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float(np.clip(a @ b / size, -1, 1)) if size > 0 else float("nan")


def kendall(one: np.ndarray, other: np.ndarray) -> float:
    """τ-b: (pairs in the same order − pairs in opposite order) / √(untied in one · untied in other)."""
    one, other = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    same = left = right = 0.0
    for start in range(0, len(one), ROWS):
        some = slice(start, start + ROWS)
        a = np.sign(one[some, None] - one[None])
        b = np.sign(other[some, None] - other[None])
        same += float((a * b).sum())
        left += float(np.abs(a).sum())
        right += float(np.abs(b).sum())
    size = np.sqrt(left * right)
    return float(same / size) if size > 0 else float("nan")


@dataclass(frozen=True)
class Estimate:
    """A mean (or median) over n texts, and between which bounds 95 % of the redrawn ones lie."""

    value: float
    low: float
    high: float
    n: int


def estimate(values: np.ndarray, *, seed: int = 0, draws: int = DRAWS, median: bool = False) -> Estimate:
    """The mean of the finite values and its bootstrap interval: texts drawn anew with replacement, percentiles.

    The same seed draws the same texts for every list, so differences of two lists are paired: pass their difference.
    """
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return Estimate(float("nan"), float("nan"), float("nan"), 0)
    middle = np.median if median else np.mean
    draw = np.random.default_rng(seed).integers(0, len(values), size=(draws, len(values)))
    low, high = np.quantile(middle(values[draw], axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(middle(values)), float(low), float(high), len(values))
