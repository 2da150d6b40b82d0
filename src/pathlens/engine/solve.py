"""The integral: what one text asks of the model, as a driver for the loop, and many texts driven to their end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pathlens.engine.methods import NOT_SPLIT, Entry
from pathlens.engine.options import Accuracy, Method
from pathlens.engine.prepare import Prepared
from pathlens.errors import InputError
from pathlens.explanation.certificate import bound_of
from pathlens.integrand import Coordinates, Integrand, Value
from pathlens.integrate.adaptive import adaptive
from pathlens.integrate.drive import (
    Ask,
    Drive,
    Goal,
    Integral,
    Kind,
    covering,
    differences,
    doubling,
    fixed,
    largest,
    once,
    size,
    splitting,
)
from pathlens.integrate.interactions import interactions
from pathlens.integrate.loop import Job, run
from pathlens.integrate.memory import Limits
from pathlens.integrate.together import OfSeveral, together
from pathlens.path.line import line
from pathlens.path.staircase import moving_units, staircase
from pathlens.path.words.route import nodes_per_leg
from pathlens.text.adapter import Case, TextModel
from pathlens.types import Points, Route
from pathlens.units.units import Units

LARGE = 1_000_000  # numbers in a result (units × output); past that, fewer sums are kept at once


@dataclass(frozen=True, eq=False)
class Solution:
    """One text's integral, what its rows stand for, and the outputs at both ends."""

    case: Case
    units: Units
    f_start: Float[Tensor, "*out"]  # a number, or (T, 1) for a list of T numbers, or (out, k) for vectors
    f_end: Float[Tensor, "*out"]
    integral: Integral
    moving: Int[Tensor, "rows"]  # the units that the integral's rows belong to
    bound: float
    gap: float
    vector: bool  # the output is a vector, or a row of them, explained as one; not a number or a list of numbers
    by_coordinate: bool  # rows are (U, d, …): units with their coordinates
    gaps: Float[Tensor, "U"] | None = None  # where each unit has its own sum
    path: Any = None  # what the path says of itself: the words it went through
    passes: int = 0
    shared: int = 1  # targets of one call that these passes answered together

    def spread(self) -> Float[Tensor, "U *value"]:
        """Values of all units, zeros where nothing moved; by coordinate (U, d, …)."""
        return self.placed(self.integral.value)

    def estimates(self) -> Float[Tensor, "U *T"]:
        """Error estimate of every unit, of every number of a list."""
        return self.placed(self.integral.error)

    def placed(self, rows: Float[Tensor, "rows *value"]) -> Float[Tensor, "U *value"]:
        """The rows of the moving units among all; zeros where nothing moved."""
        full = torch.zeros((len(self.units), *rows.shape[1:]), dtype=torch.float64)
        full[self.moving.cpu()] = rows
        return full


Driver = Generator[Ask, Tensor, Solution]


def solve(
    prepared: Sequence[Prepared],
    accuracy: Accuracy,
    limits: Limits,
    done: Callable[[Any], None] | None = None,
    watch: Callable[[int], None] | None = None,
) -> list[tuple[Solution, ...] | Exception]:
    """The integrals of many texts, in shared batches; a text that fails gives its error, the others go on.

    `done` hears of every text at its end, `watch` of the points of every batch on the way.
    """
    jobs = [
        [
            Job(case, moving_of(case, group)[0], drive(each, number, accuracy), watch=watch)
            for number, (case, group) in enumerate(zip(each.cases, each.units, strict=True))
        ]
        for each in prepared
    ]
    for of_text in jobs:
        of_text[-1].over = done
    run([job for of_text in jobs for job in of_text], limits)
    return [_solutions(of_text) for of_text in jobs]


