"""The folder of a run: its manifest, shards of fixed row ranges, each whole or absent, and who may write them.

The manifest says what the run is: the model, the arguments, the data. The same command goes on; another one is refused
by name. A shard is written beside its place, forced to the disk, and moved there; so whatever happens, a file with a
shard's name is a shard, unless the disk itself lost part of it: then its footer, its checksums or its row count say so.
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

from pathlens.corpus.schema import COLUMNS, VERSION, Tally, result_of, tally
from pathlens.errors import InputError, StoreError
from pathlens.files import write_whole, writing

MANIFEST = "_manifest.json"  # readers of a folder of Parquet files pass over names that begin so
SHARD = "part-{:05d}.parquet"
SHARD_NAME = re.compile(r"part-\d{5,}\.parquet")
FACTS = b"pathlens"  # key of our facts in a shard's footer
SAME = {  # entry of the manifest -> what a reader calls it
    "model": "the model differs",
    "fingerprint": "the model's weights differ",
    "choices": "the arguments differ",
    "source": "the ways the data is read differ",
    "kept": "the columns carried along differ",
    "rows_per_shard": "the rows per shard differ",
}
Share = tuple[int, int]  # (i, n): every n-th shard from the i-th


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
    try:
        return isinstance(folder, str | Path) and read_manifest(Path(folder)) is not None
    except (InputError, StoreError):
        return False


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder; None where nothing has been written yet."""
    path = folder / MANIFEST
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{str(path)!r} is damaged ({error}); choose another folder, or --overwrite") from error
    if not isinstance(body, dict) or "corpus" not in body:
        raise InputError(f"{str(path)!r} is not the manifest of a run; choose another folder")
    return body


def finished_run(folder: str | Path) -> dict[str, Any]:
    """The manifest of a folder that is to be read; one without a run, or of another version, is refused."""
    body = read_manifest(Path(folder)) if is_run(folder) else None
    if body is None:
        raise InputError(f"{str(folder)!r} holds no run; `pathlens run … --out {folder}` writes one")
    if body["corpus"] != VERSION:
        raise InputError(
            f"{str(folder)!r} was written by another version (files of version {body['corpus']}, this pathlens reads {VERSION})"
        )
    if not {"choices", "kept", "model", "rows"} <= set(body):
        raise StoreError(
            f"{str(Path(folder) / MANIFEST)!r} is damaged: it does not say how the run was made; run it anew (--overwrite)"
        )
    return body


@dataclass(frozen=True)
class Facts:
    """What a shard says of itself, in its footer."""

    start: int  # its first row
    rows: int
    digest: str  # of the rows' texts
    tally: Tally


