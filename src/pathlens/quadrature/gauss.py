"""Gauss–Legendre on [0, 1]: n nodes, exact for polynomials to degree 2n − 1."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..types import Nodes


def gauss(n: int) -> Nodes:
    """∫₀¹ f ≈ Σ w f(t), t the zeros of the Legendre polynomial P_n(2t − 1).

    Limits: the error falls like ρ^(−2n), ρ set by the nearest singularity of f off the path. With a narrow
    feature (ρ near 1) nothing is gained until the nodes resolve it, and the sum can be right by luck before.
    """
    t, weight = _on_unit_interval(n)
    return Nodes(t.copy(), weight.copy())


@cache
def _on_unit_interval(n: int) -> tuple[np.ndarray, np.ndarray]:
    x, weight = np.polynomial.legendre.leggauss(n)
    return (1 + x) / 2, weight / weight.sum()
