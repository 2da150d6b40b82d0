"""The loop: many texts' questions, packed into batches under a memory budget, answered, summed.

A text's nodes are decided by its own driver, never by the batch it happens to be in; so alone, in a batch,
padded or chunked gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pathlens.errors import NumberError, or_error, setting
from pathlens.integrand import Batch, Value
from pathlens.integrand.batch import Score, out_of_memory
from pathlens.integrand.products import kept_layouts
from pathlens.integrate.drive import Ask
from pathlens.integrate.memory import Limits, Planner
from pathlens.text.adapter import Case


@dataclass(eq=False)
class Job:
    """One text's driver and what it asks about. `members`: the units that move."""

    case: Case
    members: Shaped[Tensor, "U S"]
    work: Generator[Ask, Tensor, Any]
    passes: int = 0
    result: Any = None
    error: Exception | None = None
    ask: Ask | None = field(default=None, repr=False)
    sums: Float[Tensor, "sums U ..."] | None = field(default=None, repr=False)
    output: int = 1  # numbers in one output, once seen
    asked: int = 0  # points its driver has asked for so far, and how many are done
    done: int = 0
    watch: Callable[[int], None] | None = field(default=None, repr=False)  # told after every batch: points more
    over: Callable[[Job], None] | None = field(default=None, repr=False)  # told at its end

    @property
    def question(self) -> Ask:
        """What its driver has asked and is not yet answered."""
        assert self.ask is not None, "a job without a question is over"
        return self.ask

    def advance(self, sums: Float[Tensor, "R ..."] | None) -> None:
        """Give the driver its sums; take its next question, or its result."""
        try:
            self.ask = self.work.send(sums) if sums is not None else next(self.work)
            self.sums = None
            self.asked += len(self.ask.points)
        except StopIteration as end:
            self.end(end.value, None)
        except Exception as error:  # one bad text must not end the others; the caller decides what to do with it
            self.end(None, error)

    def end(self, result: Any, error: Exception | None) -> None:
        self.ask, self.result, self.error = None, result, error
        if self.over is not None:
            self.over(self)

    def add(self, rows: range, values: Float[Tensor, "B U ..."]) -> bool:
        """Sum a few rows' values into the answer; True when the question is answered."""
        weight = torch.from_numpy(self.question.points.weight[:, rows.start : rows.stop])
        part = (weight @ values.double().flatten(1).cpu()).reshape(len(weight), *values.shape[1:])
        self.sums = part if self.sums is None else self.sums.add_(part)
        if isinstance(self.question.integrand, Value):
            self.output = values[0].numel()
        self.done += len(rows)
        if self.watch is not None:
            self.watch(len(rows))
        return self.done == self.asked


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of one job's question."""

    job: Job
    which: range

    def __len__(self) -> int:
        return len(self.which)


def run(jobs: Sequence[Job], limits: Limits) -> None:
    """Drive all jobs to their end; each job's `result` is what its driver returned.

    A text that fails keeps its error in `job.error` and the others go on.
    """
    planner = Planner(limits)
    for job in jobs:
        job.advance(None)
    with kept_layouts(limits.for_weights()):
        while open_jobs := [job for job in jobs if job.ask is not None]:
            for group in _groups(open_jobs):
                _answer([Rows(job, range(len(job.question.points))) for job in group], planner)


def _groups(jobs: list[Job]) -> list[list[Job]]:
    """Questions that may share batches: same integrand, same model and reading; sorted by length."""
    by_key: dict[Any, list[Job]] = {}
    for job in jobs:
        by_key.setdefault((job.case.pack, job.question.integrand), []).append(job)
    return [sorted(group, key=lambda job: (len(job.case), len(job.members))) for group in by_key.values()]


def _answer(queue: list[Rows], planner: Planner) -> None:
    """Answer the questions of a group of jobs, in as few batches as the budget allows."""
    while queue:
        batch, rest = queue[:1], queue[1:]
        try:
            batch, rest = planner.next_batch(queue)
            padded = _share_out(batch, _evaluate(batch, planner))
            for job in padded:
                _answer([rows for rows in (*batch, *rest) if rows.job is job], planner)
            # a job that failed asks no more
            queue = [rows for rows in rest if rows.job.ask is not None and rows.job not in padded]
        except Exception as error:
            jobs = list(dict.fromkeys(rows.job for rows in batch))
            if out_of_memory(error) and planner.halve(sum(map(len, batch))):
                queue = batch + rest
            elif len(jobs) > 1:  # find the one that fails: each text alone
                for job in jobs:
                    _answer([rows for rows in queue if rows.job is job], planner)
                queue = [rows for rows in rest if rows.job not in jobs]
            else:
                jobs[0].end(None, error)
                queue = [rows for rows in rest if rows.job is not jobs[0]]


