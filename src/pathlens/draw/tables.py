"""Tables that still add up: token × token grids, what is folded away, the strongest pairs and phrases."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pathlens.draw import palette
from pathlens.draw.view import visible
from pathlens.explanation.continuation import Continuation
from pathlens.explanation.record import Interactions, PairExplanation, Phrase, VectorExplanation

REFERENCE = "(reference)"


@dataclass(frozen=True, eq=False)
class Grid:
    """A token × token table.

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

    @property
    def limit(self) -> float:
        """Full colour: the largest |value| between two tokens (reference and folded sums may go beyond)."""
        stop_row, stop_column = (len(n) - r for n, r in zip((self.rows, self.columns), self.rest, strict=True))
        return palette.limit(self.values[self.edge : stop_row, self.edge : stop_column])


def grid(result: PairExplanation | Interactions | VectorExplanation | Continuation) -> Grid:
    """The table of a result, without the special tokens whose row or column is exactly zero."""
    if isinstance(result, PairExplanation):
        whole = Grid((REFERENCE, *result.tokens_a), (REFERENCE, *result.tokens_b), result.full_matrix, edge=1)
        flags = [(False, *given) if given else () for given in (result.special_a, result.special_b)]
        return _without_zeros(whole, *flags)
    if isinstance(result, Interactions):
        whole = Grid(result.tokens, result.tokens, result.matrix)
        return _without_zeros(whole, result.special, result.special)
    if isinstance(result, Continuation):
        additive = result.certificate.kind != "per token"
        whole = Grid(result.tokens, result.outputs, result.matrix, additive=additive)
        return _without_zeros(whole, result.special, ())
    outputs = result.outputs or tuple(map(str, range(len(result.vectors))))
    return _without_zeros(Grid(outputs, unit_names(result), result.norms, signed=False), (), result.special)


def unit_names(result: VectorExplanation) -> tuple[str, ...]:
    """Tokens, with the block's input they belong to where there are several."""
    if len(set(result.sources)) < 2:
        return result.tokens
    return tuple(f"{token} ({source})" for token, source in zip(result.tokens, result.sources, strict=True))


def _without_zeros(whole: Grid, special_rows: Sequence[bool], special_columns: Sequence[bool]) -> Grid:
    rows = _kept(whole.values, special_rows)
    columns = _kept(whole.values.T, special_columns)
    gone = [whole.rows[i] for i in range(len(whole.rows)) if i not in rows]
    gone += [whole.columns[j] for j in range(len(whole.columns)) if j not in columns and whole.columns[j] not in gone]
    said = ", ".join(dict.fromkeys(map(visible, gone)))
    words = (f"left out, because exactly zero: {said}",) if gone else ()
    picked = whole.values[np.ix_(rows, columns)]
    names = tuple(whole.rows[i] for i in rows), tuple(whole.columns[j] for j in columns)
    return replace(whole, rows=names[0], columns=names[1], values=picked, notes=words)


def _kept(values: np.ndarray, special: Sequence[bool]) -> list[int]:
    flags = list(special) or [False] * len(values)
    keep = [i for i in range(len(values)) if not (flags[i] and not np.any(values[i]))]
    return keep or list(range(len(values)))


def fold(whole: Grid, rows: int, columns: int) -> Grid:
    """At most that many rows and columns: the strongest stay in order, the others become one summed line."""
    strength = np.nan_to_num(np.abs(whole.values[whole.edge :, whole.edge :]))
    keep_r = _strong(strength.max(1, initial=0), whole.edge, rows)
    keep_c = _strong(strength.max(0, initial=0), whole.edge, columns)
    values, names_r = _folded(whole.values, whole.rows, keep_r, whole.signed)
    turned, names_c = _folded(values.T, whole.columns, keep_c, whole.signed)
    sides = (whole.rows, keep_r, "rows"), (whole.columns, keep_c, "columns")
    gone = [f"{len(n) - len(k)} of {len(n) - whole.edge} {what}" for n, k, what in sides if len(k) < len(n)]
    how = "summed in “more”" if whole.signed else "not shown"
    words = (f"{' and '.join(gone)}, the weakest, are {how}",) if gone else ()
    rest = len(names_r) - len(keep_r), len(names_c) - len(keep_c)
    return replace(
        whole, rows=names_r, columns=names_c, values=turned.T, rest=rest, notes=whole.notes + words
    )  # fmt: skip


def _strong(strength: np.ndarray, edge: int, room: int) -> list[int]:
    """Indices of the lines that stay: the reference, then the strongest in their order."""
    count = len(strength) + edge
    if count <= max(room, edge + 2):
        return list(range(count))
    order = np.argsort(-strength, kind="stable")[: max(room - edge - 1, 1)] + edge
    return [*range(edge), *sorted(int(i) for i in order)]


def _folded(
    values: np.ndarray, names: tuple[str, ...], keep: list[int], signed: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    kept = tuple(names[i] for i in keep)
    if len(keep) == len(names) or not signed:  # lengths do not add up: no honest line for the others
        return values[keep], kept
    others = np.delete(values, keep, axis=0).sum(0)
    return np.vstack([values[keep], others]), (*kept, f"+{len(names) - len(keep)} more")


def pairs(result: PairExplanation | Interactions, k: int) -> list[tuple[int, int, float]]:
    """The k strongest pairs as (index, index, value); inside one text both halves of a pair are summed."""
    if isinstance(result, PairExplanation):
        matrix = result.matrix
        flat = _strongest(matrix.ravel(), k)
        return [(*divmod(o, matrix.shape[1]), float(matrix.flat[o])) for o in flat]
    first, second = np.triu_indices(len(result.tokens), 1)
    both = result.matrix[first, second] + result.matrix[second, first]
    return [(int(first[o]), int(second[o]), float(both[o])) for o in _strongest(both, k)]


def _strongest(values: np.ndarray, k: int) -> list[int]:
    order = np.argsort(-np.nan_to_num(np.abs(values)), kind="stable")[:k]
    return [int(o) for o in order if values[o] != 0 and np.isfinite(values[o])]


def strongest(nodes: Sequence[Phrase], most: int) -> set[int]:
    """The `most` phrases of largest value. They hang together: a part never outweighs its whole."""
    kept: set[int] = set()
    waiting = [(-nodes[0].value, 0)]
    while waiting and len(kept) < most:
        _, i = heapq.heappop(waiting)
        kept.add(i)
        for child in nodes[i].children:
            heapq.heappush(waiting, (-nodes[child].value, child))
    return kept
