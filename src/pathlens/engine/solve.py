"""Everything one text asks of the model, as a driver for the loop: a line of the table, put to work."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pathlens.engine.assemble_interactions import chosen_rows, moving_rows
from pathlens.engine.methods import ALONG_WORDS, Method, Settings, moving_of
from pathlens.errors import InputError
from pathlens.integrand import Coordinates, Integrand, Value
from pathlens.integrate.adaptive import adaptive
from pathlens.integrate.drive import Ask, Drive, Goal, Integral, differences, doubling, fixed, largest, size, splitting
from pathlens.integrate.interactions import interactions
from pathlens.path.line import line
from pathlens.path.staircase import staircase
from pathlens.path.words.options import nodes_per_leg
from pathlens.text.adapter import Case
from pathlens.types import Ends, Points, Route, bound
from pathlens.units.groups import Units

LARGE = 1_000_000  # numbers in a result (units × output); past that, fewer sums are kept at once


@dataclass(frozen=True, eq=False)
class Finding:
    """One text's integral, and the outputs at both ends."""

    f_start: Tensor  # () or (out, k)
    f_end: Tensor
    integral: Integral
    moving: Tensor  # (U',) which units the integral's rows belong to
    bound: float
    settled: bool
    gap: float
    gaps: Tensor | None = None  # per unit, where each has its own sum
    path: Any = None  # what the path says of itself: the words it went through


def work(
    case: Case, units: Units, method: Method, settings: Settings, limit: float | None = None
) -> Generator[Ask, Tensor, Finding]:
    """Everything one text asks of the model, as a driver for the loop; `limit` replaces the bound of its own change."""
    ends_only = Points(line(case.ends), np.zeros(2, dtype=int), np.array([0.0, 1.0]), np.eye(2))
    f_start, f_end = (yield Ask(ends_only, Value())).squeeze(1)
    members, moving = moving_of(case, units)
    all_members = torch.as_tensor(units.members, device=case.ends.end.device)
    words = method.through_words(settings.options)
    if words is not None:
        _check_words(words, case, settings)
    if len(moving) == 0:
        rest = _nothing(f_start, f_end, units, settings, case.ends.end.shape)
        return replace(rest, path=method.path(case.ends, all_members, settings.options).detail) if words else rest
    route = method.path(case.ends, all_members, settings.options)
    if not route.complete:
        return (yield from _per_unit(route, members, moving, method, settings, f_start, f_end, len(units)))
    limit = bound_of(f_start, f_end, settings.tolerance) if limit is None else limit
    change = f_end - f_start
    goal = Goal(limit, lambda value: _missing(value, change), settings.ceiling)
    if method.rule == "log":
        rows = moving_rows(chosen_rows(settings.options, units.names), moving)
        integral = yield from interactions(route, goal, rows, settings.n_steps, kinked="kinks" in case.meta)
        gap = float(integral.extra["gap"])
    else:
        integral, moving = yield from _choose(
            route, all_members, case.ends, moving, method, settings, goal, change.numel()
        )
        gap = largest(goal.gap(integral.value))
    settled = gap <= limit and largest(integral.error) <= limit
    return Finding(f_start, f_end, integral, moving, limit, settled, gap, path=route.detail)


def _check_words(path: str, case: Case, settings: Settings) -> None:
    """Words are found at the word embeddings, and split-step is a path of its own."""
    if case.sources:
        raise InputError(
            f"path={path!r} starts at the word embeddings, and block=... alone starts at the block's own input, where there "
            "are no words; add layer=0 (from the embeddings to the block's output), or use path='line'"
        )
    if settings.rule == "split":
        raise InputError(
            f"rule='split' has a path of its own (units move one at a time), so it does not go with {path}; use "
            f"{', '.join(ALONG_WORDS)}"
        )


def is_list(output: Tensor) -> bool:
    """T numbers, each explained on its own, and not one vector?"""
    return output.ndim == 2 and output.shape[1] == 1 and len(output) > 1


def bound_of(f_start: Tensor, f_end: Tensor, tolerance: float) -> float:
    """The bound for numbers, or with norms for vectors; for a list of numbers, by their root mean square."""
    if is_list(f_end):
        f_start, f_end = (each / len(f_end) ** 0.5 for each in (f_start, f_end))
    return bound(float(f_end.norm()), float(f_end.norm() - (f_end - f_start).norm()), tolerance)


