"""Before hours are spent: how many texts and tokens, how many passes, how long, how much memory and disk.

A few rows from all over the data are really explained; the rest is multiplication, with how far it may be off.
"""

from __future__ import annotations

import math
import resource
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pathlens.corpus import manifest
from pathlens.corpus.folder import read_facts, shard_path
from pathlens.corpus.job import Job, check_engine, prepare
from pathlens.corpus.local import explain_rows
from pathlens.corpus.record import Row, Source
from pathlens.corpus.schema import tally
from pathlens.data.reading import groups

ROWS = 24  # explained by the probe at most
SECONDS = 20.0  # after which it explains no more
COMPRESSION = 3  # a shard's size in memory over its size on disk, about: zstd on tokens, offsets and scores


@dataclass(frozen=True)
class Plan:
    """What a run will take. `spread`: relative standard error of passes and time from the probe's few rows."""

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
    probed: int
    failed: int  # of the probed rows
    unconverged: int

    def lines(self) -> list[str]:
        about = f"± {100 * self.spread:.0f} %" if math.isfinite(self.spread) else "from one row"
        left = f"{self.rows} texts" + (f", {self.done} of them done already" if self.done else "")
        found = [
            f"texts    {left}" + (f" ({self.bad} rows are no text)" if self.bad else ""),
            f"tokens   about {_count(self.tokens)}",
            f"passes   about {_count(self.passes)} ({about})",
            f"time     about {_duration(self.seconds)} with {self.workers} worker{'s' if self.workers > 1 else ''} ({about})",
            f"memory   about {self.memory / 2**20:.0f} MiB at the peak",
            f"disk     about {self.disk / 2**20:.1f} MiB, {self.free / 2**30:.1f} GiB free",
            f"probe    {self.probed} texts explained: {self.unconverged} not settled, {self.failed} failed",
        ]
        if self.disk > self.free:
            found.append("the disk will be full before the end")
        return found


def plan(
    model: Any,
    source: Source,
    out: str | Path,
    *,
    overwrite: bool = False,
    engine: str = "local",
    workers: int = 1,
    address: str | None = None,
    gpus: float = 0,
    **choices: Any,
) -> Plan:
    """What `run` with the same arguments will take; what it would refuse is refused. Nothing is written."""
    check_engine(engine, workers, address, gpus)
    job, wanted = prepare(model, source, out, **choices)
    if job.folder.is_dir():
        manifest.admitted(job.folder, wanted, overwrite, job.share)
    some, longest = _rows(job)
    explain_rows(job.explainer, job.recipe, some[:1])  # the first pass of a model is slow; not counted
    used: list[float] = []
    parts: list[Any] = []
    began = time.perf_counter()
    for batch in groups(some, max(1, min(8, len(some) // 3))):
        clock = time.perf_counter()
        parts.append(explain_rows(job.explainer, job.recipe, batch))
        used += [(time.perf_counter() - clock) / len(batch)] * len(batch)
        if time.perf_counter() - began > SECONDS:
            break
    found = pa.concat_tables(parts)
    counts, probed = tally(found), len(found)
    passes = [each or 0 for each in found.column("passes").to_pylist()]
    characters = sum(len(row.text or "") + len(row.text_b or "") for row in some[:probed])
    explain_rows(job.explainer, job.recipe, longest)  # it needs most memory
    memory = _peak() * workers
    total, done = job.total(), 0 if overwrite else _done(job)
    left = total - done  # of which some are no text and take no time
    texts = left * (1 - job.census.bad / job.census.rows)
    return Plan(
        rows=total,
        bad=job.census.bad,
        done=done,
        tokens=left / job.census.rows * job.census.characters * counts.tokens / max(characters, 1),
        passes=texts * float(np.mean(passes)),
        seconds=texts * float(np.mean(used)) / workers,
        spread=_spread(used, passes),
        memory=memory,
        disk=int(texts * found.nbytes / probed / COMPRESSION),
        free=shutil.disk_usage(_existing(Path(out))).free,
        workers=workers,
        probed=probed,
        failed=counts.failed,
        unconverged=counts.unconverged,
    )


def _done(job: Job) -> int:
    """Rows of this share in shards that are whole and as long as they are to be."""
    found = 0
    for shard, start in enumerate(range(0, job.census.rows, job.rows_per_shard)):
        path = shard_path(job.folder, shard)
        facts = read_facts(path) if job.mine(shard) and path.exists() else None
        if facts is not None and facts.rows == min(job.rows_per_shard, job.census.rows - start):
            found += facts.rows
    return found


def _rows(job: Job) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Readable rows evenly over the data; and the longest one."""
    wanted = {round(k * (job.census.rows - 1) / (ROWS - 1)) for k in range(ROWS)} | {job.census.longest}
    found = [row for row in job.rows() if row.number in wanted and row.error is None]
    longest = tuple(row for row in found if row.number == job.census.longest)
    return tuple(row for row in found if row.number != job.census.longest) or longest, longest


def _spread(used: list[float], passes: list[int]) -> float:
    """The larger of the two relative standard errors."""
    found = [
        float(np.std(each, ddof=1) / math.sqrt(len(each)) / max(np.mean(each), 1e-12))
        for each in (used, passes)
        if len(each) > 1
    ]
    return max(found, default=math.inf)


def _peak() -> int:
    """Bytes this process (and its GPU) has held at most."""
    import torch

    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return held + (torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0)


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.absolute().parent)


def _count(value: float) -> str:
    """Three digits are all a probe knows."""
    return f"{float(f'{value:.3g}'):,.0f}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
