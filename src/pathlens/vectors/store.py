"""Files of token vectors: one safetensors file with a JSON header and a checksum over everything, written whole or not
at all."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.errors import NumberError, StoreError
from pathlens.explanation.pair import Side
from pathlens.files import write_whole

FORMAT = 3  # files of another format are refused
ENCODE_AGAIN = "encode the texts again and save them"
# of a text, in the header
PLAIN = ("text", "tokens", "offsets", "special", "gap", "nodes", "passes", "notes", "baseline")
STACKED = ("reference", "embedding")  # one row per text
FLAT = ("vectors", "error")  # one row per unit, texts one after another
REMAINDER = "(remainder)"
COMPACT, STEPS = "compact 1", 7  # the form of four bits a number, and how many steps there are on each side of zero


def save(sides: Sequence[Side], header: Mapping[str, Any], path: str | Path) -> Path:
    """Write one file for all texts."""
    for number, side in enumerate(sides):
        if not isinstance(side.text, str):
            raise StoreError(f"item {number} is not a text, so its vectors cannot be saved with it")
    arrays = {name: np.stack([getattr(side, name) for side in sides]) for name in STACKED}
    arrays |= {name: np.concatenate([getattr(side, name) for side in sides]) for name in FLAT}
    items = [{name: getattr(side, name) for name in PLAIN} for side in sides]
    body = json.dumps({"header": dict(header), "items": items}, ensure_ascii=False)
    write_whole(Path(path), checked(arrays, str(FORMAT), body))
    return Path(path)


def checked(arrays: Mapping[str, np.ndarray], form: str, body: str = "") -> bytes:
    """A file's bytes, with what it is and a checksum over everything."""
    from safetensors.numpy import save as to_bytes

    facts = {"pathlens_vectors": form, "body": body, "sha256": _checksum(body, arrays)}
    whole = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    return _in_order(to_bytes(whole, metadata=facts), facts)


def _in_order(file: bytes, facts: Mapping[str, str]) -> bytes:
    """The same file with its facts in their order: safetensors writes them in any, and equal vectors are to be equal files."""
    size = int.from_bytes(file[:8], "little")
    header = {**json.loads(file[8 : 8 + size]), "__metadata__": facts}
    plain = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    plain += b" " * (-len(plain) % 8)  # the arrays begin at a multiple of 8
    return len(plain).to_bytes(8, "little") + plain + file[8 + size :]


def load(path: str | Path) -> tuple[tuple[Side, ...], dict[str, Any]]:
    """What `save` was given; a damaged file is named and refused."""
    path = Path(path)
    try:
        text, arrays = read_arrays(path, str(FORMAT))
        body = json.loads(text)
        return tuple(_sides(body["items"], arrays)), body["header"]
    except (ValueError, KeyError, IndexError, TypeError) as error:  # a header with a few wrong characters
        raise StoreError(f"{str(path)!r} is damaged ({error})", ENCODE_AGAIN) from error


def read_arrays(path: Path, form: str) -> tuple[str, dict[str, np.ndarray]]:
    """What `checked` was given, when it is whole and of this form."""
    from safetensors import SafetensorError, safe_open

    if path.is_dir():
        raise StoreError(f"{str(path)!r} is a folder; give the file that `save` wrote")
    if not path.exists():
        raise StoreError(f"cannot read {str(path)!r}: there is no such file")
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
    if not facts["pathlens_vectors"].removeprefix("compact ").isdecimal():
        raise StoreError(f"{str(path)!r} is damaged: format {facts['pathlens_vectors']!r}", ENCODE_AGAIN)
    if facts["pathlens_vectors"] != form:
        other = f"format {facts['pathlens_vectors']}, this one reads {form}"
        what = f"{str(path)!r} was written by another version of pathlens ({other})"
        raise StoreError(what, "encode the texts again, or read it with that version")
    if facts.get("sha256") != _checksum(facts.get("body", ""), arrays):
        raise StoreError(f"{str(path)!r} is damaged: its content does not match its checksum", ENCODE_AGAIN)
    return facts["body"], arrays


