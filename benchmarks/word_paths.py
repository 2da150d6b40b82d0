"""How much faster the path search is than the literal definition, on MiniLM's table, authors' settings.

The definition is the tests' slow twin: at each step the float64 distances to all rows of the table, then the best of
K candidates. Every path is compared, anchor by anchor and point by point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.measure import Row, alternate, largest_difference, row, seconds
from pathlens.path.words.options import PRESETS
from pathlens.path.words.route import dig, udig
from pathlens.path.words.store import PathCache
from pathlens.text.load import load
from pathlens.types import Ends, Vocabulary
from tests.support.twins.word_paths import word_path

SENTENCE = (2025, 2428, 6057, 1010, 2021, 3048, 1012, 1996, 3185, 2003, 6919, 5409)
MASK = 103


def paths_by_definition(table: np.ndarray, words: tuple[int, ...], settings: Any) -> list[tuple[list[int], np.ndarray]]:
    return [
        word_path(
            table,
            word,
            MASK,
            method=settings.method,
            strategy=settings.strategy,
            steps=settings.steps,
            neighbours=settings.neighbours,
        )
        for word in words
    ]


def compare(name: str, vocabulary: Vocabulary, words: tuple[int, ...], rounds: int) -> Row:
    settings = PRESETS[name]
    table = vocabulary.table.double().numpy()
    starts = vocabulary.table[[MASK] * len(words)]
    held = torch.zeros(len(words), dtype=torch.bool)
    ends = Ends(starts, vocabulary.table[list(words)], held, words, (MASK,) * len(words), vocabulary)
    search = udig if settings.method == "udig" else dig
    caches = iter([PathCache() for _ in range(rounds)])
    both = alternate(
        rounds,
        lambda: (cache := next(caches), search(ends, settings, cache)),
        lambda: paths_by_definition(table, words, settings),
    )
    cache, route = both.ours
    again, _ = seconds(lambda: search(ends, settings, cache))
    apart, same = 0.0, True
    for t, (anchors, points) in enumerate(both.theirs):
        same &= list(route.detail.tokens[t].anchors) == anchors
        corners = np.stack([route.corner(i)[t].numpy() for i in range(1, route.corners - 1)])
        apart = max(apart, largest_difference(corners, points.astype(np.float32)))
    verdict = "the same words" if same else "NOT the same words"
    return row(
        f"{settings.method.upper()} path search, {settings.strategy}, {len(words)} words ({again * 1000:.0f} ms once known)",
        f"the literal definition, step by step over the whole table; {verdict}",
        goal=30.0 if settings.method == "udig" else None,
        ours=both.ours_seconds,
        theirs=both.theirs_seconds,
        errors=(apart, 0.0),
        holds=same,
        note="errors of the path search: the largest distance of a point from the definition's, whose own is 0 by that",
        why="part of the search is shared by all words of a text, so a short text has less to share",
    )


def searches(quick: bool) -> list[Row]:
    vocabulary = load("minilm").vocabulary
    vocabulary = Vocabulary(vocabulary.table.float(), str, "minilm")
    names = (
        ("udig-maxcount", "udig-greedy") if quick else ("udig-maxcount", "udig-greedy", "dig-greedy", "dig-maxcount")
    )
    words = SENTENCE[: 2 if quick else 12]
    return [compare(name, vocabulary, words, 1 if quick else 2) for name in names]
