"""Discretized Integrated Gradients: from word to neighbouring word, down to the baseline."""

from __future__ import annotations

import numpy as np

from pathlens.path.words.choose import NO_WORD, Journeys, choose
from pathlens.path.words.record import Settings
from pathlens.path.words.search import check_ends, word_route
from pathlens.path.words.store import PathCache
from pathlens.types import Ends, Route


def dig(
    ends: Ends,
    *,
    steps: int = 30,
    neighbours: int = 500,
    strategy: str = "greedy",
    factor: int = 1,
    cache: PathCache | None = None,
) -> Route:
    """Anchor a^t is chosen among the K nearest words of a^{t−1}, with a⁰ = w; `c^t = mono(a^t; w′, c^{t−1})`.

    *greedy*: the smallest ‖a − mono(a; w′, a^{t−1})‖₂. *maxcount*: the most coordinates kept by mono.
    The K nearest rows of a word include the word itself, which is used up.

    Paper: Sanyal and Ren, "Discretized Integrated Gradients for Explaining Language Models" (2021).

    Limits: progress along the path is uneven, so the paper's left rule (2^f nodes per leg) misses
    completeness; a rule of higher order on each leg does not.
    """
    settings = Settings("dig", strategy, steps, neighbours, factor)
    check_ends(ends, settings)
    cache = PathCache() if cache is None else cache

    def find(journeys: Journeys) -> np.ndarray:
        search, graph = cache.search(ends.vocabulary), cache.graph(ends.vocabulary, neighbours)

        def candidates(step: int, ids: np.ndarray, rows: np.ndarray) -> np.ndarray:
            near = np.empty((len(ids), neighbours), dtype=np.int64)
            word = ids != NO_WORD
            if word.any():
                near[word] = graph.rows(ids[word])
            if not word.all():  # rows that are no words have no place in the graph
                near[~word] = search.nearest(rows[~word], neighbours)[0]
            return near

        return choose(journeys, settings, search, candidates, shared=True)

    return word_route(ends, settings, cache, find)
