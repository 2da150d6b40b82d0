"""The folder of a run: shards of fixed row ranges, each whole or absent, and who may write them.

A shard is written beside its place, forced to the disk, and moved there; so whatever happens, a file with a shard's
name is a shard, unless the disk itself lost part of it: then its footer, its checksums or its row count say so.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pathlens.corpus.record import Tally
from pathlens.corpus.schema import COLUMNS, VERSION, result_of, tally
from pathlens.errors import InputError, StoreError
from pathlens.files import write_whole

MANIFEST = "_manifest.json"  # readers of a folder of Parquet files pass over names that begin so
SHARD = "part-{:05d}.parquet"
SHARD_NAME = re.compile(r"part-\d{5,}\.parquet")
FACTS = b"pathlens"  # key of our facts in a shard's footer


def shard_path(folder: Path, number: int) -> Path:
    return folder / SHARD.format(number)


def shards(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("part-*.parquet") if SHARD_NAME.fullmatch(path.name))


def is_shard(path: Path) -> bool:
    """Is a file with a shard's name one of ours? Others write such names too."""
    try:
        return FACTS in (pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def is_run(folder: Any) -> bool:
    """Does a folder hold a run of `pathlens run`?"""
    return isinstance(folder, str | Path) and (Path(folder) / MANIFEST).is_file() and _is_ours(Path(folder))


def _is_ours(folder: Path) -> bool:
    try:
        return "corpus" in json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


def check_version(folder: Path) -> None:
    """Files of another version would be misread."""
    found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if found["corpus"] != VERSION:
        raise InputError(
            f"{str(folder)!r} was written by another version (files of version {found['corpus']}, this pathlens reads {VERSION})"
        )
    if not {"choices", "kept", "model", "rows"} <= set(found):
        raise StoreError(
            f"{str(folder / MANIFEST)!r} is damaged: it does not say how the run was made; run it anew (--overwrite)"
        )


@dataclass(frozen=True)
class Facts:
    """What a shard says of itself, in its footer."""

    start: int  # its first row
    rows: int
    digest: str  # of the rows' texts
    tally: Tally


def write_shard(folder: Path, number: int, part: pa.Table, digest: str) -> Facts:
    """Whole or not at all; when the disk is full, nothing is left behind."""
    facts = Facts(int(part.column("row")[0].as_py()), len(part), digest, tally(part))
    part = part.replace_schema_metadata({FACTS: json.dumps(asdict(facts)).encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(part, sink, compression="zstd", write_page_checksum=True)
    path = shard_path(folder, number)
    try:
        write_whole(path, sink.getvalue().to_pybytes())
        _settle(folder)
    except OSError as error:  # a StoreError is one too
        raise StoreError(
            f"{_in_words(error, folder)}; {len(shards(folder))} finished shards are whole: the same command goes on"
        ) from error
    return facts


def _in_words(error: Exception, folder: Path) -> str:
    if isinstance(error, StoreError):
        return str(error)
    return f"cannot write to {str(folder)!r}: {getattr(error, 'strerror', None) or error}"


def _settle(folder: Path) -> None:
    """The new name itself reaches the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_facts(path: Path) -> Facts | None:
    """A shard's facts after reading all of it; None when it is missing, half written or damaged."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            body = json.loads(file.schema_arrow.metadata[FACTS])
            counted = sum(file.read_row_group(k).num_rows for k in range(file.num_row_groups))
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        return None
    facts = Facts(**{**body, "tally": Tally(**body["tally"])})
    return facts if facts.rows == counted else None


def clear_leftovers(folder: Path, mine: Any) -> None:
    """Temporary files of a run that was killed; `mine(shard)` says which shards are ours to write."""
    for file in folder.glob(".part-*.parquet.*.tmp"):
        if mine(int(file.name.split("-")[1].split(".")[0])):
            file.unlink(missing_ok=True)


def prepare(folder: Path) -> None:
    """The folder, made and found writable before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable-{os.getpid()}"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise StoreError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from error


def remove_shards(folder: Path, mine: Callable[[int], bool]) -> None:
    """For --overwrite: shards go first and the manifest is replaced last, so a kill in between leaves a known run."""
    for file in [*shards(folder), *folder.glob(".part-*.parquet.*.tmp")]:
        number = file.name.removeprefix(".").removeprefix("part-").split(".")[0]
        if number.isdigit() and mine(int(number)):
            file.unlink(missing_ok=True)


def others_at_work(folder: Path, share: tuple[int, int]) -> str | None:
    """Who else writes here at this moment, another share of the same division; None when nobody does."""
    import fcntl

    for other in folder.glob(".lock-*-of-*"):
        if _share_of(other) == share:
            continue
        handle = os.open(other, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return other.read_text(encoding="utf-8").strip() or "another process"
        finally:
            os.close(handle)
    return None


@contextmanager
def locked(folder: Path, share: tuple[int, int]) -> Iterator[None]:
    """Held while writing; the system lets go of it when the process ends, however it ends.

    Runs of different shares (--shard 0/2 and 1/2) may write into one folder at once; overlapping ones may not.
    """
    import fcntl

    own = folder / f".lock-{share[0]}-of-{share[1]}"
    try:
        handle = os.open(own, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from error
    try:
        for other in [own, *(each for each in folder.glob(".lock-*-of-*") if each != own)]:
            i, n = _share_of(other)
            if n == share[1] and i != share[0]:
                continue  # they never meet
            probe = handle if other == own else os.open(other, os.O_RDWR)
            try:
                fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise StoreError(f"the file system of {str(folder)!r} has no locks ({error.strerror})") from error
                who = other.read_text(encoding="utf-8").strip() or "another process"
                raise InputError(f"another run is writing to {str(folder)!r} ({who}); wait for it, or choose another folder") from error  # fmt: skip
            finally:
                if probe != handle:
                    os.close(probe)
        with suppress(OSError):  # a full disk: the lock holds without its owner's name
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        os.close(handle)


def _share_of(lock: Path) -> tuple[int, int]:
    i, n = lock.name.removeprefix(".lock-").split("-of-")
    return int(i), int(n)


def read_rows(folder: str | Path, columns: list[str] | None = None) -> Iterator[Mapping[str, Any]]:
    """Every row of a run as a dictionary, shard by shard."""
    for path in shards(Path(folder)):
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(256, columns=columns):
                    yield from batch.to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{str(path)!r} is damaged ({error}); the same `pathlens run` writes it again") from error


def results(folder: str | Path) -> Iterator[Any]:
    """The results of a run, one by one, as `pl.explain` gave them; rows with errors are left out."""
    if not is_run(folder):
        raise InputError(f"{str(folder)!r} holds no run; `pathlens run … --out {folder}` writes one")
    check_version(Path(folder))
    for row in read_rows(folder, list(COLUMNS)):
        found = result_of(row)
        if found is not None:
            yield found
