"""From tokens to words: sums of a finished result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from pathlens.errors import InputError, setting
from pathlens.units.units import Units, units

if TYPE_CHECKING:
    from pathlens.explanation.base import OfUnits
    from pathlens.explanation.record import PairExplanation

Same = TypeVar("Same", bound="OfUnits")


def adds_up_in_groups(method: str, context: str) -> bool:
    """Is the score of units put together the sum of theirs? Not in SIG's full reading, where a group moves as one."""
    return (method, context) != ("sig", "full")


def words(result: Same) -> Same:
    """Sum each word's tokens. Exact for every method but SIG's full reading."""
    if not adds_up_in_groups(result.method, result.origin.context):
        raise InputError(
            f"SIG's score of a word is not the sum of its tokens' (the word moves as one); run again with {setting(unit='word')}"
        )
    if not result.origin.texts:
        raise InputError("this result has features, not words of a text")
    groups = _words_of(result)
    members = groups.members.astype(float)
    common: dict[str, Any] = {name: getattr(groups, name) for name in ("offsets", "special", "segments")}
    common |= {"meta": {**result.meta, "unit": "word"}, "certificate": result.certificate.joined(members)}
    return result.summed(members, tokens=groups.names, **common)


def _words_of(result: OfUnits) -> Units:
    """A block with several inputs has every token once per input: words are made within each."""
    texts, times = list(result.origin.texts), len(set(getattr(result, "sources", ()))) or 1
    length = len(result.tokens) // times
    one = units("word", result.tokens[:length], result.offsets[:length], result.segments[:length], texts)
    again = {name: getattr(one, name) * times for name in ("names", "offsets", "segments")}
    return replace(one, **again, members=np.kron(np.eye(times, dtype=bool), one.members))


def pair_words(pair: PairExplanation) -> PairExplanation:
    """Sum each word's tokens on both sides; the reference stays itself."""
    sides = (pair.tokens_a, pair.offsets_a, pair.special_a), (pair.tokens_b, pair.offsets_b, pair.special_b)
    a, b = (
        units("word", names, offsets, [-1 if each else 0 for each in special], [text])
        for text, (names, offsets, special) in zip(pair.origin.texts, sides, strict=True)
    )
    left, right = (np.pad(side.members.astype(float), ((1, 0), (1, 0))) for side in (a, b))
    left[0, 0] = right[0, 0] = 1.0
    return pair.derived(
        tokens_a=a.names,
        tokens_b=b.names,
        offsets_a=a.offsets,
        offsets_b=b.offsets,
        special_a=a.special,
        special_b=b.special,
        full_matrix=left @ pair.full_matrix @ right.T,
        coordinates=None,
        certificate=pair.certificate.joined(_beside(a.members, b.members)),
        meta={**pair.meta, "unit": "word"},
    )


def _beside(first: Bool[np.ndarray, "G U"], second: Bool[np.ndarray, "H V"]) -> Float[np.ndarray, "GH UV"]:
    """Groups of two texts, over the units of the first and then of the second."""
    both = np.zeros((len(first) + len(second), first.shape[1] + second.shape[1]))
    both[: len(first), : first.shape[1]], both[len(first) :, first.shape[1] :] = first, second
    return both


def shares(matrix: Float[np.ndarray, "A B"]) -> Float[np.ndarray, "A B"]:
    """Positive cells over the geometric mean of their row's and their column's positive sums; 0 … 1.

    share_ij = a⁺_ij / √(Σ_j a⁺_ij · Σ_i a⁺_ij): 1 where two units speak to each other alone.
    """
    positive = np.maximum(matrix, 0.0)
    scale = np.sqrt(positive.sum(1, keepdims=True) * positive.sum(0, keepdims=True))
    quotients: np.ndarray = np.divide(positive, scale, out=np.zeros_like(positive), where=scale > 0)
    return quotients


def mutual(matrix: Float[np.ndarray, "A B"], threshold: float) -> list[tuple[int, int]]:
    """Cells that are the largest of their row and of their column, and above the threshold."""
    if not matrix.size:
        return []
    best = matrix.argmax(1)
    both = [(i, int(j)) for i, j in enumerate(best) if int(matrix[:, j].argmax()) == i]
    return [(i, j) for i, j in both if float(matrix[i, j]) > threshold]
