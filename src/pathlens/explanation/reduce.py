"""From tokens to words, and other sums of a finished result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pathlens.errors import InputError


def words(result: Any) -> Any:
    """Sum each word's tokens. Exact for every method but SIG's full reading, where a word moves as one."""
    from pathlens.explanation import record
    from pathlens.explanation.continuation import Continuation
    from pathlens.units.units import units

    if result.method == "sig" and result.meta.get("context", "full") == "full":
        raise InputError(
            "SIG's score of a word is not the sum of its tokens' (the word moves as one); run again with unit='word'"
        )
    texts = list(result.meta.get("texts", []))
    if isinstance(result, record.PairExplanation):
        return _pair(result, texts, units)
    if not texts:
        raise InputError("this result has features, not words of a text")
    sources = getattr(result, "sources", ())
    groups = (
        _by_source(result, texts, units)
        if sources
        else units("word", result.tokens, result.offsets, result.segments, texts)
    )
    sums = groups.members.astype(float)
    common: dict[str, Any] = {
        "tokens": groups.names,
        "offsets": groups.offsets,
        "special": groups.special,
        "segments": groups.segments,
        "meta": {**result.meta, "unit": "word"},
    }
    errors = result.certificate.error_estimate
    if len(errors) == sums.shape[1]:
        common["certificate"] = replace(result.certificate, error_estimate=tuple((sums @ np.array(errors)).tolist()))
    if isinstance(result, Continuation):
        return result.summed(sums, **common)
    if isinstance(result, record.Explanation):
        return replace(result, scores=sums @ result.scores, standard_error=None, **common)
    if isinstance(result, record.Interactions):
        if np.isnan(result.matrix).any():
            raise InputError("only some of the interactions were asked for, so words cannot be summed; use unit='word'")
        return replace(
            result, scores=sums @ result.scores, matrix=sums @ result.matrix @ sums.T, standard_error=None, **common
        )
    if sources:
        common["sources"] = tuple(sources[int(np.argmax(row))] for row in groups.members)
    return replace(result, vectors=np.einsum("us,osd->oud", sums, result.vectors), **common)


def _by_source(result: Any, texts: list[str], units: Any) -> Any:
    """A block with several inputs has every token once per input: words are made within each."""
    names = list(dict.fromkeys(result.sources))
    length = len(result.tokens) // len(names)
    one = units("word", result.tokens[:length], result.offsets[:length], result.segments[:length], texts)
    times = len(names)
    return replace(
        one,
        names=one.names * times,
        offsets=one.offsets * times,
        segments=one.segments * times,
        special=one.special * times,
        members=np.kron(np.eye(times, dtype=bool), one.members),
    )


def _pair(result: Any, texts: list[str], units: Any) -> Any:
    sides = []
    for text, names, offsets, special in (
        (texts[0], result.tokens_a, result.offsets_a, result.special_a),
        (texts[1], result.tokens_b, result.offsets_b, result.special_b),
    ):
        sides.append(units("word", names, offsets, [-1 if s else 0 for s in special], [text]))
    a, b = sides
    left = np.pad(a.members.astype(float), ((1, 0), (1, 0)))
    right = np.pad(b.members.astype(float), ((1, 0), (1, 0)))
    left[0, 0] = right[0, 0] = 1.0  # the reference stays itself
    return replace(
        result,
        tokens_a=a.names,
        tokens_b=b.names,
        offsets_a=a.offsets,
        offsets_b=b.offsets,
        special_a=a.special,
        special_b=b.special,
        full_matrix=left @ result.full_matrix @ right.T,
        coordinates=None,
        meta={**result.meta, "unit": "word"},
    )
