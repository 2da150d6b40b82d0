"""One explanation ↔ one row of a Parquet file, in types every reader knows: numbers, strings, lists of them.

What a kind of result has beyond the plain columns (a word path, the phrases of a tree, notes) is JSON in `detail`,
so a row turns back into the very result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from pathlens.corpus.formats import DataRow
from pathlens.errors import PathlensError
from pathlens.explanation import store
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.record import PairExplanation
from pathlens.units.units import units

VERSION = 2  # raised when a reader of the old files would misread the new ones
COLUMNS: dict[str, pa.DataType] = {
    "row": pa.int64(),
    "id": pa.string(),
    "text": pa.string(),
    "text_b": pa.string(),
    "error": pa.string(),  # null where the row was explained
    "kind": pa.string(),  # Explanation, PairExplanation, …
    "method": pa.string(),
    "target": pa.string(),
    "tokens": pa.list_(pa.string()),
    "offsets": pa.list_(pa.list_(pa.int32())),  # characters [start, end) of each token
    "special": pa.list_(pa.bool_()),
    "segments": pa.list_(pa.int8()),  # 0: text, 1: text_b, -1: special
    "words": pa.list_(pa.int32()),  # number of the word each token belongs to; -1: special
    "scores": pa.list_(pa.float64()),
    "tokens_b": pa.list_(pa.string()),  # of a pair: the second text's
    "offsets_b": pa.list_(pa.list_(pa.int32())),
    "special_b": pa.list_(pa.bool_()),
    "words_b": pa.list_(pa.int32()),
    "matrix": pa.list_(pa.float64()),  # row by row; of a pair with the reference row and column
    "shape": pa.list_(pa.int32()),
    "f_input": pa.float64(),
    "f_baseline": pa.float64(),
    "total": pa.float64(),
    "gap": pa.float64(),
    "relative_gap": pa.float64(),
    "tolerance": pa.float64(),
    "bound": pa.float64(),
    "converged": pa.bool_(),
    "nodes": pa.int64(),
    "passes": pa.int64(),
    "error_estimate": pa.list_(pa.float64()),
    "gaps": pa.list_(pa.float64()),  # of single tokens or rows, where each has its own sum
    "sum_of": pa.string(),  # what the gap is of: total, per token, matrix, vector
    "predicted": pa.float64(),  # by the scores, of the strongest units at the baseline; null where nothing was asked
    "actual": pa.float64(),  # what the model does then
    "agrees": pa.bool_(),
    "detail": pa.string(),
    "seal": pa.string(),  # a checksum of the result that the row gives back
}
PROOF = {"rows": "gaps", "kind": "sum_of"}  # fields of the certificate under another name
SIDE = ("tokens", "offsets", "special")
FIELDS: dict[str, dict[str, str]] = {  # kind -> field of the result -> column
    "Explanation": {**{name: name for name in (*SIDE, "segments", "scores")}},
    "Interactions": {**{name: name for name in (*SIDE, "segments", "scores", "matrix")}},
    "PhraseTree": {**{name: name for name in (*SIDE, "scores")}},
    "VectorExplanation": {**{name: name for name in (*SIDE, "segments")}, "vectors": "matrix"},
    "PairExplanation": {
        **{f"{name}_a": name for name in SIDE},
        **{f"{name}_b": f"{name}_b" for name in SIDE},
        "full_matrix": "matrix",
    },
}
SHARED = ("method", "target", "certificate", "meta", "seal")
# in the manifest, in columns of their own, never twice alike, or only of use where another target can be asked for
RUN_META = ("seconds", "versions", "texts", "targets")


@dataclass(frozen=True)
class Tally:
    """Counts of explained rows."""

    rows: int = 0
    failed: int = 0
    unconverged: int = 0
    tokens: int = 0
    passes: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(sum, zip(astuple(self), astuple(other), strict=True)))


def schema(kept: Sequence[str]) -> pa.Schema:
    """The plain columns and those carried along from the data."""
    return pa.schema([*COLUMNS.items(), *((column, pa.string()) for column in carried(kept))])


def carried(kept: Sequence[str]) -> list[str]:
    """Names of the data's columns here; one that is ours already gets `data_` before it, one without a name is `unnamed`.

    Names that differ in their capitals alone count as one: DuckDB and many a table know no difference.
    """
    names: dict[int, str] = {}
    taken = set(COLUMNS)
    for renaming in (False, True):  # a name that can stay as it is comes first
        for k, given in enumerate(kept):
            name = given or "unnamed"
            while renaming and name.lower() in taken:
                name = f"data_{name}"
            if k not in names and name.lower() not in taken:
                names[k] = name
                taken.add(name.lower())
    return [names[k] for k in range(len(kept))]


@dataclass(frozen=True)
class Failure:
    """Why a row was not explained, in plain values: not every exception can go from one process to another."""

    words: str  # the exception's class and what it says, on one line
    ours: bool  # said by this library, of a text or a choice; else something broke

    @staticmethod
    def of(error: BaseException) -> Failure:
        return Failure(f"{type(error).__name__}: {' '.join(str(error).split())}", isinstance(error, PathlensError))


@dataclass(frozen=True, eq=False)
class ExplainedBatch:
    """A batch: its table, and each row's failure (None where it was explained, or was no text)."""

    table: pa.Table
    failures: tuple[Failure | None, ...]

    @staticmethod
    def of(rows: Sequence[DataRow], results: Sequence[Any], kept: Sequence[str]) -> ExplainedBatch:
        """Rows and what became of them: a result, an exception, or None where the row was no text."""
        failures = tuple(Failure.of(each) if isinstance(each, BaseException) else None for each in results)
        names, records = carried(kept), []
        for row, result, failure in zip(rows, results, failures, strict=True):
            record = {"row": row.number, "id": row.id, "text": row.text, "text_b": row.text_b, "error": row.error}
            if failure is not None:
                record["error"] = failure.words
            elif result is not None:
                record |= _result(row, result)
            records.append({**record, **dict(zip(names, row.kept, strict=True))})
        return ExplainedBatch(pa.Table.from_pylist(records, schema=schema(kept)), failures)


