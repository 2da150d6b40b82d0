"""Vectors small enough to keep for every document: the longest ones, in four bits a number.

    e(x) = e(r) + Σ V₄ + remainder,   V₄ = scale · (a whole number from −7 to 7)

Whatever rounding and leaving out lose is in the remainder, so sums hold; e(x) itself is in the table and not kept twice,
and references, which hang on a text's length alone, are kept once each. About 2.5 kB of a document of MiniLM with twelve
vectors kept. A score may be off by about a tenth of its vector's length over √k: a few thousandths of a cosine.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.errors import StoreError
from pathlens.explanation.pair import Side
from pathlens.files import write_whole
from pathlens.vectors.store import ENCODE_AGAIN, PLAIN, checked, read_arrays, strongest

STEPS = 7  # on each side of zero
FORMAT = 1


def save(sides: Sequence[Side], header: Mapping[str, Any], path: Path, keep: int) -> list[Side]:
    """Write one file for all texts; gives what a reader will find."""
    kept = [strongest(side, keep) for side in sides]
    vectors = np.concatenate([side.vectors for side in kept]).astype(np.float32)
    scales = (np.abs(vectors).max(1) / STEPS).astype(np.float16)
    safe = np.maximum(scales.astype(np.float32), np.finfo(np.float16).tiny)[:, None]
    codes = np.clip(np.round(vectors / safe), -STEPS, STEPS).astype(np.int8) + STEPS + 1
    codes = np.concatenate([codes, np.zeros((len(codes), codes.shape[1] % 2), codes.dtype)], axis=1).astype(np.uint8)
    references, places = np.unique(
        np.stack([side.reference for side in kept]).astype(np.float16), axis=0, return_inverse=True
    )
    items = [{name: getattr(side, name) for name in PLAIN} for side in kept]
    body = zlib.compress(json.dumps({"header": dict(header), "items": items}, ensure_ascii=False).encode(), 9)
    arrays = {
        "codes": codes[:, ::2] * 16 + codes[:, 1::2],
        "scales": scales,
        "references": references,
        "places": places.reshape(-1).astype(np.int32),
        "body": np.frombuffer(body, np.uint8),
    }
    write_whole(path, checked(arrays, f"compact {FORMAT}"))
    return load(path)[0]


def load(path: Path) -> tuple[list[Side], dict[str, Any]]:
    """What was written, without e(x): the table has it. A damaged file is named and refused."""
    _, arrays = read_arrays(path, f"compact {FORMAT}")
    try:
        body = json.loads(zlib.decompress(arrays["body"].tobytes()))
        return _sides(body["items"], arrays), body["header"]
    except (ValueError, KeyError, IndexError, TypeError, zlib.error) as error:
        raise StoreError(f"{str(path)!r} is damaged ({error})", ENCODE_AGAIN) from error


def _sides(items: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> list[Side]:
    codes, width = arrays["codes"], arrays["references"].shape[1]
    pairs = np.stack([codes >> 4, codes & 15], axis=2).reshape(len(codes), -1)[:, :width]
    vectors = (pairs.astype(np.float32) - (STEPS + 1)) * arrays["scales"].astype(np.float32)[:, None]
    sides, at = [], 0
    for number, item in enumerate(items):
        rows = slice(at, at + len(item["tokens"]))
        at = rows.stop
        plain = {**item, **{name: tuple(item[name]) for name in ("tokens", "special", "notes")}}
        plain["offsets"] = tuple((start, end) for start, end in item["offsets"])
        reference = arrays["references"][arrays["places"][number]].astype(float)
        error = np.zeros(len(item["tokens"]))
        sides.append(Side(**plain, vectors=vectors[rows], reference=reference, embedding=reference, error=error))
    return sides
