"""Forward mode: one product per unit gives its share of every coordinate of a vector output.

J δ_U for all outputs at once costs one pass; reverse mode costs one pass per output coordinate. Whichever is
fewer is used, and both give the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.func import jvp, vjp, vmap

from pathlens.integrand.batch import Batch, Integrand, any_derivative, out_of_memory, share_of
from pathlens.integrand.forward_mode import forward_mode
from pathlens.integrand.forward_tensor import CannotFollow
from pathlens.integrand.gradient import differentiable

REVERSE_COST = 1.5  # a reverse product keeps and re-reads what a forward product streams through
TOKENS_AT_ONCE = {"cpu": 2048, "cuda": 1 << 17}  # of all products together: bounds memory whatever the number of units


def products_together(batch: Batch) -> int:
    """Units, or output coordinates, whose products are taken in one go; each further group runs the point once more."""
    room = TOKENS_AT_ONCE.get(batch.position.device.type, TOKENS_AT_ONCE["cuda"])
    return max(1, room // (batch.position.shape[0] * batch.position.shape[1]))


@dataclass(frozen=True)
class Directional(Integrand):
    """Each unit's share of the output's change along the leg."""

    mode: str = "auto"  # "forward", "reverse", or by count

    def __call__(self, batch: Batch) -> Float[Tensor, "B U out k"]:
        with torch.no_grad(), any_derivative():
            try:
                return self._transformed(batch)
            except RuntimeError as error:
                if out_of_memory(error):
                    raise
                return by_plain_gradients(batch)  # where the model's code takes no transform of torch.func

    def _transformed(self, batch: Batch) -> Float[Tensor, "B U out k"]:
        if self.mode == "forward":
            return self._forward(batch)
        if self.mode == "reverse":
            return self._reverse(batch)
        shape = batch.score(batch.position[:1]).shape[1:]
        reverse = self._reverse_is_cheaper(shape.numel(), batch.members.shape[1])
        return self._reverse(batch) if reverse else self._forward(batch)

    def _forward(self, batch: Batch) -> Float[Tensor, "B U out k"]:
        """One Jacobian–vector product per unit that moves; the point itself is evaluated once for all of them."""
        members = batch.members.to(batch.direction.dtype).transpose(0, 1)  # (U, B, S)
        moving = (batch.direction != 0).any(-1).to(members.dtype)  # (B, S): not [CLS] and [SEP]
        moved = ((members * moving) != 0).flatten(1).any(1)  # (U,)
        if not moved.any():
            moved[:1] = True

        shares = torch.cat([_along(batch, some) for some in members[moved].split(products_together(batch))])
        result = shares.new_zeros(len(members), *shares.shape[1:])
        result[moved] = shares
        return result.transpose(0, 1)

    def _reverse(self, batch: Batch) -> Float[Tensor, "B U out k"]:
        """One vector–Jacobian product per output coordinate, then summed over each unit's tokens."""
        value, pull = vjp(batch.score, batch.position)[:2]
        count = value[0].numel()
        basis = torch.eye(count, dtype=value.dtype, device=value.device).reshape(count, 1, *value.shape[1:])

        def of(one: Float[Tensor, "1 out k"]) -> Float[Tensor, "B U"]:
            (slope,) = pull(one.expand_as(value))
            share = share_of(slope, batch.direction).sum(-1)
            return torch.einsum("bus,bs->bu", batch.members.to(share.dtype), share)

        result = vmap(of, chunk_size=products_together(batch))(basis)  # (out·k, B, U)
        return result.permute(1, 2, 0).reshape(*result.shape[1:], *value.shape[1:])

    def _reverse_is_cheaper(self, outputs: int, units: int) -> bool:
        return self.mode == "reverse" or (self.mode == "auto" and REVERSE_COST * outputs < units)

    def passes(self, units: int) -> int:
        return units

    def passes_for(self, units: int, values: Float[Tensor, "B U out k"]) -> int:
        """Products one point took, from its values."""
        outputs = values[0, 0].numel()
        return outputs if self._reverse_is_cheaper(outputs, units) else units

    def rows_alive(self, units: int) -> float:
        return 1.0 + units


