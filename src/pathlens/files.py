"""One way to write a file, and one line when it cannot be written."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Any

from pathlens.errors import StoreError


def user_cache() -> Path | None:
    """Where what was found once is kept: PATHLENS_CACHE, else the user's cache; PATHLENS_CACHE="" keeps nothing."""
    chosen = os.environ.get("PATHLENS_CACHE")
    if chosen == "":
        return None
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pathlens"


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """What the system refuses inside is one line that names the place."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"cannot write to {str(path)!r}: {error.strerror or error}") from error


def make_folder(path: Path) -> None:
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def checksum(file: Path) -> str:
    """SHA-256 of the whole file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_text(path: str | Path, text: str) -> Path:
    with writing(path):
        Path(path).write_text(text, encoding="utf-8")
    return Path(path)


def write_json(path: str | Path, value: Any) -> Path:
    return write_text(path, json.dumps(value, ensure_ascii=False))


def write_whole(path: Path, data: bytes) -> None:
    """Either the old file or the new one is there, never half of one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.tmp")  # several may write the same file
    try:
        with writing(path):
            with beside.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            beside.replace(path)
    finally:
        with suppress(OSError):  # there only where something failed
            beside.unlink()
