"""Forward mode: one product per unit gives its share of every coordinate of a vector output.

J δ_U for all outputs at once costs one pass; reverse mode costs one pass per output coordinate. Whichever is
fewer is used, and both give the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap

from pathlens.integrand.batch import Batch, any_derivative

REVERSE_COST = 1.5  # a reverse product keeps and re-reads what a forward product streams through


@dataclass(frozen=True)
class Directional:
    """Each unit's share of the output's change along the leg, (B, U, out, k)."""

    mode: str = "auto"  # "forward", "reverse", or by count
    chunk: int | None = None  # directions at once

    def __call__(self, batch: Batch) -> Tensor:
        with torch.no_grad(), any_derivative():
            if self.mode == "forward":
                return self._forward(batch)
            if self.mode == "reverse":
                return self._reverse(batch)
            shape = batch.score(batch.position[:1]).shape[1:]
            cheaper = REVERSE_COST * shape.numel() < batch.members.shape[1]
            return self._reverse(batch) if cheaper else self._forward(batch)

    def _forward(self, batch: Batch) -> Tensor:
        """One Jacobian–vector product per unit; the point itself is evaluated once for all of them."""
        members = batch.members.to(batch.direction.dtype).transpose(0, 1)  # (U, B, S)

        def along(member: Tensor) -> Tensor:
            return jvp(batch.score, (batch.position,), (member[..., None] * batch.direction,))[1]

        return vmap(along, chunk_size=self.chunk)(members).transpose(0, 1)

    def _reverse(self, batch: Batch) -> Tensor:
        """One vector–Jacobian product per output coordinate, then summed over each unit's tokens."""
        value, pull = vjp(batch.score, batch.position)
        count = value[0].numel()
        basis = torch.eye(count, dtype=value.dtype, device=value.device).reshape(count, 1, *value.shape[1:])

        def of(one: Tensor) -> Tensor:
            (slope,) = pull(one.expand_as(value))
            share = (slope * batch.direction).sum(-1)
            return torch.einsum("bus,bs->bu", batch.members.to(share.dtype), share)

        result = vmap(of, chunk_size=self.chunk)(basis)  # (out·k, B, U)
        return result.permute(1, 2, 0).reshape(*result.shape[1:][::1], *value.shape[1:])

    def passes(self, units: int) -> int:
        return units

    def rows_alive(self, units: int) -> float:
        return 0.35 * (1 + min(units, self.chunk or units))