def _along(batch: Batch, members: Float[Tensor, "U B S"]) -> Float[Tensor, "U B out k"]:
    """J δ_U for some units, in one pass: by the rules of forward_mode.py, or torch's own where one is missing."""
    try:
        return forward_mode(batch.score, batch.position, members[..., None] * batch.direction)
    except CannotFollow:

        def along(member: Shaped[Tensor, "B S"]) -> Float[Tensor, "B out k"]:
            change: Tensor = jvp(batch.score, (batch.position,), (member[..., None] * batch.direction,))[1]
            return change

        return vmap(along)(members)


def by_plain_gradients(batch: Batch) -> Float[Tensor, "B U out k"]:
    """The same by torch's ordinary gradient, one output coordinate after the other (a row's output is of its own point)."""
    with torch.enable_grad():
        point = batch.position.detach().requires_grad_()
        value = batch.score(point)
        sums = value.flatten(1).unbind(1)
        slopes = [torch.autograd.grad(each.sum(), point, retain_graph=True)[0] for each in sums]
    share = torch.stack([share_of(slope, batch.direction).sum(-1) for slope in slopes], dim=-1)  # (B, S, out·k)
    summed = torch.einsum("bus,bsn->bun", batch.members.to(share.dtype), share)
    return summed.reshape(*summed.shape[:2], *value.shape[1:])


@dataclass(frozen=True)
class Jacobian(Integrand):
    """Every coordinate's share of every output coordinate, the paper's matrix before its sums.

    One reverse pass per output coordinate (Moeller, Nikolaev, Padó, EMNLP 2023).
    """

    by_coordinate = True

    def __call__(self, batch: Batch) -> Float[Tensor, "B S d out k"]:
        with torch.no_grad(), any_derivative():
            value, pull = vjp(batch.score, batch.position)[:2]
            count = value[0].numel()
            basis = torch.eye(count, dtype=value.dtype, device=value.device).reshape(count, 1, *value.shape[1:])
            together = products_together(batch)
            slopes = vmap(lambda one: pull(one.expand_as(value))[0], chunk_size=together)(basis)  # (out·k, B, S, d)
            share = share_of(slopes.permute(1, 2, 3, 0), batch.direction[..., None])
            return share.reshape(*share.shape[:3], *value.shape[1:])

    def passes(self, units: int) -> int:
        return units

    def passes_for(self, units: int, values: Float[Tensor, "B S d out k"]) -> int:
        return values[0, 0, 0].numel()

    def rows_alive(self, units: int) -> float:
        return 64.0  # the Jacobian itself, S·d·k numbers, outweighs what a pass keeps


@dataclass(frozen=True)
class Outputs(Integrand):
    """Each unit's share of each number's change along the leg, in float64 for the sums that follow.

    A list of T numbers, the output tokens of a continuation, all read from one forward pass. Reverse mode pulls each
    number back on its own, T pulls over one graph; forward mode takes U directions that every number shares.
    """

    count: int  # T
    mode: str = "auto"  # "forward", "reverse", or by count

    def __call__(self, batch: Batch) -> Float[Tensor, "B U T 1"]:
        if self._reverse(batch.members.shape[1]):
            return self._pulls(batch)
        return Directional("forward")(batch).double()

    def _pulls(self, batch: Batch) -> Float[Tensor, "B U T 1"]:
        """The fast attention kernels keep their place here: one reverse pass after another, no batching over them."""
        position, values = differentiable(batch)
        with torch.enable_grad():
            numbers = values.sum(0).flatten()
        members, direction = batch.members.double(), batch.direction.double()
        shares = []
        for index, number in enumerate(numbers):
            (slope,) = torch.autograd.grad(number, position, retain_graph=index + 1 < len(numbers))
            share = share_of(slope.double(), direction).sum(-1)
            shares.append(torch.einsum("bus,bs->bu", members, share))
        return torch.stack(shares, dim=2)[..., None]

    def _reverse(self, units: int) -> bool:
        return self.mode == "reverse" or (self.mode == "auto" and REVERSE_COST * self.count < units)

    def passes(self, units: int) -> int:
        return self.count if self._reverse(units) else units

    def rows_alive(self, units: int) -> float:
        return 1.0 if self._reverse(units) else 0.5 * (1.0 + units)
