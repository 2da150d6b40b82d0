"""Orthogonal polynomials on [0, 1]: Gauss rules from their recurrence, and weights for nodes that are given.

A recurrence √β_{k+1} π_{k+1} = (t − α_k) π_k − √β_k π_{k−1} makes a Gauss rule. The nodes are the zeros of π_n, found by Newton steps from where those of the Jacobi polynomial of the same
end behaviour nearly lie. The usual eigenvalue call (Golub–Welsch) gives the same with a digit less, and
takes seconds instead of milliseconds on cores that other processes keep busy.

Weights for given nodes integrate every polynomial through them exactly. They are worked in the orthonormal
shifted-Legendre basis p_k(t) = √(2k+1) P_k(2t − 1): on nodes that crowd towards the ends like Chebyshev points its
matrix is well conditioned at any size, where powers of t fail near 20.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float
from numpy.polynomial.legendre import legvander

from pathlens.types import Nodes


def legendre_step(count: int) -> Float[np.ndarray, "{count}"]:
    """√β_1 … √β_count of the shifted Legendre polynomials: √β_k = k / (2√(4k² − 1)); their α_k are all ½."""
    k: np.ndarray = np.arange(1.0, count + 1)
    step: np.ndarray = k / (2 * np.sqrt(4 * k**2 - 1))
    return step


def gauss_rule(
    alpha: Float[np.ndarray, "n"], root_beta: Float[np.ndarray, "n-1"], power: int = 0
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
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


def _last_polynomial(
    t: Float[np.ndarray, "n"], alpha: Float[np.ndarray, "n"], root_beta: Float[np.ndarray, "n-1"]
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
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


def legendre_basis(t: Float[np.ndarray, "n"], count: int) -> Float[np.ndarray, "{count} n"]:
    """p_0 … p_{count−1} at t, one row each."""
    basis: np.ndarray = legvander(2 * t - 1, count - 1) * np.sqrt(2 * np.arange(count) + 1)
    return basis.T


def log_moments(count: int) -> Float[np.ndarray, "{count}"]:
    """∫₀¹ (−ln u) p_k du: 1, then (−1)^k √(2k+1) / (k(k+1))."""
    k = np.arange(1, count)
    return np.concatenate([[1.0], (-1.0) ** k * np.sqrt(2 * k + 1) / (k * (k + 1))])


def interpolatory_weights(t: Float[np.ndarray, "n"], moments: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Weights with Σ w p_k(t) = moments[k], as many moments as nodes.

    Limits: only for nodes spread like those of a Gauss rule (or every other of them). Others, evenly spaced
    ones and Gauss–Patterson's among them, have such weights too but lose them to rounding.
    """
    return np.linalg.solve(legendre_basis(t, len(moments)), moments)


def log_weight(n: int) -> Nodes:
    """For the weight −ln u, which turns the double integral of Integrated Hessians into one: ∫₀¹∫₀¹ f(αβ) dα dβ = ∫₀¹ (−ln u) f(u) du.

    ∫₀¹ (−ln u) f(u) du ≈ Σ w f(t), exact for polynomials to degree 2n − 1; the weights sum to 1.

    With w·t in place of w: ∫₀¹ (−u ln u) f(u) du, exact to degree 2n − 2; those sum to ¼.
    """
    t, weight = _nodes_and_weights(n)
    return Nodes(t.copy(), weight.copy())


@cache
def _nodes_and_weights(n: int) -> tuple[Float[np.ndarray, "{n}"], Float[np.ndarray, "{n}"]]:
    return gauss_rule(*_recurrence(n), power=1)  # −ln u falls to 0 at u = 1 like 1 − u


def _recurrence(n: int) -> tuple[Float[np.ndarray, "{n}"], Float[np.ndarray, "{n}-1"]]:
    """α_k and √β_k of the polynomials π_k orthonormal under −ln u.

    √β_{k+1} π_{k+1} = (u − α_k) π_k − √β_k π_{k−1}.

    Modified Chebyshev algorithm (Gautschi) from the moments in the shifted-Legendre basis. Both families are
    kept orthonormal: with monic ones the numbers shrink like 4^(−k) and underflow near k = 500.
    """
    count = 2 * n
    step = legendre_step(count)  # u p_l = step_{l+1} p_{l+1} + ½ p_l + step_l p_{l−1}
    alpha, root_beta = np.empty(n), np.zeros(n)
    before, row = np.zeros(count), log_moments(count)  # ⟨π_{k−1}, p_l⟩ and ⟨π_k, p_l⟩ for all l
    for k in range(n):
        last = count - 1 - k  # entries beyond would need moments that were not given
        carried = root_beta[k] * before
        alpha[k] = 0.5 + (step[k] * row[k + 1] - carried[k]) / row[k]
        if k + 1 == n:
            break
        following = np.zeros(count)
        inner = slice(k + 1, last)
        following[inner] = (
            step[k + 1 : last] * row[k + 2 : last + 1]
            + (0.5 - alpha[k]) * row[inner]
            + step[k : last - 1] * row[k : last - 1]
            - carried[inner]
        )
        root_beta[k + 1] = np.sqrt(following[k + 1] * step[k] / row[k])
        before, row = row, following / root_beta[k + 1]
    return alpha, root_beta[1:]
