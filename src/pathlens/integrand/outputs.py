"""A list of T numbers, the output tokens of a continuation: all of them read from one forward pass.

Reverse mode pulls each number back on its own, T pulls over one graph; forward mode pushes each unit, U pushes that
every number shares. Whichever is fewer is used, and both give the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pathlens.errors import ModelError
from pathlens.integrand.batch import Batch
from pathlens.integrand.directional import REVERSE_COST, Directional
from pathlens.integrand.products import reverse_products


@dataclass(frozen=True)
class Outputs:
    """Each unit's share of each number's change along the leg, (B, U, T, 1), in float64 for the sums that follow."""

    count: int  # T
    mode: str = "auto"  # "forward", "reverse", or by count

    def __call__(self, batch: Batch) -> Tensor:
        if self._reverse(batch.members.shape[1]):
            return self._pulls(batch)
        return Directional("forward")(batch).double()

    def _pulls(self, batch: Batch) -> Tensor:
        """The fast attention kernels keep their place here: one reverse pass after another, no batching over them."""
        position = batch.position.detach().requires_grad_()
        with torch.enable_grad(), reverse_products(batch):
            values = batch.reverse_score(position).sum(0).flatten()
        if not values.requires_grad:
            raise ModelError(
                "the model's output does not depend on its embeddings by a gradient (detached, or not differentiable); use "
                "rule='split', which needs forward passes alone"
            )
        members, direction = batch.members.double(), batch.direction.double()
        shares = []
        for number, value in enumerate(values):
            (slope,) = torch.autograd.grad(value, position, retain_graph=number + 1 < len(values))
            share = (slope.double() * direction).sum(-1)
            shares.append(torch.einsum("bus,bs->bu", members, share))
        return torch.stack(shares, dim=2)[..., None]

    def _reverse(self, units: int) -> bool:
        return self.mode == "reverse" or (self.mode == "auto" and REVERSE_COST * self.count < units)

    def passes(self, units: int) -> int:
        return self.count if self._reverse(units) else units

    def rows_alive(self, units: int) -> float:
        return 1.0 if self._reverse(units) else 0.5 * (1.0 + units)
