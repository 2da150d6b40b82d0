"""Where texts come from: one file, or one data set of `datasets`, as columns and a stream of records.

Nothing is held in memory. A record is a mapping from column to value, or a string that says why that one row cannot
be read.
"""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pathlens.errors import InputError, MissingError, first_line
from pathlens.files import opened, text_encoding

Record = Mapping[str, Any] | str
LONGEST_FIELD = 1 << 26  # characters; the csv module's own limit of 131 072 is shorter than a long document
SEPARATORS = (",", ";", "\t")  # Excel writes semicolons where a comma is a decimal point
LOOKED_AT = 50  # records of a JSON lines file that are looked at to learn its columns


@dataclass(frozen=True)
class Source:
    """Where the texts are and how to read them."""

    data: str  # a file, a folder of files, or a hub id
    text: str = "text"  # the column to explain
    text_b: str | None = None  # the second text's column
    id: str | None = None  # a column that names rows; None: the row number
    keep: tuple[str, ...] | None = None  # columns to carry along; None: all others that hold plain values
    encoding: str = "utf-8"  # a file that is not is read as UTF-16 by its mark, else as Windows-1252, with a warning
    separator: str | None = None  # None: the one its header shows; without a header .csv a comma, .tsv a tab
    quoting: bool | None = None  # None: by the file's name (.csv yes, .tsv no)
    header: bool = True  # without one, columns are called 0, 1, 2, …
    split: str = "train"  # of a hub data set
    config: str | None = None  # of a hub data set


