"""The embeddings in LanceDB: an embedded vector store that also runs on object storage. Nothing else imports it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pathlens.errors import MissingError, StoreError

NAME = "embeddings"


def _connect(where: str) -> Any:
    for name in ("LANCE_LOG", "LANCEDB_LOG"):
        os.environ.setdefault(name, "error")  # it warns of every new table
    try:
        import lancedb
    except ImportError as error:
        raise MissingError("an index needs a vector store: pip install 'pathlens[index]' (lancedb, pyarrow)") from error
    try:
        return lancedb.connect(where)
    except Exception as error:  # whatever the store raises
        raise StoreError(f"cannot open a table of embeddings at {where!r}: {_first(error)}") from error


def ready(where: str) -> None:
    """Can a table be written there? Asked before the work."""
    _connect(where)


def digest(embeddings: np.ndarray) -> str:
    """Of the numbers themselves, in order: the store keeps no checksum of its own."""
    return hashlib.sha256(np.ascontiguousarray(embeddings, dtype=np.float32).tobytes()).hexdigest()


def write(where: str, embeddings: np.ndarray, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace the table: one row per passage, `number` counting from 0."""
    import pyarrow as pa

    database = _connect(where)
    width = embeddings.shape[1]
    flat = pa.array(np.ascontiguousarray(embeddings, dtype=np.float32).ravel())
    columns = {
        "number": pa.array(range(len(rows)), pa.int64()),
        "vector": pa.FixedSizeListArray.from_arrays(flat, width),
        "name": pa.array([row["name"] for row in rows], pa.string()),
        "document": pa.array([row["document"] for row in rows], pa.int64()),
        "start": pa.array([row["start"] for row in rows], pa.int64()),
    }
    try:
        database.drop_table(NAME, ignore_missing=True)  # overwriting would keep the old version on disk
        database.create_table(NAME, data=pa.table(columns))
    except Exception as error:  # whatever the store raises
        raise StoreError(
            f"cannot write the table of embeddings to {where!r}: {_first(error)}; the vector files are kept, run the same "
            "`pathlens index build` again"
        ) from error


def nearest(
    where: str, query: np.ndarray, k: int, similarity: str, expected: int, sha256: str | None = None
) -> list[dict[str, Any]]:
    """The k nearest rows (number, _distance); the table is checked first."""
    table = check(where, expected, sha256)
    metric = "cosine" if similarity == "cosine" else "dot"
    try:
        asked = table.search(query.astype(np.float32), vector_column_name="vector").distance_type(metric).limit(k)
        rows = asked.select(["number", "_distance"]).to_list()
    except Exception as error:  # whatever the store raises
        raise damaged(where, error) from error
    if not all(0 <= row["number"] < expected for row in rows):
        raise damaged(where, "it names passages that the index does not have")
    return rows


def check(where: str, expected: int, sha256: str | None = None) -> Any:
    """The table, when it is there and has the rows (and, with a checksum given, the numbers) it should have."""
    try:
        table = _connect(where).open_table(NAME)
        found = table.count_rows()
        same = found != expected or sha256 is None or digest(_embeddings(table)) == sha256
    except MissingError:
        raise
    except Exception as error:
        raise damaged(where, error) from error
    if found != expected:
        raise damaged(where, f"it has {found} rows instead of {expected}")
    if not same:
        raise damaged(where, "its numbers are not those this index was built with")
    return table


def _embeddings(table: Any) -> np.ndarray:
    """(N, k) in the order of `number`."""
    rows = table.to_arrow()
    order = np.argsort(rows["number"].to_numpy(), kind="stable")
    vectors = rows["vector"].combine_chunks()
    return vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(rows), -1)[order]


def _first(error: Any) -> str:
    said = re.sub(r",? /\S+\.rs\b\S*", "", str(error)).strip()  # where in the store's own source it happened
    return said.splitlines()[0][:200] if said else type(error).__name__


def damaged(where: str, error: Any) -> StoreError:
    return StoreError(
        f"the table of embeddings {where!r} is missing or damaged ({_first(error)}); nothing is lost: `pathlens index repair` writes "
        "it again from the vector files, without the model"
    )
