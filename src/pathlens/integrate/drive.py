"""Where to look next: one generator per text.

A driver yields `Ask`s (points and how to sum them) and is sent the sums; it ends with an `Integral`. It never
sees a model, so many texts at different stages share the same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pathlens.integrand import Integrand, Value
from pathlens.quadrature import allocate, coarse, rule
from pathlens.types import Nodes, Points, Route


@dataclass(frozen=True, eq=False)
class Ask:
    """Evaluate the integrand at the points and give back the weighted sums, (sums, U, …)."""

    points: Points
    integrand: Integrand


LUCK = 16.0  # tokens cancelled to an eighth of the largest in the sentences looked at; twice that is taken to be chance
LEAST_RATE = 0.1  # never trust a finer rule to have won more than one digit beyond what was seen
CHUNK = 4096  # corners of a staircase asked for at once
Drive = Generator[Ask, Tensor, "Integral"]
# what a unit's value is: a number; a list of numbers (T, 1), each judged on its own; a row of numbers (d,) whose sum is the
# score; a vector of any shape
Kind = Literal["number", "list", "row", "vector"]
Outputs = dict[int | tuple[int, float], Tensor]  # by `Route.place`


@dataclass(frozen=True)
class Goal:
    """When to stop: every error estimate, and the gap, under `bound`; never more than `ceiling` nodes."""

    bound: float
    gap: Callable[[Tensor], Tensor]  # value (U, …) -> how far it is from what it should sum to: () or (T,)
    ceiling: int = 512
    judge: Callable[[Tensor, Tensor], Tensor] = lambda value, estimate: estimate  # -> error, where more is known
    kind: Kind = "number"
    known: Outputs = field(default_factory=dict)  # those at both ends of the route, and wherever else one has looked


@dataclass(frozen=True, eq=False)
class Integral:
    """What a driver found: a value per unit and how far it may be off."""

    value: Float[Tensor, "U ..."]
    error: Float[Tensor, "U ..."]  # (U,), or (U, T) for a list of T numbers
    nodes: int
    history: tuple[tuple[int, float, float], ...] = ()  # (nodes, gap, largest error) after each round
    extra: dict[str, Shaped[Tensor, "..."]] = field(default_factory=dict)


def size(value: Float[Tensor, "U ..."], kind: Kind) -> Float[Tensor, "U ..."]:
    """|value| of each unit: the absolute number, the length of its vector; (U, T) for lists of T numbers.

    The score of a row is its sum, which can be off by more than the row's length.
    """
    if kind == "number":
        return value.abs()
    if kind == "list":
        return value[..., 0].abs()
    length = value.flatten(1).norm(dim=1)
    return torch.maximum(length, value.sum(1).abs()) if kind == "row" else length


def covering(error: Float[Tensor, "U *T"], gap: Float[Tensor, "*T"] | float) -> Float[Tensor, "U *T"]:
    """Estimates (U,) that at least cover the gap () that is known to be there; (U, T) and (T,), each number's own."""
    total = error.sum(0)
    gap = torch.as_tensor(gap, dtype=error.dtype)
    factor = torch.where(total > 0, gap / total.clamp_min(1e-300), 1.0).clamp_min(1.0)
    alone = torch.where(total > 0, 0.0, gap / max(1, len(error)))
    return error * factor + alone


def shared_out(step: Float[Tensor, "U ..."], gap: Float[Tensor, "*T"] | float, kind: Kind) -> Float[Tensor, "U *T"]:
    """What each unit misses of a known gap, if the sums miss what their last step moved: |step_i|·gap / |Σ step|.

    Where units cancel, each can be off by more than the whole is. A kink shares its error out just so; steps that cancel by
    chance say nothing, so a unit is taken to miss at most LUCK times the gap.
    """
    gap = torch.as_tensor(gap, dtype=step.dtype)
    each, total = size(step, kind), step.sum(0)
    whole = total[..., 0].abs() if kind == "list" else total.norm()
    return each * (gap / torch.maximum(whole, each.amax(0) / LUCK).clamp_min(1e-300))


def largest(values: Float[Tensor, "..."] | float) -> float:
    values = torch.as_tensor(values)
    return float(values.max()) if values.numel() else 0.0


def _coarser(nodes: Nodes, weight: Float[np.ndarray, "n"], name: str) -> Float[np.ndarray, "n"]:
    """A still coarser rule, on the nodes that the coarse one uses."""
    used = np.flatnonzero(weight)
    result = np.zeros(len(nodes))
    if len(used):
        result[used] = coarse(Nodes(nodes.t[used], weight[used]), name)
    return result


def place(route: Route, nodes: list[Nodes], *extra: list[Float[np.ndarray, "_"]]) -> Points:
    """One rule per leg → points on the whole route; each leg's weights as they are (a leg's step is its own)."""
    leg = np.repeat(np.arange(len(nodes)), [len(n) for n in nodes])
    rows = np.stack([np.concatenate(each) for each in ([n.weight for n in nodes], *extra)])
    return Points(route, leg, np.concatenate([n.t for n in nodes]), rows)