@dataclass(frozen=True, slots=True)
class DataRow:
    """One row of the data; `error` says why it cannot be explained."""

    number: int
    id: str
    text: str | None
    text_b: str | None = None
    kept: tuple[str | None, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class OpenTable:
    """All columns, those that can be carried along, and the records, with at least the columns they are asked for."""

    columns: tuple[str, ...]
    plain: tuple[str, ...]
    records: Callable[[tuple[str, ...]], Iterator[Record]]


def open_file(path: Path, source: Source, stack: ExitStack) -> OpenTable:
    """A file by its name: .csv .tsv .jsonl .ndjson .json .txt (also .gz), .parquet."""
    kind = KINDS.get(suffix(path))
    if kind is None:
        raise InputError(f"cannot tell how to read {path.name!r}; data files end in {', '.join(KINDS)}")
    try:
        return kind(path, source, stack)
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except LookupError as error:
        raise InputError(f"encoding={source.encoding!r} is not known ({error})") from error


def suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _lines(path: Path, source: Source, stack: ExitStack, newline: str) -> Iterator[str]:
    """Lines; bytes that are no text become lone surrogates, so that only their own row suffers."""
    try:
        usual = source.encoding.lower().replace("_", "-") in ("utf-8", "utf8")
        encoding = text_encoding(path) if usual else source.encoding
        raw = stack.enter_context(opened(path))
        stream = io.TextIOWrapper(raw, encoding=encoding, errors="surrogateescape", newline=newline)
        stack.enter_context(stream)
        yield from stream
    except UnicodeError as error:
        raise InputError(f"{str(path)!r} is not {source.encoding} text ({error}); name its encoding") from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{str(path)!r} is damaged: {error}") from error


def damaged(text: str) -> bool:
    """Does a text hold what no encoding has: bytes that were none of its own, or half of a character (JSON's \\ud800)?"""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _first(path: Path, source: Source, lines: Iterator[str], *, strict: bool) -> tuple[str, Iterator[str]]:
    """The first line, checked, and all of them again."""
    first = next(lines, None)
    if first is None:
        raise InputError(f"{str(path)!r} is empty: there is nothing to explain")
    if "\0" in first or (strict and damaged(first)):
        raise InputError(
            f"{str(path)!r} is not {source.encoding} text: save it as UTF-8, or name what it is where a data set is read "
            "(`pathlens run` and `evaluate`: --encoding utf-16)"
        )
    return first, chain([first], lines)


def _separated(path: Path, source: Source, stack: ExitStack) -> OpenTable:
    tabs = suffix(path) == ".tsv"
    if source.separator is not None and len(source.separator) != 1:
        raise InputError(f"separator must be one character, got {source.separator!r}")
    quoted = (not tabs) if source.quoting is None else source.quoting
    lines = _lines(path, source, stack, "" if quoted else "\n")
    csv.field_size_limit(LONGEST_FIELD)
    header, lines = _first(path, source, lines, strict=source.header)
    separator = source.separator or _separator(header, "\t" if tabs else ",", source)
    table = csv.reader(lines, delimiter=separator) if quoted else (_fields(line, separator) for line in lines)
    table = (fields for fields in table if fields)  # blank lines, as pandas and polars do
    try:
        first = next(table, [])
    except csv.Error as error:
        raise InputError(f"{str(path)!r} cannot be read as a table ({error})") from error
    if not first:
        raise InputError(f"{str(path)!r} has no rows: there is nothing to explain")
    columns = tuple(name.strip() for name in first) if source.header else tuple(map(str, range(len(first))))
    doubled = {name for name in columns if columns.count(name) > 1}
    plain = tuple(name for name in columns if name or "" not in doubled)  # nobody asks for empty columns by name
    if doubled - {""}:
        raise InputError(f"{str(path)!r} has the column {min(doubled - {''})!r} twice")
    rows = table if source.header else chain([first], table)
    return OpenTable(columns, plain, partial(_by_name, path, rows, columns, not source.header))


def _separator(header: str, usual: str, source: Source) -> str:
    """Of ours, the one under which the header has the columns asked for, else most columns; without a header the usual."""
    asked = {column for column in (source.text, source.text_b, source.id, *(source.keep or ())) if column is not None}
    split = {mark: next(csv.reader([header], delimiter=mark)) for mark in (usual, *SEPARATORS)}
    columns = {mark: [name.strip() for name in names] for mark, names in split.items()}
    able = (mark for mark in columns if source.header)
    return max(able, key=lambda mark: (asked <= set(columns[mark]), len(columns[mark])), default=usual)


def _fields(line: str, separator: str) -> list[str]:
    line = line.rstrip("\r\n")
    return line.split(separator) if line.strip() else []


def _by_name(
    path: Path, rows: Iterator[list[str]], columns: tuple[str, ...], ragged: bool, chosen: tuple[str, ...]
) -> Iterator[Record]:
    """Rows of a table without a header may differ in length, as long as they reach the columns asked for."""
    places = {name: columns.index(name) for name in chosen}
    least = max(places.values(), default=0) + 1 if ragged else len(columns)
    try:
        for fields in rows:
            if len(fields) < least or (not ragged and len(fields) > len(columns)):
                yield f"the row has {len(fields)} fields where {least} were expected: a stray separator or quote"
            else:
                yield {name: fields[place] for name, place in places.items()}
    except csv.Error as error:
        raise InputError(
            f"{str(path)!r} cannot be read as a table ({error}): a stray quote? --no-quoting takes quotes as they are"
        ) from error


def _text_lines(path: Path, source: Source, stack: ExitStack) -> OpenTable:
    """One text a line, in a column called "text"."""
    _, lines = _first(path, source, _lines(path, source, stack, "\n"), strict=False)
    records = ({"text": line.rstrip("\r\n")} for line in lines if line.strip())
    return OpenTable(("text",), ("text",), lambda _: records)


def _json_lines(path: Path, source: Source, stack: ExitStack) -> OpenTable:
    first, lines = _first(path, source, _lines(path, source, stack, "\n"), strict=False)
    if first.lstrip().startswith("["):
        raise InputError(f"{str(path)!r} is one JSON array; write one object a line (JSON lines)")
    records = (_object(line) for line in lines if line.strip())
    seen = list(islice(records, LOOKED_AT))
    objects = [each for each in seen if not isinstance(each, str)]
    if seen and not objects:
        raise InputError(f"{str(path)!r} is not JSON lines: {seen[0]}")
    columns = tuple(dict.fromkeys(name for each in objects for name in each))
    nested = {name for each in objects for name, value in each.items() if isinstance(value, list | dict)}
    plain = tuple(name for name in columns if name not in nested and not damaged(name))
    return OpenTable(columns, plain, lambda _: chain(seen, records))


def _object(line: str) -> Record:
    if damaged(line):
        return "the line holds bytes that are not of the file's encoding"
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"the line is not JSON ({error})"
    return value if isinstance(value, dict) else f"the line is not a JSON object but {type(value).__name__}"


def _parquet(path: Path, source: Source, stack: ExitStack) -> OpenTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = stack.enter_context(pq.ParquetFile(path))
        schema = file.schema_arrow
    except pa.ArrowException as error:
        raise InputError(f"{str(path)!r} is not a whole Parquet file ({first_line(error)})") from error

    def records(chosen: tuple[str, ...]) -> Iterator[Record]:
        try:
            for batch in file.iter_batches(1024, columns=list(chosen)):
                yield from batch.to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{str(path)!r} is damaged ({first_line(error)})") from error

    plain = tuple(field.name for field in schema if not pa.types.is_nested(field.type))
    return OpenTable(tuple(schema.names), plain, records)


def open_hub(source: Source) -> OpenTable:
    """A data set of the hub, or a folder that `save_to_disk` wrote, through `datasets`; read from its cache on disk."""
    try:
        import datasets
    except ImportError as error:
        here = f"{source.data!r} is no file or folder here"
        raise MissingError(f"{here}, and hub ids need: pip install datasets") from error
    datasets.disable_progress_bars()
    try:
        table = _load_hub(datasets, source)
    except InputError:
        raise
    except Exception as error:  # whatever a hub, a network or a script of the data set raises
        raise InputError(
            f"{source.data!r} is no file or folder here, and as a data set it could not be loaded ({first_line(error)})"
        ) from error
    columns = tuple(table.column_names)
    plain = tuple(n for n in columns if getattr(table.features[n], "dtype", "") not in ("list", "dict", ""))
    return OpenTable(columns, plain, lambda chosen: map(dict, table.select_columns(list(chosen)).with_format(None)))


def _load_hub(datasets: Any, source: Source) -> Any:
    if not (Path(source.data).is_dir() and is_saved(Path(source.data))):
        from pathlens.text.load import cache_alone_without_hub  # with torch, which files do not wait for

        with cache_alone_without_hub():
            return datasets.load_dataset(source.data, source.config, split=source.split)
    saved = datasets.load_from_disk(source.data)
    if not isinstance(saved, datasets.DatasetDict):
        return saved
    if source.split not in saved:
        raise InputError(f"{source.data!r} has no split {source.split!r}; --split takes one of {', '.join(saved)}")
    return saved[source.split]


def is_saved(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("dataset_dict.json", "state.json"))


KINDS: dict[str, Callable[[Path, Source, ExitStack], OpenTable]] = {
    **dict.fromkeys((".csv", ".tsv"), _separated),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), _json_lines),
    ".txt": _text_lines,
    ".parquet": _parquet,
}
