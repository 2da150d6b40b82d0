"""Dense and lexical search together: a fused score whose parts are sums too, word by word.

    score = w_dense · (e(q)·e(x) / (‖e(q)‖ ‖e(x)‖)) + w_terms · Σ_t term_t

The similarity is a sum over the hit's tokens and the reference (`pl.why`), the lexical part a sum over terms: BM25's words
(Robertson, Zaragoza 2009), or the term weights of a sparse encoder such as SPLADE (Formal and others, 2021). So every
word of a hit has a dense and a lexical share, and what stands in no word (the reference, terms a sparse encoder adds) is
said apart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Unpack

import regex

from pathlens.engine.typed import VectorOptions
from pathlens.errors import InputError
from pathlens.explanation.view import Listed
from pathlens.types import Span
from pathlens.vectors.documents import as_list
from pathlens.vectors.rank import Hit
from pathlens.vectors.why import why

WORD = regex.compile(r"\w+")


class Term(NamedTuple):
    """What one term adds to the lexical score, and where it stands in the text; nowhere, where an encoder added it."""

    name: str
    score: float
    spans: tuple[Span, ...] = ()


class Lexical(Protocol):
    """A lexical search as a sum over terms."""

    def terms(self, query: str, text: str) -> list[Term]: ...


def _words(text: str) -> dict[str, list[Span]]:
    spans: dict[str, list[Span]] = {}
    for match in WORD.finditer(text):
        spans.setdefault(match.group().lower(), []).append(match.span())
    return spans


class BM25:
    """Okapi BM25 over these documents; words are runs of letters and digits, in lower case.

    idf(t) · f (k1 + 1) / (f + k1 (1 − b + b · length / mean length)),   idf(t) = ln(1 + (N − n + ½) / (n + ½))
    """

    def __init__(self, documents: Iterable[str], *, k1: float = 1.5, b: float = 0.75) -> None:
        if not (k1 >= 0 and 0 <= b <= 1):
            raise InputError(f"k1 must be at least 0 and b between 0 and 1, got k1={k1!r}, b={b!r}")
        self.k1, self.b, self.holding = k1, b, Counter[str]()
        lengths = []
        for text in as_list(documents, "documents"):
            words = _words(text)
            self.holding.update(words.keys())
            lengths.append(sum(map(len, words.values())))
        self.count, self.mean_length = len(lengths), max(1e-9, sum(lengths) / len(lengths))

    def terms(self, query: str, text: str) -> list[Term]:
        words = _words(text)
        room = self.k1 * (1 - self.b + self.b * sum(map(len, words.values())) / self.mean_length)
        terms = []
        for name, times in Counter(match.group().lower() for match in WORD.finditer(query)).items():
            spans = words.get(name, [])
            if spans:
                held = self.holding[name]
                weight = math.log(1 + (self.count - held + 0.5) / (held + 0.5))
                here = len(spans) * (self.k1 + 1) / (len(spans) + room)
                terms.append(Term(name, times * weight * here, tuple(spans)))
        return terms


class SparseTerms:
    """A sparse encoder's own term weights: Σ_t q_t · d_t over its vocabulary. `SparseTerms(SparseEncoder("…splade…"))`."""

    def __init__(self, model: Any) -> None:
        if not all(hasattr(model, name) for name in ("encode_query", "encode_document", "tokenizer")):
            raise InputError(f"{type(model).__name__} is no SparseEncoder of sentence-transformers")
        self.model = model

    def _weights(self, vector: Any) -> dict[int, float]:
        flat = vector.to_dense() if vector.is_sparse else vector
        return {int(number): float(flat[number]) for number in flat.nonzero().flatten()}

    def terms(self, query: str, text: str) -> list[Term]:
        asked = self._weights(self.model.encode_query(query, show_progress_bar=False).cpu())
        held = self._weights(self.model.encode_document(text, show_progress_bar=False).cpu())
        read = self.model.tokenizer(text, return_offsets_mapping=True, truncation=True)
        places: dict[int, list[Span]] = {}
        for number, (start, end) in zip(read["input_ids"], read["offset_mapping"], strict=True):
            if end > start:
                places.setdefault(int(number), []).append((start, end))
        shared = sorted(asked.keys() & held.keys())
        names = self.model.tokenizer.convert_ids_to_tokens(shared)
        return [
            Term(str(name), asked[number] * held[number], tuple(places.get(number, ())))
            for number, name in zip(shared, names, strict=True)
        ]


