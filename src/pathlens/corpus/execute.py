"""The verb: a source → shards in a folder, in this process, by worker processes or on a cluster.

Killed at any moment, the same call goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from pathlens.corpus import folder as place
from pathlens.corpus.formats import DataRow, Source
from pathlens.corpus.job import PreparedRun, Recipe, prepare
from pathlens.corpus.options import RunOptions, Share
from pathlens.corpus.reading import RowBatch, digest, groups
from pathlens.corpus.schema import ExplainedBatch, Failure, Tally, tally
from pathlens.corpus.shard import read_facts, read_rows, shard_path, write_shard
from pathlens.engine.explainer import Explainer
from pathlens.engine.progress import Progress
from pathlens.engine.typed import StudyOptions
from pathlens.errors import InputError, ModelError, PathlensError
from pathlens.files import remove_left_behind

QUEUED = 2  # batches with each worker: one at work, one waiting, so that no worker waits for the reader
TRIES = 2  # times a batch may take its worker down before it is cut in two; a single row is then given up
START = 3  # times workers may die before any has answered: then it is not a row's fault

Engine = Callable[[Iterable[RowBatch]], Iterator[tuple[RowBatch, ExplainedBatch]]]
Suspect = tuple[RowBatch, int]  # a batch, and how often a worker died over it


@dataclass(frozen=True)
class Outcome:
    """What a run did. `tally` counts the rows of this share; `reused` of them were there already."""

    folder: Path
    tally: Tally
    reused: int
    seconds: float
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """What a person wants to know at the end."""
        made, counts = self.tally.rows - self.reused, self.tally
        rate = f", {made / self.seconds:.1f} texts/s" if made and self.seconds > 0 else ""
        before = f" ({self.reused} were there already)" if self.reused else ""
        lines = [
            f"{counts.rows} rows in {str(self.folder)!r}{before}: {counts.rows - counts.failed} explained, "
            f"{counts.unconverged} of them not settled; {counts.failed} failed{rate}"
        ]
        if counts.failed:
            bad = next(row for row in read_rows(self.folder, ["row", "error"]) if row["error"])
            lines.append(
                f"the first that failed is row {bad['row']}: {bad['error']} (all: pathlens summary {self.folder})"
            )
        return lines


def run(
    model: Any,
    source: Source | str | Path,
    out: str | Path,
    *,
    limit: int | None = RunOptions.limit,
    shard: Share = RunOptions.shard,
    overwrite: bool = RunOptions.overwrite,
    engine: str = RunOptions.engine,
    workers: int = RunOptions.workers,
    address: str | None = RunOptions.address,
    gpus: float = RunOptions.gpus,
    batch_size: int = RunOptions.batch_size,
    rows_per_shard: int = RunOptions.rows_per_shard,
    show_progress: bool = False,
    tell: Callable[[Tally], None] = lambda counts: None,
    **choices: Unpack[StudyOptions],
) -> Outcome:
    """Explain every row of a source; Parquet shards and a manifest in `out`.

    source: a file, a folder or a hub id, or a `Source` that says how to read it (columns, separator, encoding).
    limit: the first so many rows (a later run may raise it and go on). shard: (i, n), every n-th shard from the i-th.
    engine: "local" (workers=1: this process) or "ray" (address of a cluster; None starts one here; gpus per worker).
    tell: called with the counts so far after every batch. choices: method, target, baseline, … as in `pl.explain`.
    A row that cannot be explained is written with its error. The same call goes on after a kill; another model, other
    arguments or changed data in the same folder are refused.
    """
    options = RunOptions(
        limit=limit, shard=shard, overwrite=overwrite, engine=engine, workers=workers, address=address, gpus=gpus,
        batch_size=batch_size, rows_per_shard=rows_per_shard,
    )  # fmt: skip
    job = prepare(model, source, out, options, {**choices})
    with _engine(job) as chosen:  # a cluster is reached before anything is touched
        place.make_writable(job.folder)
        started = time.perf_counter()
        with place.locked(job.folder, shard), Progress(job.total(), show_progress) as bar:
            place.admitted(job.folder, job.manifest, overwrite, shard)
            place.remove(job.folder, job.mine, shards_too=False)
            if shard[1] == 1:
                remove_left_behind(job.folder, place.MANIFEST)

            def count(counts: Tally, more: int, *, skipped: bool = False) -> None:
                bar.advance(more, f"{counts.unconverged} not settled, {counts.failed} failed", skipped=skipped)
                tell(counts)

            writer = _Writer(job, count)
            for batch, part in chosen(writer.todo()):
                writer.add(batch, part)
            notes = writer.begin()
    return Outcome(job.folder, writer.tally, writer.reused, time.perf_counter() - started, tuple(notes))


@contextmanager
def _engine(job: PreparedRun) -> Iterator[Engine]:
    chosen = job.options
    if chosen.engine == "ray":
        from pathlens.corpus.cluster import on_ray

        with on_ray(job, chosen.workers, chosen.address, chosen.gpus) as engine:
            yield engine
    elif chosen.workers == 1:
        yield lambda batches: ((batch, job.recipe.explain(job.explainer, batch.rows)) for batch in batches)
    else:
        yield _in_processes(job.recipe, chosen.workers)


def _in_processes(recipe: Recipe, count: int) -> Engine:
    """`count` workers, each with its own model and one thread.

    When one dies, all begin anew, and the batches that were at work are tried one at a time: so the next death has one
    cause. A batch over which workers died twice is halved until the row that does it is alone; that row gets an error.
    """
    recipe.check_loadable("workers")
    packed = pickle.dumps(recipe)

    def engine(batches: Iterable[RowBatch]) -> Iterator[tuple[RowBatch, ExplainedBatch]]:
        rest = ((batch, 0) for batch in batches)
        suspects: deque[Suspect] = deque()
        deaths, answered = 0, False
        while True:
            at_work: dict[Future[ExplainedBatch], Suspect] = {}
            try:
                with _pool(count) as pool:
                    while True:
                        room = 1 if suspects else QUEUED * count
                        while len(at_work) < room and (task := suspects.popleft() if suspects else next(rest, None)):
                            try:
                                at_work[pool.submit(_explain, packed, task[0].rows)] = task
                            except BrokenProcessPool:
                                suspects.appendleft(task)
                                raise
                        if not at_work:
                            return
                        for done in wait(at_work, return_when=FIRST_COMPLETED).done:
                            part, answered = done.result(), True
                            yield at_work.pop(done)[0], part
            except BrokenProcessPool:
                deaths += 1
                if deaths >= START and not answered:
                    raise ModelError(
                        f"workers died {START} times before their first answer; try --workers 1, which says why, or fewer "
                        "workers if memory is short"
                    ) from None
            again, given_up = _suspects(list(at_work.values()))
            suspects.extendleft(reversed(again))
            for batch in given_up:
                error = ModelError(f"its worker process died {TRIES} times; out of memory, or a crash in the model")
                yield batch, ExplainedBatch.of(batch.rows, [error] * len(batch.rows), recipe.kept)

    return engine


def _suspects(at_work: list[Suspect]) -> tuple[list[Suspect], list[RowBatch]]:
    """What is to be tried again after a worker died, and what is given up."""
    if len(at_work) != 1 or at_work[0][1] + 1 < TRIES:
        return [(batch, deaths + 1) for batch, deaths in at_work], []
    ((batch, deaths),) = at_work
    if len(batch.rows) == 1:
        return [], [batch]
    half = len(batch.rows) // 2
    return [(RowBatch(batch.shard, some), deaths) for some in (batch.rows[:half], batch.rows[half:])], []


@contextmanager
def _pool(count: int) -> Iterator[ProcessPoolExecutor]:
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # read when a worker imports torch
    spawn = multiprocessing.get_context("spawn")  # a forked torch may hang
    pool = ProcessPoolExecutor(count, mp_context=spawn, initializer=_begin_worker)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = threads


def _begin_worker() -> None:
    """A worker leaves Ctrl-C to the process that started it, and ends with that process, even when it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@lru_cache(maxsize=1)
