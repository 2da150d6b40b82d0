"""Sums over equal cells of [0, 1]: ∫₀¹ f ≈ Σ w f(t), the weights summing to 1.

Limits: left and right err like 1/n, midpoint and trapezoid like 1/n² where f is smooth. They are here to
reproduce published figures and for integrands with kinks; on smooth ones `gauss` needs far fewer nodes.
"""

from __future__ import annotations

import numpy as np

from pathlens.types import Nodes


def left(n: int) -> Nodes:
    """t = i/n, weight 1/n, i = 0 … n−1."""
    return Nodes(np.arange(n) / n, np.full(n, 1 / n))


def right(n: int) -> Nodes:
    """t = i/n, weight 1/n, i = 1 … n."""
    return Nodes(np.arange(1, n + 1) / n, np.full(n, 1 / n))


def midpoint(n: int) -> Nodes:
    """t = (i + ½)/n, weight 1/n, i = 0 … n−1."""
    return Nodes((np.arange(n) + 0.5) / n, np.full(n, 1 / n))


def trapezoid(n: int) -> Nodes:
    """t = i/(n−1), weight 1/(n−1), half of it at both ends; one node alone is the midpoint.

    n counts nodes, not cells: that is what a run pays for.
    """
    if n == 1:
        return midpoint(1)
    weight = np.full(n, 1 / (n - 1))
    weight[[0, -1]] /= 2
    return Nodes(np.arange(n) / (n - 1), weight)
