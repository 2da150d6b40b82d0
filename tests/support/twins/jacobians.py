"""Slow twin of Integrated Jacobians: the paper's algorithm, one reverse pass per embedding coordinate and node."""

from __future__ import annotations

import torch
from torch import Tensor


def integrated_jacobian(embed, start: Tensor, end: Tensor, t, weight) -> Tensor:
    """Σ_n w_n ∂e_k/∂x at r + t_n (x − r): (k, S, d), by k reverse passes at each of the nodes."""
    total: Tensor | None = None
    for place, share in zip(t, weight, strict=True):
        point = (start + float(place) * (end - start)).clone().requires_grad_()
        vector = embed(point)
        rows = [torch.autograd.grad(vector[k], point, retain_graph=True)[0] for k in range(len(vector))]
        jacobian = float(share) * torch.stack(rows).double()
        total = jacobian if total is None else total + jacobian
    assert total is not None
    return total


def pair_by_coordinate(embed_a, ends_a, embed_b, ends_b, t, weight) -> Tensor:
    """A_{ic,jc'} = Σ_k (J_a δ_a)_{k,ic} (J_b δ_b)_{k,jc'}: (S_a, d, S_b, d)."""
    jacobian_a = integrated_jacobian(embed_a, ends_a.start, ends_a.end, t, weight) * ends_a.delta.double()
    jacobian_b = integrated_jacobian(embed_b, ends_b.start, ends_b.end, t, weight) * ends_b.delta.double()
    return torch.einsum("kic,kje->icje", jacobian_a, jacobian_b)


def vectors_by_coordinate(embed, start: Tensor, end: Tensor, t, weight) -> Tensor:
    """(S, k): Σ_c δ_ic Σ_n w_n ∂e_k/∂x_ic, the same at its quickest: all nodes in one batch, k reverse passes over it.

    `embed` takes a batch of points (n, S, d) and gives (n, k).
    """
    delta = end - start
    places = torch.as_tensor(t, dtype=end.dtype)[:, None, None]
    points = (start + places * delta).requires_grad_()
    vectors, shares = embed(points), torch.as_tensor(weight, dtype=torch.float64)
    columns = []
    for k in range(vectors.shape[1]):
        (slope,) = torch.autograd.grad(vectors[:, k].sum(), points, retain_graph=True)
        columns.append(torch.einsum("n,nsd,sd->s", shares, slope.double(), delta.double()))
    return torch.stack(columns, dim=1)
