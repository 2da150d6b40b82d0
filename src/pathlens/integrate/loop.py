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

from pathlens.errors import NumberError
from pathlens.integrand import Batch, Value
from pathlens.integrand.batch import out_of_memory
from pathlens.integrand.products import kept_layouts
from pathlens.integrate.drive import Ask
from pathlens.integrate.memory import Limits, Planner
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
    output: int = 1  # numbers in one output, once seen
    asked: int = 0  # points its driver has asked for so far, and how many are done
    done: int = 0
    watch: Callable[[Job], None] | None = field(default=None, repr=False)  # told after every batch

    def value_bytes(self) -> int:
        """What one row's value takes: for every unit, a change of the whole output."""
        return 4 * self.output * max(1, len(self.members))

    def advance(self, sums: Tensor | None) -> None:
        """Give the driver its sums; take its next question, or its result."""
        try:
            self.ask = self.work.send(sums) if sums is not None else next(self.work)
            self.sums, self.missing = None, len(self.ask.points)
            self.asked += self.missing
        except StopIteration as end:
            self.ask, self.result = None, end.value

    def add(self, rows: range, values: Tensor) -> bool:
        """Sum a few rows' values into the answer; True when the question is answered."""
        weight = torch.from_numpy(self.ask.points.weight[:, rows.start : rows.stop])
        flat = values.double().flatten(1).cpu()
        part = (weight @ flat).reshape(len(weight), *values.shape[1:])
        self.sums = part if self.sums is None else self.sums.add_(part)
        if isinstance(self.ask.integrand, Value):
            self.output = values[0].numel()
        self.missing -= len(rows)
        self.done += len(rows)
        if self.watch is not None:
            self.watch(self)
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
    with kept_layouts():
        while open_jobs := [job for job in waiting if job.ask is not None]:
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
        pieces, rest = [queue[0]], queue[1:]
        try:
            pieces, rest = planner.next_batch(queue)
            values = _evaluate(pieces, planner)
            _share_out(pieces, values, tick)
            queue = rest
        except Exception as error:
            owners = list({id(piece.job): piece.job for piece in pieces}.values())
            if out_of_memory(error) and planner.halve(sum(len(piece.rows) for piece in pieces)):
                queue = pieces + rest
            elif len(owners) > 1:  # find the one that fails: each text alone
                for job in owners:
                    _answer_rest(job, [piece for piece in queue if piece.job is job], planner, tick)
                queue = [piece for piece in rest if all(piece.job is not job for job in owners)]
            else:
                _fail(owners[0], error, tick)
                queue = [piece for piece in rest if piece.job is not owners[0]]


def _answer_rest(job: Job, pieces: list[Piece], planner: Planner, tick: Callable[[Job], None] | None) -> None:
    """What is left of one text's question, in batches of its own."""
    while pieces and job.ask is not None:
        batch, rest = [pieces[0]], pieces[1:]
        try:
            batch, rest = planner.next_batch(pieces)
            _share_out(batch, _evaluate(batch, planner), tick)
            pieces = rest
        except Exception as error:
            if out_of_memory(error) and planner.halve(sum(len(piece.rows) for piece in batch)):
                pieces = batch + rest
            else:
                _fail(job, error, tick)


def _fail(job: Job, error: Exception, tick: Callable[[Job], None] | None) -> None:
    job.ask, job.error = None, error
    if tick is not None:
        tick(job)


def _share_out(pieces: list[Piece], values: Tensor, tick: Callable[[Job], None] | None) -> None:
    """Every piece's rows into its own text's sums; a text whose answer is complete goes on."""
    at = 0
    for piece in pieces:
        job, count = piece.job, len(piece.rows)
        own = _without_padding(values[at : at + count], job.ask, len(job.members), len(job.case))
        at += count
        if not torch.isfinite(own).all():
            _fail(job, _not_a_number(job, piece.rows, own), tick)
            continue
        job.passes += count * _passes(job.ask.integrand, len(job.members), own)
        if job.add(piece.rows, own):
            _advance(job, job.sums, tick)


def _not_a_number(job: Job, rows: range, values: Tensor) -> NumberError:
    """Where on the path the model gave NaN or infinity, and what helps."""
    bad = next(i for i in range(len(rows)) if not torch.isfinite(values[i]).all())
    t = float(job.ask.points.t[rows.start + bad])
    what = "output" if isinstance(job.ask.integrand, Value) else "derivative"
    where = {0.0: "the baseline", 1.0: "the text"}.get(t, f"a point of the path (t = {t:.3f})")
    if len(job.ask.points.route.legs) > 1:
        where = "a point of the path"
    dtype = str(job.case.ends.end.dtype).removeprefix("torch.")
    cure = (
        f"{dtype} overflows here: load the model with dtype=torch.float32"
        if dtype in ("float16", "bfloat16")
        else "choose another baseline, so that the path stays where the model is defined"
    )
    return NumberError(f"the model's {what} at {where} is NaN or infinite; {cure}")


def _passes(integrand: Any, units: int, values: Tensor) -> int:
    """Passes one point took; some integrands know only once they see how large the output is."""
    return integrand.passes_for(units, values) if hasattr(integrand, "passes_for") else integrand.passes(units)


def _without_padding(values: Tensor, ask: Ask, units: int, length: int) -> Tensor:
    """(B, U, …) with the batch's largest U (or, by coordinate, S; by pair, U twice) → this text's own."""
    if getattr(ask.integrand, "by_pair", False):
        return values[:, :units, :units]
    own = length if _by_coordinate(ask) else max(units, 1)  # a text at rest still has its output
    return values[:, : min(values.shape[1], own)]


def _by_coordinate(ask: Ask) -> bool:
    return getattr(ask.integrand, "by_coordinate", False)


def _evaluate(pieces: list[Piece], planner: Planner) -> Tensor:
    """Lay the pieces' points into one padded batch and take the integrand there."""
    room, lean = planner.room(pieces), planner.lean(pieces)
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

    def of(score: Callable[[Tensor, Sequence[Case]], Tensor] | None) -> Callable[[Tensor], Tensor] | None:
        return None if score is None else lambda rows: score(rows, cases[: len(rows)])

    return integrand(Batch(of(cases[0].score), position, direction, members, t, room, of(lean)))
