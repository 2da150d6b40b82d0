"""Documents in order, which query words met which document words, and why one stands above another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from pathlens.engine.explainer import Explainer
from pathlens.errors import InputError, NumberError
from pathlens.explanation.pair import Measure, Side, one_sided, pair_of
from pathlens.explanation.record import Explanation, PairExplanation
from pathlens.explanation.view import Viewable
from pathlens.types import Certificate
from pathlens.vectors.documents import Passage, passages, prompt_of
from pathlens.vectors.encode import (
    Vectors,
    check_model,
    embeddings_of,
    header_of,
    integrate,
    measure_of,
    measuring,
    mixed,
    read_sides,
    side_model,
    the_query,
    vector_maker,
)


@dataclass(frozen=True, eq=False)
class Hit:
    """One document in the order: its score, and (when it was explained) where the score comes from."""

    document: int  # its number in the list given
    text: str  # the document, or its best passage
    score: float
    explanation: PairExplanation | Explanation | None
    start: int = 0  # where the passage begins in the document


@dataclass(frozen=True, eq=False)
class Ranking(Viewable):
    """Hits from the best downwards; `ranking.why(0, 3)` says why the first stands above the fourth."""

    query: str
    hits: tuple[Hit, ...]
    meta: Mapping[str, Any]
    places: tuple[int, int] | None = None  # asked: why the first of them stands above the second

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]

    def why(self, above: int, below: int) -> PairExplanation:
        """Places in the order → the difference of the two complete decompositions.

        Columns of the first document count as they are, columns of the second with their sign turned, and the
        reference column is the difference of both: everything sums to score(above) − score(below).
        """
        first, second = (self._explained(place) for place in (above, below))
        return difference(first, second, "place {} minus place {}".format(*self.order(above, below)[::2]))

    def order(self, one: int, other: int) -> tuple[int, str, int]:
        """Two places as a person counts them, from 1, and how the first stands to the second."""
        first, second = (place % len(self.hits) + 1 for place in (one, other))
        return first, "above" if first <= second else "below", second

    def with_reason(self, above: int, below: int) -> Ranking:
        """The same ranking, whose pictures and files also show `why(above, below)`."""
        self.why(above, below)  # refused here, not when it is drawn
        return replace(self, places=(above, below))

    @property
    def reason(self) -> PairExplanation | None:
        """`why` of the two places asked for."""
        return None if self.places is None else self.why(*self.places)

    def _explained(self, place: int) -> PairExplanation:
        if not isinstance(place, Integral) or not -len(self.hits) <= place < len(self.hits):
            raise InputError(f"place {place!r} is not in the ranking: it has {len(self.hits)} places, from 0")
        found = self.hits[place].explanation
        if not isinstance(found, PairExplanation):
            if isinstance(found, Explanation):
                raise InputError(
                    f"place {place} (from 0) is only one-sided; a difference needs both sides: leave one_sided out"
                )
            raise InputError(
                f"place {place} (from 0) is not explained; rank with top=None (or a larger top), or mend the index's damaged file"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the order with scores and explanations."""
        hits = [
            {
                "document": hit.document,
                "text": hit.text,
                "start": hit.start,
                "score": hit.score,
                "explanation": None if hit.explanation is None else hit.explanation.to_dict(),
            }
            for hit in self.hits
        ]
        reason = self.reason
        why = {} if reason is None else {"why": reason.to_dict()}
        return {"query": self.query, "meta": dict(self.meta), "hits": hits, **why}


