"""Documents in order, which query words met which document words, and why one stands above another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Unpack

import numpy as np

from pathlens.engine.explainer import check_choices
from pathlens.engine.typed import VectorOptions
from pathlens.errors import InputError, NumberError, setting
from pathlens.explanation.base import largest, shortened
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.pair import Side, one_sided, pair_of
from pathlens.explanation.record import Explanation, PairExplanation
from pathlens.explanation.store import RANKING, SCHEMA
from pathlens.explanation.view import Listed, TableExport, Viewable
from pathlens.types import Span, brief
from pathlens.units.cuts import sentence_spans
from pathlens.vectors.documents import Passage
from pathlens.vectors.encode import SideEncoder, Vectors, check_model, mixed
from pathlens.vectors.meet import Query, Reason, reasons


@dataclass(frozen=True, eq=False, repr=False)
class Hit:
    """One document in the order: its score, and (when it was explained) where the score comes from."""

    document: int  # its number in the list given
    text: str  # the document, or its best passage
    score: float
    explanation: Reason | None
    start: int = 0  # where the passage begins in the document
    given: float | None = None  # the score of the store it was found in
    notes: tuple[str, ...] = ()
    name: str = ""  # what its document is called in an index

    def __repr__(self) -> str:
        what, strongest = (
            self.name or f"document {self.document}",
            self.strongest() if self.explanation is not None else (),
        )
        reason = ", ".join(f"{name} {value:+.3g}" for name, value in strongest)
        return brief(self, what, f"{self.score:.4f}", repr(shortened(self.text)), reason)

    def strongest(self, k: int = 3) -> list[tuple[str, float]]:
        """The k tokens of the document that count most, and what each adds."""
        return [(self.tokens[i], float(self.scores[i])) for (i,) in largest(self.scores, k) if self.scores[i]]

    @property
    def similarity(self) -> float:
        """As the model has it."""
        return self.score

    @property
    def tokens(self) -> tuple[str, ...]:
        reason = self._reason
        return reason.tokens_b if isinstance(reason, PairExplanation) else reason.tokens

    @property
    def spans(self) -> tuple[Span, ...]:
        """Characters of `text`, of each token."""
        reason = self._reason
        return reason.offsets_b if isinstance(reason, PairExplanation) else reason.offsets

    @property
    def scores(self) -> np.ndarray:
        """Each token of the document against the whole query: with the reference's part they sum to the similarity."""
        reason = self._reason
        return reason.full_matrix[:, 1:].sum(0) if isinstance(reason, PairExplanation) else reason.scores

    @property
    def matrix(self) -> np.ndarray:
        """Query tokens × the document's."""
        if not isinstance(self._reason, PairExplanation):
            raise InputError("this hit is explained one-sided, its tokens against the whole query; ask for pairs")
        return self._reason.matrix

    @property
    def certificate(self) -> Certificate:
        return self._reason.certificate

    @property
    def sentences(self) -> list[tuple[int, int, float]]:
        """(first character, last, score) of every sentence: its tokens' scores, summed."""
        sums = [[start, end, 0.0] for start, end in sentence_spans(self.text)]
        for (start, end), score in zip(self.spans, self.scores.tolist(), strict=True):
            home = next((each for each in sums if start < each[1]), None)
            if end > start and home is not None:
                home[2] += score
        return [(int(start), int(end), score) for start, end, score in sums]

    def facts(self) -> dict[str, Any]:
        """What travels with a document through other people's pipelines: plain values alone."""
        proof = self.certificate
        tokens = zip(self.spans, self.scores.tolist(), strict=True)
        return {
            "similarity": self.similarity,
            "spans": [[start, end, score] for (start, end), score in tokens if end > start],
            "sentences": [list(each) for each in self.sentences],
            "rest": proof.f_input - float(self.scores.sum()),
            "certificate": {"total": proof.total, "gap": proof.gap, "converged": self._reason.settled},
            "notes": list(self.notes),
        }

    @property
    def _reason(self) -> PairExplanation | Explanation:
        if self.explanation is None:
            raise InputError(f"document {self.document} is scored and not explained; ask for more of them (top)")
        return self.explanation


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Listed[Hit], TableExport, Viewable):
    """Hits from the best downwards; `ranking.why(0, 3)` says why the first stands above the fourth."""

    listed: ClassVar[str] = "hits"
    query: str
    hits: tuple[Hit, ...]
    meta: Mapping[str, Any]
    places: tuple[int, int] | None = None  # asked: why the first of them stands above the second

    def __repr__(self) -> str:
        lines = [f"{k + 1}. {hit.score:.4f} {shortened(hit.text)!r}" for k, hit in enumerate(self.hits[:3])]
        more = f"… {len(self)} in all" if len(self) > 3 else ""
        return brief(self, repr(shortened(self.query)), *lines, more)

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary per hit, from the best downwards."""
        names = ("document", "text", "score", "start")
        return [{"place": k, **{n: getattr(hit, n) for n in names}} for k, hit in enumerate(self.hits)]

    def why(self, above: int, below: int) -> PairExplanation | Explanation:
        """Places in the order → the difference of the two complete decompositions.

        Columns of the first document count as they are, columns of the second with their sign turned, and the
        reference column is the difference of both: everything sums to score(above) − score(below).
        """
        first, second = (self._explained(place) for place in (above, below))
        target = "place {} minus place {}".format(*self.order(above, below)[::2])
        if isinstance(first, PairExplanation) and isinstance(second, PairExplanation):
            return difference(first, second, target)
        assert isinstance(first, Explanation) and isinstance(second, Explanation)  # one ranking is read one way
        return token_difference(first, second, target)

    def order(self, one: int, other: int) -> tuple[int, str, int]:
        """Two places as a person counts them, from 1, and how the first stands to the second."""
        first, second = (place % len(self.hits) + 1 for place in (one, other))
        return first, "above" if first <= second else "below", second

    def with_reason(self, above: int, below: int) -> Ranking:
        """The same ranking, whose pictures and files also show `why(above, below)`."""
        self.why(above, below)  # refused here, not when it is drawn
        return replace(self, places=(above, below))

    @property
    def reason(self) -> PairExplanation | Explanation | None:
        """`why` of the two places asked for."""
        return None if self.places is None else self.why(*self.places)

    def _explained(self, place: int) -> PairExplanation | Explanation:
        if not isinstance(place, Integral) or not -len(self.hits) <= place < len(self.hits):
            raise InputError(f"place {place!r} is not in the ranking: it has {len(self.hits)} places, from 0")
        explanation = self.hits[place].explanation
        if explanation is None:
            raise InputError(
                f"place {place} (from 0) is not explained; rank with top=None (or a larger top), or mend the index's damaged file"
            )
        return explanation

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the order with scores and explanations, which `pl.load` of the saved file gives back as a list."""
        hits = [{**vars(hit), "explanation": hit.explanation and hit.explanation.to_dict()} for hit in self.hits]
        why = {} if self.places is None else {"why": self.why(*self.places).to_dict()}
        return {"pathlens": SCHEMA, "kind": RANKING, "query": self.query, "meta": dict(self.meta), "hits": hits, **why}


