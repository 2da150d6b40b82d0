"""The embeddings in LanceDB: an embedded vector store that also runs on object storage. Nothing else imports it."""

from __future__ import annotations

import os
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
        raise MissingError(
            "an index needs a vector store: pip install 'pathlens[index]' (lancedb, pyarrow)"
        ) from error
    return lancedb.connect(where)


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
    database.drop_table(NAME, ignore_missing=True)  # overwriting would keep the old version on disk
    database.create_table(NAME, data=pa.table(columns))


def nearest(where: str, query: np.ndarray, k: int, similarity: str, expected: int) -> list[dict[str, Any]]:
    """The k nearest rows (number, name, document, start, _distance); the table is checked first."""
    table = check(where, expected)
    metric = "cosine" if similarity == "cosine" else "dot"
    try:
        asked = (
            table.search(query.astype(np.float32), vector_column_name="vector").distance_type(metric).limit(k)
        )
        return asked.select(["number", "name", "document", "start", "_distance"]).to_list()
    except Exception as error:  # whatever the store raises
        raise _damaged(where, error) from error


def check(where: str, expected: int) -> Any:
    """The table, when it is there and has the rows it should have."""
    try:
        table = _connect(where).open_table(NAME)
        found = table.count_rows()
    except MissingError:
        raise
    except Exception as error:
        raise _damaged(where, error) from error
    if found != expected:
        raise _damaged(where, f"it has {found} rows instead of {expected}")
    return table


def _damaged(where: str, error: Any) -> StoreError:
    first = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
    return StoreError(
        f"the table of embeddings {where!r} is missing or damaged ({first}); nothing is lost: `pathlens index repair` writes "
        "it again from the vector files, without the model"
    )
