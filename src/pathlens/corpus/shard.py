"""One shard: a Parquet file of a range of rows, whole or absent, that says what it was made from and by.

It is written beside its place, forced to the disk, and moved there. A SHA-256 of all of it stands between its pages and its
footer, where readers of Parquet do not look: whatever byte is lost or turned, the file is known to be damaged.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pathlens.corpus.schema import Tally, tally
from pathlens.errors import StoreError
from pathlens.files import write_whole, writing

SHARD = "part-{:05d}.parquet"
SHARD_NAME = re.compile(r"part-\d{5,}\.parquet")
FACTS = b"pathlens"  # key of our facts in a shard's footer
SEAL = b"pathlens-sha256:"  # 32 bytes of a checksum follow
SEALED = len(SEAL) + 32


@dataclass(frozen=True)
class Facts:
    """What a shard says of itself, in its footer."""

    start: int  # its first row
    rows: int
    digest: str  # of the rows' texts
    made: str  # of what they were explained by: `folder.making`
    tally: Tally


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


def write_shard(folder: Path, number: int, part: pa.Table, digest: str, made: str) -> None:
    """Whole or not at all; when the disk is full, nothing is left behind."""
    facts = Facts(int(part.column("row")[0].as_py()), len(part), digest, made, tally(part))
    part = part.replace_schema_metadata({FACTS: json.dumps(asdict(facts)).encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(part, sink, compression="zstd", write_page_checksum=True)
    try:
        with writing(folder):
            write_whole(shard_path(folder, number), _sealed(sink.getvalue().to_pybytes()))
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


def _footer(body: bytes) -> int:
    """Where a Parquet file's footer begins: its length stands before the last four bytes."""
    return len(body) - 8 - int.from_bytes(body[-8:-4], "little")


def _sealed(body: bytes) -> bytes:
    at = _footer(body)
    return body[:at] + SEAL + hashlib.sha256(body).digest() + body[at:]


def _whole(body: bytes) -> bool:
    at = _footer(body) - SEALED
    rest = hashlib.sha256(body[: max(at, 0)])
    rest.update(body[max(at, 0) + SEALED :])
    return at > 0 and body[at : at + SEALED] == SEAL + rest.digest()


def read_facts(path: Path) -> Facts | None:
    """A shard's facts after reading all of it; None when it is missing, half written or damaged."""
    try:
        body = path.read_bytes()
        if not _whole(body):
            return None
        facts = json.loads(pq.read_schema(pa.BufferReader(body)).metadata[FACTS])
        return Facts(**{**facts, "tally": Tally(**facts["tally"])})
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        return None


def check_shards(folder: Path) -> list[Path]:
    """All shards of a folder that is to be read, each read once and found whole."""
    files = shards(folder)
    for path in files:
        _read(path)
    return files


def _read(path: Path) -> bytes:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    if not _whole(body):
        raise StoreError(f"{str(path)!r} is damaged", "the same `pathlens run` writes it again")
    return body


def read_rows(folder: str | Path, columns: list[str] | None = None) -> Iterator[Mapping[str, Any]]:
    """Every row of a run as a dictionary, shard by shard."""
    for path in shards(Path(folder)):
        with pq.ParquetFile(pa.BufferReader(_read(path))) as file:
            for batch in file.iter_batches(256, columns=columns):
                yield from batch.to_pylist()
