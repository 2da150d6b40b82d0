"""Choosing anchors: one word per step on the way from the text's word down to the baseline's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pathlens.path.words.monotone import between, gridded, in_cell, monotone
from pathlens.path.words.neighbours import NeighbourSearch
from pathlens.path.words.record import Settings

NO_WORD = -1  # the id of a row that is no word of the vocabulary
NUMBERS_IN_CACHE = 2**17  # numbers of candidate rows scored at once: a megabyte


@dataclass(frozen=True, eq=False)
class Journeys:
    """n different ways from a word (or row) to its baseline; a word that comes twice is one journey."""

    end: np.ndarray  # (n, d) float64: w
    start: np.ndarray  # (n, d) float64: w′
    end_ids: np.ndarray  # (n,) NO_WORD where the row is no word
    start_ids: np.ndarray  # (n,)
    keys: tuple[tuple[str, str], ...]  # (token, baseline), for the cache

    def __len__(self) -> int:
        return len(self.end)

    def some(self, chosen: list[int]) -> Journeys:
        keys = tuple(self.keys[k] for k in chosen)
        return Journeys(self.end[chosen], self.start[chosen], self.end_ids[chosen], self.start_ids[chosen], keys)


# (the anchor before, the baseline) -> candidate ids and costs, both (K,)
Known = dict[tuple[str, str], list[np.ndarray]]
# (step counted from 0, ids (n,) and rows (n, d) of the anchors before) -> candidate ids (n, K), nearest first
Candidates = Callable[[int, np.ndarray, np.ndarray], np.ndarray]


def choose(
    journeys: Journeys, settings: Settings, search: NeighbourSearch, candidates: Candidates, *, shared: bool = False
) -> np.ndarray:
    """Anchor ids (n, m), from the text's side: at each step the best candidate that is not used up.

    Never the baseline, never a word used before (the text's own word counts as used). Ties go to the nearer
    candidate, then to the lower id. Without a candidate left, the baseline's id, from there on.
    `shared`: candidates and costs follow from the anchor before and the baseline alone, whatever the step, so
    journeys that come to the same word share them. Paths meet often: common words are many words' neighbours.
    """
    known: Known = {}
    count = len(journeys)
    used = np.full((count, settings.steps + 1), NO_WORD)
    used[:, 0] = journeys.end_ids
    before, ids = journeys.end, journeys.end_ids
    over = np.zeros(count, dtype=bool)  # journeys that have come to the baseline
    for step in range(settings.steps):
        names = [token for token, _ in journeys.keys] if step == 0 else list(map(str, ids))
        keys = [(name, baseline) for name, (_, baseline) in zip(names, journeys.keys, strict=True)]
        new = _first_of_each(keys, known) if shared else np.arange(count)
        near = candidates(step, ids[new], before[new])
        cost = _costs(near, before[new], journeys.start[new], journeys.end[new], settings, search, step)
        if shared:
            known.update({keys[k]: pair for k, *pair in zip(new, near, cost, strict=True)})
            near, cost = (np.stack(part) for part in zip(*(known[key] for key in keys), strict=True))
        free = near != journeys.start_ids[:, None]
        free &= ~(near[:, :, None] == used[:, None, : step + 1]).any(axis=2)
        cost = np.where(free, cost, np.inf)
        best = np.argmin(cost, axis=1)  # the first of equals: candidates come nearest first
        none = ~free.any(axis=1)
        over = none if settings.strategy == "grid" else over | none  # the grid's points do not need the last
        ids = np.where(over, journeys.start_ids, near[np.arange(count), best])
        before = anchor_rows(journeys, ids, search)
        used[:, step + 1] = ids
    return used[:, 1:]


def _first_of_each(keys: list[tuple[str, str]], known: Known) -> np.ndarray:
    """Where each key that is not known yet comes first."""
    return np.array([k for k, key in enumerate(keys) if key not in known and keys.index(key) == k], dtype=int)


def walk(journeys: Journeys, anchors: np.ndarray, settings: Settings, search: NeighbourSearch) -> np.ndarray:
    """Points (n, m, d) from the text's side: `c⁰ = w, c^t = mono(a^t; w′, c^{t−1})`, or the grid's."""
    points = np.empty((*anchors.shape, journeys.end.shape[1]))
    before = journeys.end
    for step in range(settings.steps):
        rows = anchor_rows(journeys, anchors[:, step], search)
        if settings.strategy == "grid":
            before = gridded(rows, journeys.start, journeys.end, settings.steps - step, settings.steps)
        else:
            before = monotone(rows, journeys.start, before, settings.steps)
        points[:, step] = before
    return points


def anchor_rows(journeys: Journeys, ids: np.ndarray, search: NeighbourSearch) -> np.ndarray:
    """Rows (n, d) of anchors; the baseline's own row where a journey is over (it may be no word)."""
    return np.where((ids == journeys.start_ids)[:, None], journeys.start, search.rows(np.maximum(ids, 0)))


def _costs(
    near: np.ndarray,
    before: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    settings: Settings,
    search: NeighbourSearch,
    step: int,
) -> np.ndarray:
    """What each candidate (n, K) loses, a few journeys at a time so that their rows stay in the cache."""
    at_once = max(1, NUMBERS_IN_CACHE // (near.shape[1] * before.shape[1]))
    costs = np.empty(near.shape)
    for low in range(0, len(near), at_once):
        some = slice(low, low + at_once)
        ends = start[some, None], end[some, None]
        costs[some] = _cost(search.rows(near[some]), before[some, None], *ends, settings, step)
    return costs


def _cost(
    rows: np.ndarray, before: np.ndarray, start: np.ndarray, end: np.ndarray, settings: Settings, step: int
) -> np.ndarray:
    """What candidates (n, K, d) lose; the lowest is chosen.

    greedy: ‖a − mono(a; w′, a^{t−1})‖². maxcount: coordinates not kept. grid: coordinates outside their cell.
    """
    if settings.strategy == "grid":
        cell = in_cell(rows, start, end, settings.steps - step, settings.steps)
        return rows.shape[2] - np.count_nonzero(cell, axis=2)
    kept = between(rows, start, before)
    if settings.strategy == "maxcount":
        return rows.shape[2] - np.count_nonzero(kept, axis=2)
    rows -= before - (before - start) / settings.steps
    rows *= ~kept  # a kept coordinate loses nothing; a product is far quicker here than a masked write
    rows *= rows
    return rows.sum(axis=2)
