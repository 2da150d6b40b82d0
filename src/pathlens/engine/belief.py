"""The check of belief: of texts that are solved, the strongest units at the baseline together, one forward pass each."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pathlens.engine.assemble import interaction_matrix, side_of
from pathlens.engine.options import SIG, Compared
from pathlens.engine.prepare import Prepared
from pathlens.engine.solve import Solution, moving_of
from pathlens.errors import or_error
from pathlens.explanation.check import Belief, few_of
from pathlens.explanation.record import Interactions
from pathlens.integrand import Value
from pathlens.integrate.drive import Ask
from pathlens.integrate.loop import Job, run
from pathlens.integrate.memory import Limits
from pathlens.path.line import line
from pathlens.types import Points, Route

ALONE = "too few units move: to put them all to the baseline is what the sum is about"
BY_DEFINITION = "one unit at the baseline is what its score is defined by"
SOME_ROWS = "only some of the interactions were asked for"
DEAR = "it would cost as much as the explanation"
ALIKE = 1e-3  # of the largest: closer scores are equally strong, and the earlier unit comes first, whatever was rounded


@dataclass(frozen=True, eq=False)
class Prediction:
    """What is put to the baseline in each case, and what the scores predict of it."""

    chosen: tuple[Bool[np.ndarray, "_"], ...]  # of every case, that of another text too: the units
    names: tuple[str, ...]
    predicted: Float[np.ndarray, "*out"]
    weight: float


Solved = tuple[Solution, ...] | Exception


def check(prepared: Sequence[Prepared], solved: Sequence[Solved], limits: Limits) -> list[Belief | None]:
    """Of every text that was solved; None of one that was not. All texts share their batches."""
    asked = [
        None if isinstance(each, Exception) else _question(text, each)
        for text, each in zip(prepared, solved, strict=True)
    ]
    jobs = [
        [
            Job(one.case, moving_of(one.case, one.units)[0], _look(one, chosen))
            for one, chosen in zip(each, question.chosen, strict=True)
        ]
        if isinstance(question, Prediction) and not isinstance(each, Exception)
        else []
        for question, each in zip(asked, solved, strict=True)
    ]
    run([job for of_text in jobs for job in of_text], limits)
    answers: list[Belief | None] = []
    for text, each, question, of_text in zip(prepared, solved, asked, jobs, strict=True):
        verdict = question if isinstance(question, Belief) else None
        if isinstance(question, Prediction) and not isinstance(each, Exception):
            checked = or_error(_checked, text, each, question, of_text)
            reason = f"{type(checked).__name__}: {checked}"
            verdict = Belief(reason=reason) if isinstance(checked, Exception) else checked
        answers.append(verdict)
    return answers


def _question(text: Prepared, solutions: tuple[Solution, ...]) -> Prediction | Belief:
    """Which units, and what the scores say of them together; or why nothing is asked."""
    if len(solutions) >= sum(solution.passes for solution in solutions):
        return Belief(reason=DEAR)
    if text.entry.sides == 2:
        return _of_pair(text, solutions)
    if text.entry.result is Interactions:
        if text.rows is not None:
            return Belief(reason=SOME_ROWS)
        return _of_interactions(solutions)
    return _of_units(text, solutions)


def _strongest(sizes: Float[np.ndarray, "U"], moving: Bool[np.ndarray, "U"]) -> list[int]:
    """The few units with the largest size among those that move, strongest first, the earlier of equals."""
    step = ALIKE * float(sizes.max(initial=0.0)) or 1.0
    order = np.argsort(-np.round(np.where(moving, sizes, -1.0) / step), kind="stable")
    return [int(u) for u in order[: few_of(int(moving.sum()))]]


def _moves(solution: Solution) -> Bool[np.ndarray, "U"]:
    flags = np.zeros(len(solution.units), dtype=bool)
    flags[moving_of(solution.case, solution.units)[1].cpu().numpy()] = True
    return flags


def _flags(units: Sequence[int], count: int) -> Bool[np.ndarray, "U"]:
    return np.isin(np.arange(count), units)


def _of_units(text: Prepared, solutions: tuple[Solution, ...]) -> Prediction | Belief:
    """Σ of the units' scores (of several outputs, of all; of several baselines, the mean) with the sign turned."""
    values = []
    for solution in solutions:
        value = solution.spread()
        value = value.sum(1) if solution.by_coordinate else value
        values.append((value if solution.vector else value.reshape(len(value), -1).sum(1, keepdim=True)).numpy())
    value = np.mean(values, axis=0).reshape(len(values[0]), -1)
    sizes = np.linalg.norm(value, axis=1)
    units = _strongest(sizes, _moves(solutions[0]))
    if not units:
        return Belief(reason=ALONE)
    if isinstance(text.method, SIG) and text.method.context == "full" and len(units) == 1:
        return Belief(reason=BY_DEFINITION)
    names = tuple(solutions[0].units.names[u] for u in units)
    chosen = (_flags(units, len(value)),) * len(solutions)
    return Prediction(chosen, names, -value[units].sum(0), float(sizes[units].sum()))


