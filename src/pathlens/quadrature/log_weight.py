"""Gauss rule for the weight −ln u on [0, 1], which turns the double integral of Integrated Hessians into one.

∫₀¹∫₀¹ f(αβ) dα dβ = ∫₀¹ (−ln u) f(u) du, and the same nodes with weight·u serve −u ln u.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float

from pathlens.quadrature.orthogonal import gauss_rule, legendre_step, log_moments
from pathlens.types import Nodes


def log_weight(n: int) -> Nodes:
    """∫₀¹ (−ln u) f(u) du ≈ Σ w f(t), exact for polynomials to degree 2n − 1; the weights sum to 1.

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
