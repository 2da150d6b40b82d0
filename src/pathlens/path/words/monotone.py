"""Monotone points: words pulled back so that every coordinate moves one way, from the text to the baseline.

All functions broadcast over leading dimensions and work in the dtype they are given; paths use float64.
`start` is the baseline's row w′, `end` the text's row w, `upper` the point before (on the way down from w).
"""

from __future__ import annotations

import numpy as np


def between(row: np.ndarray, start: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which coordinates of `row` lie between w′ and u, ends included: those a monotone path may keep."""
    inside = row >= np.minimum(start, upper)
    inside &= row <= np.maximum(start, upper)
    return inside


def monotone(row: np.ndarray, start: np.ndarray, upper: np.ndarray, steps: int) -> np.ndarray:
    """`mono(a; w′, u)`: a_i where it lies between w′_i and u_i, else `u_i − (u_i − w′_i)/m`.

    Paper: Sanyal and Ren, "Discretized Integrated Gradients for Explaining Language Models" (2021).
    """
    return np.where(between(row, start, upper), row, upper - (upper - start) / steps)


def on_line(start: np.ndarray, end: np.ndarray, share: np.ndarray | float) -> np.ndarray:
    """The point `w′ + share·(w − w′)` of the straight line."""
    return start + share * (end - start)


def in_cell(row: np.ndarray, start: np.ndarray, end: np.ndarray, j: int, steps: int) -> np.ndarray:
    """Which coordinates lie in cell j of the uniform grid: within half a step of p_j, ends included.

    Cell j runs from `w′ + (j − ½)/(m + 1)·(w − w′)` to `w′ + (j + ½)/(m + 1)·(w − w′)`.
    """
    one = on_line(start, end, (j - 0.5) / (steps + 1))
    other = on_line(start, end, (j + 0.5) / (steps + 1))
    return (row >= np.minimum(one, other)) & (row <= np.maximum(one, other))


def gridded(row: np.ndarray, start: np.ndarray, end: np.ndarray, j: int, steps: int) -> np.ndarray:
    """`row` where a coordinate lies in its cell of the grid, else p_j's: monotone, and no leg is long."""
    return np.where(in_cell(row, start, end, j, steps), row, on_line(start, end, j / (steps + 1)))