def _share_out(batch: list[Rows], values: Float[Tensor, "B U ..."]) -> list[Job]:
    """Every row's value into its own text's sums; a text whose answer is complete goes on.

    Gives the padded texts whose values are not finite: padding may do that (a norm of zeros has no derivative), so they are
    asked alone before it counts as theirs.
    """
    at, length, padded = 0, max(len(rows.job.case) for rows in batch), list[Job]()
    for rows in batch:
        job = rows.job
        part = _without_padding(values[at : at + len(rows)], job)
        at += len(rows)
        if not torch.isfinite(part).all():
            if len(job.case) < length:
                padded.append(job)
            else:
                job.end(None, _not_a_number(job, rows.which, part))
            continue
        job.passes += len(rows) * job.question.integrand.passes_for(len(job.members), part)
        if job.add(rows.which, part):
            job.advance(job.sums)
    return padded


def _not_a_number(job: Job, rows: range, values: Float[Tensor, "B ..."]) -> NumberError:
    """Where on the path the model gave NaN or infinity, and what helps; of the text itself, what the model knows of it."""
    check = getattr(job.case.score, "check", None)
    known = None if check is None else or_error(check, job.case)
    if isinstance(known, NumberError):
        return known
    bad = next(i for i in range(len(rows)) if not torch.isfinite(values[i]).all())
    t = float(job.question.points.t[rows.start + bad])
    what = "output" if isinstance(job.question.integrand, Value) else "derivative"
    where = {0.0: "the baseline", 1.0: "the text"}.get(t, f"a point of the path (t = {t:.3f})")
    if len(job.question.points.route.legs) > 1:
        where = "a point of the path"
    dtype = str(job.case.ends.end.dtype).removeprefix("torch.")
    cure = (
        f"{dtype} overflows here: load the model with {setting('dtype=torch.float32')}"
        if dtype in ("float16", "bfloat16")
        else "choose another baseline, so that the path stays where the model is defined"
    )
    return NumberError(f"the model's {what} at {where} is NaN or infinite; {cure}")


def _without_padding(values: Float[Tensor, "B U ..."], job: Job) -> Float[Tensor, "B own ..."]:
    """The batch's largest U (or, by coordinate, S; by pair, U twice) cut to this text's own."""
    integrand, units = job.question.integrand, len(job.members)
    if integrand.by_pair:
        return values[:, :units, :units]
    most = len(job.case) if integrand.by_coordinate else max(units, 1)  # a text at rest still has its output
    return values[:, : min(values.shape[1], integrand.heads + most)]


def _evaluate(batch: list[Rows], planner: Planner) -> Float[Tensor, "B U ..."]:
    """Lay the rows' points into one padded batch and take the integrand there."""
    room, lean = planner.room(batch)
    cases = [rows.job.case for rows in batch for _ in rows.which]
    length = max(len(rows.job.case) for rows in batch)
    units = max(len(rows.job.members) for rows in batch)
    like = batch[0].job.case.ends.end
    position = like.new_zeros((len(cases), length, like.shape[-1]))
    direction, start = torch.zeros_like(position), torch.zeros_like(position)
    members = torch.zeros((len(cases), units, length), device=like.device)
    t = torch.zeros(len(cases), dtype=torch.float64, device=like.device)
    row = 0
    for rows in batch:
        points, tokens = rows.job.question.points, len(rows.job.case)
        members[row : row + len(rows), : len(rows.job.members), :tokens] = rows.job.members.to(members)
        for index in rows.which:
            left, reached = (points.route.corner(int(i)) for i in points.route.legs[points.leg[index]])
            position[row, :tokens] = torch.lerp(left, reached, float(points.t[index]))
            direction[row, :tokens], start[row, :tokens] = reached - left, left
            t[row] = float(points.t[index])
            row += 1

    def of(score: Callable[[Tensor, Sequence[Case]], Tensor]) -> Score:
        return lambda points: score(points, cases[: len(points)])

    lean_score = None if lean is None else of(lean)
    laid_out = Batch(of(cases[0].score), position, direction, members, t, room, lean_score, start)
    return _fitting(position, members, batch[0].job.question.integrand(laid_out))


def _fitting(
    position: Float[Tensor, "B S d"], members: Float[Tensor, "B U S"], value: Float[Tensor, "B rows ..."]
) -> Float[Tensor, "B rows ..."]:
    """The value, with a row for every point: while tests run, shapes are held against the batch's own here."""
    return value
