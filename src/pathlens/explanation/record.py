"""The frozen results. Plain numpy and strings: a saved one opens on a machine without the model.

Scores are signed sums over a token's coordinates; nothing is normalised here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Never, SupportsIndex, TypeVar, overload

import numpy as np
from jaxtyping import Float

from pathlens.checks import check_choice
from pathlens.errors import InputError, setting
from pathlens.explanation import reduce
from pathlens.explanation.base import OfUnits, Result, largest, shortened
from pathlens.explanation.binding import mismatch, rounding, unlike
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.view import TableExport, Viewable, numbered, renderers
from pathlens.types import Span


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Explanation(OfUnits):
    """One signed score per unit."""

    scores: Float[np.ndarray, "U"]
    coordinates: Float[np.ndarray, "U d"] | None = None  # before summing, on request
    standard_error: Float[np.ndarray, "U"] | None = None  # over a sample of baselines
    path: Any = None  # what the path says about itself, for paths through words

    def doubts(self) -> Iterator[str]:
        yield mismatch("the scores", self.scores, self.certificate)
        if self.coordinates is not None:
            slack, sums = rounding(self.coordinates), self.coordinates.sum(-1)
            yield unlike("the scores are not the sums of their coordinates", sums, self.scores, slack)

    def rows(self) -> Iterator[dict[str, Any]]:
        for i, token in enumerate(self.tokens):
            start, end = self.offsets[i]
            yield {"token": token, "start": start, "end": end, "score": float(self.scores[i])}

    def less(self, other: Explanation) -> dict[str, Any]:
        return {"scores": self.scores - other.scores, "coordinates": None, "standard_error": None, "path": None}

    def top(self, k: int = 5) -> list[tuple[str, float]]:
        """The k units with the largest |score|, largest first."""
        return [(self.tokens[i], float(self.scores[i])) for (i,) in largest(self.scores, k)]

    def summed(self, members: Float[np.ndarray, "G U"], **common: Any) -> Explanation:
        coordinates = None if self.coordinates is None else members @ self.coordinates
        return self.derived(scores=members @ self.scores, coordinates=coordinates, standard_error=None, **common)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Continuation(OfUnits):
    """What in the prompt, and in the output so far, made each output token likely.

    Sources are the prompt's units followed by the output's own (`segments` 0 and 1: characters of
    `meta["texts"]`'s prompt and continuation). Column t sums to the change of output token t's score, so everything
    sums to the change of the whole continuation's (its log-probability, when the score is one). An output token is no
    source of itself or of earlier ones: those entries are exactly 0. `certificate` is of the total, `certificates[t]`
    of column t; all of them are judged by one bound, relative to the root mean square of the columns' changes.
    """

    outputs: tuple[str, ...]  # readable text of each output token
    output_offsets: tuple[Span, ...]  # characters of the continuation
    matrix: Float[np.ndarray, "U T"]
    certificates: tuple[Certificate, ...]  # (T,)
    path: Any = None
    entry: ClassVar[tuple[str, ...]] = ("token", "output", "score")
    places: ClassVar[tuple[str, ...]] = ("tokens", "outputs")

    def less(self, other: Continuation) -> dict[str, Any]:
        both = zip(self.certificates, other.certificates, strict=True)
        certificates = tuple(one.less(two, total=one.total - two.total) for one, two in both)
        return {"matrix": self.matrix - other.matrix, "certificates": certificates, "path": None}

    def doubts(self) -> Iterator[str]:
        yield mismatch("the scores", self.matrix, self.certificate)
        for output, column, each in zip(self.outputs, self.matrix.T, self.certificates, strict=True):
            yield mismatch(f"the scores of {output!r}", column, each)

    @property
    def scores(self) -> Float[np.ndarray, "U"]:
        """Each source's share of the whole continuation."""
        return np.asarray(self.matrix.sum(axis=1))

    def aggregate(self) -> Explanation:
        """The whole continuation as one number: scores summed over its tokens, which still add up."""
        shared = {each.name: getattr(self, each.name) for each in fields(OfUnits)}
        return Explanation(**{**shared, "edited": self.altered, "seal": ""}, scores=self.scores, path=self.path)

    def output(self, index: int) -> Explanation:
        """One output token: what made it likely."""
        return self.aggregate().derived(
            target=f"{self.outputs[index]!r} ({self.origin.score or 'score'})",
            certificate=self.certificates[index],
            meta={**self.meta, "outputs": [self.outputs[index]], "output_index": int(index)},
            prediction=self.outputs[index] if self.prediction else "",
            check=None,  # it is of all output tokens together
            scores=self.matrix[:, index].copy(),
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        for i, token in enumerate(self.tokens):
            start, end = self.offsets[i]
            for j, output in enumerate(self.outputs):
                row = {"token": token, "start": start, "end": end, "output": output}
                yield {**row, "index": i, "output_index": j, "score": float(self.matrix[i, j])}

    def top(self, k: int = 5) -> list[tuple[str, str, float]]:
        """The k entries with the largest |score|: (source, output token, score)."""
        return [(self.tokens[i], self.outputs[j], float(self.matrix[i, j])) for i, j in largest(self.matrix, k)]

    def summed(self, members: Float[np.ndarray, "G U"], **common: Any) -> Continuation:
        """Sources joined into groups; outputs stay tokens, and estimates are added with the sources."""
        certificates = tuple(each.joined(members) for each in self.certificates)
        return self.derived(matrix=members @ self.matrix, certificates=certificates, **common)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class VectorExplanation(OfUnits):
    """One vector per (output position, unit): Σ over units of `vectors` is the change of the output."""

    vectors: Float[np.ndarray, "out U d"]
    outputs: tuple[str, ...] = ()  # names of the output positions
    sources: tuple[str, ...] = ()  # which input of the block each unit belongs to
    f_input: Float[np.ndarray, "out d"] | None = None  # the output at the text
    f_baseline: Float[np.ndarray, "out d"] | None = None  # the output at the baseline
    path: Any = None
    entry: ClassVar[tuple[str, ...]] = ("output", "token", "norm")
    places: ClassVar[tuple[str, ...]] = ("tokens", "outputs", "sources", "shape")

    @property
    def shape(self) -> tuple[int, ...]:
        """Output positions, units, numbers in a vector."""
        return self.vectors.shape

    def less(self, other: VectorExplanation) -> dict[str, Any]:
        """A length of a difference is no difference of lengths, so its certificate is taken of the vectors themselves."""
        vectors = self.vectors - other.vectors
        mine, its = self._ends, other._ends
        end, start = (one - two for one, two in zip(mine, its, strict=True))
        total = vectors.sum(1)
        lengths = {"f_input": end, "f_baseline": start, "size": end - start, "total": total}
        lengths["gap"] = total - (end - start)
        facts: dict[str, Any] = {name: float(np.linalg.norm(each)) for name, each in lengths.items()}
        proof = self.certificate.less(other.certificate, **facts)
        return {"vectors": vectors, "f_input": end, "f_baseline": start, "certificate": proof, "path": None}

    @property
    def _ends(self) -> tuple[Float[np.ndarray, "out d"], Float[np.ndarray, "out d"]]:
        if self.f_input is None or self.f_baseline is None:
            raise InputError("these vectors came without the outputs they add up to; explain the text anew")
        return self.f_input, self.f_baseline

    def doubts(self) -> Iterator[str]:
        yield mismatch("the vectors", self.vectors, self.certificate)
        if self.f_input is not None and self.f_baseline is not None:
            gap = np.linalg.norm(self.vectors.sum(1) - (self.f_input - self.f_baseline))
            slack = rounding(np.array([self.certificate.f_input, self.certificate.f_baseline]))
            yield unlike("the vectors miss the output's change by another gap", gap, self.certificate.gap, slack)

    @property
    def norms(self) -> Float[np.ndarray, "out U"]:
        """The length of each contribution."""
        return np.asarray(np.linalg.norm(self.vectors, axis=-1))

    def rows(self) -> Iterator[dict[str, Any]]:
        norms = self.norms
        for j, output in enumerate(self.outputs or map(str, range(len(self.vectors)))):
            for i, token in enumerate(self.tokens):
                source = self.sources[i] if self.sources else ""
                row = {"output": output, "token": token, "source": source, "norm": float(norms[j, i])}
                yield {**row, "output_index": j, "token_index": i}

    def top(self, k: int = 5) -> list[tuple[str, str, float]]:
        """The k longest contributions: (output, token, norm)."""
        norms = self.norms
        names = self.outputs or tuple(map(str, range(len(self.vectors))))
        return [(names[j], self.tokens[i], float(norms[j, i])) for j, i in largest(norms, k)]

    def summed(self, members: Float[np.ndarray, "G U"], **common: Any) -> VectorExplanation:
        sources = tuple(self.sources[int(np.argmax(row))] for row in members) if self.sources else ()
        return self.derived(vectors=np.einsum("gu,oud->ogd", members, self.vectors), sources=sources, **common)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PairExplanation(Result):
    """Token × token for two texts; index 0 of `full_matrix` is the reference, and it sums to `similarity`."""

    tokens_a: tuple[str, ...]
    tokens_b: tuple[str, ...]
    offsets_a: tuple[Span, ...]
    offsets_b: tuple[Span, ...]
    full_matrix: Float[np.ndarray, "A1 B1"]  # A + 1, B + 1: the reference comes first
    similarity: float
    special_a: tuple[bool, ...] = ()
    special_b: tuple[bool, ...] = ()
    coordinates: Float[np.ndarray, "A d B e"] | None = None  # before summing, on request
    path_a: Any = None  # what the paths say about themselves, for paths through words
    path_b: Any = None
    entry: ClassVar[tuple[str, ...]] = ("token_a", "token_b", "score")
    places: ClassVar[tuple[str, ...]] = ("tokens_a", "tokens_b")

    @property
    def added(self) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
        """Of each token of both texts, was it added by the tokenizer? A result that does not say has none."""
        sides = (self.special_a, self.tokens_a), (self.special_b, self.tokens_b)
        one, other = (special or (False,) * len(tokens) for special, tokens in sides)
        return one, other

    def less(self, other: PairExplanation) -> dict[str, Any]:
        values = {"full_matrix": self.full_matrix - other.full_matrix, "similarity": self.similarity - other.similarity}
        return {**values, "coordinates": None, "path_a": None, "path_b": None}

    def doubts(self) -> Iterator[str]:
        yield mismatch("the cells", self.full_matrix, self.certificate)
        value = self.certificate.f_input
        yield unlike("the similarity is not the certificate's", self.similarity, value, rounding(np.array([value])))

    @property
    def matrix(self) -> Float[np.ndarray, "A B"]:
        """The pairs of tokens alone."""
        return self.full_matrix[1:, 1:]

    @property
    def core(self) -> float:
        """What the pairs of tokens add up to: the similarity is `core + rest`."""
        return float(self.matrix.sum())

    @property
    def rest(self) -> float:
        """What the reference adds: its row, its column and its cell. Small from a quiet reference, the default."""
        return float(self.full_matrix[0].sum() + self.full_matrix[1:, 0].sum())

    @property
    def headline(self) -> str:
        """ "cosine similarity 0.544 = pairs of words 0.589 + the rest -0.044"."""
        if self.difference:
            return super().headline
        units = f"{self.origin.unit or 'token'}s"
        return f"{self.target} {self.similarity:.3f} = pairs of {units} {self.core:.3f} + the rest {self.rest:.3f}"

    def rows(self) -> Iterator[dict[str, Any]]:
        names_a, names_b = ("(reference)", *self.tokens_a), ("(reference)", *self.tokens_b)
        for i, a in enumerate(names_a):
            for j, b in enumerate(names_b):
                row = {"token_a": a, "token_b": b, "index_a": i - 1, "index_b": j - 1}
                yield {**row, "score": float(self.full_matrix[i, j])}

    def top(self, k: int = 5) -> list[tuple[str, str, float]]:
        """The k pairs of tokens with the largest |score|."""
        return [(self.tokens_a[i], self.tokens_b[j], float(self.matrix[i, j])) for i, j in largest(self.matrix, k)]

    def words(self) -> PairExplanation:
        """The same, by word: the sum of each word's tokens, on both sides."""
        return reduce.pair_words(self)

    def shares(self) -> Float[np.ndarray, "A B"]:
        """For reading who speaks to whom: positive cells over the geometric mean of their row's and column's positive sums.

        Limits: 0 … 1, and no longer a sum: a strong pair and a weak one look alike where each has no rival.
        """
        return reduce.shares(self.matrix)

    def links(self, threshold: float = 0.0, *, by: str = "share") -> list[tuple[str, str, float]]:
        """Units that are each other's best, above the threshold: by their `shares`, or by the cells (by="sum")."""
        check_choice("by", by, {"share": "", "sum": ""})
        matrix = self.shares() if by == "share" else self.matrix
        return [(self.tokens_a[i], self.tokens_b[j], float(matrix[i, j])) for i, j in reduce.mutual(matrix, threshold)]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Interactions(OfUnits):
    """Token × token inside one text: row i sums to IG's score of token i, everything to the output's change."""

    matrix: Float[np.ndarray, "U U"]
    scores: Float[np.ndarray, "U"]  # IG, computed on its own
    standard_error: Float[np.ndarray, "U U"] | None = None
    entry: ClassVar[tuple[str, ...]] = ("token", "other", "score")

    def doubts(self) -> Iterator[str]:
        asked = self.origin.rows
        taken = list(range(len(self.matrix)) if asked is None else asked)
        matrix, gaps = self.matrix[taken], self.certificate.rows
        yield mismatch("the interactions", matrix, self.certificate)
        if len(gaps) == len(taken):  # words have none; beside those of older files stand their tokens'
            off = np.abs(matrix.sum(1) - self.scores[taken])
            yield unlike("rows miss their scores by other gaps", off, np.array(gaps), rounding(matrix))

    def less(self, other: Interactions) -> dict[str, Any]:
        return {"matrix": self.matrix - other.matrix, "scores": self.scores - other.scores, "standard_error": None}

    def rows(self) -> Iterator[dict[str, Any]]:
        for i, a in enumerate(self.tokens):
            for j, b in enumerate(self.tokens):
                row = {"token": a, "other": b, "index": i, "other_index": j}
                yield {**row, "score": float(self.matrix[i, j])}

    def top(self, k: int = 5) -> list[tuple[str, str, float]]:
        """The k pairs (i < j) with the largest |interaction|; Γ_ij and Γ_ji are the two halves, summed here."""
        first, second = np.triu_indices(len(self.tokens), 1)
        both = self.matrix[first, second] + self.matrix[second, first]
        return [(self.tokens[first[o]], self.tokens[second[o]], float(both[o])) for (o,) in largest(both, k)]

    def summed(self, members: Float[np.ndarray, "G U"], **common: Any) -> Interactions:
        if np.isnan(self.matrix).any():
            raise InputError(
                f"only some of the interactions were asked for, so words cannot be summed; use {setting(unit='word')}"
            )
        matrix = members @ self.matrix @ members.T
        common["meta"] = {name: fact for name, fact in common["meta"].items() if name != "rows"}  # they name tokens
        return self.derived(scores=members @ self.scores, matrix=matrix, standard_error=None, **common)


@dataclass(frozen=True)
class Phrase:
    """One node of a phrase tree."""

    span: Span  # characters
    text: str
    value: float  # v(G), between 0 and 1
    dividend: float  # d(G), ≥ 0
    signed: float  # IDG(G) with its sign: the integral along the phrase's own unit direction
    children: tuple[int, ...] = ()  # indices into `PhraseTree.nodes`
    label: str = ""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PhraseTree(Result):
    """Values of phrases over a tree; `nodes[0]` is the whole text, with value 1."""

    nodes: tuple[Phrase, ...]
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]
    scores: Float[np.ndarray, "S"]  # the IG run everything was read from
    special: tuple[bool, ...] = ()
    tree: str = ""  # where the tree came from: "bracketed", "spans", "dependencies" (and whose) or "right-branching"
    family: str = "phrases"  # or "phrases and coordinates", the paper's: what shares the value
    family_note: str = ""  # the one of `meta["notes"]` that is about the family
    plain: tuple[Phrase, ...] = ()  # with the paper's family in `nodes`: the same nodes without coordinates
    entry: ClassVar[tuple[str, ...]] = ("text", "value")
    places: ClassVar[tuple[str, ...]] = ("tokens",)
    instead: ClassVar[str] = (
        "values are shares of each tree's own whole: subtract the integrals they are read from, explained with "
        f"{setting(method='ig')}"
    )

    @property
    def added(self) -> tuple[bool, ...]:
        """Of each token, was it added by the tokenizer? A tree that does not say has none."""
        return self.special or (False,) * len(self.tokens)

    @property
    def homes(self) -> tuple[int, ...]:
        """Of each token, the text it stands in: the only one, or none."""
        return tuple(-1 if flag else 0 for flag in self.added)

    def doubts(self) -> Iterator[str]:
        yield mismatch("the scores of the integral under the tree", self.scores, self.certificate)
        whole = max((node.value for node in self.nodes[:1]), default=1.0)
        yield "" if abs(whole - 1) <= 1e-9 else f"the whole text has the value {whole:.6g}, not 1"
        for node in self.nodes:
            inside = [start >= node.span[0] and end <= node.span[1] and end > start for start, end in self.offsets]
            total = float(self.scores[inside].sum())
            if total * node.signed < 0 and abs(total) > rounding(self.scores):
                yield f"the sign of {shortened(node.text)!r} is not its tokens'"
            for child in node.children:
                more = self.nodes[child].value - node.value
                yield "" if more <= 1e-9 else f"a part of {shortened(node.text)!r} has more value than the whole of it"

    def without_coordinates(self) -> PhraseTree:
        """The same tree with tokens, words and phrases alone sharing the value; itself where they do already."""
        if not self.plain:
            return self
        meta = {**self.meta, "notes": [note for note in self.origin.notes if note != self.family_note]}
        return self.derived(nodes=self.plain, plain=(), family="phrases", family_note="", meta=meta)

    def rows(self) -> Iterator[dict[str, Any]]:
        for node in self.nodes:
            row = {"text": node.text, "start": node.span[0], "end": node.span[1], "label": node.label}
            yield {**row, "value": node.value, "dividend": node.dividend, "signed": node.signed}

    def top(self, k: int = 5) -> list[tuple[str, float]]:
        """The k phrases with the largest dividend, with the sign of their integral."""
        order = sorted(self.nodes, key=lambda node: -node.dividend)[:k]
        return [(node.text, float(np.copysign(node.dividend, node.signed))) for node in order]

    def words(self) -> PhraseTree:
        """Itself: its leaves are words already."""
        return self


R = TypeVar("R")  # a `Result`


class Results(list[R], TableExport, Viewable):
    """The results of several texts, in their order. A plain list in everything a list can do."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of every result, each with its number (from 0), its text, what the model says of it and what is explained."""
        for number, result in enumerate(self._each()):
            text = " | ".join(result.origin.texts)
            for row in result.rows():
                yield {"result": number, "text": text, "prediction": result.prediction, "target": result.target, **row}

    def _each(self) -> Iterator[Result]:
        return (result for result in self if isinstance(result, Result))

    def show(self, **options: Any) -> None:
        """Draw each in the terminal, one below the other."""
        for result in self._each():
            result.show(**options)

    @property
    def report(self) -> Any:
        """One page with a table of all results, to be sorted and filtered."""
        return renderers["Report"]().of(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `pl.load` gives back."""
        body: dict[str, Any] = self.report.to_dict()
        return body

    @overload
    def to_html(self, path: None = None, **options: Any) -> str: ...
    @overload
    def to_html(self, path: str | Path, **options: Any) -> Path: ...
    def to_html(self, path: Any = None, **options: Any) -> str | Path:
        """One self-contained page for all; with a path it is written there, and the path comes back."""
        page: str | Path = self.report.to_html(path, **options)
        return page

    def to_png(self, path: str | Path, **options: Any) -> Path:
        """The words that counted most over all texts."""
        return Path(self.report.to_png(path, **options))

    def _repr_html_(self) -> str:
        return str(self.report._repr_html_()) if self else repr(self)

    @overload
    def __getitem__(self, place: SupportsIndex) -> R: ...
    @overload
    def __getitem__(self, place: slice) -> Results[R]: ...
    def __getitem__(self, place: Any) -> Any:
        """One result; of a slice, of truth values or of several numbers, the same kind of list."""
        places = numbered(place, len(self), "results")
        if isinstance(places, list):
            return Results([super(Results, self).__getitem__(k) for k in places])
        chosen = super().__getitem__(places)
        return Results(chosen) if isinstance(places, slice) else chosen

    def __add__(self, others: list[Any]) -> Results[Any]:
        """Both, one after the other, as the same kind of list."""
        return Results([*self, *others]) if isinstance(others, list) else NotImplemented

    def __sub__(self, others: Any) -> Never:
        """A line that says what to subtract."""
        raise InputError(
            "a list of results has no difference, its entries have: [a - b for a, b in zip(results, others)], or results[0] - others[0]"
        )

    def copy(self) -> Results[R]:
        """Another list of the same results."""
        return Results(self)

    def __repr__(self) -> str:
        first = [repr(each) for each in self[:2]] + (["…"] if len(self) > 2 else [])
        return f"<Results of {len(self)}: {', '.join(first)}>" if self else "<Results: none>"