def _sides(items: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> list[Side]:
    sides, at = [], 0
    for number, item in enumerate(items):
        rows = slice(at, at + len(item["tokens"]))
        fields = _plain(item) | {name: arrays[name][number] for name in STACKED}
        fields |= {name: arrays[name][rows] for name in FLAT}
        _check_numbers(number, fields)
        sides.append(Side(**fields))
        at = rows.stop
    return sides


def _plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """A text's own entry of the header, as a `Side` has it."""
    plain = {**item, **{name: tuple(item[name]) for name in ("tokens", "special", "notes")}}
    return plain | {"offsets": tuple((start, end) for start, end in item["offsets"])}


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


def strongest(side: Side, keep: int) -> Side:
    """The `keep` longest vectors, in their order."""
    if len(side.vectors) <= keep:
        return side
    chosen = np.sort(np.argsort(-np.linalg.norm(side.vectors, axis=1), kind="stable")[:keep])
    plain: dict[str, Any] = {n: tuple(getattr(side, n)[i] for i in chosen) for n in ("tokens", "offsets", "special")}
    return replace(side, **plain, vectors=side.vectors[chosen], error=side.error[chosen])


def pack(side: Side, keep: int | None = None) -> Side:
    """Token vectors in 16 bits, all of them or the `keep` longest, with e(x) in float32.

        e(x) = e(r)₁₆ + Σ V₁₆ + remainder

    Whatever rounding and leaving out lose is in the remainder that `unpack` adds, so the sum still holds.
    """
    side = side if keep is None else strongest(side, keep)
    with np.errstate(over="ignore"):
        small, reference = (a.astype(np.float16) for a in (side.vectors, side.reference))
    if not (np.isfinite(small).all() and np.isfinite(reference).all()):
        too_large = "a token vector does not fit 16 bits (over 65504)"
        raise NumberError(f"{too_large}; store these vectors with pl.encode(...).save")
    embedding, error = side.embedding.astype(np.float32), side.error.astype(np.float32)
    return replace(side, vectors=small, reference=reference, embedding=embedding, error=error)


def unpack(side: Side) -> Side:
    """With the remainder as a unit of its own, so that everything sums to e(x) again."""
    vectors, reference, embedding = (each.astype(float) for each in (side.vectors, side.reference, side.embedding))
    rest = embedding - reference - vectors.sum(0)
    more = {"tokens": REMAINDER, "offsets": (0, 0), "special": True}
    plain: dict[str, Any] = {name: (*getattr(side, name), value) for name, value in more.items()}
    plain |= {"vectors": np.concatenate([vectors, rest[None]]), "error": np.append(side.error.astype(float), 0.0)}
    return replace(side, reference=reference, embedding=embedding, **plain)


# ---- four bits a number


def save_compact(sides: Sequence[Side], header: Mapping[str, Any], path: Path, keep: int) -> list[Side]:
    """Vectors small enough to keep for every document: the longest ones, in four bits a number; gives what a reader will find.

        e(x) = e(r) + Σ V₄ + remainder,   V₄ = scale · (a whole number from −7 to 7)

    Whatever rounding and leaving out lose is in the remainder, so sums hold; e(x) itself is in the table and not kept twice,
    and references, which hang on a text's length alone, are kept once each. About 2.5 kB of a document of MiniLM with twelve
    vectors kept. A score may be off by about a tenth of its vector's length over √k: a few thousandths of a cosine.
    """
    kept = [strongest(side, keep) for side in sides]
    vectors = np.concatenate([side.vectors for side in kept]).astype(np.float32)
    scales = (np.abs(vectors).max(1) / STEPS).astype(np.float16)
    safe = np.maximum(scales.astype(np.float32), np.finfo(np.float16).tiny)[:, None]
    codes = np.clip(np.round(vectors / safe), -STEPS, STEPS).astype(np.int8) + STEPS + 1
    codes = np.concatenate([codes, np.zeros((len(codes), codes.shape[1] % 2), codes.dtype)], axis=1).astype(np.uint8)
    every = np.stack([side.reference for side in kept]).astype(np.float16)
    references, places = np.unique(every, axis=0, return_inverse=True)
    items = [{name: getattr(side, name) for name in PLAIN} for side in kept]
    body = zlib.compress(json.dumps({"header": dict(header), "items": items}, ensure_ascii=False).encode(), 9)
    arrays = {
        "codes": codes[:, ::2] * 16 + codes[:, 1::2],
        "scales": scales,
        "references": references,
        "places": places.reshape(-1).astype(np.int32),
        "body": np.frombuffer(body, np.uint8),
    }
    write_whole(path, checked(arrays, COMPACT))
    return load_compact(path)[0]


def load_compact(path: Path) -> tuple[list[Side], dict[str, Any]]:
    """What was written, without e(x): the table has it. A damaged file is named and refused."""
    _, arrays = read_arrays(path, COMPACT)
    try:
        body = json.loads(zlib.decompress(arrays["body"].tobytes()))
        return _compact_sides(body["items"], arrays), body["header"]
    except (ValueError, KeyError, IndexError, TypeError, zlib.error) as error:
        raise StoreError(f"{str(path)!r} is damaged ({error})", ENCODE_AGAIN) from error


def _compact_sides(items: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> list[Side]:
    codes, width = arrays["codes"], arrays["references"].shape[1]
    pairs = np.stack([codes >> 4, codes & 15], axis=2).reshape(len(codes), -1)[:, :width]
    vectors = (pairs.astype(np.float32) - (STEPS + 1)) * arrays["scales"].astype(np.float32)[:, None]
    sides, at = [], 0
    for number, item in enumerate(items):
        rows = slice(at, at + len(item["tokens"]))
        at = rows.stop
        reference = arrays["references"][arrays["places"][number]].astype(float)
        error = np.zeros(len(item["tokens"]))
        sides.append(Side(**_plain(item), vectors=vectors[rows], reference=reference, embedding=reference, error=error))
    return sides