def fixed(route: Route, integrand: Integrand, goal: Goal, *, name: str, n: int, per_leg: bool = False) -> Drive:
    """A rule with a given number of nodes, shared among the legs by length (or that many on each leg).

    The error estimate comes from a coarser rule on the same nodes: no further passes, and cautious.
    """
    legs = len(route.legs)
    counts = np.full(legs, n) if per_leg else allocate(n, route.length.numpy())
    nodes = [rule(name)(int(count)) for count in counts]
    rough = [coarse(each, name) for each in nodes]
    rougher = [_coarser(each, weight, name) for each, weight in zip(nodes, rough, strict=True)]
    points = place(route, nodes, rough, rougher)
    sums = yield Ask(points, integrand)
    gap = goal.gap(sums[0])
    last, before = size(sums[0] - sums[1], goal.kind), size(sums[1] - sums[2], goal.kind)
    rate = (last / before.clamp_min(1e-300)).clamp(LEAST_RATE, 1.0)
    known = all(weight.any() for weight in rougher)  # with too few nodes there is no rate to speak of
    missed = shared_out(sums[0] - sums[1], gap, goal.kind)
    error = covering(torch.maximum(last * rate if known else last, missed), gap)
    total = int(counts.sum())
    return Integral(sums[0], error, total, ((total, largest(gap), largest(error)),))


def doubling(route: Route, integrand: Integrand, goal: Goal, *, name: str) -> Drive:
    """Any rule, twice the nodes until two runs agree. Estimate: what the last doubling changed."""
    legs = len(route.legs)
    n, spent, before, history = max(8, legs), 0, None, []
    while True:
        counts = allocate(n, route.length.numpy())
        (value,) = yield Ask(place(route, [rule(name)(int(count)) for count in counts]), integrand)
        spent += int(counts.sum())
        gap = goal.gap(value)
        step = value if before is None else value - before
        error = covering(torch.maximum(size(step, goal.kind), shared_out(step, gap, goal.kind)), gap)
        history.append((int(counts.sum()), largest(gap), largest(error)))
        if max(largest(gap), largest(error)) <= goal.bound or spent + 2 * n > max(goal.ceiling, legs):
            return Integral(value, error, spent, tuple(history))
        n, before = 2 * n, value


def once(route: Route, integrand: Integrand) -> Generator[Ask, Tensor, Tensor]:
    """An integrand on both ends at once has nothing to add up: one look, at the end of the only leg."""
    sums = yield Ask(Points(route, np.zeros(1, dtype=int), np.ones(1), np.ones((1, 1))), integrand)
    return sums[0]


def differences(route: Route, units: int) -> Generator[Ask, Tensor, Tensor]:
    """Every leg moves one unit: its share is the difference of two outputs. No gradient, no quadrature error.

    (2 + U, …): the outputs at the baseline and at the text, then each unit's share. The baseline is the first corner of a
    complete route; otherwise the last corner, which a leg of nobody's (owner −1) leads from.
    """
    first = int(route.legs[0 if route.complete else -1, 0])
    return (yield from _shares(route, units, (first, int(route.legs[-1, 1]))))


def splitting(make: Callable[[int], Route], units: int, goal: Goal, *, cells: int | None = None) -> Drive:
    """Split-step: finer and finer staircases (or just `cells`, after half as many for the estimate). Nodes: cells.

    The sum is exact at every fineness, so only the shares can be off: the estimate is what the last halving moved, and
    at least a quarter of what the one before did. A halving quarters it where F is smooth; next to a corner of both
    staircases they share a kink alike, and nothing moves. (Given `cells`, the coarser one meets no corner but the middle.)
    """
    m, spent, before, history = max(1, (cells or 2) // 2 + ((cells or 2) > 2)), 0, None, []
    moved: Tensor | None = None
    while True:
        value = yield from _shares(make(m), units)
        spent += m
        gap = goal.gap(value)
        last: Tensor | None = moved
        moved = None if before is None else size(value - before, goal.kind)
        error = size(value, goal.kind) if moved is None else moved if last is None else torch.maximum(moved, last / 4)
        history.append((spent, largest(gap), largest(error)))
        small = before is not None and max(largest(error), largest(gap)) <= goal.bound
        if m == cells if cells is not None else small or spent + 2 * m > goal.ceiling:
            return Integral(value, error, spent if cells is None else cells, tuple(history))
        m, before = (cells if cells is not None else 2 * m), value


def _shares(route: Route, units: int, ends: tuple[int, ...] = ()) -> Generator[Ask, Tensor, Tensor]:
    """Σ over each unit's legs of F(reached) − F(left), after the outputs at the corners `ends`.

    Corner by corner, those alone that a leg meets: no more than CHUNK at once.
    """
    used, place = np.unique(route.legs.numpy(), return_inverse=True)
    leaves, reaches = place.reshape(-1, 2).T
    owner, order = route.owner.numpy(), np.arange(len(route.legs))
    leg, t = np.zeros(len(used), dtype=int), np.zeros(len(used))
    leg[reaches], t[reaches] = order, 1.0
    leg[leaves], t[leaves] = order, 0.0
    total: Tensor | None = None
    for first in range(0, len(used), CHUNK):
        last = min(first + CHUNK, len(used))
        weight = np.zeros((len(ends) + units, last - first))
        for row, corner in enumerate(ends):
            weight[row] = used[first:last] == corner
        for at, sign in ((reaches, 1.0), (leaves, -1.0)):
            inside = (at >= first) & (at < last) & (owner >= 0)
            np.add.at(weight, (len(ends) + owner[inside], at[inside] - first), sign)
        part = yield Ask(Points(route, leg[first:last], t[first:last], weight), Value())
        total = part.squeeze(1) if total is None else total + part.squeeze(1)
    assert total is not None
    return total
