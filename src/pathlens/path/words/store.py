"""Paths found before: a path depends only on the table, the token, its baseline and the settings."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from pathlens.errors import InputError
from pathlens.path.words.neighbours import NeighbourGraph, NeighbourSearch, read_arrays, write_arrays
from pathlens.types import Vocabulary

Group = tuple[str, str, str]  # (the table's fingerprint, settings, baseline): what the paths of a file share


class PathCache:
    """Anchor ids by (fingerprint, token, baseline, settings), in memory and, with a folder, on disk.

    Memory keeps the latest `capacity` paths. A damaged file counts as absent and is written anew. The
    search over the latest table, and its neighbour graph, are kept as well: they are what paths cost.
    """

    def __init__(self, folder: str | Path | None = None, *, capacity: int = 100_000) -> None:
        self.folder = None if folder is None else Path(folder)
        self.capacity = capacity
        self._paths: OrderedDict[tuple[Group, str], np.ndarray] = OrderedDict()
        self._read: set[Group] = set()
        self._search: tuple[str, NeighbourSearch] | None = None
        self._graph: tuple[tuple[str, int], NeighbourGraph] | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._paths)

    def get(self, group: Group, tokens: list[str], steps: int) -> dict[str, np.ndarray]:
        """The paths known of these tokens: {token: anchor ids (m,)}."""
        with self._lock:
            if self.folder is not None and group not in self._read:
                self._keep(group, self._stored(group, steps))
                self._read.add(group)
            known = {token: self._paths[group, token] for token in tokens if (group, token) in self._paths}
            self._keep(group, known)  # as the latest
            return known

    def put(self, group: Group, paths: dict[str, np.ndarray]) -> None:
        """Remember new paths; on disk they join those another process may have written meanwhile."""
        if not paths:
            return
        with self._lock:
            self._keep(group, paths)
            if self.folder is not None:
                steps = len(next(iter(paths.values())))
                together = {**self._stored(group, steps), **paths}
                anchors = np.stack(list(together.values()))
                write_arrays(self._file(group), tokens=np.array(list(together)), anchors=anchors)

    def search(self, vocabulary: Vocabulary) -> NeighbourSearch:
        """The search over a vocabulary's table, made once."""
        if self._search is None or self._search[0] != vocabulary.fingerprint:
            self._search = (vocabulary.fingerprint, NeighbourSearch(vocabulary.table))
        return self._search[1]

    def graph(self, vocabulary: Vocabulary, neighbours: int) -> NeighbourGraph:
        """The neighbour graph of a vocabulary; `graph(...).build()` makes all of it, once per model."""
        key = (vocabulary.fingerprint, neighbours)
        if self._graph is None or self._graph[0] != key:
            folder = None if self.folder is None else self.folder / _name(vocabulary.fingerprint)
            self._graph = (key, NeighbourGraph(self.search(vocabulary), neighbours, folder))
        return self._graph[1]

    def _keep(self, group: Group, paths: dict[str, np.ndarray]) -> None:
        for token, path in paths.items():
            self._paths[group, token] = path
            self._paths.move_to_end((group, token))
        while len(self._paths) > self.capacity:
            self._paths.popitem(last=False)
            self._read.clear()  # what was dropped may be on disk: look there again

    def _file(self, group: Group) -> Path:
        assert self.folder is not None
        fingerprint, settings, baseline = group
        return self.folder / _name(fingerprint) / f"paths-{_name(settings)}-{_name(baseline)}.npz"

    def _stored(self, group: Group, steps: int) -> dict[str, np.ndarray]:
        arrays = read_arrays(self._file(group))
        tokens, anchors = arrays.get("tokens"), arrays.get("anchors")
        if tokens is None or anchors is None or anchors.shape != (len(tokens), steps):
            return {}
        if not np.issubdtype(anchors.dtype, np.integer) or (anchors < -1).any():
            return {}
        return {str(token): path for token, path in zip(tokens, anchors, strict=True)}


def path_cache(cache: Any) -> PathCache:
    """A cache as it is; a folder gives one on disk; None one in memory."""
    if isinstance(cache, PathCache):
        return cache
    folder = cache is None or (isinstance(cache, str | PathLike) and cache != "" and not Path(cache).is_file())
    if not folder:
        raise InputError(f"cache must be a folder (paths are kept there from run to run), got {cache!r}")
    return PathCache(cache)


def row_key(row: np.ndarray) -> str:
    """A name for a row that is no word: a hash of its numbers."""
    return "row" + hashlib.sha256(np.ascontiguousarray(row, dtype=np.float64).tobytes()).hexdigest()[:32]


def _name(key: str) -> str:
    """A key as part of a file's name; keys with other signs get a hash so that no two share a file."""
    if re.fullmatch(r"[\w.-]{1,80}", key):
        return key
    return hashlib.sha256(key.encode()).hexdigest()[:32]