def _of_interactions(solutions: tuple[Solution, ...]) -> Prediction | Belief:
    """A unit that goes takes its row and its column along."""
    matrix = np.mean([interaction_matrix(solution, None) for solution in solutions], axis=0)
    sizes = np.abs(matrix.sum(1))
    units = _strongest(sizes, _moves(solutions[0]))
    if not units:
        return Belief(reason=ALONE)
    gone = _flags(units, len(matrix))
    lost = matrix.sum() - matrix[np.ix_(~gone, ~gone)].sum()
    names = tuple(solutions[0].units.names[u] for u in units)
    return Prediction((gone,) * len(solutions), names, np.array([-lost]), float(sizes[units].sum()))


def _of_pair(text: Prepared, solutions: tuple[Solution, ...]) -> Prediction | Belief:
    """The strongest units of both texts; each takes its row, or its column, of the matrix along."""
    a, b = map(side_of, solutions)
    assert isinstance(text.method, Compared)
    full = a.rows @ b.rows.T / text.method.measure().scale(a.embedding, b.embedding)
    sizes = np.abs(np.concatenate([full[1:].sum(1), full[:, 1:].sum(0)]))
    units = _strongest(sizes, np.concatenate([_moves(each) for each in solutions]))
    if not units:
        return Belief(reason=ALONE)
    gone = _flags(units, len(sizes))
    gone_a, gone_b = gone[: len(a.tokens)], gone[len(a.tokens) :]
    stay = np.ix_(np.append(True, ~gone_a), np.append(True, ~gone_b))
    names = tuple((*a.tokens, *b.tokens)[u] for u in units)
    return Prediction((gone_a, gone_b), names, np.array([full[stay].sum() - full.sum()]), float(sizes[units].sum()))


def _look(solution: Solution, chosen: Bool[np.ndarray, "U"]) -> Generator[Ask, Tensor, Tensor]:
    """The output where the chosen units are at the baseline and all else is the text."""
    ends = solution.case.ends
    gone = torch.as_tensor(solution.units.members[chosen].any(axis=0), device=ends.end.device)
    masked = torch.where(gone[:, None] & ~ends.held[:, None], ends.start, ends.end)
    both = line(ends)
    route = Route(2, lambda index: masked if index == 0 else ends.end, both.legs, both.owner, both.length)
    sums = yield Ask(Points(route, np.zeros(1, dtype=int), np.zeros(1), np.ones((1, 1))), Value())
    return sums[0, 0]


def _checked(text: Prepared, solutions: tuple[Solution, ...], question: Prediction, jobs: Sequence[Job]) -> Belief:
    for job in jobs:
        if job.error is not None:
            raise job.error
    passes = sum(job.passes for job in jobs)
    asked: dict[str, Any] = {"weight": question.weight, "bound": solutions[0].bound, "passes": passes}
    if text.entry.sides == 2:
        assert isinstance(text.method, Compared)
        measure = text.method.measure()
        masked = [job.result[0].double().cpu().numpy() for job in jobs]
        ends = [solution.f_end[0].double().cpu().numpy() for solution in solutions]
        before, after = (float(one @ other) / measure.scale(one, other) for one, other in (ends, masked))
        bound = measure.limit(before, measure.reach(*ends))
        return Belief.judge(question.names, float(question.predicted[0]), after - before, **{**asked, "bound": bound})
    changes = [(job.result - solution.f_end).double().cpu() for job, solution in zip(jobs, solutions, strict=True)]
    change = torch.stack(changes).mean(0).numpy()
    if not solutions[0].vector:
        return Belief.judge(question.names, float(question.predicted[0]), float(change.sum()), **asked)
    lengths = (float(np.linalg.norm(each)) for each in (question.predicted, change))
    off = float(np.linalg.norm(question.predicted - change.ravel()))
    return Belief.judge(question.names, *lengths, **asked, difference=off)
