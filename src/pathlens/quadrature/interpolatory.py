"""Weights for given nodes: the rule that integrates every polynomial through them exactly.

Worked in the orthonormal shifted-Legendre basis p_k(t) = √(2k+1) P_k(2t − 1): on nodes that crowd towards
the ends like Chebyshev points its matrix is well conditioned at any size, where powers of t fail near 20.
"""

from __future__ import annotations

import numpy as np


def legendre_basis(t: np.ndarray, count: int) -> np.ndarray:
    """p_0 … p_{count−1} at t, one row each."""
    x = 2 * np.asarray(t, dtype=np.float64) - 1
    rows = np.ones((max(count, 2), len(x)))
    rows[1] = x
    for k in range(1, count - 1):
        rows[k + 1] = ((2 * k + 1) * x * rows[k] - k * rows[k - 1]) / (k + 1)
    return rows[:count] * np.sqrt(2 * np.arange(count) + 1)[:, None]


def uniform_moments(count: int) -> np.ndarray:
    """∫₀¹ p_k dt: 1, 0, 0, …"""
    return np.eye(1, count)[0]


def log_moments(count: int) -> np.ndarray:
    """∫₀¹ (−ln u) p_k du: 1, then (−1)^k √(2k+1) / (k(k+1))."""
    k = np.arange(1, count)
    return np.concatenate([[1.0], (-1.0) ** k * np.sqrt(2 * k + 1) / (k * (k + 1))])


def interpolatory_weights(t: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Weights with Σ w p_k(t) = moments[k], as many moments as nodes.

    Limits: only for nodes spread like those of a Gauss rule (or every other of them). Others, evenly spaced
    ones and Gauss–Patterson's among them, have such weights too but lose them to rounding.
    """
    return np.linalg.solve(legendre_basis(t, len(moments)), moments)
