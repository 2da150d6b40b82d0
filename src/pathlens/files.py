"""One way to write a file, and one line when it cannot be written."""

from __future__ import annotations

import codecs
import errno
import gzip
import hashlib
import json
import os
import re
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Any

from pathlens.errors import InputError, StoreError

LOOK = 1 << 20  # bytes: enough beyond ASCII to tell encodings apart
MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def opened(path: str | Path) -> Any:
    """The bytes of a file, also where it is compressed."""
    return gzip.open(path, "rb") if str(path).lower().endswith(".gz") else open(path, "rb")


def text_encoding(path: str | Path) -> str:
    """UTF-8; UTF-16 by its mark; Windows-1252, with a warning, where most of what is not ASCII is no UTF-8."""
    with opened(path) as stream:
        chunk = stream.read(LOOK)
        if mark := MARKS.get(chunk[:2]):
            return mark
        while chunk and chunk.isascii():
            chunk = stream.read(LOOK)
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(chunk)
    amiss, beyond = len(re.findall("[\udc80-\udcff]", text)), len(re.findall("[^\0-\x7f]", text))
    if (
        amiss <= beyond / 2 or "\0" in text
    ):  # a few damaged bytes are their rows' trouble; with zeros it is no text at all
        return "utf-8-sig"
    warnings.warn(
        f"{str(path)!r} is not UTF-8 and was read as Windows-1252; save it as UTF-8 if letters look wrong", stacklevel=2
    )
    return "cp1252"


def read_text(path: str | Path) -> str:
    """A whole file, without the mark some editors put in front."""
    try:
        encoding = text_encoding(path)
        with opened(path) as stream:
            text: str = stream.read().decode(encoding)
    except UnicodeError as error:
        raise StoreError(f"{str(path)!r} is not text ({error}); save it as UTF-8 first") from error
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


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


def content_sum(body: Mapping[str, Any]) -> str:
    """SHA-256 of all a manifest says but this sum itself, which it keeps as `sha256`."""
    content = {name: value for name, value in body.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


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


def remove_left_behind(folder: Path, *names: str) -> None:
    """What `write_whole` left beside files of these names when its process was killed; nobody else may be writing them."""
    for name in names:
        for file in folder.glob(f".{name}.*.tmp"):
            file.unlink(missing_ok=True)


def holder(handle: int, lock: Path) -> str | None:
    """Takes the lock of an open file, if nobody holds it; else says who does."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise StoreError(f"the file system of {str(lock.parent)!r} has no locks ({error.strerror})") from error
        return lock.read_text(encoding="utf-8").strip() or "another process"
    return None


@contextmanager
def only_writer(lock: Path, others: Callable[[], str | None] = lambda: None) -> Iterator[None]:
    """Held while writing into the lock's folder; the system lets go of it when the process ends, however it ends.

    others: who else, by other locks, is in the way.
    """
    folder = lock.parent
    with writing(folder):
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if busy := holder(handle, lock) or others():
            who = f"another run is writing to {str(folder)!r} ({busy})"
            raise InputError(f"{who}; wait for it, or choose another folder")
        with suppress(OSError):  # a full disk: the lock holds without its owner's name
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        os.close(handle)