def rank(
    model: Any,
    query: str,
    documents: Sequence[str] | Vectors,
    *,
    top: int | None = None,
    one_sided: bool = False,
    chunk: bool = False,
    show_progress: bool = False,
    **choices: Unpack[VectorOptions],
) -> Ranking:
    """Order documents by similarity to a query, and explain each score token by token.

    documents: texts, or `Vectors` from `pl.encode` (then only the query is integrated).
    top: explain only this many from the best (every document is scored; only these are integrated).
    one_sided: integrate the documents alone: V_b,j · e(query), one score per document token.
    chunk: cut documents longer than the model takes at sentences; the best piece stands for its document.
    Other choices as in `pl.encode`: method, layer, unit, similarity, norm, baseline, tolerance, n_steps, …
    """
    check_choices(choices.get("method"), {name: each for name, each in choices.items() if name != "method"}, rank)
    first = SideEncoder.of(model, **choices)
    if top is not None and (isinstance(top, bool) or not isinstance(top, Integral) or top < 1):
        raise InputError(f"top must be a whole number of at least 1, or None for all; got {top!r}")
    how: dict[str, Any] = {"top": top, "one_sided": one_sided}
    if isinstance(documents, Vectors):
        return _rank_vectors(first, query, documents, **how)
    second = first.other
    pieces = second.passages(documents, chunk=chunk)
    asked = Query.of(first, query)
    embeddings, baseline = second.embed([piece.text for piece in pieces], [piece.name for piece in pieces])

    candidates = _best([_candidate(asked, *each) for each in zip(pieces, embeddings, strict=True)])
    return ranked(asked, candidates, first.about(baseline), second=second, show_progress=show_progress, **how)


