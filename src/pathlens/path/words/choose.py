"""Choosing anchors: one word per step on the way from the text's word down to the baseline's.

Points follow from the anchors: words pulled back so that every coordinate moves one way. Functions of single points
broadcast over leading dimensions and work in the dtype they are given; paths use float64. `start` is the baseline's row
w′, `end` the text's row w, `upper` the point before (on the way down from w).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from pathlens.path.words.neighbours import NeighbourSearch
from pathlens.path.words.options import Settings

Rows = Float[np.ndarray, "... d"]

NO_WORD = -1  # the id of a row that is no word of the vocabulary
NUMBERS_IN_CACHE = 2**17  # numbers of candidate rows scored at once: a megabyte


@dataclass(frozen=True, eq=False)
class Journeys:
    """n different ways from a word (or row) to its baseline; a word that comes twice is one journey."""

    end: Float64[np.ndarray, "n d"]  # w
    start: Float64[np.ndarray, "n d"]  # w′
    end_ids: Int[np.ndarray, "n"]  # NO_WORD where the row is no word
    start_ids: Int[np.ndarray, "n"]
    keys: tuple[tuple[str, str], ...]  # (token, baseline), for the cache

    def __len__(self) -> int:
        return len(self.end)

    def some(self, chosen: list[int] | Int[np.ndarray, "some"]) -> Journeys:
        keys = tuple(self.keys[k] for k in chosen)
        return Journeys(self.end[chosen], self.start[chosen], self.end_ids[chosen], self.start_ids[chosen], keys)


# (the anchor before, the baseline) -> candidate ids and costs, both (K,)
Known = dict[tuple[str, str], list[np.ndarray]]
# (step counted from 0, ids (n,) and rows (n, d) of the anchors before) -> candidate ids (n, K), nearest first
Candidates = Callable[[int, np.ndarray, np.ndarray], np.ndarray]


def choose(
    journeys: Journeys, settings: Settings, search: NeighbourSearch, candidates: Candidates, *, shared: bool = False
) -> Int[np.ndarray, "n m"]:
    """Anchor ids, from the text's side: at each step the best candidate that is not used up.

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
        new = np.arange(count)
        if shared:  # where each key that is not known yet comes first
            new = np.array([k for k, key in enumerate(keys) if key not in known and keys.index(key) == k], dtype=int)
        near = candidates(step, ids[new], before[new])
        cost = _costs(near, before[new], journeys.some(new), settings, search, step)
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


def walk(
    journeys: Journeys, anchors: Int[np.ndarray, "n m"], settings: Settings, search: NeighbourSearch
) -> Float[np.ndarray, "n m d"]:
    """Points from the text's side: `c⁰ = w, c^t = mono(a^t; w′, c^{t−1})`, or the grid's."""
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


def anchor_rows(journeys: Journeys, ids: Int[np.ndarray, "n"], search: NeighbourSearch) -> Float[np.ndarray, "n d"]:
    """Rows of anchors; the baseline's own row where a journey is over (it may be no word)."""
    return np.where((ids == journeys.start_ids)[:, None], journeys.start, search.rows(np.maximum(ids, 0)))


def _costs(
    near: Int[np.ndarray, "n K"],
    before: Float[np.ndarray, "n d"],
    journeys: Journeys,
    settings: Settings,
    search: NeighbourSearch,
    step: int,
) -> Float[np.ndarray, "n K"]:
    """What each candidate loses, a few journeys at a time so that their rows stay in the cache; the lowest is chosen.

    greedy: ‖a − mono(a; w′, a^{t−1})‖². maxcount: coordinates not kept. grid: coordinates outside their cell.
    """
    at_once = max(1, NUMBERS_IN_CACHE // (near.shape[1] * before.shape[1]))
    costs = np.empty(near.shape)
    for low in range(0, len(near), at_once):
        some = slice(low, low + at_once)
        rows = search.rows(near[some])  # (n, K, d)
        upper, start, end = (each[some, None] for each in (before, journeys.start, journeys.end))
        if settings.strategy == "grid":
            kept = in_cell(rows, start, end, settings.steps - step, settings.steps)
        else:
            kept = between(rows, start, upper)
        if settings.strategy == "greedy":
            rows -= upper - (upper - start) / settings.steps
            rows *= ~kept  # a kept coordinate loses nothing; a product is far quicker here than a masked write
            rows *= rows
            costs[some] = rows.sum(axis=2)
        else:
            costs[some] = rows.shape[2] - np.count_nonzero(kept, axis=2)
    return costs


def between(row: Rows, start: Rows, upper: Rows) -> Bool[np.ndarray, "..."]:
    """Which coordinates of `row` lie between w′ and u, ends included: those a monotone path may keep."""
    inside: np.ndarray = row >= np.minimum(start, upper)
    inside &= row <= np.maximum(start, upper)
    return inside


def monotone(row: Rows, start: Rows, upper: Rows, steps: int) -> Rows:
    """`mono(a; w′, u)`: a_i where it lies between w′_i and u_i, else `u_i − (u_i − w′_i)/m`.

    Paper: Sanyal and Ren, "Discretized Integrated Gradients for Explaining Language Models" (2021).
    """
    return np.where(between(row, start, upper), row, upper - (upper - start) / steps)


def on_line(start: Rows, end: Rows, share: float) -> Rows:
    """The point `w′ + share·(w − w′)` of the straight line."""
    point: np.ndarray = start + share * (end - start)
    return point


def in_cell(row: Rows, start: Rows, end: Rows, j: int, steps: int) -> Bool[np.ndarray, "..."]:
    """Which coordinates lie in cell j of the uniform grid: within half a step of p_j, ends included.

    Cell j runs from `w′ + (j − ½)/(m + 1)·(w − w′)` to `w′ + (j + ½)/(m + 1)·(w − w′)`.
    """
    one = on_line(start, end, (j - 0.5) / (steps + 1))
    other = on_line(start, end, (j + 0.5) / (steps + 1))
    return between(row, one, other)


def gridded(row: Rows, start: Rows, end: Rows, j: int, steps: int) -> Rows:
    """`row` where a coordinate lies in its cell of the grid, else p_j's: monotone, and no leg is long."""
    return np.where(in_cell(row, start, end, j, steps), row, on_line(start, end, j / (steps + 1)))
