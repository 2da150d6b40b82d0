"""The table of an index: one row a passage, with its text and its embedding, in LanceDB, which also searches it.

An embedded vector store that runs on object storage too; nothing else imports it. Rows lie in parts of some hundred or
thousand; a part's sum (of a digest of every row, modulo 2²⁵⁶) does not hang on their order, so a row can leave or come
without the others being read.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from pathlens.errors import MissingError, StoreError

SUM = 1 << 256
# rows from which the store's own index is built; fewer are compared one by one in milliseconds
NEIGHBOURS_FROM = 10_000
PROBES = 24  # lists of it that are looked through
COLUMNS = ("part", "slot", "document", "name", "start", "text")
ONCE = 2_000  # names in one question


@dataclass(frozen=True, eq=False)
class IndexRow:
    """A passage: which document it is of, where it begins there, and where its stored vectors are, if any."""

    part: int
    slot: int
    document: int
    name: str
    start: int
    text: str
    vector: np.ndarray  # e(text), float32
    score: float = float("nan")  # of a search

    @property
    def mark(self) -> int:
        plain = repr((self.slot, self.document, self.name, self.start, self.text)).encode()
        return int.from_bytes(hashlib.sha256(plain + np.asarray(self.vector, dtype=np.float32).tobytes()).digest())


def among(names: Sequence[str]) -> Iterator[str]:
    """Conditions that are true of rows with these names, some of the names in each."""
    for start in range(0, len(names), ONCE):
        quoted = ", ".join("'" + name.replace("'", "''") + "'" for name in names[start : start + ONCE])
        yield f"name IN ({quoted})"


def sum_of(rows: Iterable[IndexRow]) -> str:
    """Of a part."""
    return f"{sum(row.mark for row in rows) % SUM:064x}"


class Table:
    """The rows at an address (any of LanceDB's), under a name; `version` is the store's own count of changes."""

    def __init__(self, where: str, name: str) -> None:
        self.where, self.name = where, name

    def connect(self) -> Any:
        """The store; asked for before the work, it says whether a table can be written there at all."""
        for name in ("LANCE_LOG", "LANCEDB_LOG"):
            os.environ.setdefault(name, "error")  # it warns of every new table
        try:
            import lancedb
        except ImportError as error:
            raise MissingError(
                "an index needs a vector store: pip install 'pathlens[index]' (lancedb, pyarrow)"
            ) from error
        try:
            return lancedb.connect(self.where)
        except Exception as error:  # whatever the store raises
            raise StoreError(f"cannot open a table of embeddings at {self.where!r}: {what_it_says(error)}") from error

    def names(self) -> list[str]:
        """Of all tables at this address."""
        with _in_a_line(self, "read"):
            return [str(name) for name in self.connect().list_tables().tables]

    def create(self, width: int) -> None:
        """An empty table, in the place of one of this name."""
        import pyarrow as pa

        kinds = {name: pa.string() if name in ("name", "text") else pa.int64() for name in COLUMNS}
        schema = pa.schema({**kinds, "vector": pa.list_(pa.float32(), width)})
        with _in_a_line(self, "write"):
            database = self.connect()
            database.drop_table(self.name, ignore_missing=True)
            database.create_table(self.name, schema=schema)

    def drop(self) -> None:
        with _in_a_line(self, "write"):
            self.connect().drop_table(self.name, ignore_missing=True)

    def open(self, version: int | None = None) -> Any:
        """The store's own object, as it was at a version."""
        with _in_a_line(self, "read"):
            table = self.connect().open_table(self.name)
            if version is not None and table.version != version:
                table.checkout(version)
            return table

    @property
    def version(self) -> int:
        return int(self.open().version)

    def add(self, rows: Sequence[IndexRow]) -> None:
        import pyarrow as pa

        flat = np.concatenate([np.asarray(row.vector, dtype=np.float32) for row in rows])
        columns: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
        columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(flat), len(rows[0].vector))
        with _in_a_line(self, "write"):
            self.open().add(pa.table(columns))

    def delete(self, condition: str) -> None:
        with _in_a_line(self, "write"):
            self.open().delete(condition)

    def restore(self, version: int) -> None:
        """Back to what it was at a version."""
        with _in_a_line(self, "write"):
            table = self.open()
            table.checkout(version)
            table.restore()

    def settle(self, metric: str, count: int) -> None:
        """Small pieces joined, and from some size on the store's index of neighbours, of exact distances in lists."""
        with _in_a_line(self, "write"):
            table = self.open()
            if count >= NEIGHBOURS_FROM and not table.list_indices():
                from lancedb.index import IvfFlat

                kind: Any = metric
                lists = max(1, int(np.sqrt(count)))
                table.create_index("vector", config=IvfFlat(kind, lists, max_iterations=10, sample_rate=64))
            table.optimize()

    def forget(self) -> None:
        """Older versions are removed from the disk."""
        with _in_a_line(self, "write"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of readers of older versions: ours read the manifest again
            self.open().optimize(cleanup_older_than=timedelta(0), delete_unverified=True)

    def part(self, number: int) -> list[IndexRow]:
        """Every row of a part."""
        return list(self._rows(f"part = {int(number)}"))

    def named(self, names: Sequence[str], version: int) -> list[IndexRow]:
        """Every row of these documents."""
        return [row for these in among(names) for row in self._rows(these, version)]

    def count(self) -> int:
        with _in_a_line(self, "read"):
            return int(self.open().count_rows())

    def _rows(self, condition: str, version: int | None = None) -> Iterator[IndexRow]:
        with _in_a_line(self, "read"):
            table = self.open(version)
            arrow = table.search().where(condition).limit(max(1, table.count_rows())).to_arrow()
        vectors = arrow["vector"].combine_chunks()
        numbers = vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(arrow), -1) if len(arrow) else []
        for plain, vector in zip(arrow.select(COLUMNS).to_pylist(), numbers, strict=True):
            yield IndexRow(**plain, vector=vector)

    def nearest(
        self, query: np.ndarray, k: int, similarity: str, version: int, *, exact: bool = False
    ) -> list[IndexRow]:
        """The k nearest rows with their similarity; nothing else of the table is read where it has an index of neighbours."""
        metric = "cosine" if similarity == "cosine" else "dot"
        with _in_a_line(self, "read"):
            table = self.open(version)
            search = table.search(query.astype(np.float32), vector_column_name="vector").distance_type(metric).limit(k)
            every = exact or not self._indexed(table, metric)
            search = search.bypass_vector_index() if every else search.nprobes(PROBES)
            rows = search.select([*COLUMNS, "vector", "_distance"]).to_list()
        return [_nearest_row(row) for row in rows]

    @staticmethod
    def _indexed(table: Any, metric: str) -> bool:
        """Has the table an index of neighbours for this metric?"""
        of = [table.index_stats(each.name) for each in table.list_indices()]
        return any(stats is not None and stats.distance_type == metric for stats in of)

    def damaged(self, error: Any) -> StoreError:
        return StoreError(
            f"the table of embeddings {self.where!r} is missing or damaged ({what_it_says(error)})",
            "`pathlens index check` says which parts, `pathlens index repair` writes them again from stored vectors; where "
            "none are stored, run the same `pathlens index build` again",
        )


def _nearest_row(row: Mapping[str, Any]) -> IndexRow:
    plain = {name: row[name] for name in COLUMNS}
    return IndexRow(**plain, vector=np.asarray(row["vector"], dtype=np.float32), score=1.0 - float(row["_distance"]))


class _in_a_line:
    """Whatever the store raises inside is one line of ours."""

    def __init__(self, table: Table, doing: str) -> None:
        self.table, self.doing = table, doing

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None or isinstance(error, StoreError | MissingError) or not isinstance(error, Exception):
            return
        if self.doing == "read":
            raise self.table.damaged(error) from error
        raise StoreError(
            f"cannot write the table of embeddings at {self.table.where!r}: {what_it_says(error)}; finished parts are kept, "
            "run the same command again"
        ) from error


def what_it_says(error: Any) -> str:
    """The first line, without the place in the store's own source where it happened."""
    text = re.sub(r",? /\S+\.rs\b\S*", "", str(error)).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