def write_shard(folder: Path, number: int, part: pa.Table, digest: str) -> None:
    """Whole or not at all; when the disk is full, nothing is left behind."""
    facts = Facts(int(part.column("row")[0].as_py()), len(part), digest, tally(part))
    part = part.replace_schema_metadata({FACTS: json.dumps(asdict(facts)).encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(part, sink, compression="zstd", write_page_checksum=True)
    path = shard_path(folder, number)
    try:
        with writing(folder):
            write_whole(path, sink.getvalue().to_pybytes())
            _settle(folder)
    except StoreError as error:
        raise StoreError(
            f"{error}; {len(shards(folder))} finished shards are whole: the same command goes on"
        ) from error


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


def make_writable(folder: Path) -> None:
    """The folder, made and found writable before any work is done."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        attempt = folder / f".writable-{os.getpid()}"
        attempt.write_bytes(b"x")
        attempt.unlink()


def remove(folder: Path, mine: Callable[[int], bool], *, shards_too: bool) -> None:
    """Temporary files of a run that was killed, and for --overwrite its shards too; `mine(shard)` says which are ours.

    The manifest is replaced after the shards have gone, so a kill in between leaves a known run.
    """
    for file in [*(shards(folder) if shards_too else ()), *folder.glob(".part-*.parquet.*.tmp")]:
        number = file.name.removeprefix(".").removeprefix("part-").split(".")[0]
        if number.isdigit() and mine(int(number)):
            file.unlink(missing_ok=True)


def _take(handle: int, lock: Path) -> str | None:
    """Takes the lock of an open file, if nobody holds it; else says who does."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise StoreError(f"the file system of {str(lock.parent)!r} has no locks ({error.strerror})") from error
        return lock.read_text(encoding="utf-8").strip() or "another process"
    return None


def _at_work(folder: Path, concerns: Callable[[Share], bool]) -> str | None:
    """Who writes a share that concerns us at this moment; None when nobody does."""
    for lock in folder.glob(".lock-*-of-*"):
        i, n = lock.name.removeprefix(".lock-").split("-of-")
        if concerns((int(i), int(n))):
            handle = os.open(lock, os.O_RDWR)
            try:
                if holder := _take(handle, lock):
                    return holder
            finally:
                os.close(handle)
    return None


@contextmanager
def locked(folder: Path, share: Share) -> Iterator[None]:
    """Held while writing; the system lets go of it when the process ends, however it ends.

    Runs of different shares (--shard 0/2 and 1/2) may write into one folder at once; overlapping ones may not.
    """
    ours = folder / f".lock-{share[0]}-of-{share[1]}"
    with writing(folder):
        handle = os.open(ours, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        holder = _take(handle, ours) or _at_work(folder, lambda other: other[1] != share[1])
        if holder:
            raise InputError(
                f"another run is writing to {str(folder)!r} ({holder}); wait for it, or choose another folder"
            )
        with suppress(OSError):  # a full disk: the lock holds without its owner's name
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        os.close(handle)


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
    finished_run(folder)
    yield from (result for row in read_rows(folder, list(COLUMNS)) if (result := result_of(row)) is not None)


def admitted(folder: Path, wanted: Mapping[str, Any], overwrite: bool, share: Share = (0, 1)) -> dict[str, Any] | None:
    """The manifest to go on from, None to begin; a folder that is another run's or nobody's is refused. Writes nothing."""
    here = [file.name for file in folder.iterdir() if not file.name.startswith(".")]
    ours = {path.name for path in shards(folder) if (folder / MANIFEST).exists() or is_shard(path)}
    foreign = [name for name in here if name != MANIFEST and name not in ours]
    before = None if overwrite else read_manifest(folder)
    strange = (foreign and not is_run(folder)) if overwrite else (here and before is None)
    if strange:
        shown = min(foreign or here)
        raise InputError(f"{str(folder)!r} is not empty ({shown!r} is in it) and holds no run; choose another folder")
    if before is None:
        everything = overwrite and _whole(folder, wanted, share)
        if everything and (busy := _at_work(folder, lambda other: other != share)):
            raise InputError(
                f"another share is writing to {str(folder)!r} ({busy}): --overwrite would delete its rows; begin anew with one "
                "share, then start the others without --overwrite"
            )
        return None
    _check_same(folder, before, wanted)
    if wanted["rows"] < before["rows"]:
        raise InputError(
            f"{str(folder)!r} holds a run over {before['rows']} rows and now there are {wanted['rows']} (fewer data, or a "
            "smaller --limit); choose another folder, or --overwrite"
        )
    return before


def settle(folder: Path, wanted: Mapping[str, Any], overwrite: bool, share: Share = (0, 1)) -> list[str]:
    """Begin, go on, or refuse; gives notes for the user."""
    before = admitted(folder, wanted, overwrite, share)
    if before is None and overwrite:
        everything = _whole(folder, wanted, share)
        remove(folder, lambda shard: everything or shard % share[1] == share[0], shards_too=True)
    versions = wanted["versions"] if before is None else before["versions"]
    body = json.dumps({**wanted, "versions": versions}, ensure_ascii=False, indent=1)
    write_whole(folder / MANIFEST, body.encode())
    changed = [name for name in wanted["versions"] if wanted["versions"][name] != versions.get(name)]
    return [f"the run was begun with {n} {versions.get(n)}, this is {wanted['versions'][n]}" for n in changed]


def _whole(folder: Path, wanted: Mapping[str, Any], share: Share) -> bool:
    """Does --overwrite mean the whole folder? Not for one share of the very same run: the other shares are right."""
    try:
        before = read_manifest(folder)
        if before is not None:
            _check_same(folder, before, wanted)
    except (InputError, StoreError):
        return True
    return share[1] == 1 or before is None or before["rows"] != wanted["rows"]


def _check_same(folder: Path, before: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if before["corpus"] != wanted["corpus"]:
        raise InputError(
            f"{str(folder)!r} was written by another version (files of version {before['corpus']}, this pathlens writes "
            f"{wanted['corpus']}); choose another folder, or --overwrite"
        )
    for entry, what in SAME.items():
        if before.get(entry) != wanted[entry]:
            raise InputError(
                f"{str(folder)!r} holds another run: {what} ({_difference(before.get(entry), wanted[entry])}); give the same "
                "arguments to go on, another folder, or --overwrite"
            )


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return ", ".join(f"{name} was {old.get(name)!r}, now {new.get(name)!r}" for name in names)
    return f"it was {old!r}, now {new!r}"
