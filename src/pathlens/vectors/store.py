"""What lies on disk: files of token vectors, and a table of embeddings that is searched.

A vector file is one safetensors file with a JSON header and a checksum over everything, written whole or not at all.
The table is in LanceDB, an embedded vector store that also runs on object storage; nothing else imports it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.errors import MissingError, NumberError, StoreError
from pathlens.explanation.pair import Side
from pathlens.files import write_whole

FORMAT = 3  # files of another format are refused
ENCODE_AGAIN = "encode the texts again and save them"
# of a text, in the header
PLAIN = ("text", "tokens", "offsets", "special", "gap", "nodes", "passes", "notes", "baseline")
STACKED = ("reference", "embedding")  # one row per text
FLAT = ("vectors", "error")  # one row per unit, texts one after another
STORAGES = ("full", "strongest")
REMAINDER = "(remainder)"
TABLE = "embeddings"


def save(sides: Sequence[Side], header: Mapping[str, Any], path: str | Path) -> Path:
    """Write one file for all texts."""
    from safetensors.numpy import save as to_bytes

    for number, side in enumerate(sides):
        if not isinstance(side.text, str):
            raise StoreError(f"item {number} is not a text, so its vectors cannot be saved with it")
    arrays = {name: np.stack([getattr(side, name) for side in sides]) for name in STACKED}
    arrays |= {name: np.concatenate([getattr(side, name) for side in sides]) for name in FLAT}
    arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    items = [{name: getattr(side, name) for name in PLAIN} for side in sides]
    body = json.dumps({"header": dict(header), "items": items}, ensure_ascii=False)
    facts = {"pathlens_vectors": str(FORMAT), "body": body, "sha256": _checksum(body, arrays)}
    write_whole(Path(path), to_bytes(arrays, metadata=facts))
    return Path(path)


def load(path: str | Path) -> tuple[tuple[Side, ...], dict[str, Any]]:
    """What `save` was given; a damaged file is named and refused."""
    path = Path(path)
    if path.is_dir():
        raise StoreError(f"{str(path)!r} is a folder; give the file that `save` wrote")
    if not path.exists():
        raise StoreError(f"cannot read {str(path)!r}: there is no such file")
    try:
        body, arrays = _read(path)
        return tuple(_sides(body["items"], arrays)), body["header"]
    except (ValueError, KeyError, IndexError, TypeError) as error:  # a header with a few wrong characters
        raise StoreError(f"{str(path)!r} is damaged ({error})", ENCODE_AGAIN) from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="np") as stream:
            facts = stream.metadata() or {}
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise StoreError(
            f"{str(path)!r} is damaged or only half written ({error})", "write it again: pl.encode(...).save(path)"
        ) from error
    if "pathlens_vectors" not in facts:
        raise StoreError(f"{str(path)!r} does not hold pathlens vectors (its header does not say so)")
    if int(facts["pathlens_vectors"]) != FORMAT:
        raise StoreError(
            f"{str(path)!r} was written by another version of pathlens (format {facts['pathlens_vectors']}, this one reads "
            f"{FORMAT})",
            "encode the texts again, or read it with that version",
        )
    if facts.get("sha256") != _checksum(facts.get("body", ""), arrays):
        raise StoreError(f"{str(path)!r} is damaged: its content does not match its checksum", ENCODE_AGAIN)
    return json.loads(facts["body"]), arrays


def _sides(items: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> list[Side]:
    sides, at = [], 0
    for number, item in enumerate(items):
        rows = slice(at, at + len(item["tokens"]))
        fields = {**item, **{name: tuple(item[name]) for name in ("tokens", "special", "notes")}}
        fields["offsets"] = tuple((start, end) for start, end in item["offsets"])
        fields |= {name: arrays[name][number] for name in STACKED} | {name: arrays[name][rows] for name in FLAT}
        _check_numbers(number, fields)
        sides.append(Side(**fields))
        at = rows.stop
    return sides


def _check_numbers(number: int, fields: Mapping[str, Any]) -> None:
    """The checksum is of bytes: that they are read as the numbers they were is seen here."""
    count, width = len(fields["tokens"]), fields["embedding"].shape
    wanted = {"vectors": (count, *width), "error": (count,), "reference": width, "embedding": width}
    for name, shape in wanted.items():
        array = fields[name]
        if array.dtype.kind != "f" or array.shape != shape:
            raise ValueError(f"{name} of text {number} is {array.dtype} {array.shape}")


def _checksum(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def pack(side: Side, storage: str, keep: int) -> Side:
    """Token vectors in 16 bits, all of them or the `keep` longest, with e(x) in float32.

        e(x) = e(r)₁₆ + Σ V₁₆ + remainder

    Whatever rounding and leaving out lose is in the remainder that `unpack` adds, so the sum still holds.
    """
    chosen = np.arange(len(side.vectors))
    if storage == "strongest" and len(chosen) > keep:
        lengths = np.linalg.norm(side.vectors, axis=1)
        chosen = np.sort(np.argsort(-lengths, kind="stable")[:keep])
    with np.errstate(over="ignore"):
        small, reference = (a.astype(np.float16) for a in (side.vectors[chosen], side.reference))
    if not (np.isfinite(small).all() and np.isfinite(reference).all()):
        raise NumberError(
            "a token vector does not fit 16 bits (over 65504); store these vectors with pl.encode(...).save"
        )
    return replace(
        side,
        tokens=tuple(side.tokens[i] for i in chosen),
        offsets=tuple(side.offsets[i] for i in chosen),
        special=tuple(side.special[i] for i in chosen),
        vectors=small,
        reference=reference,
        embedding=side.embedding.astype(np.float32),
        error=side.error[chosen].astype(np.float32),
    )


def unpack(side: Side) -> Side:
    """With the remainder as a unit of its own, so that everything sums to e(x) again."""
    vectors, reference = side.vectors.astype(float), side.reference.astype(float)
    embedding = side.embedding.astype(float)
    rest = embedding - reference - vectors.sum(0)
    return replace(
        side,
        tokens=(*side.tokens, REMAINDER),
        offsets=(*side.offsets, (0, 0)),
        special=(*side.special, True),
        vectors=np.concatenate([vectors, rest[None]]),
        reference=reference,
        embedding=embedding,
        error=np.append(side.error.astype(float), 0.0),
    )


class EmbeddingTable:
    """The embeddings at an address (any of LanceDB's), one row per passage, `number` counting from 0."""

    def __init__(self, where: str) -> None:
        self.where = where

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
            raise StoreError(f"cannot open a table of embeddings at {self.where!r}: {_first_line(error)}") from error

    def write(self, embeddings: np.ndarray, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace the table."""
        import pyarrow as pa

        database = self.connect()
        flat = pa.array(np.ascontiguousarray(embeddings, dtype=np.float32).ravel())
        columns = {
            "number": pa.array(range(len(rows)), pa.int64()),
            "vector": pa.FixedSizeListArray.from_arrays(flat, embeddings.shape[1]),
            "name": pa.array([row["name"] for row in rows], pa.string()),
            "document": pa.array([row["document"] for row in rows], pa.int64()),
            "start": pa.array([row["start"] for row in rows], pa.int64()),
        }
        try:
            database.drop_table(TABLE, ignore_missing=True)  # overwriting would keep the old version on disk
            database.create_table(TABLE, data=pa.table(columns))
        except Exception as error:  # whatever the store raises
            raise StoreError(
                f"cannot write the table of embeddings to {self.where!r}: {_first_line(error)}; the vector files are kept, "
                "run the same `pathlens index build` again"
            ) from error

    def nearest(
        self, query: np.ndarray, k: int, similarity: str, expected: int, sha256: str | None = None
    ) -> list[tuple[int, float]]:
        """(number, similarity) of the k nearest rows; the table is checked first."""
        table = self.check(expected, sha256)
        metric = "cosine" if similarity == "cosine" else "dot"
        try:
            search = table.search(query.astype(np.float32), vector_column_name="vector").distance_type(metric).limit(k)
            rows = search.select(["number", "_distance"]).to_list()
        except Exception as error:  # whatever the store raises
            raise self.damaged(error) from error
        if not all(0 <= row["number"] < expected for row in rows):
            raise self.damaged("it names passages that the index does not have")
        return [(row["number"], 1.0 - float(row["_distance"])) for row in rows]

    def check(self, expected: int, sha256: str | None = None) -> Any:
        """The table, when it is there and has the rows (and, with a checksum given, the numbers) it should have."""
        try:
            table = self.connect().open_table(TABLE)
            count = table.count_rows()
            same = count != expected or sha256 is None or digest(_embeddings(table)) == sha256
        except MissingError:
            raise
        except Exception as error:
            raise self.damaged(error) from error
        if count != expected:
            raise self.damaged(f"it has {count} rows instead of {expected}")
        if not same:
            raise self.damaged("its numbers are not those this index was built with")
        return table

    def damaged(self, error: Any) -> StoreError:
        return StoreError(
            f"the table of embeddings {self.where!r} is missing or damaged ({_first_line(error)}); nothing is lost: "
            "`pathlens index repair` writes it again from the vector files, without the model"
        )


def digest(embeddings: np.ndarray) -> str:
    """Of the numbers themselves, in order: the store keeps no checksum of its own."""
    return hashlib.sha256(np.ascontiguousarray(embeddings, dtype=np.float32).tobytes()).hexdigest()


def _embeddings(table: Any) -> np.ndarray:
    """(N, k) in the order of `number`."""
    rows = table.to_arrow()
    order = np.argsort(rows["number"].to_numpy(), kind="stable")
    vectors = rows["vector"].combine_chunks()
    return vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(rows), -1)[order]


def _first_line(error: Any) -> str:
    text = re.sub(r",? /\S+\.rs\b\S*", "", str(error)).strip()  # where in the store's own source it happened
    return text.splitlines()[0][:200] if text else type(error).__name__
