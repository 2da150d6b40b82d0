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
from pathlens.integrand.push import CannotPush, push

REVERSE_COST = 1.5  # a reverse product keeps and re-reads what a forward product streams through
TOKENS_AT_ONCE = {"cpu": 2048, "cuda": 1 << 17}  # of all products together: bounds memory whatever the number of units


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
            reverse = self._reverse_is_cheaper(shape.numel(), batch.members.shape[1])
            return self._reverse(batch) if reverse else self._forward(batch)

    def _forward(self, batch: Batch) -> Tensor:
        """One Jacobian–vector product per unit that moves; the point itself is evaluated once for all of them."""
        members = batch.members.to(batch.direction.dtype).transpose(0, 1)  # (U, B, S)
        moving = (batch.direction != 0).any(-1).to(members.dtype)  # (B, S): not [CLS] and [SEP]
        moved = ((members * moving) != 0).flatten(1).any(1)  # (U,)
        if not moved.any():
            moved[:1] = True

        found = torch.cat([_along(batch, some) for some in members[moved].split(self._at_once(batch))])
        result = found.new_zeros(len(members), *found.shape[1:])
        result[moved] = found
        return result.transpose(0, 1)

    def _at_once(self, batch: Batch) -> int:
        """Products taken together; each further group evaluates the point itself once more."""
        room = TOKENS_AT_ONCE.get(batch.position.device.type, TOKENS_AT_ONCE["cuda"])
        return self.chunk or max(1, room // (batch.position.shape[0] * batch.position.shape[1]))

    def _reverse(self, batch: Batch) -> Tensor:
        """One vector–Jacobian product per output coordinate, then summed over each unit's tokens."""
        value, pull = vjp(batch.score, batch.position)
        count = value[0].numel()
        basis = torch.eye(count, dtype=value.dtype, device=value.device).reshape(count, 1, *value.shape[1:])

        def of(one: Tensor) -> Tensor:
            (slope,) = pull(one.expand_as(value))
            share = (slope * batch.direction).sum(-1)
            return torch.einsum("bus,bs->bu", batch.members.to(share.dtype), share)

        result = vmap(of, chunk_size=self._at_once(batch))(basis)  # (out·k, B, U)
        return result.permute(1, 2, 0).reshape(*result.shape[1:], *value.shape[1:])

    def _reverse_is_cheaper(self, outputs: int, units: int) -> bool:
        return self.mode == "reverse" or (self.mode == "auto" and REVERSE_COST * outputs < units)

    def passes(self, units: int) -> int:
        return units

    def passes_for(self, units: int, values: Tensor) -> int:
        """Products one point took, from its values (B, U, out, k)."""
        outputs = values[0, 0].numel()
        return outputs if self._reverse_is_cheaper(outputs, units) else units

    def rows_alive(self, units: int) -> float:
        return 1.0 + (units if self.chunk is None else min(units, self.chunk))


def _along(batch: Batch, members: Tensor) -> Tensor:
    """J δ_U for some units (U, B, S), in one pass: by the rules of push.py, or torch's own where one is missing."""
    try:
        return push(batch.score, batch.position, members[..., None] * batch.direction)
    except CannotPush:
        return vmap(lambda member: jvp(batch.score, (batch.position,), (member[..., None] * batch.direction,))[1])(
            members
        )


@dataclass(frozen=True)
class Jacobian:
    """Every coordinate's share of every output coordinate, (B, S, d, out, k): the paper's matrix before its sums.

    One reverse pass per output coordinate (Moeller, Nikolaev, Padó, EMNLP 2023).
    """

    by_coordinate = True

    def __call__(self, batch: Batch) -> Tensor:
        with torch.no_grad(), any_derivative():
            value, pull = vjp(batch.score, batch.position)
            count = value[0].numel()
            basis = torch.eye(count, dtype=value.dtype, device=value.device).reshape(count, 1, *value.shape[1:])
            room = TOKENS_AT_ONCE.get(value.device.type, TOKENS_AT_ONCE["cuda"])
            at_once = max(1, room // (batch.position.shape[0] * batch.position.shape[1]))
            slopes = vmap(lambda one: pull(one.expand_as(value))[0], chunk_size=at_once)(basis)  # (out·k, B, S, d)
            share = slopes.permute(1, 2, 3, 0) * batch.direction[..., None]
            return share.reshape(*share.shape[:3], *value.shape[1:])

    def passes(self, units: int) -> int:
        return units

    def passes_for(self, units: int, values: Tensor) -> int:
        return values[0, 0, 0].numel()

    def rows_alive(self, units: int) -> float:
        return 64.0  # the Jacobian itself, S·d·k numbers, outweighs what a pass keeps