def rank(
    model: Any,
    query: str,
    documents: Sequence[str] | Vectors,
    *,
    top: int | None = None,
    one_sided: bool = False,
    chunk: bool = False,
    show_progress: bool = False,
    **choices: Any,
) -> Ranking:
    """Order documents by similarity to a query, and explain each score token by token.

    documents: texts, or `Vectors` from `pl.encode` (then only the query is integrated).
    top: explain only this many from the best (every document is scored; only these are integrated).
    one_sided: integrate the documents alone: V_b,j · e(query), one score per document token.
    chunk: cut documents longer than the model takes at sentences; the best piece stands for its document.
    Other choices as in `pl.explain`: layer, unit, similarity, norm, baseline, tolerance, n_steps, …
    """
    explainer = vector_maker(model, **choices)
    if top is not None and (isinstance(top, bool) or not isinstance(top, Integral) or top < 1):
        raise InputError(f"top must be a whole number of at least 1, or None for all; got {top!r}")
    side_model(explainer.model, "a")
    if isinstance(documents, Vectors):
        return _from_vectors(explainer, query, documents, top, one_sided)
    second = explainer.model.sides()[1]
    measure = measure_of(explainer)
    request = explainer.choices.request(explainer.method)
    pieces = passages(second, documents, chunk=chunk, truncation=request.truncation, prompt=prompt_of(second, request))
    texts = [piece.text for piece in pieces]
    asked = read_sides(explainer, [query], names=the_query)
    read = read_sides(explainer, texts, place=1, names=lambda n: f"document {pieces[n].document}")
    e_query, *found = embeddings_of(explainer, [*asked, *read])
    order = _best(pieces, _scores(e_query, found, measure, pieces))
    chosen = order if top is None else order[:top]
    own = integrate(
        explainer,
        [texts[number] for number, _ in chosen],
        [against([e_query], measure)] * len(chosen),
        place=1,
        names=lambda n: f"document {pieces[chosen[n][0]].document}",
        show_progress=show_progress,
    )
    if not one_sided:
        strict = against([found[number] for number, _ in chosen], measure)
        (side,) = integrate(explainer, [query], [strict], names=the_query)
    named = dict.fromkeys([*([] if one_sided else [asked[0].cases[0].baseline]), read[0].cases[0].baseline])
    meta = header_of(explainer, " | ".join(named))
    explained = [_explain(e_query if one_sided else side, each, measure, meta) for each in own]
    explained += [None] * (len(order) - len(explained))
    hits = [
        Hit(pieces[number].document, shown(pieces[number].text), score, why, pieces[number].start)
        for (number, score), why in zip(order, explained, strict=True)
    ]
    return Ranking(shown(query), tuple(hits), meta)


def shown(thing: Any) -> str:
    """A text as it is; a picture by what it is, so that a ranking can be drawn and saved."""
    return thing if isinstance(thing, str) else "(picture)"


def difference(above: PairExplanation, below: PairExplanation, target: str) -> PairExplanation:
    """Two explanations of the same first text → one whose sum is the difference of their similarities."""
    if above.tokens_a != below.tokens_a:
        raise InputError(
            "the two explanations are of different queries, or by different units; they cannot be subtracted"
        )
    reference = above.full_matrix[:, :1] - below.full_matrix[:, :1]
    matrix = np.concatenate([reference, above.full_matrix[:, 1:], -below.full_matrix[:, 1:]], axis=1)
    text_a, text_b = above.meta["texts"][1], below.meta["texts"][1]
    shift = len(text_a) + 1
    moved = tuple(
        (start, end) if special else (start + shift, end + shift)
        for (start, end), special in zip(below.offsets_b, below.special_b, strict=True)
    )
    value = above.similarity - below.similarity
    return PairExplanation(
        method="ij",
        target=f"{above.target}: {target}",
        certificate=_difference_certificate(above.certificate, below.certificate, matrix, value),
        meta={
            **above.meta,
            "texts": [above.meta["texts"][0], f"{text_a}\n{text_b}"],
            "columns_above": len(above.tokens_b),
        },
        tokens_a=above.tokens_a,
        tokens_b=(*above.tokens_b, *below.tokens_b),
        offsets_a=above.offsets_a,
        offsets_b=(*above.offsets_b, *moved),
        full_matrix=matrix,
        similarity=value,
        special_a=above.special_a,
        special_b=(*above.special_b, *below.special_b),
    )


def _difference_certificate(a: Certificate, b: Certificate, matrix: np.ndarray, value: float) -> Certificate:
    """Settled when both parts are: a difference of two nearly equal scores has no relative size of its own."""
    gap = abs(float(matrix.sum()) - value)
    size = (a.bound + b.bound) / (2 * a.tolerance)
    return Certificate(
        f_input=value,
        f_baseline=float(matrix[0, 0]),
        total=float(matrix.sum()),
        gap=gap,
        relative_gap=gap / size,
        tolerance=a.tolerance,
        converged=a.converged and b.converged and gap <= a.bound + b.bound,
        nodes=a.nodes + b.nodes,
        passes=a.passes + b.passes,
        error_estimate=_estimates(a, b, len(matrix) - 1),
        kind="matrix",
        bound=a.bound + b.bound,
    )