def solve_targets(
    model: TextModel,
    groups: Sequence[Sequence[Prepared]],
    accuracy: Accuracy,
    limits: Limits,
    done: Callable[[Any], None] | None = None,
    watch: Callable[[int], None] | None = None,
) -> list[list[tuple[Solution, ...] | Exception]]:
    """`solve` for texts that were read for several targets each: those of one text share their passes where they can."""
    solutions: list[list[tuple[Solution, ...] | Exception]] = []
    shared: list[tuple[int, Job]] = []
    for number, group in enumerate(groups):
        case = _one_case(model, group)
        if case is None:
            solutions.append(solve(group, accuracy, limits, None, watch))
            continue
        work = together([drive(each, 0, accuracy) for each in group])
        shared.append((number, Job(case, moving_of(case, group[0].units[0])[0], work, watch=watch, over=done)))
        solutions.append([])
    run([job for _, job in shared], limits)
    for number, job in shared:
        every = [job.error] * len(groups[number]) if job.error is not None else job.result
        solutions[number] = [
            each if isinstance(each, Exception) else (replace(each, passes=job.passes, shared=len(every)),)
            for each in every
        ]
    return solutions


def _one_case(model: TextModel, group: Sequence[Prepared]) -> Case | None:
    """All targets of a text as one case; None where the method, or the model, takes them one by one."""
    first = group[0]
    exact = first.entry.telescopes and not first.method.by_coordinate
    if len(first.cases) > 1 or not (exact or OfSeveral.can(first.entry.integrand(first.method))):
        return None
    return model.together([each.cases[0] for each in group])


def _solutions(jobs: Sequence[Job]) -> tuple[Solution, ...] | Exception:
    failed = next((job.error for job in jobs if job.error is not None), None)
    return failed if failed is not None else tuple(replace(job.result, passes=job.passes) for job in jobs)


def moving_of(case: Case, units: Units) -> tuple[Bool[Tensor, "M S"], Int[Tensor, "M"]]:
    """Members of the units that move at all, and their indices: nothing is spent on the others."""
    members = torch.as_tensor(units.members, device=case.ends.end.device)
    moving = moving_units(case.ends, members).sort().values
    return members[moving], moving


@dataclass(frozen=True, eq=False)
class _Text:
    """One case on its way: everything the drivers below need to know of it."""

    case: Case
    units: Units
    method: Method[Any]
    entry: Entry
    accuracy: Accuracy
    f_start: Float[Tensor, "*out"]
    f_end: Float[Tensor, "*out"]

    @property
    def members(self) -> Bool[Tensor, "U S"]:
        return torch.as_tensor(self.units.members, device=self.case.ends.end.device)

    @property
    def several(self) -> bool:
        """T numbers, each explained on its own, and not one vector?"""
        return bool(self.case.outputs) and not self.entry.vector

    @property
    def kind(self) -> Kind:
        """What the integral of a unit is."""
        if self.several:
            return "list"
        return "vector" if self.entry.vector else "row" if self.by_coordinate else "number"

    @property
    def by_coordinate(self) -> bool:
        return self.method.by_coordinate

    @property
    def rule(self) -> str:
        return self.accuracy.rule or self.entry.rule

    @property
    def change(self) -> Float[Tensor, "*out"]:
        return self.f_end - self.f_start

    def bound(self) -> float:
        """The bound for numbers, or with norms for vectors; for a list of numbers, by their root mean square."""
        share = len(self.f_end) ** 0.5 if self.several else 1.0
        end, change = float((self.f_end / share).norm()), float((self.change / share).norm())
        return bound_of(end, end - change, self.accuracy.tolerance)

    def missing(self, value: Float[Tensor, "rows *value"]) -> Float[Tensor, "*T"]:
        """How far the sum is from the output's change: a number, a vector's length, or each number of a list."""
        change = self.change
        gap = value.flatten(0, value.ndim - change.ndim - 1).sum(0) - change
        return gap[:, 0].abs() if self.several else gap.norm()

    def solution(self, integral: Integral, moving: Int[Tensor, "M"], bound: float, gap: float, **more: Any) -> Solution:
        known: dict[str, Any] = {"vector": self.entry.vector, "by_coordinate": self.by_coordinate, **more}
        return Solution(self.case, self.units, self.f_start, self.f_end, integral, moving, bound, gap, **known)


