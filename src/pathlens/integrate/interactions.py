"""Integrated Hessians: IG on its own nodes, the matrix's nodes placed by its row sums, then the matrix, once.

A row of the matrix sums to IG's score of its unit. That sum costs one Hessian–vector product a point, the matrix
one for every unit: so where the matrix needs nodes, and how many, is found on row sums, against an IG that shares
no node with them, and the matrix is usually taken a single time.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise

import torch
from torch import Tensor

from pathlens.errors import InputError
from pathlens.integrand import Gradient, Hessian, RowSums
from pathlens.integrate.adaptive import CELL_START, Interval, adaptive, refined
from pathlens.integrate.drive import Ask, Drive, Goal, Integral, largest, place, size
from pathlens.integrate.log_measure import LogMeasure
from pathlens.quadrature import coarse, nested, rule
from pathlens.types import Route

CELLS = (0.0, 0.09, 0.19, 0.39, 1.0)  # finer near the baseline; none is a cell of IG, so no node is shared
IG_SHARE = 0.25  # IG is held to a quarter of the bound: a row gap then measures the matrix, not IG
LEAST_WORTH = (
    0.01  # row sums may be right by luck: no estimate is taken for more than two digits too cautious
)
SAFETY = 2.0  # how much worse single entries may be off than row sums, whose error is known


def interactions(route: Route, goal: Goal, rows: tuple[int, ...] | None, n: int | None = None) -> Drive:
    """Γ (R, U) of the rows wanted (None: all), `extra`: "ig" (U,), "ig_error" (U,), and "gaps" (R,) of the rows.

    `n` fixes the number of nodes, of one Gauss rule for the weight −ln u on the whole line. Without it nodes are
    placed by halving and nested rules, as IG's are.

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
    if rows == ():  # only units that do not move were asked for
        found = Integral(wanted[:0, None].expand(0, len(ig.value)), wanted[:0], 0)
    elif n is not None:
        found = yield from _fixed(route, goal, rows, wanted, n)
    else:
        found = yield from _placed(route, goal, rows, wanted, ig.value)
    gaps = (found.value.sum(1) - wanted).abs()
    gap = _gap(goal, rows, found.value, wanted)
    extra = {"ig": ig.value, "ig_error": ig.error, "gaps": gaps, "gap": gap}
    return Integral(found.value, found.error, found.nodes, found.history, extra)


def _gap(goal: Goal, rows: tuple[int, ...] | None, value: Tensor, wanted: Tensor) -> Tensor:
    """Of the total; where only some rows are there, the largest of theirs."""
    return goal.gap(value) if rows is None else torch.tensor(largest((value.sum(1) - wanted).abs()))


def _placed(
    route: Route, goal: Goal, rows: tuple[int, ...] | None, wanted: Tensor, ig: Tensor
) -> Generator[Ask, Tensor, Integral]:
    """Row sums until they agree with IG; the matrix on the intervals this took, and further only if it must.

    The estimate of a row of the matrix: what its intervals' last steps moved, scaled by what that was worth on the
    row sums, whose true error is known; never below the row's own gap.
    """
    log = LogMeasure()
    known = Goal(
        goal.bound,
        lambda value: torch.tensor(0.0),
        goal.ceiling,
        judge=lambda value, estimate: SAFETY * (value - ig).abs(),
    )
    fits = (len(CELLS) - 1) * nested.COUNTS[CELL_START] <= goal.ceiling
    level = CELL_START if fits else CELL_START - 1
    first = [Interval(0, low, high, level) for low, high in pairwise(CELLS)]
    sums, intervals = yield from refined(route, RowSums(), known, first, log)
    worth = _worth(sums.value - ig, torch.stack([each.error for each in intervals]).sum(0))
    same = [Interval(each.leg, each.low, each.high, each.level, change=each.change) for each in intervals]
    aim = Goal(
        goal.bound,
        lambda value: _gap(goal, rows, value, wanted),
        goal.ceiling,
        judge=lambda value, estimate: torch.maximum(worth * estimate, (value.sum(1) - wanted).abs()),
    )
    return (yield from refined(route, Hessian(rows), aim, same, log))[0]


def _fixed(
    route: Route, goal: Goal, rows: tuple[int, ...] | None, wanted: Tensor, n: int
) -> Generator[Ask, Tensor, Integral]:
    """The log-weighted Gauss sum with n nodes, and an estimate from a coarser one on the same nodes."""
    nodes = rule("log")(n)
    value, rough = yield Ask(place(route, [nodes], [coarse(nodes, "log")]), Hessian(rows))
    gaps = (value.sum(1) - wanted).abs()
    worth = _worth(gaps, value.sum(1) - rough.sum(1), least=0.0)  # a rule of half the nodes: far too cautious
    error = torch.maximum(worth * size(value - rough), gaps)
    gap = largest(_gap(goal, rows, value, wanted))
    return Integral(value, error, n, ((n, gap, largest(error)),))


def _worth(true: Tensor, estimated: Tensor, least: float = LEAST_WORTH) -> float:
    """What an estimate is multiplied by: known errors over estimated ones, with room for safety, at most 1."""
    seen = largest(estimated.abs())
    return min(1.0, max(least, SAFETY * largest(true.abs()) / seen)) if seen > 0 else 1.0
