"""The result of a generator's continuation: sources × output tokens, every column with a certificate of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from pathlens.explanation.certificate import Certificate
from pathlens.explanation.record import Explanation, OfUnits, largest
from pathlens.types import Span


@dataclass(frozen=True, eq=False, kw_only=True)
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

    @property
    def scores(self) -> Float[np.ndarray, "U"]:
        """Each source's share of the whole continuation."""
        return np.asarray(self.matrix.sum(axis=1))

    def aggregate(self) -> Explanation:
        """The whole continuation as one number: scores summed over its tokens, which still add up."""
        return self._explanation(self.scores, self.target, self.certificate, self.meta)

    def output(self, index: int) -> Explanation:
        """One output token: what made it likely."""
        score = self.meta.get("score", "score")
        meta = {**self.meta, "output_index": int(index)}
        name = f"{self.outputs[index]!r} ({score})"
        return self._explanation(self.matrix[:, index], name, self.certificates[index], meta)

    def _explanation(self, scores: np.ndarray, target: str, certificate: Certificate, meta: Any) -> Explanation:
        return Explanation(
            method=self.method,
            target=target,
            certificate=certificate,
            meta=meta,
            tokens=self.tokens,
            offsets=self.offsets,
            scores=np.array(scores),
            special=self.special,
            segments=self.segments,
            path=self.path,
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
        certificates = tuple(
            replace(each, error_estimate=tuple((members @ np.array(each.error_estimate)).tolist()))
            for each in self.certificates
        )
        return replace(self, matrix=members @ self.matrix, certificates=certificates, **common)
