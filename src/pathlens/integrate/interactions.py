"""Integrated Hessians: IG on its own nodes, the matrix's nodes placed by its row sums, then the matrix, once.

A row of the matrix sums to IG's score of its unit. That sum costs one Hessian–vector product a point, the matrix
one for every unit: so where the matrix needs nodes, and how many, is found on row sums, against an IG that shares
no node with them, and the matrix is usually taken a single time.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pathlens.errors import InputError, setting
from pathlens.integrand import Gradient, Hessian, RowSums
from pathlens.integrate.adaptive import CELL_START, STALLED, Interval, Weight, adaptive, refined
from pathlens.integrate.drive import Ask, Drive, Goal, Integral, largest, place, size
from pathlens.quadrature import coarse, nested, rule
from pathlens.quadrature.orthogonal import legendre_basis, log_moments
from pathlens.types import Points, Route

CELLS = (0.0, 0.09, 0.19, 0.39, 1.0)  # finer near the baseline; none is a cell of IG, so no node is shared
IG_SHARE = 0.25  # IG is held to a quarter of the bound: a row gap then measures the matrix, not IG
LEAST_WORTH = 0.01  # row sums may be right by luck: no estimate is taken for more than two digits too cautious
SAFETY = 2.0  # how much worse single entries may be off than row sums, whose error is known


def interactions(
    route: Route, goal: Goal, rows: tuple[int, ...] | None, n: int | None = None, *, kinked: bool = False
) -> Drive:
    """Γ (R, U) of the rows wanted (None: all), `extra`: "ig" (U,), and the "gap" of the total (or of the worst row).

    `n` fixes the number of nodes, of one Gauss rule for the weight −ln u on the whole line. Without it nodes are
    placed by halving and nested rules, as IG's are. For a `kinked` model (ReLU) whose row sums cannot be brought to
    IG, the matrix is taken once, and not refined any further.

    Limits: the identity behind it (one integral for two) holds on the straight line only.
    """
    if len(route.legs) != 1:
        raise InputError(
            f"Integrated Hessians need the straight line, this path has {len(route.legs)} legs: on a bent path the double "
            "integral is not a single one, and summed over legs the interactions vanish as legs are added. "
            f"Use {setting(path='line')} (the default), or {setting(method='ig')} or 'udig' along the bent path"
        )
    ig = yield from adaptive(route, Gradient(), replace(goal, bound=goal.bound * IG_SHARE))
    wanted = ig.value if rows is None else ig.value[list(rows)]
    if rows == ():  # only units that do not move were asked for
        matrix = Integral(wanted[:0, None].expand(0, len(ig.value)), wanted[:0], 0)
    elif n is not None:
        matrix = yield from _fixed(route, goal, rows, wanted, n)
    else:
        matrix = yield from _placed(route, goal, rows, wanted, ig.value, kinked=kinked)
    return replace(matrix, extra={"ig": ig.value, "gap": _gap(goal, rows, matrix.value, wanted)})


def _gap(
    goal: Goal, rows: tuple[int, ...] | None, value: Float[Tensor, "R U"], wanted: Float[Tensor, "R"]
) -> Float[Tensor, ""]:
    """Of the total; where only some rows are there, the largest of theirs."""
    return goal.gap(value) if rows is None else torch.tensor(largest((value.sum(1) - wanted).abs()))


def _placed(
    route: Route,
    goal: Goal,
    rows: tuple[int, ...] | None,
    wanted: Float[Tensor, "R"],
    ig: Float[Tensor, "U"],
    *,
    kinked: bool,
) -> Generator[Ask, Tensor, Integral]:
    """Row sums until they agree with IG; the matrix on the intervals this took, and further only if it must.

    The estimate of a row of the matrix: what its intervals' last steps moved, scaled by what that was worth on the
    row sums, whose true error is known; never below the row's own gap.
    """
    log = LogWeight()
    known = replace(
        goal, gap=lambda value: torch.tensor(0.0), judge=lambda value, estimate: SAFETY * (value - ig).abs()
    )
    sums, intervals = yield from refined(route, RowSums(), known, _first(goal), log)
    guess = torch.stack([each.error for each in intervals]).sum(0)
    hopeless = kinked and largest(sums.error) > goal.bound  # what sits in a kink, no node can see
    if hopeless and sums.history[-1][2] > STALLED * sums.history[0][2]:  # the first look was as good
        intervals = _first(goal)
    same = [Interval(each.leg, each.low, each.high, each.level, change=each.change, kind="row") for each in intervals]
    aim = replace(
        goal,
        gap=lambda value: _gap(goal, rows, value, wanted),
        ceiling=0 if hopeless else goal.ceiling,
        judge=_Judge(sums.value - ig, guess, guess if rows is None else guess[list(rows)], wanted),
    )
    return (yield from refined(route, Hessian(rows), aim, same, log))[0]


def _first(goal: Goal) -> list[Interval]:
    fits = (len(CELLS) - 1) * nested.COUNTS[CELL_START] <= goal.ceiling
    level = CELL_START if fits else CELL_START - 1
    return [Interval(0, low, high, level) for low, high in pairwise(CELLS)]


@dataclass
class _Judge:
    """The error of every row of the matrix: its estimate times what the estimate of row sums was worth.

    That is settled at the first look, where matrix and row sums stand on the same nodes: only there can it be
    seen whether entries that cancel in their row's sum need more nodes than the sums did.
    """

    true: Float[Tensor, "U"]  # how far row sums were off
    guess: Float[Tensor, "U"]  # what had been estimated for them
    of_rows: Float[Tensor, "R"]  # the same for the rows wanted
    wanted: Float[Tensor, "R"]  # IG
    worth: float | None = None

    def __call__(self, value: Float[Tensor, "R U"], estimate: Float[Tensor, "R"]) -> Float[Tensor, "R"]:
        if self.worth is None:
            self.worth = _for_entries(_worth(self.true, self.guess), estimate, self.of_rows)
        return torch.maximum(self.worth * estimate, (value.sum(1) - self.wanted).abs())


def _fixed(
    route: Route, goal: Goal, rows: tuple[int, ...] | None, wanted: Float[Tensor, "R"], n: int
) -> Generator[Ask, Tensor, Integral]:
    """The log-weighted Gauss sum with n nodes, and an estimate from a coarser one on the same nodes."""
    nodes = rule("log")(n)
    value, rough = yield Ask(place(route, [nodes], [coarse(nodes, "log")]), Hessian(rows))
    gaps = (value.sum(1) - wanted).abs()
    moved, sums_moved = size(value - rough, "row"), (value - rough).sum(1)
    worth = _worth(gaps, sums_moved, least=0.0)  # a rule of half the nodes: far too cautious
    error = torch.maximum(_for_entries(worth, moved, sums_moved) * moved, gaps)
    gap = largest(_gap(goal, rows, value, wanted))
    return Integral(value, error, n, ((n, gap, largest(error)),))


def _worth(true: Float[Tensor, "..."], estimated: Float[Tensor, "..."], least: float = LEAST_WORTH) -> float:
    """What an estimate is multiplied by: known errors over estimated ones, with room for safety, at most 1."""
    seen = largest(estimated.abs())
    return min(1.0, max(least, SAFETY * largest(true.abs()) / seen)) if seen > 0 else 1.0


def _for_entries(worth: float, entries: Float[Tensor, "..."], sums: Float[Tensor, "..."]) -> float:
    """What an estimate of entries is multiplied by, where that of row sums is worth `worth` of itself.

    Where entries moved more than their rows' sums they cancel there, and row sums say as much less about them.
    """
    seen, moved = largest(sums.abs()), largest(entries.abs())
    return min(1.0, worth * max(1.0, moved / seen)) if seen > 0 else 1.0


class LogWeight(Weight):
    """−ln u du on parts of the straight line, so that nodes can be placed where they are needed.

    Away from u = 0 the weight is smooth and simply multiplied in. On an interval that begins at 0 it is split,
    −ln u = −ln h − ln(u/h), and the second part has weights of its own on the same nodes.
    """

    def weigh(
        self, interval: Interval, t: Float[np.ndarray, "n"], rows: Float[np.ndarray, "levels n"]
    ) -> Float[np.ndarray, "levels n"]:
        width = interval.high - interval.low
        if interval.low > 0:
            log = -np.log(interval.low + width * t)
        else:
            log = np.stack([_log_factor(level, t.tobytes()) for level in range(len(rows))]) - np.log(width)
        weighed: np.ndarray = rows * width * log
        return weighed

    def potential(
        self, route: Route, legs: Int[np.ndarray, "n"], t: Float[np.ndarray, "n"]
    ) -> Generator[Ask, Tensor, Tensor]:
        """φ − u ln u · φ′ with φ(u) = F(b + uδ): the rows of all units sum to (uφ′)′, integrated by parts.

        So an interval's sum is known from its ends, as F(high) − F(low) is for IG.
        """
        outputs = yield from super().potential(route, legs, t)
        inside = (t > 0) & (t < 1)  # at both ends u ln u is 0; a gradient at the baseline need not even exist
        if inside.any():
            at = t[inside]
            slopes = yield Ask(Points(route, legs[inside], at, np.eye(len(at))), Gradient())
            outputs[torch.from_numpy(inside)] -= torch.from_numpy(at * np.log(at)) * slopes.sum(1)
        return outputs


@cache
def _log_factor(level: int, places: bytes) -> Float[np.ndarray, "n"]:
    """What a weight of the rule at `level` is multiplied by, at each place t, to integrate against −ln t.

    Σ_k m_k p_k(t) over the moments m_k of −ln t in the orthonormal Legendre basis, as far as the rule keeps that
    basis orthonormal: half its degree of exactness, (3n + 1)/2 for n nodes. Solving for weights through all n
    moments instead would lose them to rounding.
    """
    t, count = np.frombuffer(places), nested.COUNTS[level]
    degree = 1 if count == 1 else (3 * count + 1) // 2
    terms = degree // 2 + 1
    factor: np.ndarray = log_moments(terms) @ legendre_basis(t, terms)
    return factor
