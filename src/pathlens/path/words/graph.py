"""Each word's nearest words (DIG's neighbour graph): on demand, or all of them once, kept on disk."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock

import numpy as np

from pathlens.errors import StoreError
from pathlens.path.words.neighbours import NeighbourSearch

Progress = Callable[[int, int], None]  # (rows done, rows in all)


class NeighbourGraph:
    """The K nearest rows of each row of a table, itself included, nearest first, ties by lower id.

    Rows are searched when asked for and the latest `capacity` are kept in memory. With a folder, `build`
    writes the whole graph there block by block; it may be stopped at any moment and goes on where it was.
    """

    def __init__(
        self,
        search: NeighbourSearch,
        neighbours: int,
        folder: str | Path | None = None,
        *,
        block: int = 512,
        capacity: int = 20_000,
    ) -> None:
        self.search, self.neighbours, self.block, self.capacity = search, neighbours, block, capacity
        self.folder = None if folder is None else Path(folder)
        self._rows: OrderedDict[int, np.ndarray] = OrderedDict()
        self._lock = Lock()

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """(n, K): neighbours of each id; those not met before share one search."""
        wanted = [int(i) for i in ids]
        found = {i: self._recall(i) for i in dict.fromkeys(wanted)}
        missing = [i for i, row in found.items() if row is None]
        for i, row in self._from_disk(missing).items():
            found[i] = row
        missing = [i for i in missing if found[i] is None]
        if missing:
            near, _ = self.search.nearest(self.search.rows(np.array(missing)), self.neighbours)
            found.update(zip(missing, near.astype(np.int32), strict=True))
        for i, row in found.items():
            self._remember(i, row)
        return np.stack([found[i] for i in wanted]).astype(np.int64)

    def build(self, progress: Progress | None = None) -> int:
        """Search every row and write it to the folder; returns how many rows were searched now."""
        if self.folder is None:
            raise ValueError("a graph without a folder has nowhere to be built; give one")
        total, searched = len(self.search), 0
        for low in range(0, total, self.block):
            high = min(total, low + self.block)
            if self._read(low // self.block) is None:
                near, _ = self.search.nearest(self.search.rows(np.arange(low, high)), self.neighbours)
                write_arrays(self._path(low // self.block), near=near.astype(np.int32))
                searched += high - low
            if progress is not None:
                progress(high, total)
        return searched

    def _recall(self, i: int) -> np.ndarray | None:
        with self._lock:
            if i in self._rows:
                self._rows.move_to_end(i)
            return self._rows.get(i)

    def _remember(self, i: int, row: np.ndarray) -> None:
        with self._lock:
            self._rows[i] = row
            self._rows.move_to_end(i)
            while len(self._rows) > self.capacity:
                self._rows.popitem(last=False)

    def _from_disk(self, ids: list[int]) -> dict[int, np.ndarray]:
        if self.folder is None:
            return {}
        found = {}
        for number in {i // self.block for i in ids}:
            near = self._read(number)
            if near is not None:
                # a copy: a view would keep the whole block in memory
                found.update({i: near[i % self.block].copy() for i in ids if i // self.block == number})
        return found

    def _path(self, number: int) -> Path:
        return self.folder / f"neighbours-{self.neighbours}-{self.block}" / f"block-{number:06d}.npz"

    def _read(self, number: int) -> np.ndarray | None:
        near = (read_arrays(self._path(number)) or {}).get("near")
        rows = min(self.block, len(self.search) - number * self.block)
        whole = near is not None and near.shape == (rows, self.neighbours) and near.dtype == np.int32
        return near if whole else None


def write_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Write beside the place, then rename: a reader meets the old file or the new one, never a half."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    except OSError as error:
        raise StoreError(
            f"the cache folder {str(path.parent)!r} cannot be written: {error.strerror or error}"
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a file, or None where it is absent or damaged (a cache is then made anew)."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile):
        return None  # NotImplementedError, of a damaged header, is a RuntimeError
