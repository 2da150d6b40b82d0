"""From a three-term recurrence to a Gauss rule: √β_{k+1} π_{k+1} = (t − α_k) π_k − √β_k π_{k−1} on [0, 1].

The nodes are the zeros of π_n, found by Newton steps from where those of the Jacobi polynomial of the same
end behaviour nearly lie. The usual eigenvalue call (Golub–Welsch) gives the same with a digit less, and
takes seconds instead of milliseconds on cores that other processes keep busy.
"""

from __future__ import annotations

import numpy as np


def legendre_step(count: int) -> np.ndarray:
    """√β_1 … √β_count of the shifted Legendre polynomials: √β_k = k / (2√(4k² − 1)); their α_k are all ½."""
    k = np.arange(1.0, count + 1)
    return k / (2 * np.sqrt(4 * k**2 - 1))


def gauss_rule(alpha: np.ndarray, root_beta: np.ndarray, power: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (ascending) and weights 1/Σ_k π_k(t)², which sum to 1, from α_0 … α_{n−1} and √β_1 … √β_{n−1}.

    The weight function goes like (1 − t)^power towards 1 and like a constant, or a logarithm, towards 0.
    """
    n = len(alpha)
    t = np.sin(np.pi * (np.arange(n) + 0.75) / (2 * n + 1 + power)) ** 2  # the zeros of Jacobi's, nearly
    for _ in range(10):  # four or five are needed
        value, slope, _ = _last_polynomial(t, alpha, root_beta)
        step = value / slope
        t = t - step
        if np.abs(step).max() < 1e-15:
            break
    _, _, squares = _last_polynomial(t, alpha, root_beta)
    weight = 1 / squares
    return t, weight / weight.sum()


def _last_polynomial(t: np.ndarray, alpha: np.ndarray, root_beta: np.ndarray) -> tuple[np.ndarray, ...]:
    """π_n up to a factor, its slope, and Σ_{k<n} π_k², at t."""
    before, value = np.zeros_like(t), np.ones_like(t)
    slope_before, slope = np.zeros_like(t), np.zeros_like(t)
    squares = np.zeros_like(t)
    below, above = [0.0, *root_beta], [*root_beta, 1.0]
    for center, low, high in zip(alpha, below, above, strict=True):
        squares += value**2
        away = t - center
        slope_before, slope = slope, (value + away * slope - low * slope_before) / high
        before, value = value, (away * value - low * before) / high
    return value, slope, squares
