"""The paper's analyses as functions over many explained pairs (Moeller, Nikolaev, Padó, EMNLP 2023).

Definitions are fixed here once: pairs of tokens without special ones unless said otherwise, sorted by signed
score from the largest down; word pairs are sums of their tokens'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pathlens.errors import InputError
from pathlens.explanation.record import PairExplanation

TAGS = {  # Penn treebank tag, by its beginning -> the paper's classes
    "NN": "NN", "VB": "VB", "JJ": "JJ", "RB": "RB", "IN": "IN", "DT": "DT", "PRP": "PR", "WP": "PR",
    "CC": "CC", "MD": "MD", "RP": "PT", "TO": "PT", "POS": "PT",
}  # fmt: skip


def plain_matrix(pair: PairExplanation) -> np.ndarray:
    """Token pairs without special tokens."""
    rows = ~np.array(pair.special_a, dtype=bool)
    columns = ~np.array(pair.special_b, dtype=bool)
    return pair.matrix[np.ix_(rows, columns)]


def top_share(pairs: Sequence[PairExplanation], percent: float = 5.0) -> dict[str, float]:
    """Share of the prediction that the top `percent` % of token pairs carry, with 95 % intervals.

    Per text pair: all token pairs sorted descending, sum of the first ⌈percent % · n⌉ over the prediction, and over
    the positive mass. Medians over text pairs. Limits: over the prediction it can exceed 1, since negatives cancel;
    off-the-shelf models' matrices do not sum to the prediction, so there only the positive mass compares.
    """
    _some(pairs)
    _percent(percent)
    of_prediction, of_positive, negative = [], [], []
    for pair in pairs:
        scores = np.sort(plain_matrix(pair).ravel())[::-1]
        count = max(1, int(np.ceil(len(scores) * percent / 100)))
        head = scores[:count].sum()
        of_prediction.append(head / pair.similarity if abs(pair.similarity) > 1e-6 else np.nan)
        of_positive.append(head / max(scores[scores > 0].sum(), 1e-12))
        negative.append(float((scores < 0).mean()))
    result = {}
    named = {"of_prediction": of_prediction, "of_positive": of_positive, "negative": negative}
    for name, values in named.items():
        low, high = interval(values)
        known = [value for value in values if np.isfinite(value)]
        result |= {name: float(np.median(known)) if known else low, f"{name}_low": low, f"{name}_high": high}
    return result


def interval(values: Sequence[float], level: float = 0.95, samples: int = 1000) -> tuple[float, float]:
    """Bootstrap interval of the median, fixed seed."""
    array = np.array([value for value in values if np.isfinite(value)])
    if not len(array):
        return float("nan"), float("nan")
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(array, (samples, len(array))), axis=1)
    return tuple(float(q) for q in np.quantile(medians, [(1 - level) / 2, (1 + level) / 2]))


def error_by_nodes(
    make: Callable[..., Any],
    texts: Sequence[tuple[str, str]],
    layers: Sequence[int],
    nodes: Sequence[int],
    rules: Sequence[str],
) -> list[dict[str, Any]]:
    """|full_matrix.sum() − similarity| for every layer, rule and node count; median and worst over the texts.

    `make(layer=…, rule=…, n_steps=…)` gives an explainer.
    """
    _some(texts)
    rows = []
    for layer in layers:
        for rule in rules:
            for count in nodes:
                explain = make(layer=layer, rule=rule, n_steps=count)
                gaps = [result.certificate.gap for result in explain([a for a, _ in texts], [b for _, b in texts])]
                row = {"layer": layer, "rule": rule, "nodes": count, "pairs": len(texts)}
                rows.append({**row, "median_error": float(np.median(gaps)), "worst_error": float(max(gaps))})
    return rows


def tag_class(tag: str) -> str:
    """A Penn tag → NN, VB, JJ, RB, IN, DT, PR, CC, MD, PT or other."""
    return next((name for start, name in TAGS.items() if tag.startswith(start)), "other")


def relation(a: str, b: str) -> str:
    return "–".join(sorted((a, b)))


def relations(
    pairs: Sequence[PairExplanation], tag: Callable[[str], Iterable[tuple[int, int, str]]], percent: float = 5.0
) -> list[dict[str, Any]]:
    """Which relations of parts of speech are in the top `percent` % of word pairs: share, base rate, lift.

    tag(text) gives (start, end, Penn tag) of each word; each word of a result takes the tag it overlaps most.
    """
    _some(pairs)
    _percent(percent)
    top: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for pair in pairs:
        names, scores = relation_table(pair, tag)
        order = np.argsort(-scores, kind="stable")
        every.update(names)
        top.update(names[i] for i in order[: max(1, int(np.ceil(len(names) * percent / 100)))])
    total, chosen = sum(every.values()), sum(top.values())
    rows = [
        {
            "relation": name,
            "share": top[name] / chosen,
            "base": every[name] / total,
            "lift": (top[name] / chosen) / (every[name] / total),
        }
        for name in every
    ]
    return sorted(rows, key=lambda row: -row["share"])


def relation_table(
    pair: PairExplanation, tag: Callable[[str], Iterable[tuple[int, int, str]]]
) -> tuple[list[str], np.ndarray]:
    """Relation and score of every pair of words, punctuation and special tokens left out."""
    words = pair.words() if pair.meta.get("unit") == "token" else pair
    kinds = []
    sides = ((words.offsets_a, words.special_a), (words.offsets_b, words.special_b))
    for text, (offsets, special) in zip(words.meta["texts"], sides, strict=True):
        tagged = list(tag(text))
        kinds.append([None if flag else _kind(text, span, tagged) for span, flag in zip(offsets, special, strict=True)])
    names, scores = [], []
    for i, a in enumerate(kinds[0]):
        for j, b in enumerate(kinds[1]):
            if a is not None and b is not None:
                names.append(relation(a, b))
                scores.append(words.matrix[i, j])
    return names, np.array(scores)


def _kind(text: str, span: Sequence[int], tagged: Sequence[tuple[int, int, str]]) -> str | None:
    """The class of the word at a span; None for punctuation."""
    start, end = span
    if not any(character.isalnum() for character in text[start:end]):
        return None
    shared = [(min(end, high) - max(start, low), name) for low, high, name in tagged]
    best = max(shared, default=(0, ""))
    return tag_class(best[1]) if best[0] > 0 else "other"


def agreement(first: Sequence[PairExplanation], second: Sequence[PairExplanation]) -> float:
    """Median Pearson correlation of two models' token × token matrices over the same text pairs."""
    _some(first)
    records = [
        np.corrcoef(plain_matrix(a).ravel(), plain_matrix(b).ravel())[0, 1]
        for a, b in zip(first, second, strict=True)
        if plain_matrix(a).size > 2
    ]
    if not records:
        raise InputError("no pair of texts has more than two pairs of tokens, so nothing can be correlated")
    return float(np.median(records))


def _percent(percent: float) -> None:
    if not 0 < percent <= 100:
        raise InputError(f"percent must be above 0 and at most 100, got {percent!r}")


def _some(items: Sequence[Any]) -> None:
    if not len(items):
        raise InputError("there are no pairs to look at; give at least one")
