"""The adaptive driver: a nested rule on each leg, refined only where and as far as it is needed.

Each interval of a leg carries the nested family (… 7, 15, 31, 63 nodes; going up reuses every value). Where
going up stops helping, because of a kink or a feature narrower than the nodes, the interval is halved instead.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise, takewhile

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pathlens.integrand import Integrand, Value
from pathlens.integrate.drive import (
    LEAST_RATE,
    Ask,
    Drive,
    Goal,
    Integral,
    Kind,
    Outputs,
    covering,
    largest,
    shared_out,
    size,
)
from pathlens.quadrature import nested
from pathlens.types import Points, Route

LEVELS = len(nested.COUNTS)  # 1, 3, 7, 15, 31, 63 nodes; past that an interval is halved
# a single leg begins as three: near the baseline outputs change most (benchmarks/rules.py)
CELLS = (0.0, 0.2, 0.4, 1.0)
CELL_START = 2  # 7 nodes on each
# where the output has not moved by the third cell (decoders: a probability stays 0 for half of the way), further looks say
# how far it rests: that part is one cell with few nodes, the rest two of equal length
LOOKS = (0.6, 0.8)
REST = 0.03  # of the largest change seen
HALF_START = 1  # 3 nodes on each half: a kink is closed in on by halving, cheaply
SURE = 4  # up to 31 nodes on a whole leg, going up is tried without asking whether it helped
STALLED = 0.5  # a step up that leaves more than this share of the last change has stalled
LEAST_WORTH = 1e-3  # estimates that the truth, where it is known, makes smaller still are not trusted further
SMOOTH_HALF = 0.3  # a half with less than this share of the whole's error has no kink: there, go up
LEAST_TRUST = 0.2  # of an estimate that the interval's known sum shows to be too cautious (benchmarks/calibration.py)


@dataclass(eq=False)
class Interval:
    """Part of a leg, with running sums for every level of the family."""

    leg: int
    low: float
    high: float
    level: int
    whole_error: float | None = None  # of the interval this one is a half of
    # which way the slope bends: what the whole's last step moved; at first, how the slope next to it differs
    bend: Float[Tensor, "U ..."] | None = None
    change: Float[Tensor, "..."] | None = None  # what the units must sum to here, once asked for: F(high) − F(low)
    sums: Float[Tensor, "levels U ..."] | None = None
    kind: Kind = "number"
    calibrated: bool = False  # estimates are taken for less where the known change confirms the sum

    def learn(self, *, sums: Float[Tensor, "..."] | None = None, change: Float[Tensor, "..."] | None = None) -> None:
        """What a round of evaluations says of it; its estimates, worked out once a round, are worked out anew."""
        self.sums = self.sums if sums is None else sums
        self.change = self.change if change is None else change
        for estimate in ("cautious", "error", "worst"):
            self.__dict__.pop(estimate, None)

    def at(self, level: int) -> Float[Tensor, "U ..."]:
        assert self.sums is not None, "an interval has a value once its nodes are evaluated"
        return self.sums[level]

    @property
    def value(self) -> Float[Tensor, "U ..."]:
        return self.at(self.level)

    def moved(self, level: int) -> Float[Tensor, "U ..."]:
        """I_level − I_below."""
        return self.at(level) - self.at(level - 1) if level > 0 else self.at(0)

    def step(self, level: int) -> Float[Tensor, "U ..."]:
        """|I_level − I_below| of each unit."""
        return size(self.moved(level), self.kind)

    @property
    def rate(self) -> float:
        """How much of the last change but one was left in the last change."""
        if self.level < 2:
            return 1.0
        before = float(self.step(self.level - 1).max())
        return float(self.step(self.level).max()) / before if before > 0 else 0.0

    def going_up_helps(self) -> bool:
        """More nodes here, or two halves? A kink keeps its share of the error however many nodes are added."""
        if self.level + 1 >= LEVELS:
            return False
        if self.whole_error is not None and self.level == HALF_START:
            return float(self.cautious.max()) < SMOOTH_HALF * self.whole_error
        return self.rate < STALLED or (self.whole_error is None and self.level < SURE)

    @property
    def missing(self) -> Float[Tensor, "*T"] | None:
        """How far the sum is from the output's change here: known exactly, where the change is of the units' sum."""
        if self.change is None or self.change.shape != self.value.shape[1:]:  # by coordinate, or by pair of units
            return None
        off = self.value.sum(0) - self.change
        return off[:, 0].abs() if self.kind == "list" else off.norm()

    @cached_property
    def cautious(self) -> Float[Tensor, "U ..."]:
        """Each unit's last change, times the rate at which its own changes shrink (at most one digit).

        A rate shared by all units would call 3 to 4 times as many unsettled shares settled (benchmarks/rules.py).
        """
        error = self.step(self.level)
        if self.level >= 2:
            before = self.step(self.level - 1)
            error = error * (error / before.clamp_min(1e-300)).clamp(LEAST_RATE, 1.0)
        return error if self.missing is None else covering(error, self.missing)

    @cached_property
    def error(self) -> Float[Tensor, "U ..."]:
        """The estimate. The rule's last step speaks of the level below, so it is far too cautious where f is smooth.

        How far is known for the sum: what it truly misses, over the largest estimate. The estimate is scaled by that,
        but never by less than the rate at which steps shrink here (where they do not, both levels may miss the same),
        nor by less than LEAST_TRUST (a sum can be right by luck). Nor is it less than the unit's part of what is missing.
        """
        cautious = self.cautious
        if self.missing is None:
            return cautious
        missed = shared_out(self.moved(self.level), self.missing, self.kind)
        if self.blind and self.bend is not None:
            missed = torch.maximum(missed, shared_out(self.bend, self.missing, self.kind))
        if self.calibrated:
            seen = self.missing / cautious.amax(0).clamp_min(1e-300)
            cautious = cautious * seen.clamp(max(LEAST_TRUST, min(1.0, self.rate)), 1.0)
        return torch.maximum(cautious, missed)

    @property
    def blind(self) -> bool:
        """No node is beyond the kink: the last step moved less than what is missing."""
        return self.missing is not None and float(self.moved(self.level).norm()) < float(self.missing.norm())

    def half(self, low: float, high: float) -> Interval:
        """As the start of a half of this one."""
        bend = self.moved(self.level) if self.bend is None or not self.blind else self.bend
        whole = float(self.cautious.max())
        return replace(self, low=low, high=high, level=HALF_START, whole_error=whole, bend=bend, change=None, sums=None)

    @cached_property
    def worst(self) -> float:
        """The largest estimate of a unit."""
        return float(self.error.max())


@cache
def nested_weights(first: int, last: int) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "levels n"]]:
    """Nodes new at levels first … last, and their weight at every level of the family."""
    t = np.concatenate([nested.new_nodes(level) for level in range(first, last + 1)])
    skip = sum(len(nested.new_nodes(level)) for level in range(first))
    rows = np.zeros((LEVELS, len(t)))
    for level in range(LEVELS):
        known = nested.weights(level)[skip : skip + len(t)]
        rows[level, : len(known)] = known
    return t, rows


class Weight:
    """The function that is integrated against: here 1, nothing but dt, so that an interval must sum to its change of output."""

    def weigh(
        self, interval: Interval, t: Float[np.ndarray, "n"], rows: Float[np.ndarray, "levels n"]
    ) -> Float[np.ndarray, "levels n"]:
        """Weights `rows` of places t in [0, 1] → those of the interval."""
        return rows * (interval.high - interval.low)

    def potential(
        self, route: Route, legs: Int[np.ndarray, "n"], t: Float[np.ndarray, "n"]
    ) -> Generator[Ask, Tensor, Tensor]:
        """(n, …) that which differs, from one end of an interval to the other, by the sum of all units."""
        values = yield Ask(Points(route, legs, t, np.eye(len(t))), Value())
        return values.squeeze(1)


def adaptive(route: Route, integrand: Integrand, goal: Goal) -> Drive:
    """Refine until the gap and every unit's estimate are under the bound, or the ceiling is reached."""
    known = dict(goal.known)
    intervals = first_intervals(route, kind=goal.kind)
    if len(route.legs) == 1:
        yield from _look(route, [(0, t) for t in CELLS], known, Weight())
        if (rest := _rest(route, CELLS, known)) == CELLS[-2]:
            yield from _look(route, [(0, t) for t in LOOKS], known, Weight())
            rest = _rest(route, (*CELLS[:-1], *LOOKS, 1.0), known)
            cells = (0.0, rest, HALF_START), (rest, (1 + rest) / 2, CELL_START), ((1 + rest) / 2, 1.0, CELL_START)
            intervals = [Interval(0, *cell, kind=goal.kind, calibrated=True) for cell in cells]
    return (yield from refined(route, integrand, replace(goal, known=known), intervals))[0]


