"""One way to write a file, and one line when it cannot be written."""

from __future__ import annotations

import json
import os
from contextlib import suppress
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


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write to {str(path)!r}: {error.strerror or error}") from error


def write_text(path: str | Path, text: str) -> Path:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    return Path(path)


def write_json(path: str | Path, value: Any) -> Path:
    return write_text(path, json.dumps(value, ensure_ascii=False))


def write_whole(path: Path, data: bytes) -> None:
    """Either the old file or the new one is there, never half of one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.tmp")  # several may write the same file
    try:
        with beside.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
