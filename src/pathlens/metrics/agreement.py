"""Do two lists of numbers put things in the same order? Spearman's ρ and Kendall's τ-b, ties averaged."""

from __future__ import annotations

import numpy as np

ROWS = 512  # of the table of pairs at once


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0, equal values share the mean of theirs."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.r_[0, np.flatnonzero(np.diff(ordered)) + 1]
    stops = np.r_[starts[1:], len(values)]
    found = np.empty(len(values))
    for start, stop in zip(starts, stops, strict=True):
        found[order[start:stop]] = (start + stop - 1) / 2
    return found


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
