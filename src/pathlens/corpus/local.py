"""Engines on this machine: in this process, or in worker processes that are replaced when they die."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import pyarrow as pa

from pathlens.corpus.record import Batch, Recipe, Row
from pathlens.corpus.schema import table
from pathlens.errors import InputError, ModelError

Engine = Callable[[Iterable[Batch]], Iterator[tuple[Batch, pa.Table]]]
QUEUED = 2  # batches with each worker: one at work, one waiting, so that no worker waits for the reader
TRIES = 2  # times a batch may take its worker down before it is cut in two; a single row is then given up
LEAVING = (
    10.0  # seconds an idle worker has to end by itself; one that is killed leaves semaphores that Python complains of
)
START = 3  # workers that may die before any has answered: then it is not a row's fault


def explain_rows(explainer: Any, recipe: Recipe, rows: tuple[Row, ...]) -> pa.Table:
    """One batch, packed; a row that fails gives its error in its place."""
    good = [row for row in rows if row.error is None]
    found = iter(explainer.run([(row.text, row.text_b) for row in good], batch_size=max(len(good), 1)))
    return table(rows, [next(found) if row.error is None else None for row in rows], recipe.kept)


def in_process(explainer: Any, recipe: Recipe) -> Engine:
    """One batch after another, here."""

    def engine(batches: Iterable[Batch]) -> Iterator[tuple[Batch, pa.Table]]:
        for batch in batches:
            yield batch, explain_rows(explainer, recipe, batch.rows)

    return engine


def to_bytes(part: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.schema) as stream:
        stream.write_table(part)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def serve(recipe: Recipe, pipe: Connection) -> None:
    """A worker's life: load the model once, then batches until the pipe closes."""
    import torch

    torch.set_num_threads(1)
    explainer = recipe.explainer()
    try:
        while True:
            rows = pipe.recv()
            pipe.send_bytes(to_bytes(explain_rows(explainer, recipe, rows)))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return


@dataclass(eq=False)
class Worker:
    """A process and the batches given to it, oldest first."""

    process: Any
    pipe: Connection
    given: deque[tuple[Batch, int]] = field(default_factory=deque)  # (batch, times it took a worker down)
    answered: int = 0


def in_processes(recipe: Recipe, count: int) -> Engine:
    """`count` workers, each with its own model and one thread. The one that dies is replaced, its batch tried again."""
    if not isinstance(recipe.model, str | os.PathLike):
        raise InputError(
            "workers load the model themselves: give its name or folder, not a model that is loaded already"
        )

    def engine(batches: Iterable[Batch]) -> Iterator[tuple[Batch, pa.Table]]:
        workers = [_start(recipe) for _ in range(count)]
        try:
            yield from _run(recipe, workers, iter(batches))
        finally:
            for worker in workers:
                worker.pipe.close()  # an idle worker hears of it and leaves in good order
            for worker in workers:
                worker.process.join(0 if worker.given else LEAVING)
                worker.process.kill()
                worker.process.join()

    return engine


def _start(recipe: Recipe) -> Worker:
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(recipe, there), daemon=True)
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # read when the child imports torch
    try:
        process.start()
    finally:
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = threads
    there.close()
    return Worker(process, here)


def _run(recipe: Recipe, workers: list[Worker], batches: Iterator[Batch]) -> Iterator[tuple[Batch, pa.Table]]:
    again: deque[tuple[Batch, int]] = deque()  # batches whose worker died
    idle_deaths = 0
    while True:
        for worker in workers:
            while len(worker.given) < QUEUED and (task := _task(again, batches)) is not None:
                worker.given.append(task)
                _send(worker, task[0])
        busy = [worker for worker in workers if worker.given]
        if not busy:
            return
        for worker in [each for each in busy if each.pipe in wait([each.pipe for each in busy])]:
            try:
                part = from_bytes(worker.pipe.recv_bytes())
            except (EOFError, OSError):  # it is dead: killed, out of memory, crashed
                worker.process.join()
                idle_deaths += worker.answered == 0
                if idle_deaths >= START and not any(each.answered for each in workers):
                    raise ModelError(
                        f"{START} workers died before their first answer (exit code {worker.process.exitcode}); try --workers 1, "
                        "which says why, or fewer workers if memory is short"
                    ) from None
                given_up = _take_back(worker, again)
                worker.pipe.close()
                workers[workers.index(worker)] = _start(recipe)
                yield from ((batch, _lost(batch, recipe, worker.process.exitcode)) for batch in given_up)
                continue
            worker.answered += 1
            yield worker.given.popleft()[0], part


def _task(again: deque[tuple[Batch, int]], batches: Iterator[Batch]) -> tuple[Batch, int] | None:
    if again:
        return again.popleft()
    batch = next(batches, None)
    return None if batch is None else (batch, 0)


def _send(worker: Worker, batch: Batch) -> None:
    try:
        worker.pipe.send(batch.rows)
    except OSError:  # it has died meanwhile; its end of the pipe will say so
        return


def _take_back(worker: Worker, again: deque[tuple[Batch, int]]) -> list[Batch]:
    """Batches of a dead worker are tried again; the one at work is the suspect. Gives those that are given up."""
    if not worker.given:
        return []
    (suspect, deaths), *innocent = worker.given
    again.extendleft(reversed(innocent))
    if deaths + 1 < TRIES:
        again.append((suspect, deaths + 1))
        return []
    if len(suspect.rows) == 1:
        return [suspect]
    half = len(suspect.rows) // 2  # find the row that does it
    again.extend((Batch(suspect.shard, rows), deaths) for rows in (suspect.rows[:half], suspect.rows[half:]))
    return []


def _lost(batch: Batch, recipe: Recipe, code: int | None) -> pa.Table:
    error = ModelError(
        f"its worker process died {TRIES} times (exit code {code}); out of memory, or a crash in the model"
    )
    return table(batch.rows, [error] * len(batch.rows), recipe.kept)
