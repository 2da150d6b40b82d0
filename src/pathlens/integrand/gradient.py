"""The output itself, and its gradient: one reverse pass gives every token's share of a number."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from pathlens.errors import ModelError, setting
from pathlens.integrand.batch import Batch, Integrand, share_of
from pathlens.integrand.products import kept_products, reverse_products


@dataclass(frozen=True)
class Value(Integrand):
    """F at the point, (B, 1) for a number, (B, 1, out, k) for a vector. Where an integral telescopes,
    differences of it are exact and need no gradient; the loop's weights make them.
    """

    def __call__(self, batch: Batch) -> Float[Tensor, "B 1 ..."]:
        with torch.no_grad(), kept_products():
            return batch.score(batch.position)[:, None]

    def rows_alive(self, units: int) -> float:
        return 0.5


def differentiable(batch: Batch) -> tuple[Float[Tensor, "B S d"], Float[Tensor, "B ..."]]:
    """The points and the outputs there, ready for a reverse pass; an error where no gradient leads back."""
    position = batch.position.detach().requires_grad_()
    with torch.enable_grad(), reverse_products(batch):
        value = batch.reverse_score(position)
    if not value.requires_grad:
        raise ModelError(
            "the model's output does not depend on its embeddings by a gradient (detached, or not differentiable); use "
            f"{setting(rule='split')}, which needs forward passes alone"
        )
    return position, value


def _slope_times_step(batch: Batch) -> Float[Tensor, "B S d"]:
    """∂F · direction, coordinate by coordinate, in float64 for the sums that follow."""
    position, value = differentiable(batch)
    with torch.enable_grad():
        total = value.sum()
    (slope,) = torch.autograd.grad(total, position)
    return share_of(slope.double(), batch.direction.double())


@dataclass(frozen=True)
class Gradient(Integrand):
    """Each unit's share of dF along the leg, (B, U): Σ over its tokens and their coordinates of ∂F · direction."""

    def __call__(self, batch: Batch) -> Float[Tensor, "B U"]:
        share = _slope_times_step(batch).sum(-1)
        return torch.einsum("bus,bs->bu", batch.members.double(), share)


@dataclass(frozen=True)
class Coordinates(Integrand):
    """The same before summing, (B, S, d): every coordinate of every token."""

    by_coordinate = True

    def __call__(self, batch: Batch) -> Float[Tensor, "B S d"]:
        return _slope_times_step(batch)
