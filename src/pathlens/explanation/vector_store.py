"""Saved vectors: one safetensors file with a JSON header, a checksum over everything, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.errors import StoreError
from pathlens.files import write_whole

FORMAT = 2  # files of another format are refused; in format 1 the model's stamp hung on the machine
PLAIN = ("text", "tokens", "offsets", "special", "gap", "nodes", "passes", "notes")  # of a text, in the header
STACKED = ("reference", "embedding")  # one row per text
FLAT = ("vectors", "error")  # one row per unit, texts one after another


def save(vectors: Any, path: str | Path) -> Path:
    """Write beside the target first, then move it into place."""
    from safetensors.numpy import save as to_bytes

    path = Path(path)
    for number, item in enumerate(vectors.items):
        if not isinstance(item.text, str):
            raise StoreError(f"item {number} is not a text, so its vectors cannot be saved with it")
    arrays = {name: np.stack([getattr(item, name) for item in vectors.items]) for name in STACKED}
    arrays |= {name: np.concatenate([getattr(item, name) for item in vectors.items]) for name in FLAT}
    arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    body = {
        "header": dict(vectors.header),
        "items": [{name: getattr(item, name) for name in PLAIN} for item in vectors.items],
    }
    text = json.dumps(body, ensure_ascii=False)
    facts = {"pathlens_vectors": str(FORMAT), "body": text, "sha256": _sum(text, arrays)}
    write_whole(path, to_bytes(arrays, metadata=facts))
    return path


def load(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(header, one dictionary of fields per text); a damaged file is named and refused."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.exists():
        raise StoreError(f"cannot read {str(path)!r}: there is no such file")
    try:
        with safe_open(str(path), framework="np") as stream:
            facts = stream.metadata() or {}
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise StoreError(
            f"{str(path)!r} is damaged or only half written ({error}); write it again: pl.encode(...).save(path)"
        ) from error
    if "pathlens_vectors" not in facts:
        raise StoreError(f"{str(path)!r} does not hold pathlens vectors (its header does not say so)")
    if int(facts["pathlens_vectors"]) != FORMAT:
        raise StoreError(
            f"{str(path)!r} was written by another version of pathlens (format {facts['pathlens_vectors']}, this one reads "
            f"{FORMAT}); encode the texts again, or read it with that version"
        )
    if facts.get("sha256") != _sum(facts.get("body", ""), arrays):
        raise StoreError(
            f"{str(path)!r} is damaged: its content does not match its checksum; encode the texts again and save them"
        )
    body = json.loads(facts["body"])
    return body["header"], _items(body["items"], arrays)


def _items(plain: list[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    items, at = [], 0
    for number, each in enumerate(plain):
        count = len(each["tokens"])
        own: dict[str, Any] = dict(each)
        own |= {name: tuple(each[name]) for name in ("tokens", "special", "notes")}
        own["offsets"] = tuple((start, end) for start, end in each["offsets"])
        own |= {name: arrays[name][number] for name in STACKED}
        own |= {name: arrays[name][at : at + count] for name in FLAT}
        items.append(own)
        at += count
    return items


def _sum(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
