"""Uniform Discretized Integrated Gradients: words near evenly spaced points of the straight line."""

from __future__ import annotations

import numpy as np

from pathlens.path.words.choose import Journeys, choose
from pathlens.path.words.record import Settings
from pathlens.path.words.search import check_ends, word_route
from pathlens.path.words.store import PathCache
from pathlens.types import Ends, Route


def udig(
    ends: Ends,
    *,
    steps: int = 30,
    neighbours: int = 50,
    strategy: str = "maxcount",
    factor: int = 1,
    cache: PathCache | None = None,
) -> Route:
    """Anchor j is chosen among the K nearest words of `p_j = w′ + j/(m + 1)·(w − w′)`, j = m … 1.

    *greedy* and *maxcount* score a candidate against (w′, the anchor before), as DIG does, and points follow
    by `mono`. *grid* keeps a coordinate only inside its own cell, half a step around p_j, and takes p_j's
    elsewhere; the word with most coordinates kept is the anchor. Its points are monotone and truly uniform.

    Paper: Roy and Kundu, "Uniform Discretized Integrated Gradients" (2024); `grid` is a variant of ours.

    Limits: after `mono` progress is not uniform (one leg may carry a third of the length): the paper's left
    rule then misses completeness by 12 to 25 %; a rule of higher order on each leg closes it.
    """
    settings = Settings("udig", strategy, steps, neighbours, factor)
    check_ends(ends, settings)
    cache = PathCache() if cache is None else cache
    shares = np.arange(steps, 0, -1) / (steps + 1)

    def find(journeys: Journeys) -> np.ndarray:
        search = cache.search(ends.vocabulary)
        near, _ = search.nearest_on_lines(journeys.start, journeys.end, shares, neighbours)
        return choose(journeys, settings, search, lambda step, ids, rows: near[:, step])

    return word_route(ends, settings, cache, find)