def _result(row: DataRow, result: Any) -> dict[str, Any]:
    kind, result = type(result).__name__, result.derived() if result.altered else result
    columns = FIELDS[kind]
    record: dict[str, Any] = {"kind": kind, "method": result.method, "target": result.target}
    for name, column in columns.items():
        value = getattr(result, name)
        if column == "matrix":
            record["shape"] = value.shape
            value = np.asarray(value, dtype=float).ravel()
        record[column] = value
    for field in fields(Certificate):
        record[PROOF.get(field.name, field.name)] = getattr(result.certificate, field.name)
    if result.check is not None and result.check.applies:
        record |= {name: getattr(result.check, name) for name in ("predicted", "actual", "agrees")}
    rest = {f.name: getattr(result, f.name) for f in fields(result) if f.name not in (*SHARED, *columns)}
    empty = [name for name, value in rest.items() if value is None or (isinstance(value, str | tuple) and not value)]
    rest = {name: store.plain(value) for name, value in rest.items() if name not in empty}
    rest["meta"] = store.plain({name: value for name, value in result.meta.items() if name not in RUN_META})
    record["detail"] = json.dumps(rest, ensure_ascii=False, sort_keys=True)
    record |= _words(row, result)
    given_back = result_of({"row": row.number, "id": row.id, "text": row.text, "text_b": row.text_b, **record})
    return {**record, "seal": given_back.derived(edited=result.edited).seal}


def _words(row: DataRow, result: Any) -> dict[str, list[int]]:
    """Which word each token belongs to, so that sums by word need nothing but these files."""
    if isinstance(result, PairExplanation):
        return {
            "words": word_numbers(result.tokens_a, result.offsets_a, _sides(result.added[0]), [row.text]),
            "words_b": word_numbers(result.tokens_b, result.offsets_b, _sides(result.added[1]), [row.text_b]),
        }
    if getattr(result, "sources", ()):  # a block's tokens come once per input
        return {}
    return {"words": word_numbers(result.tokens, result.offsets, result.homes, [row.text, row.text_b or ""])}


def _sides(special: Sequence[bool]) -> list[int]:
    return [-1 if flag else 0 for flag in special]


def word_numbers(tokens: Any, offsets: Any, segments: Any, texts: Any) -> list[int]:
    if not tokens:
        return []
    home = units("word", tokens, offsets, segments, texts).members.argmax(0)
    return [-1 if segment < 0 else int(word) for word, segment in zip(home, segments, strict=True)]


def result_of(record: Mapping[str, Any]) -> Any:
    """A row as a result again; None where the row has an error."""
    if record.get("error") is not None or record["kind"] is None:
        return None
    detail = json.loads(record["detail"])
    texts = [text for text in (record["text"], record["text_b"]) if text is not None]
    body = {
        **detail,
        "pathlens": store.SCHEMA,
        **{name: record[name] for name in ("kind", "method", "target", "seal") if name in record},
        "certificate": {f.name: record[PROOF.get(f.name, f.name)] for f in fields(Certificate)},
        "meta": {**detail["meta"], "texts": texts, "row": record["row"], "id": record["id"]},
    }
    for name, column in FIELDS[record["kind"]].items():
        value = record[column]
        body[name] = np.array(value, dtype=float).reshape(record["shape"]) if column == "matrix" else value
    return store.from_dict(body, source=f"row {record['row']}")


def tally(part: pa.Table) -> Tally:
    """Counts of a finished table."""
    errors = part.column("error").null_count
    converged = part.column("converged").to_pylist()
    tokens = sum(len(each or ()) for name in ("tokens", "tokens_b") for each in part.column(name).to_pylist())
    passes = sum(each or 0 for each in part.column("passes").to_pylist())
    return Tally(len(part), len(part) - errors, converged.count(False), tokens, passes)
