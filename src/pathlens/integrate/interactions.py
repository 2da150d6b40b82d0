"""Integrated Hessians: IG on its own nodes, a node count found on row sums, then the matrix, once.

A row of the matrix sums to IG's score of its unit. That sum costs one Hessian–vector product a point, the matrix
one for every unit: so the count that the matrix needs is found on row sums, against an IG that shares no node
with them, and the matrix is usually taken a single time.
"""

from __future__ import annotations

from collections.abc import Generator

import torch
from torch import Tensor

from pathlens.errors import InputError
from pathlens.integrand import Gradient, Hessian, RowSums
from pathlens.integrate.adaptive import adaptive
from pathlens.integrate.drive import Ask, Drive, Goal, Integral, place, size
from pathlens.quadrature import coarse, rule
from pathlens.types import Route

LADDER = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
IG_SHARE = 0.25  # IG is held to a quarter of the bound: a row gap then measures the matrix, not IG
SAFETY = (
    2.0  # row sums and single entries were seen to differ in error by at most 1.4 (MiniLM, 8 to 96 nodes)
)


def interactions(route: Route, goal: Goal, rows: tuple[int, ...] | None, n: int | None = None) -> Drive:
    """Γ (R, U) of the rows wanted (None: all), `extra`: "ig" (U,), "ig_error" (U,), and "gaps" (R,) of the rows.

    `n` fixes the number of nodes. The estimate of a row: how far a coarser sum on the same nodes is from it,
    scaled by what that distance was worth on the row sums, whose true error is known.

    Limits: the identity behind it (one integral for two) holds on the straight line only.
    """
    if len(route.legs) != 1:
        raise InputError(
            f"Integrated Hessians need the straight line, this path has {len(route.legs)} legs: on a bent path the double "
            "integral is not a single one, and summed over legs the interactions vanish as legs are added. "
            "Use path='line' (the default), or method='ig' or 'udig' along the bent path"
        )
    ig = yield from adaptive(route, Gradient(), Goal(goal.bound * IG_SHARE, goal.gap, goal.ceiling))
    wanted = ig.value if rows is None else ig.value[list(rows)]
    spent, history = 0, []
    if rows == ():  # only units that do not move were asked for
        none = wanted[:0]
        extra = {"ig": ig.value, "ig_error": ig.error, "gaps": none, "gap": torch.tensor(0.0)}
        return Integral(none[:, None].expand(0, len(ig.value)), none, 0, (), extra)
    count = n if n is not None else (yield from _enough(route, ig, goal))
    while True:
        value, rough = yield from _sums(route, Hessian(rows), count)
        spent += count
        gaps = (value.sum(1) - wanted).abs()
        error = _estimate(value, rough, gaps)
        gap = goal.gap(value) if rows is None else _largest(gaps)
        history.append((count, gap, _largest(error)))
        following = next((step for step in LADDER if step > count and step <= goal.ceiling), None)
        if n is not None or following is None or max(gap, _largest(error)) <= goal.bound:
            extra = {"ig": ig.value, "ig_error": ig.error, "gaps": gaps, "gap": torch.tensor(gap)}
            return Integral(value, error, spent, tuple(history), extra)
        count = following


def _enough(route: Route, ig: Integral, goal: Goal) -> Generator[Ask, Tensor, int]:
    """The first step of the ladder whose row sums agree with IG, from half of what IG itself needed upwards."""
    steps = [step for step in LADDER if step <= goal.ceiling] or [goal.ceiling]
    for step in steps:
        if step < ig.nodes / 2 and step < steps[-1]:
            continue
        sums, _ = yield from _sums(route, RowSums(), step)
        if SAFETY * _largest((sums - ig.value).abs()) <= goal.bound:
            break
    return step


def _sums(route: Route, integrand: Hessian | RowSums, n: int) -> Generator[Ask, Tensor, Tensor]:
    """(2, …): the log-weighted Gauss sum with n nodes, and a coarser one on the same nodes."""
    nodes = rule("log")(n)
    return (yield Ask(place(route, [nodes], [coarse(nodes, "log")]), integrand))


def _estimate(value: Tensor, rough: Tensor, gaps: Tensor) -> Tensor:
    """Per row, never below the gap that is known to be there."""
    moved = _largest((value.sum(1) - rough.sum(1)).abs())
    worth = min(1.0, SAFETY * _largest(gaps) / moved) if moved > 0 else 1.0
    return torch.maximum(worth * size(value - rough), gaps)


def _largest(values: Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
