"""Reverse mode: one pass gives every token's share of a number."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pathlens.errors import ModelError
from pathlens.integrand.batch import Batch
from pathlens.integrand.products import reverse_products


def _slope_times_step(batch: Batch) -> Tensor:
    """∂F · direction, coordinate by coordinate (B, S, d), in float64 for the sums that follow."""
    position = batch.position.detach().requires_grad_()
    with torch.enable_grad(), reverse_products(batch):
        value = batch.reverse_score(position).sum()
    if not value.requires_grad:
        raise ModelError(
            "the model's output does not depend on its embeddings by a gradient (detached, or not differentiable); use "
            "rule='split', which needs forward passes alone"
        )
    (slope,) = torch.autograd.grad(value, position)
    return slope.double() * batch.direction.double()


@dataclass(frozen=True)
class Gradient:
    """Each unit's share of dF along the leg, (B, U): Σ over its tokens and their coordinates of ∂F · direction."""

    def __call__(self, batch: Batch) -> Tensor:
        share = _slope_times_step(batch).sum(-1)
        return torch.einsum("bus,bs->bu", batch.members.double(), share)

    def passes(self, units: int) -> int:
        return 1

    def rows_alive(self, units: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Coordinates:
    """The same before summing, (B, S, d): every coordinate of every token."""

    by_coordinate = True

    def __call__(self, batch: Batch) -> Tensor:
        return _slope_times_step(batch)

    def passes(self, units: int) -> int:
        return 1

    def rows_alive(self, units: int) -> float:
        return 1.0
