"""The nearest words of a point: exact in float64, at the cost of a float32 matrix product.

The product only narrows the choice: a row is dropped when even its smallest possible distance, rounding
counted in full, is larger than the K-th largest possible one. Those that remain are measured in float64 and
ordered by distance, ties by lower id, so the answer is the definition's and no batch can change it.

DIG asks for the neighbours of words again and again: its graph is made on demand, or as a whole once, kept on disk.
"""

from __future__ import annotations

import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pathlens.files import make_folder, write_whole

POINTS_AT_ONCE = 512  # queries that share one pass over the table
CELLS_AT_ONCE = 2**21  # distances (points × rows) held at once, so that no S·m·V array ever is
NUMBERS_AT_ONCE = 2**21  # numbers of candidate rows held in float64 at once
ROWS_KEPT = 20_000  # of a graph, in memory
Progress = Callable[[int, int], None]  # (rows done, rows in all)


class NeighbourSearch:
    """Nearest rows of one embedding table. Holds the table (not a copy, where it can) and its row norms."""

    def __init__(self, table: Float[Tensor, "V d"]) -> None:
        rows = table.detach().cpu()
        if rows.dtype not in (torch.float32, torch.float64):
            rows = rows.float()
        self.table = rows.contiguous().numpy()  # (V, d)
        self.square = np.einsum("vd,vd->v", self.table, self.table)  # (V,) ‖v‖²
        self.copy = _copies(self.table, self.square)  # (V,) how many equal rows come before each

    def __len__(self) -> int:
        return len(self.table)

    def rows(self, ids: Int[np.ndarray, "..."]) -> Float[np.ndarray, "... d"]:
        """Rows of the table in float64."""
        rows: np.ndarray = self.table[ids].astype(np.float64)
        return rows

    def nearest(
        self, points: Float[np.ndarray, "n d"], count: int
    ) -> tuple[Int[np.ndarray, "n {count}"], Float[np.ndarray, "n {count}"]]:
        """Ids and squared distances: the K rows nearest to each point, nearest first."""
        ids, square = self.nearest_on_lines(points, points, np.ones(1), count)
        return ids[:, 0], square[:, 0]

    def nearest_on_lines(
        self, start: Float[np.ndarray, "n d"], end: Float[np.ndarray, "n d"], shares: Float[np.ndarray, "m"], count: int
    ) -> tuple[Int[np.ndarray, "n m {count}"], Float[np.ndarray, "n m {count}"]]:
        """The same for every point `w′ + α(w − w′)` of n lines and m shares α.

        `‖v − p‖² = ‖v‖² − 2(1 − α) v·w′ − 2α v·w + ‖p‖²`: two products per line serve all its points.
        """
        lines, points = len(start), len(shares)
        ids = np.empty((lines, points, count), dtype=np.int64)
        square = np.empty((lines, points, count))
        step = max(1, POINTS_AT_ONCE // points)
        for low in range(0, lines, step):
            some = slice(low, low + step)
            candidates = self._candidates(start[some], end[some], shares, count)
            where = start[some, None] + shares[:, None] * (end[some] - start[some])[:, None]
            near, far = self._ranked(where.reshape(-1, where.shape[-1]), candidates, count)
            ids[some] = near.reshape(-1, points, count)
            square[some] = far.reshape(-1, points, count)
        return ids, square

    def _candidates(self, start: np.ndarray, end: np.ndarray, shares: np.ndarray, count: int) -> np.ndarray:
        """(n·m, C) ids, −1 for none: every row that may be among the `count` nearest, and few others."""
        bases, base_of = _different(start) if start is not end else (end[:0], None)
        size = np.square(start).sum(axis=1) + np.square(end).sum(axis=1)
        shortlist = _Shortlist(np.repeat(size, len(shares)), self.square, count, self._unit())
        shortlist.floor[self.copy >= count] = np.inf  # behind so many equals it cannot be chosen
        dtype = self.table.dtype
        turned = np.concatenate([bases, end]).astype(dtype).T
        alpha = shares.astype(dtype)[:, None]
        for low, high in _blocks(len(self), len(start) * len(shares), count):
            product = (self.table[low:high] @ turned).T  # (bases + n, R)
            at_end = product[len(bases) :]
            at_start = at_end if base_of is None else product[base_of]
            level = shortlist.floor[low:high] - 2 * at_start
            slope = -2 * (at_end - at_start)
            shortlist.add((level[:, None] + alpha * slope[:, None]).reshape(-1, high - low), low)
        return shortlist.ids

    def _unit(self) -> float:
        """A c with |computed − measured| ≤ c(‖v‖² + ‖w‖² + ‖w′‖²) for every distance, with room to spare.

        A product of length d, summed in any order, errs by at most d·u·‖v‖‖w‖ (u: half of eps), the norm by
        d·u·‖v‖², the few steps after them by 32 u; the distance measured in float64 by 2d of its own u.
        """
        width = self.table.shape[1]
        unit, fine = (float(np.finfo(dtype).eps) / 2 for dtype in (self.table.dtype, np.float64))
        return float((3 * width + 80) * unit + (2 * width + 8) * fine)

    def _ranked(self, points: np.ndarray, candidates: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The `count` nearest candidates by float64 distance, ties by lower id."""
        ids = np.empty((len(points), count), dtype=np.int64)
        square = np.empty((len(points), count))
        step = max(1, NUMBERS_AT_ONCE // (candidates.shape[1] * points.shape[1]))
        for low in range(0, len(points), step):
            near = np.sort(candidates[low : low + step], axis=1)  # by id, so a stable sort keeps lower ids first
            offsets = self.rows(near)
            offsets -= points[low : low + step, None]
            offsets *= offsets
            far = np.where(near < 0, np.inf, offsets.sum(axis=2))
            order = np.argsort(far, axis=1, kind="stable")[:, :count]
            ids[low : low + step] = np.take_along_axis(near, order, axis=1)
            square[low : low + step] = np.take_along_axis(far, order, axis=1)
        return ids, square


class NeighbourGraph:
    """The K nearest other rows of each row of a table, nearest first, ties by lower id: it is no neighbour of itself.

    Rows are searched when asked for and the latest are kept in memory. With a folder, `build`
    writes the whole graph there block by block; it may be stopped at any moment and goes on where it was.
    """

    def __init__(self, search: NeighbourSearch, neighbours: int, folder: Path | None = None, block: int = 512) -> None:
        self.search, self.neighbours, self.folder, self.block = search, neighbours, folder, block
        self._rows: OrderedDict[int, np.ndarray] = OrderedDict()
        self._lock = Lock()

    def rows(self, ids: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n K"]:
        """Neighbours of each id; those not met before share one search."""
        wanted = list(dict.fromkeys(int(i) for i in ids))
        with self._lock:
            known = {i: self._rows[i] for i in wanted if i in self._rows}
        known |= self._from_disk([i for i in wanted if i not in known])
        missing = [i for i in wanted if i not in known]
        if missing:
            known.update(zip(missing, self._others(np.array(missing)), strict=True))
        with self._lock:
            for i in wanted:
                self._rows[i] = known[i]
                self._rows.move_to_end(i)
            while len(self._rows) > ROWS_KEPT:
                self._rows.popitem(last=False)
        return np.stack([known[int(i)] for i in ids]).astype(np.int64)

    def build(self, progress: Progress | None = None) -> int:
        """Search every row and write it to the folder; returns how many rows were searched now."""
        if self.folder is None:
            raise ValueError("a graph without a folder has nowhere to be built; give one")
        total, searched = len(self.search), 0
        for low in range(0, total, self.block):
            high = min(total, low + self.block)
            if self._read(low // self.block) is None:
                write_arrays(self._path(low // self.block), near=self._others(np.arange(low, high)))
                searched += high - low
            if progress is not None:
                progress(high, total)
        return searched

    def _others(self, ids: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n K"]:
        """One more than asked for, and then without itself; behind so many equal rows it is not there to be left out."""
        near, _ = self.search.nearest(self.search.rows(ids), self.neighbours + 1)
        itself = near == ids[:, None]
        itself[~itself.any(axis=1), -1] = True
        others: np.ndarray = near[~itself].reshape(len(ids), self.neighbours).astype(np.int32)
        return others

    def _from_disk(self, ids: list[int]) -> dict[int, np.ndarray]:
        if self.folder is None:
            return {}
        stored = {}
        for number in {i // self.block for i in ids}:
            near = self._read(number)
            if near is not None:
                # a copy: a view would keep the whole block in memory
                stored.update({i: near[i % self.block].copy() for i in ids if i // self.block == number})
        return stored

    def _path(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"others-{self.neighbours}-{self.block}" / f"block-{number:06d}.npz"

    def _read(self, number: int) -> np.ndarray | None:
        near = read_arrays(self._path(number)).get("near")
        rows = min(self.block, len(self.search) - number * self.block)
        whole = near is not None and near.shape == (rows, self.neighbours) and near.dtype == np.int32
        return near if whole else None


class _Shortlist:
    """For each point, the rows seen so far that may still be among its `count` nearest.

    A row's floor is its computed distance less the rounding bound; it stays while its floor is not above
    `bound`, which at least `count` rows are known to keep. Constants of a point are left out of both.
    """

    def __init__(self, size: np.ndarray, square: np.ndarray, count: int, unit: float) -> None:
        self.count, self.unit, self.size, self.square = count, unit, size, square
        self.floor = square - square.dtype.type(unit) * square  # (V,) ‖v‖² less its share of the bound
        self.low = np.empty((len(size), 0))
        self.ids = np.empty((len(size), 0), dtype=np.int64)
        self.bound = np.full(len(size), np.inf)

    def add(self, low: np.ndarray, first: int) -> None:
        """Take in the floors (points, R) of rows `first` to `first + R`."""
        # the bound in the products' dtype, never below itself
        bound = np.nextafter(self.bound.astype(low.dtype), np.array(np.inf, dtype=low.dtype))
        passing = np.flatnonzero(low <= bound[:, None])
        point, row = np.divmod(passing, low.shape[1])
        new = np.bincount(point, minlength=len(low))
        slot = np.arange(len(point)) - np.repeat(np.cumsum(new) - new, new)
        more = np.full((len(low), new.max(initial=0)), np.inf)
        more[point, slot] = low[point, row]
        ids = np.full(more.shape, -1, dtype=np.int64)
        ids[point, slot] = row + first
        self.low = np.concatenate([self.low, more], axis=1)
        self.ids = np.concatenate([self.ids, ids], axis=1)
        self._prune()

    def _prune(self) -> None:
        """Lower the bound to the largest possible distance of the `count` lowest; drop what lies above."""
        if self.low.shape[1] <= self.count:
            return
        first = np.argpartition(self.low, self.count - 1, axis=1)[:, : self.count]
        low, ids = np.take_along_axis(self.low, first, axis=1), np.take_along_axis(self.ids, first, axis=1)
        high = low + 2 * self.unit * (self.square[ids] + self.size[:, None])
        self.bound = np.minimum(self.bound, high.max(axis=1))
        width = int((self.low <= self.bound[:, None]).sum(axis=1).max())
        if width < self.low.shape[1]:
            stay = np.argpartition(self.low, width - 1, axis=1)[:, :width]
            self.low = np.take_along_axis(self.low, stay, axis=1)
            self.ids = np.take_along_axis(self.ids, stay, axis=1)
        gone = self.low > self.bound[:, None]
        self.ids[gone] = -1
        self.low[gone] = np.inf


def _copies(table: np.ndarray, square: np.ndarray) -> np.ndarray:
    """For each row the number of equal rows before it; large tables often end in thousands of equal rows."""
    _, which, count = np.unique(square, return_inverse=True, return_counts=True)
    copies = np.zeros(len(table), dtype=np.int64)
    seen: dict[bytes, int] = {}
    for row in np.flatnonzero(count[which] > 1):  # equal rows have equal norms
        key = (table[row] + 0.0).tobytes()  # −0 is 0
        copies[row] = seen.get(key, 0)
        seen[key] = copies[row] + 1
    return copies


def _different(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different rows, and which of them each row is: baselines are mostly one word."""
    index: dict[bytes, int] = {}
    which = np.array([index.setdefault(row.tobytes(), len(index)) for row in rows])
    return rows[np.unique(which, return_index=True)[1]], which


def _blocks(rows: int, points: int, count: int) -> Iterator[tuple[int, int]]:
    """Blocks of rows, small first: the first gives a bound, so later and larger ones let few rows pass."""
    largest = max(4 * count, CELLS_AT_ONCE // points, 256)
    low, size = 0, min(largest, max(2048, 4 * count))
    while low < rows:
        high = min(rows, low + size)
        yield low, high
        low, size = high, min(largest, 2 * size)


def write_arrays(path: Path, **arrays: np.ndarray) -> None:
    """One file for all of them; a reader meets the old file or the new one, never a half."""
    body = BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]  # numpy types what follows as its own switch
    make_folder(path.parent)
    write_whole(path, body.getvalue())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file; none where it is absent or damaged (a cache is then made anew)."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile):
        return {}  # NotImplementedError, of a damaged header, is a RuntimeError
