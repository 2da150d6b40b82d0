"""Gauss–Legendre on [0, 1]: n nodes, exact for polynomials to degree 2n − 1."""

from __future__ import annotations

from functools import cache

import numpy as np

from pathlens.quadrature.orthogonal import gauss_rule, legendre_step
from pathlens.types import Nodes


def gauss(n: int) -> Nodes:
    """∫₀¹ f ≈ Σ w f(t), t the zeros of the Legendre polynomial P_n(2t − 1).

    Limits: the error falls like ρ^(−2n), ρ set by the nearest singularity of f off the path. With a narrow
    feature (ρ near 1) nothing is gained until the nodes resolve it, and the sum can be right by luck before.
    """
    t, weight = _nodes_and_weights(n)
    return Nodes(t.copy(), weight.copy())


@cache
def _nodes_and_weights(n: int) -> tuple[np.ndarray, np.ndarray]:
    return gauss_rule(np.full(n, 0.5), legendre_step(n - 1))