class Share(NamedTuple):
    """A word of a hit, and what it adds to the fused score by each part."""

    word: str
    start: int
    end: int
    dense: float
    lexical: float

    @property
    def score(self) -> float:
        return self.dense + self.lexical


@dataclass(frozen=True, eq=False)
class Fused:
    """One hit: `score = dense + lexical`, each of them a sum; weights are in every number but `hit`'s and `terms`'."""

    hit: Hit  # the dense part, with its certificate
    terms: tuple[Term, ...]
    weights: tuple[float, float]

    @property
    def text(self) -> str:
        return self.hit.text

    @property
    def dense(self) -> float:
        return self.weights[0] * self.hit.similarity

    @property
    def lexical(self) -> float:
        return self.weights[1] * math.fsum(term.score for term in self.terms)

    @property
    def score(self) -> float:
        return self.dense + self.lexical

    @property
    def words(self) -> list[Share]:
        """Every word of the text with its dense and its lexical share."""
        shares = {match.span(): [0.0, 0.0] for match in WORD.finditer(self.text)}
        homes = list(shares)
        for (start, end), score in zip(self.hit.spans, self.hit.scores.tolist(), strict=True):
            if (home := _home(homes, start, end)) is not None:
                shares[home][0] += self.weights[0] * score
        for term in self.terms:
            for start, end in term.spans:
                if (home := _home(homes, start, end)) is not None:
                    shares[home][1] += self.weights[1] * term.score / len(term.spans)
        return [Share(self.text[a:b], a, b, *parts) for (a, b), parts in shares.items()]

    @property
    def rest(self) -> dict[str, float]:
        """What stands in no word: of the dense part the reference and signs, of the lexical one terms that were added."""
        words = self.words
        return {
            "dense": self.dense - math.fsum(word.dense for word in words),
            "lexical": self.lexical - math.fsum(word.lexical for word in words),
        }

    def facts(self) -> dict[str, Any]:
        """Plain values, as `Hit.facts`, with both parts."""
        both = {"score": self.score, "dense": self.dense, "lexical": self.lexical, "weights": list(self.weights)}
        terms = [[name, self.weights[1] * score] for name, score, _ in self.terms]
        words = [list(word) for word in self.words]
        return {**both, "words": words, "rest": self.rest, "terms": terms, "why": self.hit.facts()}


def _home(words: Sequence[Span], start: int, end: int) -> Span | None:
    """The word that a token stands in."""
    return next((word for word in words if start < end and word[0] < end and start < word[1]), None)


@dataclass(frozen=True, eq=False)
class Hybrid(Listed[Fused]):
    """Fused hits in the order they came; `best` has them by their fused score."""

    listed: ClassVar[str] = "hits"
    query: str
    hits: tuple[Fused, ...]
    weights: tuple[float, float]

    @property
    def best(self) -> list[Fused]:
        return sorted(self.hits, key=lambda hit: -hit.score)

    def why(self, above: int, below: int) -> dict[str, float]:
        """How much of the difference of two fused scores each part makes."""
        one, other = self.hits[above], self.hits[below]
        parts = {"dense": one.dense - other.dense, "lexical": one.lexical - other.lexical}
        return {"score": one.score - other.score, **parts}


def hybrid(
    encoder: Any,
    query: str,
    hits: Sequence[Any],
    terms: Lexical,
    *,
    weights: tuple[float, float] | Mapping[str, float] = (1.0, 0.1),
    **choices: Unpack[VectorOptions],
) -> Hybrid:
    """Every hit's fused score, word by word: how much is dense, how much lexical.

    hits, choices: as in `pl.why`. terms: `BM25(documents)` or `SparseTerms(model)`. weights: of the similarity and of the
    lexical score, or {"dense": …, "lexical": …}.
    """
    if isinstance(weights, Mapping):
        unknown = set(weights) - {"dense", "lexical"}
        if unknown:
            raise InputError(f"weights has {', '.join(map(repr, sorted(unknown)))}; it knows 'dense' and 'lexical'")
        weights = (float(weights.get("dense", 0.0)), float(weights.get("lexical", 0.0)))
    if len(weights) != 2 or not all(math.isfinite(each) for each in weights):
        raise InputError(f"weights are two finite numbers, of the dense and of the lexical part; got {weights!r}")
    dense = why(encoder, query, hits, **choices)
    pair = (float(weights[0]), float(weights[1]))
    return Hybrid(query, tuple(Fused(hit, tuple(terms.terms(query, hit.text)), pair) for hit in dense), pair)
