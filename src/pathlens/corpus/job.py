"""The verb: a source → shards in a folder, by an engine; killed at any moment, the same call goes on."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from pathlens import errors
from pathlens.corpus import folder as place
from pathlens.corpus import manifest
from pathlens.corpus.local import Engine, in_process, in_processes
from pathlens.corpus.record import Batch, Census, Found, Recipe, Row, Source, Tally
from pathlens.data.reading import batches, census, digest, files, groups, rows, same_digest
from pathlens.engine.explainer import Explainer
from pathlens.engine.options import Method
from pathlens.errors import InputError, ModelError, PathlensError
from pathlens.text.fingerprint import fingerprint

ROWS_PER_SHARD = 256  # what is done again at most after a kill; a file of some 100 kB
BATCH = 64  # texts packed together
LOOK = 8  # readable rows tried before the arguments are blamed
ENGINES = ("local", "ray")

Tell = Callable[[Tally], None]  # called with the counts of every batch done


@dataclass(frozen=True)
class Outcome:
    """What a run did. `tally` counts the rows of this share; `found` of them were there already."""

    folder: Path
    tally: Tally
    found: int
    seconds: float
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """What a person wants to know at the end."""
        made, counts = self.tally.rows - self.found, self.tally
        rate = f", {made / self.seconds:.1f} texts/s" if made and self.seconds > 0 else ""
        before = f" ({self.found} were there already)" if self.found else ""
        return [
            f"{counts.rows} rows in {str(self.folder)!r}{before}: {counts.rows - counts.failed} explained, "
            f"{counts.unconverged} of them not settled; {counts.failed} failed{rate}"
        ]


@dataclass(frozen=True)
class Job:
    """A run, ready to start: everything that can be refused has been."""

    recipe: Recipe
    source: Source
    census: Census
    explainer: Any
    folder: Path
    rows_per_shard: int = ROWS_PER_SHARD
    batch_size: int = BATCH
    share: tuple[int, int] = (0, 1)

    def mine(self, shard: int) -> bool:
        return shard % self.share[1] == self.share[0]

    def rows(self) -> Iterator[Row]:
        return rows(self.source, self.census.kept, self.census.rows)

    def total(self) -> int:
        """Rows of this share."""
        starts = range(0, self.census.rows, self.rows_per_shard)
        return sum(min(self.rows_per_shard, self.census.rows - s) for k, s in enumerate(starts) if self.mine(k))


def run(
    model: Any,
    source: Source,
    out: str | Path,
    *,
    limit: int | None = None,
    shard: tuple[int, int] = (0, 1),
    overwrite: bool = False,
    engine: str = "local",
    workers: int = 1,
    address: str | None = None,
    gpus: float = 0,
    batch_size: int = BATCH,
    rows_per_shard: int = ROWS_PER_SHARD,
    bar: Callable[[int, int], Any] | None = None,
    **choices: Any,
) -> Outcome:
    """Explain every row of a source; Parquet shards and a manifest in `out`.

    limit: the first so many rows (a later run may raise it and go on). shard: (i, n), every n-th shard from the i-th.
    engine: "local" (workers=1: this process) or "ray" (address of a cluster; None starts one here; gpus per worker).
    choices: method, target, baseline, … as in `pl.explain`.
    A row that cannot be explained is written with its error. The same call goes on after a kill; another model, other
    arguments or changed data in the same folder are refused.
    """
    check_engine(engine, workers, address, gpus)
    job, wanted = prepare(model, source, out, limit=limit, shard=shard, batch_size=batch_size,
                          rows_per_shard=rows_per_shard, **choices)  # fmt: skip
    with _engine(job, engine, workers, address, gpus) as chosen:  # a cluster is reached before anything is touched
        place.prepare(job.folder)
        started = time.perf_counter()
        with place.locked(job.folder, job.share):
            manifest.admitted(job.folder, wanted, overwrite, job.share)
            place.clear_leftovers(job.folder, job.mine)
            done = _Writer(job, lambda: manifest.settle(job.folder, wanted, overwrite, job.share), overwrite)
            with (bar or _no_bar)(job.total(), job.census.rows) as tell:
                done.tell = tell
                for batch, part in chosen(done.todo()):
                    done.add(batch, part)
            notes = done.begin()
    return Outcome(job.folder, done.tally, done.found, time.perf_counter() - started, tuple(notes))


def prepare(
    model: Any,
    source: Source,
    out: str | Path,
    *,
    limit: int | None = None,
    shard: tuple[int, int] = (0, 1),
    batch_size: int = BATCH,
    rows_per_shard: int = ROWS_PER_SHARD,
    **choices: Any,
) -> tuple[Job, dict[str, Any]]:
    """Everything checked before anything is written: numbers, data, model, arguments. Gives the manifest too."""
    for name, value in {"limit": limit, "batch_size": batch_size, "rows_per_shard": rows_per_shard}.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
    if not 0 <= shard[0] < shard[1]:
        raise InputError(f"shard must be i/n with 0 ≤ i < n (0/4 to 3/4), got {shard[0]}/{shard[1]}")
    if Path(out).exists() and not Path(out).is_dir():
        raise InputError(f"{str(out)!r} is a file; --out takes a folder")
    where = Path(out).resolve()
    if any(file.resolve().parent == where for file in files(source) or ()):
        raise InputError(f"the data itself is in {str(out)!r}; --out takes another folder")
    counted = census(source, limit)
    if isinstance(
        choices.get("method"), Method
    ):  # by name from here on: choices go to other processes, and into a file
        choices |= {**choices["method"].given(), "method": choices["method"].name}
    recipe = Recipe(model, _chosen(choices), counted.kept)
    explainer = recipe.explainer()
    method = explainer.method_for(None if source.text_b is None else "")
    recipe = replace(recipe, choices={**recipe.choices, "method": method.name})
    job = Job(recipe, source, counted, explainer, Path(out), rows_per_shard, batch_size, shard)
    _check_arguments(job)
    return job, manifest.describe(recipe, source, counted, fingerprint(explainer.model), rows_per_shard, limit)


def _chosen(choices: dict[str, Any]) -> dict[str, Any]:
    """Without what is so anyway: a default that is spelled out is no other run."""
    usual = {name: each.default for name, each in inspect.signature(Explainer.__init__).parameters.items()}
    return {name: value for name, value in choices.items() if value is not None and usual.get(name) != value}


def _check_arguments(job: Job) -> None:
    """A wrong argument is one error now, not one in every row: the first rows and a plain text all fail alike."""
    explainer, two = job.explainer, job.source.text_b is not None
    try:
        explainer.prepare("a word", "a word" if two else None)
    except PathlensError as error:
        some = islice((row for row in job.rows() if row.error is None), LOOK)
        if all(_unreadable(explainer, row) for row in some):
            raise error


def _unreadable(explainer: Explainer, row: Row) -> bool:
    try:
        explainer.prepare(row.text, row.text_b)
    except Exception:  # what it is will be said of the row
        return True
    return False


def check_engine(name: str, workers: int, address: str | None, gpus: float) -> None:
    if name not in ENGINES:
        raise InputError(f"engine must be one of {', '.join(ENGINES)}, got {name!r}")
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"workers must be a whole number of at least 1, got {workers!r}")
    if not (math.isfinite(gpus) and gpus >= 0):
        raise InputError(f"gpus must be a number from 0 upwards, got {gpus!r}")
    if name != "ray" and (address is not None or gpus):
        raise InputError("address and gpus are for the engine ray: add --engine ray")


@contextmanager
def _engine(job: Job, name: str, workers: int, address: str | None, gpus: float) -> Iterator[Engine]:
    if name == "ray":
        from pathlens.corpus.cluster import on_ray

        with on_ray(job, workers, address, gpus) as engine:
            yield engine
    else:
        yield in_process(job.explainer, job.recipe) if workers == 1 else in_processes(job.recipe, workers)


class _no_bar:
    def __init__(self, *_: int) -> None: ...

    def __enter__(self) -> Tell:
        return lambda tally: None

    def __exit__(self, *_: object) -> None: ...


def _refuse_breakage(job: Job, part: pa.Table) -> None:
    """When the very first batch fails in one way that is no fault of its texts, every other would too: stop now."""
    found = part.column("error").to_pylist()
    kind, _, words = (found[0] or "").partition(": ")
    if words and len(set(found)) == 1 and hasattr(errors, kind):  # a plain text fails alike: an argument is wrong
        two = job.source.text_b is not None
        plain = job.explainer.run([("a word", "a word" if two else None)])[0]
        if isinstance(plain, PathlensError) and " ".join(str(plain).split()) == words:
            raise plain
    if len(found) > 1 and len(set(found)) == 1 and kind.endswith("Error") and not hasattr(errors, kind):
        raise ModelError(f"every text of the first batch fails alike, so nothing was written: {found[0]}")


@dataclass(eq=False)
class _Writer:
    """Gathers batches, in any order, into shards; a shard is written when its last row has come.

    The folder is settled when the first batch is there: until then nothing has been written and nothing deleted.
    """

    job: Job
    settle: Callable[[], list[str]]
    overwrite: bool = False
    notes: list[str] | None = None
    tell: Tell = lambda tally: None
    tally: Tally = field(default_factory=Tally)
    found: int = 0
    open: dict[int, tuple[int, str, list[pa.Table]]] = field(default_factory=dict)  # shard -> rows, digest, parts

    def begin(self) -> list[str]:
        """Notes for the user; the first call settles the folder."""
        if self.notes is None:
            self.notes = self.settle()
        return self.notes

    def todo(self) -> Iterator[Batch]:
        """Batches of the shards that are not there yet; read only as the engine asks for them."""
        for shard, group in enumerate(groups(self.job.rows(), self.job.rows_per_shard)):
            if self.job.mine(shard) and not self._kept(shard, group):
                self.open[shard] = (len(group), digest(group), [])
                yield from batches(shard, group, self.job.batch_size)

    def _kept(self, shard: int, group: tuple[Row, ...]) -> bool:
        """Is a whole shard of these very rows there? Changed rows are refused, a half-written file is done again."""
        path = place.shard_path(self.job.folder, shard)
        facts = place.read_facts(path) if path.exists() and not self.overwrite else None
        if facts is None:
            return False
        if (
            facts.start != group[0].number
            or facts.rows > len(group)
            or not same_digest(facts.digest, digest(group[: facts.rows]))
        ):
            raise InputError(
                f"rows {group[0].number} to {group[-1].number} of the data are not those that {path.name} was made from: the "
                "data has changed; choose another folder, or --overwrite"
            )
        if facts.rows < len(group):  # the data has grown, or --limit
            return False
        self.found += facts.rows
        self._count(Found(**vars(facts.tally)))
        return True

    def add(self, batch: Batch, part: pa.Table) -> None:
        from pathlens.corpus.schema import tally

        if self.tally.rows == self.found:
            _refuse_breakage(self.job, part)
        self.begin()
        rows_wanted, mark, parts = self.open[batch.shard]
        parts.append(part)
        self._count(tally(part))
        if sum(map(len, parts)) == rows_wanted:
            del self.open[batch.shard]
            whole = pa.concat_tables(sorted(parts, key=lambda each: each.column("row")[0].as_py()))
            place.write_shard(self.job.folder, batch.shard, whole.combine_chunks(), mark)

    def _count(self, more: Tally) -> None:
        self.tally = self.tally + more
        self.tell(more)