def _missing(value: Tensor, change: Tensor) -> Tensor:
    """How far the sum is from the output's change: a number, a vector's length, or each number of a list."""
    missing = _total(value, change) - change
    return missing[:, 0].abs() if is_list(change) else missing.norm()


def _total(value: Tensor, change: Tensor) -> Tensor:
    """Σ over units (and, by coordinate, over coordinates)."""
    return value.flatten(0, value.ndim - change.ndim - 1).sum(0)


def _choose(
    route: Route, units: Tensor, ends: Ends, moving: Tensor, method: Method, settings: Settings, goal: Goal, output: int
) -> Generator[Ask, Tensor, tuple[Integral, Tensor]]:
    """The driver for the rule asked for; an integral over all units or over the moving ones, and which."""
    name = settings.rule or method.rule
    every = torch.arange(len(units))
    by_coordinate = bool(settings.options.get("coordinates"))
    if name == "split":
        if by_coordinate:
            raise InputError(
                "rule='split' moves whole units, so it has no score for single coordinates; use rule='gauss'"
            )
        make = lambda cells: staircase(ends, units, cells)  # noqa: E731
        return (yield from splitting(make, len(units), goal, cells=settings.n_steps)), every
    if method.telescopes and not by_coordinate:
        return (yield from differences(route, len(units))), every
    integrand = method.integrand(settings.options)
    moving = torch.arange(units.shape[1]) if by_coordinate else moving
    large = output * len(moving) > LARGE
    return (yield from _integrate(route, integrand, name, settings, goal, large=large)), moving


def _integrate(
    route: Route, integrand: Integrand, name: str, settings: Settings, goal: Goal, *, large: bool = False
) -> Drive:
    if settings.n_steps is not None:
        rule = "gauss" if name == "adaptive" else name
        return (yield from fixed(route, integrand, goal, name=rule, n=settings.n_steps))
    if name == "adaptive":
        if large:  # the nested family keeps many sums of the size of the result; doubling keeps two
            return (yield from doubling(route, integrand, goal, name="gauss"))
        return (yield from adaptive(route, integrand, goal))
    if name == "left" and (count := nodes_per_leg(route)) is not None:  # the sum of the DIG and UDIG papers
        return (yield from fixed(route, integrand, goal, name=name, n=count, per_leg=True))
    return (yield from doubling(route, integrand, goal, name=name))


def _per_unit(
    route: Route,
    members: Tensor,
    moving: Tensor,
    method: Method,
    settings: Settings,
    f_start: Tensor,
    f_end: Tensor,
    count: int,
) -> Generator[Ask, Tensor, Finding]:
    """SIG's full reading: every unit has its own line and its own sum, F(x) − F(x̄^U)."""
    exact = yield from differences(route, count)
    limit = bound_of(f_start, f_end, settings.tolerance)
    if not settings.options.get("coordinates"):
        return Finding(f_start, f_end, exact, torch.arange(count), limit, True, 0.0, torch.zeros(count))
    belongs = members.double().cpu()
    wanted = exact.value[moving.cpu()]

    def gaps(value: Tensor) -> Tensor:
        return (belongs @ value.sum(-1) - wanted).abs()

    legs = len(route.legs)
    goal = Goal(limit, lambda value: gaps(value).max(), settings.ceiling * legs)
    name = settings.rule or method.rule
    per_leg = Settings(settings.tolerance, settings.n_steps and settings.n_steps * legs, name, goal.ceiling)
    integral = yield from _integrate(route, Coordinates(), name, per_leg, goal)
    found = gaps(integral.value)
    settled = float(found.max()) <= limit and float(integral.error.max()) <= limit
    every = torch.zeros(count, dtype=torch.float64)
    every[moving.cpu()] = found
    return Finding(f_start, f_end, integral, torch.arange(members.shape[1]), limit, settled, float(found.max()), every)


def _nothing(f_start: Tensor, f_end: Tensor, units: Units, settings: Settings, shape: tuple[int, ...]) -> Finding:
    """A text equal to its baseline: nothing moved, nothing changed."""
    by_coordinate = bool(settings.options.get("coordinates")) and f_end.ndim == 0
    count = shape[0] if by_coordinate else len(units)
    value = torch.zeros(shape if by_coordinate else (count, *f_end.shape), dtype=torch.float64)
    integral = Integral(value, torch.zeros_like(size(value)), 0)
    limit = bound_of(f_start, f_end, settings.tolerance)
    gap = float((f_end - f_start).norm())
    return Finding(f_start, f_end, integral, torch.arange(count), limit, gap <= limit, gap)