def _rank_vectors(encoder: SideEncoder, query: str, documents: Vectors, **how: Any) -> Ranking:
    """Documents encoded before: the query alone is integrated, everything else is a matrix product."""
    if not len(documents):
        raise InputError("the list of documents is empty; give at least one document")
    check_model(documents.header, encoder.explainer.model, "the encoded documents")
    if documents.header["norm"] != (norm := encoder.measure.norm):
        raise InputError(f"the documents were encoded with {setting(norm=documents.header['norm'])}, asked is {norm!r}")
    asked = Query.of(encoder, query)
    pieces = [Passage(n, side.text, f"document {n}") for n, side in enumerate(documents)]
    candidates = [_candidate(asked, piece, side.embedding, side) for piece, side in zip(pieces, documents, strict=True)]
    meta = dict(documents.header)  # one-sided: nothing of the query is integrated, so what is said is of the documents
    if not how["one_sided"]:
        meta = encoder.about(documents.header.get("baseline_name", ""))
        meta["notes"] = mixed(meta, documents.header, "the query", "the documents")
    return ranked(asked, candidates, meta, **how)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A passage and its score, before it is explained."""

    passage: Passage
    score: float
    side: Side | None = None  # its vectors, where they are there already
    name: str = ""  # what its document is called, where it has a name


def _candidate(query: Query, passage: Passage, embedding: np.ndarray, side: Side | None = None) -> Candidate:
    """With its score; a passage that has none (length zero under the cosine) is named."""
    try:
        return Candidate(passage, query.score(embedding), side)
    except NumberError as error:
        raise NumberError(f"{passage.name}: {error}") from error


def ranked(
    query: Query,
    candidates: Iterable[Candidate],
    meta: Mapping[str, Any],
    *,
    top: int | None = None,
    one_sided: bool = False,
    second: SideEncoder | None = None,
    show_progress: bool = False,
) -> Ranking:
    """Order candidates and explain the best `top` of them, wherever their vectors come from: ties stay as given.

    second: explains those that have no vectors; without it, one that has none (of a damaged file) keeps its score and its
    place, and is not explained. meta: how the documents' vectors are made.
    """
    order = sorted(candidates, key=lambda candidate: -candidate.score)
    chosen, meta = order[:top], dict(meta)
    if not one_sided:
        names = [query.baseline, meta.get("baseline_name") or query.baseline]
        meta["baseline_name"] = " | ".join(dict.fromkeys(names))
    explanations = _stored(query, chosen, meta, one_sided)
    if second is not None:
        fresh = [each for each in chosen if each.side is None]
        texts, labels = [each.passage.text for each in fresh], [each.passage.name for each in fresh]
        made = reasons(query, second, texts, labels, pairs=not one_sided, show_progress=show_progress) if fresh else ()
        explanations |= {id(each): _named(reason, each) for each, reason in zip(fresh, made, strict=True)}
    met = [(each, each.passage, explanations.get(id(each))) for each in order]
    hits = [Hit(p.document, _shown(p.text), each.score, why, p.start, name=each.name) for each, p, why in met]
    return Ranking(_shown(query.text), tuple(hits), meta)


def _stored(query: Query, chosen: Sequence[Candidate], meta: Mapping[str, Any], single: bool) -> dict[int, Reason]:
    """Those whose vectors are there already: one product each."""
    met = [(each, each.side) for each in chosen if each.side is not None]
    if not met:
        return {}
    if single:
        return {id(each): _named(one_sided(query.embedding, side, query.measure, meta), each) for each, side in met}
    one = query.side([side.embedding for _, side in met])
    return {id(each): _named(pair_of(one, side, query.measure, meta), each) for each, side in met}


def _named(reason: Reason, candidate: Candidate) -> Reason:
    return reason.derived(meta={**reason.meta, "name": candidate.name}) if candidate.name else reason


def _best(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Of every document its best passage, the first of equals."""
    best: dict[int, Candidate] = {}
    for each in sorted(candidates, key=lambda candidate: -candidate.score):
        best.setdefault(each.passage.document, each)
    return list(best.values())


