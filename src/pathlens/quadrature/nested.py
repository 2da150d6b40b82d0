"""Nested rules: each level keeps the nodes of the level before, so refining throws no evaluation away.

Two families with the same node counts. `patterson` (Gauss–Patterson): the n + 1 nodes added to n are placed
for the highest degree of exactness, (3n + 1)/2 for a rule of n ≥ 3 nodes. `fejer` (Fejér's second rule, the
inner points of Clenshaw–Curtis): closed forms, degree n. All weights of both are positive.

Which one: patterson crowds towards both ends and leaves gaps in the middle 15 % wider. Once n nodes
resolve the integrand it gains orders of magnitude; where they barely do (errors of 1e-2 to 1e-4, features
away from the ends) fejer is as good or slightly better.

Limits: |I_n − I_below| is the error of the level below. It tells nothing about a feature both levels miss.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from pathlens.errors import InputError
from pathlens.quadrature.patterson_table import NODES, WEIGHTS

COUNTS: tuple[int, ...] = (1, 3, 7, 15, 31, 63, 127, 255, 511)
FAMILIES: tuple[str, ...] = ("patterson", "fejer")


def new_nodes(level: int, family: str = "patterson") -> np.ndarray:
    """The t ∈ (0, 1) that first appear at `level`, ascending."""
    _check(level, family)
    return (_patterson_nodes if family == "patterson" else _fejer_nodes)(level)


def weights(level: int, family: str = "patterson") -> np.ndarray:
    """Weights of the whole rule at `level`, aligned with new_nodes(0), …, new_nodes(level) joined; sum 1."""
    _check(level, family)
    return (_patterson_weights if family == "patterson" else _fejer_weights)(level)


def _patterson_nodes(level: int) -> np.ndarray:
    """The zeros of Patterson's extension polynomial: 2^(level − 1) pairs, at level 0 the middle."""
    if level == 0:
        return np.array([0.5])
    x = _numbers(NODES)[2 ** (level - 1) : 2**level]
    return np.concatenate([(1 - x[::-1]) / 2, (1 + x) / 2])


def _patterson_weights(level: int) -> np.ndarray:
    """Both halves of each level's nodes from the table, which lists x ≥ 0."""
    first = 2**level - 1  # 1 + 2 + 4 + … weights of the levels before
    half = _numbers(WEIGHTS)[first : first + 2**level]
    parts = [half[:1]]
    for l in range(1, level + 1):
        part = half[2 ** (l - 1) : 2**l]
        parts += [part[::-1], part]
    return np.concatenate(parts)


def _fejer_nodes(level: int) -> np.ndarray:
    """t = (1 − cos θ)/2 = sin²(θ/2), θ = kπ/2^(level + 1) for odd k."""
    if level == 0:
        return np.array([0.5])  # sin² is off by a rounding there, and the middle is shared with patterson
    return np.sin(_new_angles(level) / 2) ** 2


def _fejer_weights(level: int) -> np.ndarray:
    """w(θ) = 2 sin θ/(n + 1) · Σ_{odd j ≤ n} sin(jθ)/j for n nodes on [0, 1]."""
    cells = 2 ** (level + 1)
    angle = np.concatenate([_new_angles(l) for l in range(level + 1)])
    odd = np.arange(1, cells, 2)
    return 2 * np.sin(angle) / cells * (np.sin(np.outer(angle, odd)) / odd).sum(axis=1)


def _new_angles(level: int) -> np.ndarray:
    cells = 2 ** (level + 1)
    return np.arange(1, cells, 2) * (np.pi / cells)


@cache
def _numbers(table: str) -> np.ndarray:
    return np.array(table.split(), dtype=np.float64)


def _check(level: int, family: str) -> None:
    if family not in FAMILIES:
        raise InputError(f"unknown nested family {family!r}; choose one of: {', '.join(FAMILIES)}")
    if not 0 <= level < len(COUNTS):
        raise InputError(f"no nested level {level}: levels 0 to {len(COUNTS) - 1} have {COUNTS} nodes")
