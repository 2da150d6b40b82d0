"""Means over texts with bootstrap intervals: texts drawn anew with replacement, a seed, percentiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DRAWS = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean (or median) over n texts, and between which bounds 95 % of the redrawn ones lie."""

    value: float
    low: float
    high: float
    n: int


def estimate(
    values: np.ndarray, *, seed: int = 0, draws: int = DRAWS, level: float = LEVEL, median: bool = False
) -> Estimate:
    """The mean of the finite values and its interval; the same seed draws the same texts for every list.

    That the draws are shared makes differences of two lists paired: pass their difference.
    """
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    middle = np.median if median else np.mean
    if len(values) == 0:
        return Estimate(float("nan"), float("nan"), float("nan"), 0)
    drawn = np.random.default_rng(seed).integers(0, len(values), size=(draws, len(values)))
    redrawn = middle(values[drawn], axis=1)
    low, high = np.quantile(redrawn, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(middle(values)), float(low), float(high), len(values))