def _shown(thing: Any) -> str:
    """A text as it is; a picture by what it is, so that a ranking can be drawn and saved."""
    return thing if isinstance(thing, str) else "(picture)"


def difference(above: PairExplanation, below: PairExplanation, target: str) -> PairExplanation:
    """Two explanations of the same first text → one whose sum is the difference of their similarities."""
    if above.tokens_a != below.tokens_a:
        unlike = "the two explanations are of different queries, or by different units"
        raise InputError(f"{unlike}; they cannot be subtracted")
    reference = above.full_matrix[:, :1] - below.full_matrix[:, :1]
    matrix = np.concatenate([reference, above.full_matrix[:, 1:], -below.full_matrix[:, 1:]], axis=1)
    text_a, text_b = above.origin.texts[1], below.origin.texts[1]
    moved = _moved(below.offsets_b, below.special_b, len(text_a) + 1)
    texts = [above.origin.texts[0], f"{text_a}\n{text_b}"]
    return above.derived(
        target=f"{above.target}: {target}",
        certificate=_difference_certificate(above.certificate, below.certificate, matrix),
        meta={**above.meta, "texts": texts, "is_difference": True},
        tokens_b=(*above.tokens_b, *below.tokens_b),
        offsets_b=(*above.offsets_b, *moved),
        full_matrix=matrix,
        similarity=above.similarity - below.similarity,
        special_b=(*above.special_b, *below.special_b),
        coordinates=None,
        path_a=None,
        path_b=None,
        check=None,
        edited=above.altered or below.altered,
    )


def token_difference(above: Explanation, below: Explanation, target: str) -> Explanation:
    """The same, one-sided: tokens of the first document, then those of the second with their sign turned."""
    text_a, text_b = above.origin.texts[-1], below.origin.texts[-1]
    a, b, scores = above.certificate, below.certificate, np.concatenate([above.scores, -below.scores])
    errors = [*a.error_estimate, *b.error_estimate]
    return above.derived(
        target=f"{above.target}: {target}",
        certificate=a.less(b, total=float(scores.sum()), errors=errors, size=_size(a, b)),
        meta={**above.meta, "texts": [f"{text_a}\n{text_b}"], "is_difference": True},
        tokens=(*above.tokens, *below.tokens),
        offsets=(*above.offsets, *_moved(below.offsets, below.special, len(text_a) + 1)),
        special=(*above.special, *below.special),
        segments=(*above.segments, *below.segments),
        scores=scores,
        check=None,
        edited=above.altered or below.altered,
    )


def _moved(offsets: Sequence[Span], special: Sequence[bool], shift: int) -> tuple[Span, ...]:
    """Places of the second document, in a text where it follows the first."""
    both = zip(offsets, special, strict=True)
    return tuple((start, end) if held else (start + shift, end + shift) for (start, end), held in both)


def _difference_certificate(a: Certificate, b: Certificate, matrix: np.ndarray) -> Certificate:
    count, first, second = len(matrix) - 1, np.array(a.error_estimate), np.array(b.error_estimate)
    both = first[:count] + second[:count]  # the query's rows are in both parts; then come the tokens of each document
    errors = np.concatenate([both, first[count:], second[count:]])
    return a.less(b, total=float(matrix.sum()), errors=errors, f_baseline=float(matrix[0, 0]), size=_size(a, b))


def _size(a: Certificate, b: Certificate) -> float:
    """What a gap is relative to: a difference of two nearly equal scores has no size of its own."""
    return (a.bound + b.bound) / (2 * a.tolerance)