def drive(prepared: Prepared, number: int, accuracy: Accuracy) -> Driver:
    """Everything one case asks of the model, as a driver for the loop."""
    work = _drive(prepared, number, accuracy)
    if not prepared.method.by_coordinate:
        return work
    return _of_units(work, moving_of(prepared.cases[number], prepared.units[number])[0])


def _of_units(work: Driver, members: Bool[Tensor, "M S"]) -> Driver:
    """Every token's coordinates as those of its unit, before anyone looks at them: when the units have settled is not to be
    seen from their tokens, whose errors add up."""
    tokens = [each.nonzero().flatten() for each in members.cpu()]
    answer: Any = None
    while True:
        try:
            ask = work.send(answer)
        except StopIteration as end:
            solution: Solution = end.value
            return solution
        answer = yield ask
        if ask.integrand.by_coordinate:
            answer = torch.stack([answer[:, some].sum(1) for some in tokens], dim=1)


def _drive(prepared: Prepared, number: int, accuracy: Accuracy) -> Driver:
    case, units, limit = prepared.cases[number], prepared.units[number], prepared.limits[number]
    _, moving = moving_of(case, units)
    by_secants = prepared.entry.rule == "secant" and len(moving) > 0
    shares: Tensor | None = None
    route: Route | None = None
    if by_secants and not prepared.method.by_coordinate:  # the ends come with the shares
        rows = yield from once(line(case.ends), prepared.entry.integrand(prepared.method))
        f_start, f_end, shares = rows[0], rows[1], rows[2:]
    elif prepared.entry.telescopes and not prepared.method.by_coordinate and len(moving) > 0:  # here too
        every = torch.as_tensor(units.members, device=case.ends.end.device)
        route = prepared.entry.path(prepared.method, case.ends, every)
        both = route if route.complete else route.also_from(line(case.ends).corner(0))
        rows = yield from differences(both, len(units))
        f_start, f_end, shares = rows[0], rows[1], rows[2:]
    else:
        ends_only = Points(line(case.ends), np.zeros(2, dtype=int), np.array([0.0, 1.0]), np.eye(2))
        f_start, f_end = (yield Ask(ends_only, Value())).squeeze(1)
    text = _Text(case, units, prepared.method, prepared.entry, accuracy, f_start, f_end)
    words = text.method.through_words
    if words is not None:
        _check_words(words, text)
    if len(moving) == 0:  # a text equal to its baseline: nothing moved, nothing changed
        path = text.entry.path(text.method, case.ends, text.members).detail if words else None
        coordinates = case.ends.end.shape[1:] if text.by_coordinate else ()
        value = torch.zeros((0, *coordinates, *f_end.shape), dtype=torch.float64)
        nothing = Integral(value, torch.zeros_like(size(value, text.kind)), 0)
        return text.solution(nothing, moving, text.bound(), float(text.change.norm()), path=path)
    route = text.entry.path(text.method, case.ends, text.members) if route is None else route
    if not route.complete:
        return (yield from _per_unit(text, route, moving, shares))
    limit = text.bound() if limit is None else limit
    known = {route.place(0, 0.0): f_start, route.place(len(route.legs) - 1, 1.0): f_end}
    goal = Goal(limit, text.missing, accuracy.max_nodes, kind=text.kind, known=known)
    rows = moving
    if by_secants:
        if shares is None:
            shares = yield from once(route, text.entry.integrand(text.method))
        # nothing was approximated but by rounding, which the gap shows
        integral = Integral(shares, covering(torch.zeros_like(size(shares, text.kind)), goal.gap(shares)), 0)
    elif text.entry.rule == "log":
        wanted = prepared.rows  # those that do not move need no work
        asked = None if wanted is None else tuple(k for k, unit in enumerate(moving.tolist()) if unit in wanted)
        integral = yield from interactions(route, goal, asked, accuracy.n_steps, kinked="kinks" in case.meta)
    elif text.rule == "split":
        integral, rows = (yield from _split(text, goal)), torch.arange(len(units))
    elif shares is not None:
        integral, rows = _exact(text, route, shares), torch.arange(len(units))
    else:
        large = text.change.numel() * (len(case) if text.by_coordinate else len(moving)) > LARGE
        integral = yield from _integrate(text, route, text.entry.integrand(text.method), goal, large)
    gap = largest(integral.extra["gap"] if "gap" in integral.extra else goal.gap(integral.value))
    return text.solution(integral, rows, limit, gap, path=route.detail)


