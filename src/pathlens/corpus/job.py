"""Before a run: everything that can be refused is, and a plan says what it will take.

For a plan a few rows from all over the data are really explained; the rest is multiplication, with how far it may be off.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pathlens.checks import taken
from pathlens.corpus import folder as place
from pathlens.corpus.formats import DataRow, Source
from pathlens.corpus.options import RunOptions
from pathlens.corpus.reading import Census, census, files, groups, rows
from pathlens.corpus.schema import VERSION, ExplainedBatch, Tally, tally
from pathlens.corpus.shard import read_facts, shard_path
from pathlens.engine.explainer import Explainer
from pathlens.engine.options import Method
from pathlens.errors import InputError, PathlensError
from pathlens.text.fingerprint import whole_fingerprint

LOOK = 8  # readable rows tried before the arguments are blamed
TRIED = 24  # rows explained for a plan at most
SECONDS = 20.0  # after which it explains no more
COMPRESSION = 3  # a shard's size in memory over its size on disk, about: zstd on tokens, offsets and scores


@dataclass(frozen=True)
class Recipe:
    """How a row is explained: everything a worker needs to begin."""

    model: Any  # a name or folder where workers are to load it; else anything `pl.explain` takes
    choices: Mapping[str, Any] = field(default_factory=dict)
    kept: tuple[str, ...] = ()  # names of the columns carried along

    def explainer(self) -> Explainer:
        return Explainer(self.model, **self.choices)

    def explain(self, explainer: Explainer, batch: tuple[DataRow, ...]) -> ExplainedBatch:
        """One batch, packed; a row that fails gives its error in its place."""
        good = [row for row in batch if row.error is None]
        results = iter(explainer.run([(row.text, row.text_b) for row in good], batch_size=max(len(good), 1)))
        return ExplainedBatch.of(batch, [next(results) if row.error is None else None for row in batch], self.kept)

    def check_loadable(self, who: str) -> None:
        if not isinstance(self.model, str | os.PathLike):
            raise InputError(
                f"{who} load the model themselves: give its name or folder, not a model that is loaded already"
            )


@dataclass(frozen=True)
class PreparedRun:
    """A run, ready to start: everything that can be refused has been."""

    recipe: Recipe
    source: Source
    census: Census
    explainer: Explainer
    folder: Path
    options: RunOptions
    manifest: Mapping[str, Any] = field(default_factory=dict)

    def mine(self, shard: int) -> bool:
        return shard % self.options.shard[1] == self.options.shard[0]

    def rows(self) -> Iterator[DataRow]:
        return rows(self.source, self.census.kept, self.census.rows)

    def shards(self) -> Iterator[tuple[int, int]]:
        """(number, rows) of every shard of this share."""
        for shard, start in enumerate(range(0, self.census.rows, self.options.rows_per_shard)):
            if self.mine(shard):
                yield shard, min(self.options.rows_per_shard, self.census.rows - start)

    def total(self) -> int:
        """Rows of this share."""
        return sum(count for _, count in self.shards())


def prepare(
    model: Any, source: Source | str | Path, out: str | Path, options: RunOptions, choices: dict[str, Any]
) -> PreparedRun:
    """Everything checked before anything is written: data, model, arguments."""
    source = source if isinstance(source, Source) else Source(os.fspath(source))
    if Path(out).exists() and not Path(out).is_dir():
        raise InputError(f"{str(out)!r} is a file; --out takes a folder")
    where = Path(out).resolve()
    if any(file.resolve().parent == where for file in files(source) or ()):
        raise InputError(f"the data itself is in {str(out)!r}; --out takes another folder")
    counted = census(source, options.limit)
    if isinstance(method := choices.get("method"), Method):  # by name: choices go to other processes, and into a file
        choices = {**choices, **method.given(), "method": method.name}
    recipe = Recipe(model, _chosen(choices), counted.kept)
    explainer = recipe.explainer().of_one_target("a run")
    method = explainer.method_for(None if source.text_b is None else "")
    recipe = replace(recipe, choices={**recipe.choices, "method": method.name})
    job = PreparedRun(recipe, source, counted, explainer, Path(out), options)
    _check_arguments(job)
    return replace(job, manifest=_manifest(job))


def _chosen(choices: dict[str, Any]) -> dict[str, Any]:
    """Without what is so anyway: a default that is spelled out is no other run."""
    usual = {name: each.default for name, each in inspect.signature(Explainer.__init__).parameters.items()}
    return {name: value for name, value in choices.items() if value is not None and np.any(usual.get(name) != value)}


def _check_arguments(job: PreparedRun) -> None:
    """A wrong argument is one error now, not one in every row: the first rows and a plain text all fail alike."""
    explainer, two = job.explainer, job.source.text_b is not None
    try:
        explainer.prepare("a word", "a word" if two else None)
    except PathlensError:
        some = islice((row for row in job.rows() if row.error is None), LOOK)
        if all(_unreadable(explainer, row) for row in some):
            raise


def _unreadable(explainer: Explainer, row: DataRow) -> bool:
    try:
        explainer.prepare(row.text, row.text_b)
    except Exception:  # what it is will be said of the row
        return True
    return False


def _manifest(job: PreparedRun) -> dict[str, Any]:
    """What the run is, in plain values only."""
    model, reading = job.recipe.model, asdict(job.source)
    return {
        "corpus": VERSION,
        "model": str(model) if isinstance(model, str | os.PathLike) else type(model).__name__,
        "fingerprint": whole_fingerprint(job.explainer.model),
        "choices": _plain(job.recipe.choices),
        "source": _plain({name: value for name, value in reading.items() if name != "data"}),
        "kept": list(job.recipe.kept),
        "rows_per_shard": job.options.rows_per_shard,
        "data": job.source.data,
        "rows": job.census.rows,
        "limit": job.options.limit,
        "versions": {**job.explainer.describe()["versions"], "numpy": np.__version__},
    }


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives it back."""
    given = {name: value for name, value in values.items() if value is not None}
    plain: dict[str, Any] = json.loads(json.dumps(given, default=str, sort_keys=True))
    return plain