def _rest(route: Route, places: Sequence[float], known: Outputs) -> float:
    """The last of these places of a single leg up to which its output has not moved yet."""
    outputs = torch.stack([known[route.place(0, t)] for t in places])
    moved = (outputs - outputs[0]).flatten(1).norm(dim=1) if outputs.ndim > 1 else (outputs - outputs[0]).abs()
    return [t for t, _ in takewhile(lambda pair: pair[1], zip(places, moved <= REST * moved.max(), strict=True))][-1]


def refined(
    route: Route, integrand: Integrand, goal: Goal, intervals: list[Interval], weight: Weight | None = None
) -> Generator[Ask, Tensor, tuple[Integral, list[Interval]]]:
    """The same from given intervals and under any weight; also the intervals it ended with."""
    weight = weight or Weight()
    work = [(each, 0) for each in intervals]
    spent = 0
    history: list[tuple[int, float, float]] = []
    known = dict(goal.known)
    ceiling = max(goal.ceiling, 3 * len(intervals))
    while True:
        spent += yield from _evaluate(route, integrand, work, weight)
        if not history:
            _bend(intervals)
        yield from _know_changes(route, [each for each in intervals if each.change is None], known, weight)
        value = torch.stack([each.value for each in intervals]).sum(0)
        gap = goal.gap(value)
        guess = torch.stack([each.error for each in intervals]).sum(0)
        error = goal.judge(value, guess)
        history.append((spent, largest(gap), largest(error)))
        if max(largest(gap), largest(error)) <= goal.bound:
            break
        worth = largest(error) / largest(guess) if largest(guess) > 0 else 1.0
        intervals, work = _refine(intervals, goal.bound / max(worth, LEAST_WORTH), ceiling - spent)
        if not work:
            break
    return Integral(value, covering(error, gap), spent, tuple(history)), intervals


