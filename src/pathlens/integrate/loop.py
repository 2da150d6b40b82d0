"""The loop: many texts' questions, packed into batches under a memory budget, answered, summed.

A text's nodes are decided by its own driver, never by the batch it happens to be in; so alone, in a batch,
padded or chunked gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pathlens.integrand import Batch
from pathlens.integrate.drive import Ask
from pathlens.integrate.memory import Limits, Planner, out_of_memory
from pathlens.text.adapter import Case


@dataclass(eq=False)
class Job:
    """One text's driver and what it asks about. `members` (U, S): the units that move."""

    case: Case
    members: Tensor
    work: Generator[Ask, Tensor, Any]
    passes: int = 0
    result: Any = None
    error: Exception | None = None
    ask: Ask | None = field(default=None, repr=False)
    sums: Tensor | None = field(default=None, repr=False)
    missing: int = 0

    def advance(self, sums: Tensor | None) -> None:
        """Give the driver its sums; take its next question, or its result."""
        try:
            self.ask = self.work.send(sums) if sums is not None else next(self.work)
            self.sums, self.missing = None, len(self.ask.points)
        except StopIteration as end:
            self.ask, self.result = None, end.value

    def add(self, rows: range, values: Tensor) -> bool:
        """Sum a few rows' values into the answer; True when the question is answered."""
        weight = torch.from_numpy(self.ask.points.weight[:, rows.start : rows.stop])
        flat = values.double().flatten(1).cpu()
        part = (weight @ flat).reshape(len(weight), *values.shape[1:])
        self.sums = part if self.sums is None else self.sums + part
        self.missing -= len(rows)
        return self.missing == 0


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of one job's question."""

    job: Job
    rows: range


def run(jobs: Sequence[Job], limits: Limits, tick: Callable[[Job], None] | None = None) -> None:
    """Drive all jobs to their end; each job's `result` is what its driver returned.

    A text that fails keeps its error in `job.error` and the others go on.
    """
    planner = Planner(limits)
    waiting = list(jobs)
    for job in waiting:
        _advance(job, None, tick)
    while True:
        open_jobs = [job for job in waiting if job.ask is not None]
        if not open_jobs:
            return
        for group in _groups(open_jobs):
            _answer(group, planner, tick)


def _advance(job: Job, sums: Tensor | None, tick: Callable[[Job], None] | None) -> None:
    try:
        job.advance(sums)
    except Exception as error:  # one bad text must not end the others; the caller decides what to do with it
        job.ask, job.error = None, error
    if job.ask is None and tick is not None:
        tick(job)


def _groups(jobs: list[Job]) -> list[list[Job]]:
    """Questions that may share batches: same integrand, same model and reading; sorted by length."""
    by_key: dict[Any, list[Job]] = {}
    for job in jobs:
        by_key.setdefault((job.case.pack, job.ask.integrand), []).append(job)
    return [sorted(group, key=lambda job: (len(job.case), len(job.members))) for group in by_key.values()]


def _answer(group: list[Job], planner: Planner, tick: Callable[[Job], None] | None) -> None:
    """Answer one question of every job in the group, in as few batches as the budget allows."""
    queue = [Piece(job, range(len(job.ask.points))) for job in group]
    while queue:
        pieces, queue = planner.next_batch(queue)
        try:
            values = _evaluate(pieces, planner.room(pieces))
        except Exception as error:
            if not out_of_memory(error) or not planner.halve(sum(len(piece.rows) for piece in pieces)):
                for job in {id(piece.job): piece.job for piece in pieces}.values():
                    job.ask, job.error = None, error
                    queue = [piece for piece in queue if piece.job is not job]
                    if tick is not None:
                        tick(job)
                continue
            queue = pieces + queue
            continue
        at = 0
        for piece in pieces:
            job, count = piece.job, len(piece.rows)
            units, length = len(job.members), len(job.case)
            own = values[at : at + count]
            at += count
            own = _without_padding(own, job.ask, units, length)
            job.passes += count * _passes(job.ask.integrand, units, own)
            if job.add(piece.rows, own):
                _advance(job, job.sums, tick)


def _passes(integrand: Any, units: int, values: Tensor) -> int:
    """Passes one point took; some integrands know only once they see how large the output is."""
    return (
        integrand.passes_for(units, values) if hasattr(integrand, "passes_for") else integrand.passes(units)
    )


def _without_padding(values: Tensor, ask: Ask, units: int, length: int) -> Tensor:
    """(B, U, …) with the batch's largest U (or, by coordinate, S; by pair, U twice) → this text's own."""
    if getattr(ask.integrand, "by_pair", False):
        return values[:, :units, :units]
    own = length if _by_coordinate(ask) else max(units, 1)  # a text at rest still has its output
    return values[:, : min(values.shape[1], own)]


def _by_coordinate(ask: Ask) -> bool:
    return getattr(ask.integrand, "by_coordinate", False)


def _evaluate(pieces: list[Piece], room: float) -> Tensor:
    """Lay the pieces' points into one padded batch and take the integrand there."""
    cases = [piece.job.case for piece in pieces for _ in piece.rows]
    length = max(len(piece.job.case) for piece in pieces)
    units = max(len(piece.job.members) for piece in pieces)
    like = pieces[0].job.case.ends.end
    count = len(cases)
    position = like.new_zeros((count, length, like.shape[-1]))
    direction = torch.zeros_like(position)
    members = torch.zeros((count, units, length), device=like.device)
    t = torch.zeros(count, dtype=torch.float64, device=like.device)
    row = 0
    for piece in pieces:
        points, own = piece.job.ask.points, len(piece.job.case)
        members[row : row + len(piece.rows), : len(piece.job.members), :own] = piece.job.members.to(members)
        for index in piece.rows:
            left, reached = (points.route.corner(int(i)) for i in points.route.legs[points.leg[index]])
            position[row, :own] = torch.lerp(left, reached, float(points.t[index]))
            direction[row, :own] = reached - left
            t[row] = float(points.t[index])
            row += 1
    integrand = pieces[0].job.ask.integrand
    score = cases[0].score
    return integrand(
        Batch(lambda rows: score(rows, cases[: len(rows)]), position, direction, members, t, room)
    )
