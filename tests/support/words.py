"""Small vocabularies and ends for tests of paths through words."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pathlens.path.words import route
from pathlens.path.words.options import PRESETS
from pathlens.types import Ends, Route, Vocabulary


def make_vocabulary(seed: int, size: int = 40, width: int = 6, *, coarse: bool = False) -> Vocabulary:
    """A random table with duplicate rows; `coarse` puts it on a grid, where distances tie as well."""
    draw = np.random.default_rng(seed)
    table = draw.normal(size=(size, width))
    if coarse:
        table = np.round(table * 2) / 2
    copies = draw.integers(0, size, size=(size // 4, 2))
    table[copies[:, 0]] = table[copies[:, 1]]
    return Vocabulary(torch.from_numpy(table).float(), lambda i: f"w{i}", f"random-{seed}-{size}-{coarse}")


def make_ends(vocabulary: Vocabulary, ids, start_ids, held=()) -> Ends:
    """Held tokens stay at their own word."""
    ids, start_ids = list(ids), list(start_ids)
    for t in held:
        start_ids[t] = ids[t]
    mask = torch.tensor([t in held for t in range(len(ids))])
    table = vocabulary.table
    return Ends(table[start_ids], table[ids], mask, tuple(ids), tuple(start_ids), vocabulary)


def corners_of(route) -> torch.Tensor:
    return torch.stack([route.corner(i) for i in range(route.corners)])


def dig(ends: Ends, cache=None, **settings: Any) -> Route:
    """DIG's path with the authors' settings, but for those given."""
    return route.dig(ends, replace(PRESETS["dig-greedy"], **settings), cache)


def udig(ends: Ends, cache=None, **settings: Any) -> Route:
    return route.udig(ends, replace(PRESETS["udig-maxcount"], **settings), cache)
