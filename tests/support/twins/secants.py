"""Secants, slowly: the line integral of one operation, node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.func import jvp


def line_integral(
    f: Callable[..., Tensor],
    x0: Sequence[Tensor],
    x1: Sequence[Tensor],
    v: Sequence[Tensor],
    midpoints: int | None = None,
) -> Tensor:
    """∫₀¹ J_f(x0 + t(x1 − x0))·v dt with 200 Gauss nodes, or with so many midpoints."""
    if midpoints is None:
        t, weight = np.polynomial.legendre.leggauss(200)
        t, weight = (t + 1) / 2, weight / 2
    else:
        t, weight = (np.arange(midpoints) + 0.5) / midpoints, np.full(midpoints, 1 / midpoints)
    total = None
    for node, share in zip(t, weight, strict=True):
        point = tuple(torch.lerp(a, b, float(node)) for a, b in zip(x0, x1, strict=True))
        slope = jvp(f, point, tuple(v))[1] * float(share)
        total = slope if total is None else total + slope
    assert total is not None
    return total
