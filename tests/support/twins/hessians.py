"""Slow twins of Integrated Hessians: the paper's double integral, with every second derivative written out."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tests.support.twins.gradients import gradient


def second_derivatives(score, point: Tensor) -> Tensor:
    """∂²F/∂x_ia∂x_jb, (S, d, S, d): S·d passes."""
    return torch.autograd.functional.hessian(score, point)


def integrated_hessians(score, start: Tensor, end: Tensor, nodes: int) -> Tensor:
    """Γ_ij = Σ_ab δ_ia δ_jb ∫∫ αβ ∂²F(b + αβδ) dα dβ, plus Σ_a δ_ia ∫∫ ∂F(b + αβδ) dα dβ on the diagonal: (S, S).

    Gauss–Legendre in α and in β, as the formula stands: two integrals, nothing merged.
    """
    t, weight = np.polynomial.legendre.leggauss(nodes)
    t, weight = (t + 1) / 2, weight / 2
    delta = end - start
    total = torch.zeros(len(end), len(end), dtype=end.dtype)
    for alpha, share in zip(t, weight, strict=True):
        for beta, other in zip(t, weight, strict=True):
            point = start + float(alpha * beta) * delta
            curve = torch.einsum("ia,iajb,jb->ij", delta, second_derivatives(score, point), delta)
            slope = (delta * gradient(score, point)).sum(-1)
            total += float(share * other) * (float(alpha * beta) * curve + torch.diag(slope))
    return total


def single_integral(score, start: Tensor, end: Tensor, t, weight) -> Tensor:
    """Σ_k w_k (u_k H + diag g) at given nodes, every second derivative of every coordinate computed: (S, S)."""
    delta = end - start
    total = torch.zeros(len(end), len(end), dtype=end.dtype)
    for u, share in zip(t, weight, strict=True):
        point = start + float(u) * delta
        curve = torch.einsum("ia,iajb,jb->ij", delta, second_derivatives(score, point), delta)
        total += float(share) * (float(u) * curve + torch.diag((delta * gradient(score, point)).sum(-1)))
    return total


def published_grid(k: int, *, end_points: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """u = αβ and weights of the authors' k × k grid of α and β (end points included), or of the same at midpoints."""
    side = np.linspace(0, 1, k) if end_points else (np.arange(k) + 0.5) / k
    return np.outer(side, side).ravel(), np.full(k * k, 1 / k**2)


def published_estimate(score, start: Tensor, end: Tensor, k: int, *, end_points: bool = True) -> Tensor:
    """The authors' double sampling, point by point: (S, S)."""
    return single_integral(score, start, end, *published_grid(k, end_points=end_points))
