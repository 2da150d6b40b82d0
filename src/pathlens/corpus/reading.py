"""A source → rows, numbered through all its files; a row that is no text carries its error."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from pathlens.checks import whole_number
from pathlens.corpus import formats
from pathlens.corpus.formats import KINDS, DataRow, OpenTable, Record, Source, damaged
from pathlens.errors import InputError

HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that stand for no byte


@dataclass(frozen=True)
class Census:
    """What one reading of the whole source counted."""

    rows: int
    bad: int  # rows that are no text
    characters: int
    longest: int  # the row with most characters
    kept: tuple[str, ...]  # columns carried along


@dataclass(frozen=True)
class RowBatch:
    """Rows that are explained together; all of one shard."""

    shard: int
    rows: tuple[DataRow, ...]


def files(source: Source) -> list[Path] | None:
    """The source's files in order; None for a data set of `datasets`. Runs inside the folder are no data of it."""
    path = Path(source.data).expanduser()
    if path.is_dir():
        if formats.is_saved(path):
            return None
        shown = (f for f in path.rglob("*") if not any(p.startswith((".", "_")) for p in f.relative_to(path).parts))
        inside = sorted(file for file in shown if file.is_file() and formats.suffix(file) in KINDS)
        from pathlens.corpus.folder import is_run  # with Arrow, which a file alone does not wait for

        runs = {folder for folder in {file.parent for file in inside} - {path} if is_run(folder)}
        inside = [file for file in inside if file.parent not in runs]
        if not inside:
            raise InputError(f"the folder {source.data!r} holds no data file ({', '.join(KINDS)})")
        return inside
    if path.exists():
        return [path]
    if formats.suffix(path) in KINDS or source.data.startswith((".", "/", "~")):
        raise InputError(f"there is no file or folder {source.data!r}")
    if len(source.data.split()) != 1:  # no data set of the hub is called so
        raise InputError(
            f"there is no file or folder {source.data!r}; a data set is expected here: a file or folder of texts, or a hub id. "
            "One text: pathlens explain MODEL TEXT"
        )
    return None


def rows(source: Source, kept: Sequence[str] | None = None, limit: int | None = None) -> Iterator[DataRow]:
    """Rows in order, read as they are asked for. `kept`: the columns to carry along, as the census chose them."""
    records = ((record, plain) for plain, some in _opened(source) for record in some)
    for number, (record, plain) in enumerate(islice(records, limit)):
        yield _row(number, record, source, kept_columns(source, plain) if kept is None else tuple(kept))


def _opened(source: Source) -> Iterator[tuple[tuple[str, ...], Iterator[Record]]]:
    """(columns that can be carried along, records) of one file after another, each closed when the next is asked for."""
    paths: Sequence[Path | None] = files(source) or [None]
    for path in paths:
        with ExitStack() as stack:
            opened = formats.open_hub(source) if path is None else formats.open_file(path, source, stack)
            yield opened.plain, opened.records(_columns(source, str(path or source.data), opened))


def _columns(source: Source, name: str, opened: OpenTable) -> tuple[str, ...]:
    """The columns to read; one that is missing ends everything before it began."""
    asked = [(" (--text)", source.text), (" (--text-b)", source.text_b), (" (--id)", source.id)]
    for option, column in [*asked, *((" (--keep, --label)", each) for each in source.keep or ())]:
        if column is not None and column not in opened.columns:
            has = ", ".join(opened.columns) or "none"
            raise InputError(f"{name!r} has no column {column!r}{option}; its columns: {has}")
    first = [column for _, column in asked if column is not None]
    return tuple(dict.fromkeys([*first, *kept_columns(source, opened.plain)]))


def kept_columns(source: Source, plain: Iterable[str]) -> tuple[str, ...]:
    if source.keep is not None:
        return source.keep
    return tuple(name for name in plain if name not in (source.text, source.text_b, source.id))


def _row(number: int, record: Record, source: Source, kept: tuple[str, ...]) -> DataRow:
    if isinstance(record, str):
        return DataRow(number, str(number), None, None, (None,) * len(kept), record)
    name = str(number) if source.id is None else _plain(record.get(source.id)) or str(number)
    first, error = _text(record.get(source.text), source.text)
    second, other = (None, None) if source.text_b is None else _text(record.get(source.text_b), source.text_b)
    carried = tuple(_plain(record.get(column)) for column in kept)
    return DataRow(number, name, first, second, carried, error or other)