def _estimates(a: Certificate, b: Certificate, count: int) -> tuple[float, ...]:
    """One entry per token: the query's `count` rows are in both parts, so their errors add; then A's and B's tokens."""
    first, second = np.array(a.error_estimate), np.array(b.error_estimate)
    both = first[:count] + second[:count]
    return tuple(np.concatenate([both, first[count:], second[count:]]).tolist())


def _from_vectors(explainer: Explainer, query: str, documents: Vectors, top: int | None, single: bool) -> Ranking:
    """Documents encoded before: the query alone is integrated, everything else is a matrix product."""
    if not len(documents):
        raise InputError("the list of documents is empty; give at least one document")
    check_model(documents.header, explainer.model, "the encoded documents")
    asked = measuring(explainer).norm
    if documents.header["norm"] != asked:
        raise InputError(f"the documents were encoded with norm={documents.header['norm']!r}, asked is {asked!r}")
    measure = measure_of(explainer)
    read = read_sides(explainer, [query], names=the_query)
    (e_query,), baseline = embeddings_of(explainer, read), read[0].cases[0].baseline
    pieces = [Passage(number, text) for number, text in enumerate(documents.texts)]
    order = _best(pieces, _scores(e_query, [item.embedding for item in documents], measure, pieces))
    chosen = order if top is None else order[:top]
    side: Any = e_query
    if single:  # nothing of the query was integrated: what is said is of the documents
        meta = dict(documents.header)
    else:
        named = dict.fromkeys([baseline, documents.header.get("baseline_name") or baseline])
        meta = header_of(explainer, " | ".join(named))
        meta["notes"] = mixed(meta, documents.header, "the query", "the documents")
        strict = against([documents[number].embedding for number, _ in chosen], measure)
        (side,) = integrate(explainer, [query], [strict], names=the_query)
    explained = [_explain(side, documents[number], measure, meta) for number, _ in chosen]
    explained += [None] * (len(order) - len(explained))
    hits = [
        Hit(number, documents[number].text, score, why) for (number, score), why in zip(order, explained, strict=True)
    ]
    return Ranking(shown(query), tuple(hits), meta)


def _explain(query: Side | np.ndarray, side: Side, measure: Measure, meta: Mapping[str, Any]) -> Any:
    if isinstance(query, Side):
        return pair_of(query, side, measure, dict(meta))
    return one_sided(query, side, measure, dict(meta))


def _score(a: np.ndarray, b: np.ndarray, measure: Measure) -> float:
    return float(a @ b) / measure.scale(a, b)


def _scores(
    query: np.ndarray, embeddings: Sequence[np.ndarray], measure: Measure, pieces: Sequence[Passage]
) -> list[float]:
    """Every passage's score; one that has none (length zero under the cosine) is named."""
    measure.scale(query, query)
    found = []
    for piece, embedding in zip(pieces, embeddings, strict=True):
        try:
            found.append(_score(query, embedding, measure))
        except NumberError as error:
            raise NumberError(f"document {piece.document}: {error}") from error
    return found


def against(others: Sequence[np.ndarray], measure: Measure) -> Any:
    """How long an error of a text's vectors may be, so that its pair with every one of `others` settles."""
    return lambda embedding: min(measure.length_limit(embedding, other) for other in others)


def _best(pieces: Sequence[Passage], scores: Sequence[float]) -> list[tuple[int, float]]:
    """(piece, score) from the best downwards, one piece per document; ties by number."""
    best: dict[int, tuple[int, float]] = {}
    for number, (piece, score) in enumerate(zip(pieces, scores, strict=True)):
        if piece.document not in best or score > best[piece.document][1]:
            best[piece.document] = (number, score)
    return sorted(best.values(), key=lambda pair: (-pair[1], pair[0]))
