"""Two texts' vectors → token × token, with the reference row and column, and its certificate.

A text's vectors belong to that text alone, so the same arithmetic serves a fresh pair, vectors computed
once and saved (`pl.encode`), a ranking and an index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from pathlens.checks import check_choice
from pathlens.errors import InputError, NumberError, setting
from pathlens.explanation.base import shortened
from pathlens.explanation.binding import read_only
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.record import Explanation, PairExplanation
from pathlens.types import NORMS, SIMILARITIES, TOLERANCE, Span, brief

LEAST = 0.1  # a cosine near zero is not asked for more digits than one of this size; of a dot product, this · lengths
NOISE = 1e-5  # float32: no error is asked to be smaller than this, relative to the lengths


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Side:
    """One text's part in any pair: e(x) = e(r) + Σ_U V_U, up to `gap`."""

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]
    special: tuple[bool, ...]
    vectors: Float[np.ndarray, "U k"]  # V
    reference: Float[np.ndarray, "k"]  # e(r)
    embedding: Float[np.ndarray, "k"]  # e(x)
    error: Float[np.ndarray, "U"]  # estimated length of each vector's error
    gap: float  # ‖e(x) − e(r) − Σ V‖ when the integral was taken
    nodes: int
    passes: int
    notes: tuple[str, ...] = ()
    baseline: str | tuple[str, ...] | None = None  # how to ask for its reference again, where that is a name or a text
    coordinates: Float[np.ndarray, "U d k"] | None = field(default=None, repr=False)  # on request

    def __repr__(self) -> str:
        return brief(
            self, repr(shortened(self.text)), f"{len(self.tokens)} tokens", f"vectors of {self.embedding.size} numbers"
        )

    def __post_init__(self) -> None:
        read_only(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        read_only(self)

    @property
    def rows(self) -> Float[np.ndarray, "U1 k"]:
        """The reference, then the units."""
        return np.concatenate([self.reference[None], self.vectors])


@dataclass(frozen=True)
class Measure:
    """How two embeddings are compared, and how exactly the matrix must add up to it."""

    similarity: str = "cosine"
    norm: str = "outside"
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        check_choice("similarity", self.similarity, dict.fromkeys(SIMILARITIES, ""))
        check_choice("norm", self.norm, dict.fromkeys(NORMS, ""))
        if self.similarity == "dot" and self.norm == "inside":
            raise InputError(
                f"{setting(norm='inside')} runs the path through the normalisation: it is for {setting(similarity='cosine')}"
            )

    def scale(self, e_a: Float[np.ndarray, "k"], e_b: Float[np.ndarray, "k"]) -> float:
        """What e(a)·e(b) is divided by."""
        if self.similarity == "dot":
            return 1.0
        lengths = [float(np.linalg.norm(e)) for e in (e_a, e_b)]
        if 0.0 in lengths:
            which = "first" if lengths[0] == 0 else "second"
            raise NumberError(
                f"the embedding of the {which} text has length zero, so the cosine is not defined; use {setting(similarity='dot')}"
            )
        return lengths[0] * lengths[1] if self.norm == "outside" else 1.0

    def reach(self, e_a: Float[np.ndarray, "k"], e_b: Float[np.ndarray, "k"]) -> float:
        """The largest similarity that embeddings of these lengths can have: 1, or the product of the lengths."""
        if self.similarity == "cosine":
            return 1.0
        return float(np.linalg.norm(e_a)) * float(np.linalg.norm(e_b)) or 1.0

    def size(self, value: float, reach: float) -> float:
        """What a gap is measured against: a dot product of short embeddings is small without being near zero."""
        return max(abs(value), LEAST * reach)

    def limit(self, value: float, reach: float) -> float:
        """The largest gap that still counts as settled."""
        return max(self.tolerance * self.size(value, reach), NOISE * max(abs(value), reach))

    def length_limit(self, e: Float[np.ndarray, "k"], other: Float[np.ndarray, "k"]) -> float:
        """How long an error of a vector of e's text may be: ε in V_a,i moves row i's sum by at most ‖ε‖·‖e(b)‖ / scale."""
        scale, length = self.scale(e, other), float(np.linalg.norm(other))
        least = NOISE * max(float(np.linalg.norm(e)), 1e-3)
        if length == 0:
            return max(self.tolerance * float(np.linalg.norm(e)), least)
        value = float(e @ other) / scale
        return max(self.limit(value, self.reach(e, other)) * scale / length, least)


def pair_of(a: Side, b: Side, measure: Measure, meta: Mapping[str, Any]) -> PairExplanation:
    """V_a V_bᵀ / scale, with e(r) as row and column 0: sums to the similarity (docs/siamese.md; EMNLP 2023).

    The certificate holds the whole matrix against it; estimates are of each token's own sum (a's tokens, then b's).
    """
    scale = measure.scale(a.embedding, b.embedding)
    matrix, value = a.rows @ b.rows.T / scale, float(a.embedding @ b.embedding) / scale
    reach_a, reach_b = float(np.linalg.norm(b.embedding)) / scale, float(np.linalg.norm(a.embedding)) / scale
    reach = measure.reach(a.embedding, b.embedding)
    result = _pair(a, b, (measure, meta), matrix, value, (reach_a, reach_b, reach))
    return result if a.coordinates is None else result.derived(coordinates=_by_coordinate(a, b, scale))


def pair_by_rows(a: Side, by_rows: Side, measure: Measure, meta: Mapping[str, Any]) -> PairExplanation:
    """The same where the second text's vectors are known by their products with a's rows (and with e(a), last) alone.

    The lengths are outside and in the products already; that of an error of `by_rows` is a number of the similarity.
    """
    matrix = np.concatenate([by_rows.reference[None], by_rows.vectors]).T[:-1]
    reach_a = 1.0 / float(np.linalg.norm(a.embedding))
    return _pair(a, by_rows, (measure, meta), matrix, float(by_rows.embedding[-1]), (reach_a, 1.0, 1.0))


def _pair(
    a: Side,
    b: Side,
    how: tuple[Measure, Mapping[str, Any]],
    matrix: Float[np.ndarray, "A1 B1"],
    value: float,
    reaches: tuple[float, float, float],
) -> PairExplanation:
    """reaches: what an error of one length in a, or in b, can do to the similarity, and how large that can be."""
    (measure, meta), (reach_a, reach_b, reach), total = how, reaches, float(matrix.sum())
    proof = Certificate.judge(
        f_input=value,
        f_baseline=float(matrix[0, 0]),
        total=total,
        gap=abs(total - value),  # the reference cell is in the sum
        size=measure.size(value, reach),
        bound=measure.limit(value, reach),
        tolerance=measure.tolerance,
        nodes=a.nodes + b.nodes,
        passes=a.passes + b.passes,
        errors=np.concatenate([a.error * reach_a, b.error * reach_b]),
        also=(a.gap * reach_a, b.gap * reach_b),
        kind="matrix",
    )
    return PairExplanation(
        method=meta["chosen"]["method"],
        target=f"{measure.similarity} similarity",
        certificate=proof,
        meta=_about(meta, (a, b), measure),
        tokens_a=a.tokens,
        tokens_b=b.tokens,
        offsets_a=a.offsets,
        offsets_b=b.offsets,
        full_matrix=matrix,
        similarity=value,
        special_a=a.special,
        special_b=b.special,
    )


def one_sided(query: Float[np.ndarray, "*k"], side: Side, measure: Measure, meta: Mapping[str, Any]) -> Explanation:
    """V_b,j · e(a) / scale: each token of one text against the whole of the other, no integral on the other's side.

    Σ_j = similarity − e(a)·e(r_b) / scale: the certificate's f_baseline is what the reference itself contributes.
    """
    if query.shape != side.embedding.shape or not np.isfinite(query).all():
        raise InputError(
            f"e(query) must be {len(side.embedding)} finite numbers, as the documents' embeddings; got shape {query.shape}"
        )
    scale = measure.scale(query, side.embedding)
    scores = side.vectors @ query / scale
    value, start = float(query @ side.embedding) / scale, float(query @ side.reference) / scale
    reach = float(np.linalg.norm(query)) / scale
    size = measure.reach(query, side.embedding)
    proof = Certificate.judge(
        f_input=value,
        f_baseline=start,
        total=float(scores.sum()),
        size=measure.size(value, size),
        bound=measure.limit(value, size),
        tolerance=measure.tolerance,
        nodes=side.nodes,
        passes=side.passes,
        errors=side.error * reach,
        also=(side.gap * reach,),
    )
    return Explanation(
        method=meta["chosen"]["method"],
        target=f"{measure.similarity} similarity with the query",
        certificate=proof,
        meta={**_about(meta, (side,), measure), "one_sided": True},
        tokens=side.tokens,
        offsets=side.offsets,
        scores=scores,
        special=side.special,
        segments=tuple(-1 if special else 0 for special in side.special),
    )


def _about(meta: Mapping[str, Any], sides: tuple[Side, ...], measure: Measure) -> dict[str, Any]:
    """What the result says of itself: the baseline by the name it had, also when it was the model's own."""
    about = {name: value for name, value in meta.items() if name != "baseline_name"}
    about |= {"baseline": meta["baseline_name"]} if meta.get("baseline_name") else {}
    baselines = [side.baseline for side in sides]
    chosen = {**about.get("chosen", {}), "similarity": measure.similarity, "norm": measure.norm}
    return {
        **about,
        "texts": [side.text for side in sides],
        "similarity": measure.similarity,
        "norm": measure.norm,
        "notes": list(dict.fromkeys([*meta.get("notes", ()), *(note for side in sides for note in side.notes)])),
        "chosen": chosen if None in baselines else {**chosen, "baselines": baselines},
    }


def _by_coordinate(a: Side, b: Side, scale: float) -> Float[np.ndarray, "A d B e"] | None:
    """Before the sums over coordinates."""
    if a.coordinates is None or b.coordinates is None:
        return None
    left, right = (each.astype(np.float32) for each in (a.coordinates, b.coordinates))
    product = left.reshape(-1, left.shape[-1]) / np.float32(scale) @ right.reshape(-1, right.shape[-1]).T
    return product.reshape(*left.shape[:2], *right.shape[:2])