def _text(value: Any, column: str) -> tuple[str | None, str | None]:
    """(the text, None), or (what can be shown of it, why it is none)."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if value is None:
        return None, f"column {column!r} is empty here: there is no text"
    if not isinstance(value, str):
        return None, f"column {column!r} holds {type(value).__name__} here, not text: {str(value)[:60]!r}"
    if HALVES.search(value):
        return _shown(value), f"column {column!r} holds half a character here (a lone surrogate)"
    if damaged(value):
        return _shown(value), f"column {column!r} holds bytes that are not of the file's encoding"
    if not value.strip():
        return value, f"column {column!r} is empty here: there is no text"
    return value, None


def _plain(value: Any) -> str | None:
    return None if value is None else _shown(str(value))


def _shown(text: str) -> str:
    """Writable as UTF-8: what was no text is replaced."""
    text = HALVES.sub("\ufffd", text)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def census(source: Source, limit: int | None = None) -> Census:
    """One reading of everything: how many rows, how long, and whether it can be read to its end at all."""
    count = bad = characters = longest = size = 0
    reason = ""
    kept = kept_columns(source, next(_opened(source))[0])
    for row in rows(source, kept, limit):
        length = len(row.text or "") + len(row.text_b or "")
        count, characters, bad = count + 1, characters + length, bad + (row.error is not None)
        reason = reason or row.error or ""
        if row.error is None and length > size:
            longest, size = row.number, length
    if count == 0:
        raise InputError(f"{source.data!r} has no rows: there is nothing to explain")
    if bad == count:
        raise InputError(f"none of the {count} rows of {source.data!r} can be explained; the first: {reason}")
    return Census(count, bad, characters, longest, kept)


def groups(some: Iterable[DataRow], size: int) -> Iterator[tuple[DataRow, ...]]:
    """Runs of `size` rows; the last may be shorter."""
    each = iter(some)
    while group := tuple(islice(each, size)):
        yield group


def digest(group: Iterable[DataRow]) -> str:
    """Identifies the content of rows, texts and carried columns: a change is noticed when a run goes on."""
    texts, kept = hashlib.sha256(), hashlib.sha256()
    for row in group:
        for hashed, parts in ((texts, (row.id, row.text, row.text_b, row.error)), (kept, row.kept)):
            for part in parts:
                hashed.update(b"\x00" if part is None else f"\x01{part}".encode("utf-8", "surrogatepass"))
            hashed.update(b"\x02")
    return f"{texts.hexdigest()[:32]}-{kept.hexdigest()[:32]}"


def readable(source: Source) -> list[DataRow]:
    """The rows that are texts; the others are left out, with a warning that counts them."""
    everything = list(rows(source))
    good, bad = ([row for row in everything if (row.error is None) is right] for right in (True, False))
    if not good:
        reason = f"; the first: {bad[0].error}" if bad else ""
        raise InputError(f"{source.data!r} has no row with a text that can be explained{reason}")
    if bad:
        left_out = f"{len(bad)} of {len(everything)} rows of {source.data!r} cannot be explained and are left out"
        warnings.warn(f"{left_out}; the first is row {bad[0].number}: {bad[0].error}", stacklevel=2)
    return good


def read_sample(
    data: str, text: str = "text", text_b: str | None = None, label: str | None = None, *,
    limit: int | None = None, seed: int = 0, **reading: Any,
) -> tuple[list[str], list[str] | None, list[str | None] | None]:  # fmt: skip
    """Texts, second texts and labels of a data file; rows that are no text are left out, with a warning that counts them.

    limit: a seeded sample. reading: encoding, separator, quoting, header, split, config, as in `Source`.
    """
    if limit is not None:
        whole_number("limit", limit)
    source = Source(data, text, text_b, keep=(label,) if label else (), **reading)
    good = readable(source)
    if limit is not None and limit < len(good):
        good = [good[i] for i in sorted(Random(seed).sample(range(len(good)), limit))]
    return (
        [row.text or "" for row in good],
        [row.text_b or "" for row in good] if text_b else None,
        [row.kept[0] for row in good] if label else None,
    )