def _bend(intervals: list[Interval]) -> None:
    """Which way the slope of each first interval bends: to the one beside it on its leg that differs more."""
    for before, after in pairwise(intervals):
        if before.leg == after.leg:
            bend = after.value / (after.high - after.low) - before.value / (before.high - before.low)
            known = before.bend
            before.bend = bend if known is None or float(bend.norm()) > float(known.norm()) else known
            after.bend = bend


def first_intervals(route: Route, *, kind: Kind = "number") -> list[Interval]:
    """A single leg as three cells; otherwise one interval per leg that moves, long ones with more nodes."""
    legs = len(route.legs)
    if legs == 1:
        return [Interval(0, low, high, CELL_START, kind=kind, calibrated=True) for low, high in pairwise(CELLS)]
    share = route.length.numpy() * legs
    starts = np.where(share > 4, 2, 1) if route.complete else np.full(legs, CELL_START)
    moving = np.flatnonzero(share > 0).tolist()
    return [Interval(leg, 0.0, 1.0, int(starts[leg]), kind=kind) for leg in moving or [0]]


def _evaluate(
    route: Route, integrand: Integrand, work: list[tuple[Interval, int]], weight: Weight
) -> Generator[Ask, Tensor, int]:
    """Fill in the sums of every interval at work, from its first missing level on; all in one request."""
    legs, places, rows = [], [], []
    for number, (interval, first) in enumerate(work):
        t, levels = nested_weights(first, interval.level)
        legs.append(np.full(len(t), interval.leg))
        places.append(interval.low + (interval.high - interval.low) * t)
        block = np.zeros((len(work) * LEVELS, len(t)))
        block[number * LEVELS : (number + 1) * LEVELS] = weight.weigh(interval, t, levels)
        rows.append(block)
    points = Points(route, np.concatenate(legs), np.concatenate(places), np.concatenate(rows, axis=1))
    sums = yield Ask(points, integrand)
    for (interval, first), part in zip(work, sums.reshape(len(work), LEVELS, *sums.shape[1:]), strict=True):
        interval.learn(sums=part if interval.sums is None or first == 0 else interval.sums + part)
    return len(points)


def _know_changes(
    route: Route, intervals: list[Interval], known: Outputs, weight: Weight
) -> Generator[Ask, Tensor, None]:
    """The output at both ends of new intervals: each sum is then checked on its own.

    A few nodes can miss a kink altogether; the change of the output across the interval cannot.
    """
    yield from _look(route, [(each.leg, t) for each in intervals for t in (each.low, each.high)], known, weight)
    for each in intervals:
        each.learn(change=known[route.place(each.leg, each.high)] - known[route.place(each.leg, each.low)])


def _look(
    route: Route, places: Sequence[tuple[int, float]], known: Outputs, weight: Weight
) -> Generator[Ask, Tensor, None]:
    """The outputs that are not known yet at these places (leg, t), kept: a forward pass each, a corner of two legs once."""
    missing = {route.place(*each): each for each in places if route.place(*each) not in known}
    if missing:
        legs, t = (np.array(column) for column in zip(*missing.values(), strict=True))
        known.update(zip(missing, (yield from weight.potential(route, legs, t)), strict=True))


def _refine(intervals: list[Interval], bound: float, left: int) -> tuple[list[Interval], list[tuple[Interval, int]]]:
    """Take the worst intervals until what remains is half the bound; go up a level, or halve where that stalled."""
    order = sorted(intervals, key=lambda each: -each.worst)
    rest = sum(each.worst for each in order)
    keep: list[Interval] = []
    work: list[tuple[Interval, int]] = []
    for number, interval in enumerate(order):
        if rest <= bound / 2 and number > 0:
            return [*keep, *order[number:]], work
        rest -= interval.worst
        up, parts = interval.going_up_helps(), [interval]
        cost = len(nested.new_nodes(interval.level + 1)) if up else 2 * nested.COUNTS[HALF_START]
        if cost <= left and up:
            interval.level += 1
            work.append((interval, interval.level))
        elif cost <= left:
            middle = (interval.low + interval.high) / 2
            places = (interval.low, middle), (middle, interval.high)
            parts = [interval.half(*ends) for ends in places]
            work += [(half, 0) for half in parts]
        left -= cost if cost <= left else 0
        keep += parts
    return keep, work
