"""Integrated Hessians' weight −ln u on parts of the line, so that nodes can be placed where they are needed.

Away from u = 0 the weight is smooth and simply multiplied in. On an interval that begins at 0 it is split,
−ln u = −ln h − ln(u/h), and the second part has weights of its own on the same nodes.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cache

import numpy as np
from torch import Tensor, from_numpy

from pathlens.integrand import Gradient
from pathlens.integrate.adaptive import Interval, Measure
from pathlens.integrate.drive import Ask
from pathlens.quadrature import nested
from pathlens.quadrature.orthogonal import legendre_basis, log_moments
from pathlens.types import Points, Route


class LogMeasure(Measure):
    """−ln u du on the straight line."""

    def weigh(self, interval: Interval, t: np.ndarray, rows: np.ndarray) -> np.ndarray:
        width = interval.high - interval.low
        if interval.low > 0:
            return rows * width * -np.log(interval.low + width * t)
        factors = np.stack([_log_factor(level, t.tobytes()) for level in range(len(rows))])
        return rows * width * (factors - np.log(width))

    def potential(self, route: Route, legs: np.ndarray, t: np.ndarray) -> Generator[Ask, Tensor, Tensor]:
        """φ − u ln u · φ′ with φ(u) = F(b + uδ): the rows of all units sum to (uφ′)′, integrated by parts.

        So an interval's sum is known from its ends, as F(high) − F(low) is for IG.
        """
        outputs = yield from super().potential(route, legs, t)
        inside = (t > 0) & (t < 1)  # at both ends u ln u is 0; a gradient at the baseline need not even exist
        if inside.any():
            at = t[inside]
            slopes = yield Ask(Points(route, legs[inside], at, np.eye(len(at))), Gradient())
            outputs[from_numpy(inside)] -= from_numpy(at * np.log(at)) * slopes.sum(1)
        return outputs


@cache
def _log_factor(level: int, places: bytes) -> np.ndarray:
    """What a weight of the rule at `level` is multiplied by, at each place t, to integrate against −ln t.

    Σ_k m_k p_k(t) over the moments m_k of −ln t in the orthonormal Legendre basis, as far as the rule keeps that
    basis orthonormal: half its degree of exactness, (3n + 1)/2 for n nodes. Solving for weights through all n
    moments instead would lose them to rounding.
    """
    t, count = np.frombuffer(places), nested.COUNTS[level]
    degree = 1 if count == 1 else (3 * count + 1) // 2
    terms = degree // 2 + 1
    return log_moments(terms) @ legendre_basis(t, terms)