def _explainer(packed: bytes) -> tuple[Recipe, Explainer]:
    """A worker's model, loaded with its first batch."""
    import torch

    torch.set_num_threads(1)
    recipe: Recipe = pickle.loads(packed)
    return recipe, recipe.explainer()


def _explain(packed: bytes, rows: tuple[DataRow, ...]) -> ExplainedBatch:
    recipe, explainer = _explainer(packed)
    return recipe.explain(explainer, rows)


def _refuse_breakage(job: PreparedRun, failures: tuple[Failure | None, ...]) -> None:
    """When the very first batch fails in one way that is no fault of its texts, every other would too: stop now."""
    failure = failures[0]
    if failure is None or len(set(failures)) > 1:
        return
    if failure.ours:
        two = job.source.text_b is not None
        plain = job.explainer.run([("a word", "a word" if two else None)])[0]
        if isinstance(plain, PathlensError) and Failure.of(plain) == failure:  # an argument is wrong
            raise plain
    elif len(failures) > 1:
        raise ModelError(f"every text of the first batch fails alike, so nothing was written: {failure.words}")


@dataclass(eq=False)
class _Writer:
    """Gathers batches, in any order, into shards; a shard is written when its last row has come.

    The folder is settled when the first batch is there: until then nothing has been written and nothing deleted.
    """

    job: PreparedRun
    count: Callable[..., None]  # (counts so far, rows more, skipped=)
    notes: list[str] | None = None
    tally: Tally = field(default_factory=Tally)
    reused: int = 0
    open: dict[int, tuple[int, str, list[pa.Table]]] = field(default_factory=dict)  # shard -> rows, digest, parts

    def begin(self) -> list[str]:
        """Notes for the user; the first call settles the folder."""
        if self.notes is None:
            self.notes = place.settle(
                self.job.folder, self.job.manifest, self.job.options.overwrite, self.job.options.shard
            )
        return self.notes

    def todo(self) -> Iterator[RowBatch]:
        """Batches of the shards that are not there yet; read only as the engine asks for them."""
        for shard, group in enumerate(groups(self.job.rows(), self.job.options.rows_per_shard)):
            if self.job.mine(shard) and not self._kept(shard, group):
                self.open[shard] = (len(group), digest(group), [])
                yield from (RowBatch(shard, some) for some in groups(group, self.job.options.batch_size))

    def _kept(self, shard: int, group: tuple[DataRow, ...]) -> bool:
        """Is a whole shard of these very rows there? Changed rows are refused, a half-written file is done again."""
        path = shard_path(self.job.folder, shard)
        facts = None if self.job.options.overwrite else read_facts(path)
        if facts is None:
            return False
        fits = facts.start == group[0].number and facts.rows <= len(group)
        if not fits or facts.digest != digest(group[: facts.rows]):
            raise InputError(
                f"rows {group[0].number} to {group[-1].number} of the data are not those that {path.name} was made from: the "
                "data has changed; choose another folder, or --overwrite"
            )
        if facts.rows < len(group):  # the data has grown, or --limit
            return False
        self.reused += facts.rows
        self.tally += facts.tally
        self.count(self.tally, facts.rows, skipped=True)
        return True

    def add(self, batch: RowBatch, explained: ExplainedBatch) -> None:
        if self.tally.rows == self.reused:
            _refuse_breakage(self.job, explained.failures)
        part = explained.table
        self.begin()
        rows_wanted, mark, parts = self.open[batch.shard]
        parts.append(part)
        self.tally += tally(part)
        self.count(self.tally, len(part))
        if sum(map(len, parts)) == rows_wanted:
            del self.open[batch.shard]
            whole = pa.concat_tables(sorted(parts, key=lambda each: each.column("row")[0].as_py()))
            write_shard(self.job.folder, batch.shard, whole.combine_chunks(), mark, place.making(self.job.manifest))
