"""Which part of which source made the model say this: an answer's sentences × parts of the sources."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from pathlens.errors import InputError, setting
from pathlens.explanation.base import Result, largest, percent, shortened
from pathlens.explanation.binding import mismatch
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.record import Explanation
from pathlens.types import Span
from pathlens.units.cuts import sentence_spans, word_spans

THRESHOLD = 0.3  # a source is cited for a sentence when it has this share of what sources add to it …
LEAST = math.log(2)  # … and makes it at least twice as likely
CUTS = ("source", "sentence", "word")  # what a source is cut into, from coarse to fine


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Answer(Result):
    """Log-probability of an answer, sentence by sentence, shared among parts of the sources it was read with.

    Only the sources move, so row n of `matrix` sums to how far they change sentence n's log-probability, and everything to
    the whole answer's. `offsets` are characters of the caller's own `sources`. `certificates[n]` is of row n, `certificate`
    of the total. With `contrast` (why not that?) there is one row: the answer's log-probability minus the contrast's.

    Limits: with `sig` a source's score is what leaving it out changes, so sources have no common sum; inside a source, parts
    are put back left to right and do sum to it.
    """

    question: str
    answer: str
    names: tuple[str, ...]  # of the sources
    sources: tuple[str, ...]
    owners: tuple[int, ...]  # the source of each column
    offsets: tuple[Span, ...]  # characters of its source
    sentence_offsets: tuple[Span, ...]  # characters of the answer, one span a row
    lengths: tuple[int, ...]  # tokens of each row
    matrix: Float[np.ndarray, "N U"]
    certificates: tuple[Certificate, ...]  # (N,)
    contrast: str = ""
    threshold: float = THRESHOLD
    repeats: tuple[tuple[float, ...], ...] = ()  # (source, source, loss without one, without the other, without both)
    instead: ClassVar[str] = f"to ask why this and not that, give the other answer as {setting(contrast='…')}"

    def doubts(self) -> Iterator[str]:
        yield mismatch("the scores", self.matrix, self.certificate)
        for sentence, row, each in zip(self.sentences, self.matrix, self.certificates, strict=True):
            yield mismatch(f"the scores of {shortened(sentence)!r}", row, each)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The rows."""
        return tuple(self.answer[start:end] for start, end in self.sentence_offsets)

    @property
    def parts(self) -> tuple[str, ...]:
        """The columns: sentences of the sources, unless they were cut otherwise."""
        return tuple(self.sources[k][start:end] for k, (start, end) in zip(self.owners, self.offsets, strict=True))

    @property
    def by_source(self) -> Float[np.ndarray, "N K"]:
        """Sentences of the answer × sources."""
        belongs = np.array(self.owners)[:, None] == np.arange(len(self.sources))
        return np.asarray(self.matrix @ belongs.astype(float))

    @property
    def source_scores(self) -> Float[np.ndarray, "K"]:
        """What each source adds to the whole answer's log-probability, in their order."""
        return np.asarray(self.by_source.sum(axis=0))

    @property
    def citations(self) -> tuple[tuple[int, ...], ...]:
        """For every sentence of the answer its sources, counted from 1, the strongest first; () where none is needed.

        Cited: at least `threshold` of what the sources that raise the sentence add, and twice as likely with it.
        """
        cited = []
        for row in self.by_source:
            least = max(self.threshold * float(np.clip(row, 0, None).sum()), LEAST)
            cited.append(tuple(int(k) + 1 for k in np.argsort(-row, kind="stable") if row[k] >= least))
        return tuple(cited)

    @property
    def anyway(self) -> float:
        """The answer's probability without what the sources say: all of them at the baseline. With `contrast`, the odds."""
        return math.exp(min(self.certificate.f_baseline, 700.0))

    @property
    def headline(self) -> str:
        """How likely a token of the answer is, by geometric mean, with the sources and without them."""
        if self.contrast:
            return ""
        count, ends = sum(self.lengths), (self.certificate.f_input, self.certificate.f_baseline)
        with_them, without = (percent(math.exp(end / count)) for end in ends)
        return f"a token of this answer is {with_them} likely with the sources, {without} without them (geometric mean over its tokens)"

    @property
    def odds(self) -> tuple[tuple[float, float], ...]:
        """Of every sentence: probability of a token, by geometric mean, with the sources and anyway; of a contrast none."""
        ends = () if self.contrast else zip(self.certificates, self.lengths, strict=True)
        return tuple((math.exp(each.f_input / n), math.exp(each.f_baseline / n)) for each, n in ends)

    def cited(self) -> str:
        """The answer with its citations: "They are blue. [1]"."""
        text, at = "", 0
        for (_, end), sources in zip(self.sentence_offsets, self.citations, strict=True):
            text, at = text + self.answer[at:end] + "".join(f" [{k}]" for k in sources), end
        return text + self.answer[at:]

    def sentence(self, index: int) -> Explanation:
        """One sentence of the answer as a result over the parts of all sources; −1 is the last, as in a list."""
        return Explanation(
            method=self.method,
            target=f"{self.sentences[index]!r} ({self.origin.score or 'logprob'})",
            certificate=self.certificates[index],
            meta={**self.meta, "texts": list(self.sources), "sentence": int(index)},
            tokens=self.parts,
            offsets=self.offsets,
            special=(False,) * len(self.parts),
            segments=self.owners,
            scores=self.matrix[index].copy(),
            edited=self.altered,
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        for n, sentence in enumerate(self.sentences):
            for u, (part, owner, (start, end)) in enumerate(zip(self.parts, self.owners, self.offsets, strict=True)):
                row = {"sentence": sentence, "source": self.names[owner], "part": part, "start": start, "end": end}
                yield {**row, "sentence_index": n, "source_index": owner, "score": float(self.matrix[n, u])}

    def top(self, k: int = 5) -> list[tuple[str, str, float]]:
        """The k entries with the largest |score|: (sentence of the answer, part of a source, score)."""
        return [(self.sentences[n], self.parts[u], float(self.matrix[n, u])) for n, u in largest(self.matrix, k)]

    def with_threshold(self, threshold: float) -> Answer:
        """The same with citations by another share."""
        return self.derived(threshold=check_threshold(threshold))

    def strongest(self) -> tuple[int, ...]:
        """Columns worth a closer look: at least `threshold` of what the parts that raise a sentence add to it."""
        least = self.threshold * np.clip(self.matrix, 0, None).sum(axis=1, keepdims=True)
        raising = (self.matrix >= np.maximum(least, 1e-12)).any(axis=0)
        return tuple(int(u) for u in np.flatnonzero(raising))

    def opened(self, columns: Sequence[int], inside: str) -> tuple[tuple[int, int, int], ...]:
        """(source, start, end) of every part, the chosen ones cut further."""
        made: list[tuple[int, int, int]] = []
        for u, (owner, (start, end)) in enumerate(zip(self.owners, self.offsets, strict=True)):
            inner = cut_into(inside, self.sources[owner][start:end]) if u in columns else [(0, end - start)]
            made += [(owner, start + low, start + high) for low, high in inner]
        return tuple(made)

    def passes_to_open(self, columns: Sequence[int] | None = None, inside: str | None = None) -> int:
        """Passes of the model that opening takes (`pl.zoom`), known before: secants' own, or `sig`'s one per part."""
        parts = self.opened(self.strongest() if columns is None else columns, inside or self.finer())
        if self.method == "sig":
            return 2 + len(parts)  # both ends, each part put back
        return self.certificate.passes  # an integral's scores are sums of its tokens': any cut costs the same

    def finer(self) -> str:
        """The next cut after this result's own."""
        cut = self.origin.unit or "sentence"
        return CUTS[min(CUTS.index(cut) + 1, len(CUTS) - 1)] if cut in CUTS else CUTS[-1]


def cut_into(kind: str, text: str) -> list[Span]:
    """A source's parts, in characters of it."""
    if kind not in CUTS:
        raise InputError(f"sources are cut by {', '.join(CUTS)}; got {kind!r}")
    return [(0, len(text))] if kind == "source" else {"sentence": sentence_spans, "word": word_spans}[kind](text)


def check_threshold(threshold: Any) -> float:
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        raise InputError(f"threshold is a share of what the sources add, above 0 and at most 1; got {threshold!r}")
    return float(threshold)
