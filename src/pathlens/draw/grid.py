"""Tables that still add up: token × token grids, what is folded away, the strongest pairs and phrases."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pathlens.draw import palette
from pathlens.draw.blocks import Bars, Block, Link
from pathlens.draw.words import Stretch, visible
from pathlens.explanation.record import Phrase

REFERENCE = "(reference)"


@dataclass(frozen=True, eq=False)
class Grid(Block):
    """A token × token table with colours and sums in its margins.

    `edge` leading rows and columns are the reference; `rest` rows and columns at the end are sums of what was
    folded away, so that the whole still sums to the same number.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: np.ndarray  # (rows, columns)
    edge: int = 0
    rest: tuple[int, int] = (0, 0)  # 1 where rows, columns were folded
    notes: tuple[str, ...] = ()
    signed: bool = True
    additive: bool = True  # has a column a sum of its own (the cells of SIG have none)?
    corner: str = ""
    between: str = "×"  # between the names of a row and a column

    @cached_property
    def limit(self) -> float:
        """Full colour: the largest |value| between two tokens (reference and folded sums may go beyond)."""
        stop_row, stop_column = (size - rest for size, rest in zip(self.values.shape, self.rest, strict=True))
        return palette.limit(self.values[self.edge : stop_row, self.edge : stop_column])

    def text(self, value: float, digits: int = 3, *, narrow: bool = False) -> str:
        """A number of the table, with that many digits of the largest."""
        return palette.number(float(value), palette.decimals(self.limit, digits), sign=self.signed, narrow=narrow)

    def role(self, side: int, index: int) -> str:
        """ "edge" where a row (side 0) or column (1) is the reference, "rest" where it is the sum of others."""
        last = self.values.shape[side] - self.rest[side]
        return "edge" if index < self.edge else "rest" if index >= last else ""

    def without_zeros(self, special_rows: Sequence[bool], special_columns: Sequence[bool]) -> Grid:
        """Without the special tokens whose row or column is exactly zero; a note names them."""
        rows, columns = _kept(self.values, special_rows), _kept(self.values.T, special_columns)
        sides = (self.rows, rows), (self.columns, columns)
        gone = [name for names, kept in sides for i, name in enumerate(names) if i not in kept]
        names = ", ".join(dict.fromkeys(map(visible, gone)))
        left = tuple(self.rows[i] for i in rows), tuple(self.columns[j] for j in columns)
        notes = (f"left out, because exactly zero: {names}",) if gone else ()
        return replace(self, rows=left[0], columns=left[1], values=self.values[np.ix_(rows, columns)], notes=notes)

    def fold(self, rows: int, columns: int) -> Grid:
        """At most that many rows and columns: the strongest stay in order, the others become one summed line."""
        strength = np.nan_to_num(np.abs(self.values[self.edge :, self.edge :]))
        largest = [strength.max(1 - side, initial=0) for side in (0, 1)]
        kept = [_strong(each, self.edge, room) for each, room in zip(largest, (rows, columns), strict=True)]
        values, names, gone = self.values, [self.rows, self.columns], []
        for side, (keep, what) in enumerate(zip(kept, ("rows", "columns"), strict=True)):
            left, every = len(names[side]) - len(keep), names[side]
            others = np.delete(values, keep, axis=side).sum(side, keepdims=True)
            values, names[side] = values.take(keep, side), tuple(every[i] for i in keep)
            gone += [f"{left} of {len(every) - self.edge} {what}"] if left else []
            if left and self.signed:  # lengths do not add up: no honest line for the others
                values, names[side] = np.concatenate([values, others], side), (*names[side], f"+{left} more")
        how = "summed in “more”" if self.signed else "not shown"
        words = (f"{' and '.join(gone)}, the weakest, are {how}",) if gone else ()
        rest = len(names[0]) - len(kept[0]), len(names[1]) - len(kept[1])
        return replace(self, rows=names[0], columns=names[1], values=values, rest=rest, notes=self.notes + words)


@dataclass(frozen=True, eq=False)
class Continued(Block):
    """A prompt and what was said to it: choose an output token, and the prompt is coloured by what made it likely."""

    prompt: tuple[tuple[Stretch, ...], ...]
    spoken: tuple[Stretch, ...]  # the continuation; `units` are output tokens
    sources: tuple[int, ...]  # for each output token the source it is once it has been said; −1: none
    grid: Grid  # without lines that are zero
    cells: Grid  # every source × every output token
    bars: Bars  # their limit is the running text's
    facts: Mapping[str, Any]  # what the script needs besides the matrix


def _kept(values: np.ndarray, special: Sequence[bool]) -> list[int]:
    flags = list(special) or [False] * len(values)
    keep = [i for i in range(len(values)) if not (flags[i] and not np.any(values[i]))]
    return keep or list(range(len(values)))


def _strong(strength: np.ndarray, edge: int, room: int) -> list[int]:
    """Indices of the lines that stay: the reference, then the strongest in their order."""
    count = len(strength) + edge
    if count <= max(room, edge + 2):
        return list(range(count))
    order = np.argsort(-strength, kind="stable")[: max(room - edge - 1, 1)] + edge
    return [*range(edge), *sorted(int(i) for i in order)]


def links_between(matrix: np.ndarray, most: int) -> tuple[Link, ...]:
    """The strongest cells as (row, column, value)."""
    width = matrix.shape[1]
    return tuple((*divmod(place, width), float(matrix.flat[place])) for place in _strongest(matrix.ravel(), most))


def links_inside(matrix: np.ndarray, most: int) -> tuple[Link, ...]:
    """The strongest pairs of one text, both halves summed."""
    first, second = np.triu_indices(len(matrix), 1)
    both = matrix[first, second] + matrix[second, first]
    return tuple((int(first[o]), int(second[o]), float(both[o])) for o in _strongest(both, most))


def _strongest(values: np.ndarray, most: int) -> list[int]:
    order = np.argsort(-np.nan_to_num(np.abs(values)), kind="stable")[:most]
    return [int(o) for o in order if values[o] != 0 and np.isfinite(values[o])]


def strongest_phrases(nodes: Sequence[Phrase], most: int) -> tuple[dict[int, int], tuple[str, ...]]:
    """The `most` phrases of largest value → their depth, in reading order, and a note.

    They hang together: a part never outweighs its whole.
    """
    kept: set[int] = set()
    waiting = [(-nodes[0].value, 0)]
    while waiting and len(kept) < most:
        _, i = heapq.heappop(waiting)
        kept.add(i)
        for child in nodes[i].children:
            heapq.heappush(waiting, (-nodes[child].value, child))
    depths, below = {}, [(0, 0)]
    while below:
        i, depth = below.pop()
        depths[i] = depth
        below += [(child, depth + 1) for child in reversed(nodes[i].children) if child in kept]
    left = len(nodes) - len(kept)
    return depths, (f"{left} phrases of smaller value are not shown",) if left else ()