def _check_words(path: str, text: _Text) -> None:
    """Words are found at the word embeddings, and split-step is a path of its own."""
    if text.case.sources:
        raise InputError(
            f"path={path!r} starts at the word embeddings, and block=... alone starts at the block's own input, where there "
            "are no words; add layer=0 (from the embeddings to the block's output), or use path='line'"
        )
    if text.accuracy.rule == "split":
        raise InputError(
            f"rule='split' has a path of its own (units move one at a time), so it does not go with {path}; use "
            f"{', '.join(NOT_SPLIT)}"
        )


def _split(text: _Text, goal: Goal) -> Drive:
    if text.by_coordinate:
        raise InputError("rule='split' moves whole units, so it has no score for single coordinates; use rule='gauss'")
    make = partial(staircase, text.case.ends, text.members)
    return (yield from splitting(make, len(text.units), goal, cells=text.accuracy.n_steps))


def _integrate(text: _Text, route: Route, integrand: Integrand, goal: Goal, large: bool = False) -> Drive:
    """By the rule asked for, with so many nodes or as many as it takes. Where every leg is a unit's own, n is of each."""
    name, n_steps, per_leg = text.rule, text.accuracy.n_steps, text.entry.telescopes
    if n_steps is not None:
        name = "gauss" if name == "adaptive" else name
        return (yield from fixed(route, integrand, goal, name=name, n=n_steps, per_leg=per_leg))
    if name == "adaptive":
        if large:  # the nested family keeps many sums of the size of the result; doubling keeps two
            return (yield from doubling(route, integrand, goal, name="gauss"))
        return (yield from adaptive(route, integrand, goal))
    if name == "left" and (count := nodes_per_leg(route)) is not None:  # the sum of the DIG and UDIG papers
        return (yield from fixed(route, integrand, goal, name=name, n=count, per_leg=True))
    return (yield from doubling(route, integrand, goal, name=name))


def _exact(text: _Text, route: Route, shares: Float[Tensor, "U ..."]) -> Integral:
    """Differences of outputs: nothing was approximated, but in half precision each of the two is rounded."""
    rounding = 2 * text.case.meta.get("drift", 0.0)
    return Integral(shares, torch.full_like(size(shares, text.kind), rounding), 1 + len(route.legs))


def _per_unit(text: _Text, route: Route, moving: Int[Tensor, "M"], shares: Float[Tensor, "U ..."] | None) -> Driver:
    """SIG's full reading: every unit has its own line and its own sum, F(x) − F(x̄^U)."""
    count, limit = len(text.units), text.bound()
    if shares is not None:
        exact = _exact(text, route, shares)
        return text.solution(exact, torch.arange(count), limit, 0.0, gaps=torch.zeros(count))
    wanted = (yield from differences(route.also_from(line(text.case.ends).corner(0)), count))[2:][moving.cpu()]

    def gaps(value: Float[Tensor, "M d"]) -> Float[Tensor, "M"]:
        return (value.sum(-1) - wanted).abs()

    goal = Goal(limit, lambda value: gaps(value).max(), text.accuracy.max_nodes * len(route.legs), kind="row")
    integral = yield from _integrate(text, route, Coordinates(), goal)
    every = torch.zeros(count, dtype=torch.float64)
    every[moving.cpu()] = off = gaps(integral.value)
    integral = replace(integral, error=torch.maximum(integral.error, off))
    return text.solution(integral, moving, limit, float(every.max()), gaps=every)