@dataclass(frozen=True)
class Plan:
    """What a run will take. `spread`: relative standard error of passes and time from the few rows that were tried."""

    rows: int  # texts of this share
    bad: int  # rows that are no text, in all the data
    done: int  # rows of this share that are there already; what follows is for the others
    tokens: float
    passes: float
    seconds: float
    spread: float
    memory: int  # bytes at the peak, all workers together
    disk: int  # bytes
    free: int  # bytes left on the disk
    workers: int
    tried: Tally  # the rows that were explained for it

    def lines(self) -> list[str]:
        about = f"± {100 * self.spread:.0f} %" if math.isfinite(self.spread) else "from one row"
        left = f"{self.rows} texts" + (f", {self.done} of them done already" if self.done else "")
        lines = [
            f"texts    {left}" + (f" ({self.bad} rows are no text)" if self.bad else ""),
            f"tokens   about {_count(self.tokens)}",
            f"passes   about {_count(self.passes)} ({about})",
            f"time     about {_duration(self.seconds)} with {self.workers} worker{'s' if self.workers > 1 else ''} ({about})",
            f"memory   about {self.memory / 2**20:.0f} MiB at the peak",
            f"disk     about {self.disk / 2**20:.1f} MiB, {self.free / 2**30:.1f} GiB free",
            f"tried    {self.tried.rows} texts explained: {self.tried.unconverged} not settled, {self.tried.failed} failed",
        ]
        return [*lines, "the disk will be full before the end"] if self.disk > self.free else lines


def plan(model: Any, source: Source | str | Path, out: str | Path, **choices: Any) -> Plan:
    """What `run` with the same arguments will take; what it would refuse is refused. Nothing is written."""
    options = taken(RunOptions, choices)
    job = prepare(model, source, out, options, choices)
    if job.folder.is_dir():
        place.admitted(job.folder, job.manifest, options.overwrite, options.shard)
    some, longest = _rows_to_try(job)
    explained, used = _try(job, some)
    tried = tally(explained)
    passes = [each or 0 for each in explained.column("passes").to_pylist()]
    characters = sum(len(row.text or "") + len(row.text_b or "") for row in some[: tried.rows])
    job.recipe.explain(job.explainer, longest)  # it needs most memory
    where = Path(out).absolute()
    total, done = job.total(), 0 if options.overwrite else _done(job)
    left = total - done  # of which some are no text and take no time
    texts = left * (1 - job.census.bad / job.census.rows)
    return Plan(
        rows=total,
        bad=job.census.bad,
        done=done,
        tokens=left / job.census.rows * job.census.characters * tried.tokens / max(characters, 1),
        passes=texts * float(np.mean(passes)),
        seconds=texts * float(np.mean(used)) / options.workers,
        spread=max(_relative_error(used), _relative_error(passes)),
        memory=_peak() * options.workers,
        disk=int(texts * explained.nbytes / tried.rows / COMPRESSION),
        free=shutil.disk_usage(next(each for each in (where, *where.parents) if each.exists())).free,
        workers=options.workers,
        tried=tried,
    )


def _rows_to_try(job: PreparedRun) -> tuple[tuple[DataRow, ...], tuple[DataRow, ...]]:
    """Readable rows evenly over the data; and the longest one."""
    wanted = {round(k * (job.census.rows - 1) / (TRIED - 1)) for k in range(TRIED)} | {job.census.longest}
    some = [row for row in job.rows() if row.number in wanted and row.error is None]
    longest = tuple(row for row in some if row.number == job.census.longest)
    return tuple(row for row in some if row.number != job.census.longest) or longest, longest


def _try(job: PreparedRun, some: tuple[DataRow, ...]) -> tuple[pa.Table, list[float]]:
    """Rows explained, as many as the time allows, and the seconds each took."""
    job.recipe.explain(job.explainer, some[:1])  # the first pass of a model is slow; not counted
    used: list[float] = []
    parts: list[pa.Table] = []
    for batch in groups(some, max(1, min(8, len(some) // 3))):
        clock = time.perf_counter()
        parts.append(job.recipe.explain(job.explainer, batch).table)
        used += [(time.perf_counter() - clock) / len(batch)] * len(batch)
        if sum(used) > SECONDS:
            break
    return pa.concat_tables(parts), used


def _done(job: PreparedRun) -> int:
    """Rows of this share in shards that are whole and as long as they are to be."""
    facts = ((read_facts(shard_path(job.folder, shard)), count) for shard, count in job.shards())
    return sum(count for each, count in facts if each is not None and each.rows == count)


def _relative_error(values: list[float] | list[int]) -> float:
    """Standard error of the mean over the mean."""
    if len(values) < 2:
        return math.inf
    return float(np.std(values, ddof=1) / math.sqrt(len(values)) / max(float(np.mean(values)), 1e-12))


def _peak() -> int:
    """Bytes this process (and its GPU) has held at most."""
    import torch

    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return held + (torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0)


def _count(value: float) -> str:
    """Three digits are all a few rows tell."""
    return f"{float(f'{value:.3g}'):,.0f}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
