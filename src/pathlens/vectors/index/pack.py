"""Token vectors in 16 bits, with whatever that loses in a remainder row: the sum still holds.

    e(x) = e(r)₁₆ + Σ V₁₆ + remainder        e(x) kept in float32

`strongest` keeps the longest vectors only; the others are summed into the remainder, exactly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pathlens.errors import InputError, NumberError
from pathlens.explanation.pair import Side

STORAGES = ("full", "strongest")
REMAINDER = "(remainder)"


def pack(side: Side, storage: str, keep: int) -> Side:
    """What is written: 16-bit vectors, all of them or the `keep` longest."""
    if storage not in STORAGES:
        raise InputError(f"storage must be one of {', '.join(STORAGES)}, got {storage!r}")
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
