"""Secants: an integrand on both ends at once. Two runs, one way back (or one push per unit), and the sum is exact.

Each operation of the network is integrated along its own line, from its value in the baseline's run to its value in the
text's (METHODS §13), so Σ scores = F(x) − F(b) to rounding, with nothing to converge. The principle is DeepLIFT's Rescale
rule (Shrikumar, Greenside, Kundaje, ICML 2017); products are shared as in a two-player Shapley value.

Limits: unlike an integral of the whole network, the scores depend on how the function is written, operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pathlens.errors import SecantError
from pathlens.integrand.batch import Batch
from pathlens.integrand.secant import attention, rules
from pathlens.integrand.secant.both import Both, watching_integrated

__all__ = ["Both", "SecantError", "SecantScores", "SecantVectors", "attention", "rules", "watching_integrated"]


def _followed(score: Callable[[Tensor], Tensor], x: Both) -> Both:
    output = score(x)
    if not isinstance(output, Both):
        raise SecantError("the model's output does not depend on its embeddings, or leaves torch on the way")
    return output


def _slopes(batch: Batch) -> list[Tensor]:
    """J̄ᵀ of each of T numbers, (B, S, d) each."""
    start = (batch.position - batch.direction).detach()
    end = batch.position.detach().requires_grad_()
    with torch.enable_grad():
        output = _followed(batch.reverse_score, Both(start, end.clone()))  # a copy: a model may write into its input
        numbers = output.end.reshape(len(output.end), -1).sum(0)
    slopes = []
    for number, each in enumerate(numbers):
        (slope,) = torch.autograd.grad(each, end, retain_graph=number + 1 < len(numbers))
        slopes.append(slope.double())
    return slopes


@dataclass(frozen=True)
class SecantScores:
    """Each unit's share of F(x) − F(b), (B, U); of T numbers, (B, U, T, 1)."""

    outputs: int = 0  # T of a continuation; 0: one number

    def __call__(self, batch: Batch) -> Tensor:
        direction, members = batch.direction.double(), batch.members.double()
        shares = [torch.einsum("bus,bs->bu", members, (slope * direction).sum(-1)) for slope in _slopes(batch)]
        return torch.stack(shares, dim=2)[..., None] if self.outputs else shares[0]

    def passes(self, units: int) -> int:
        return 2 + max(1, self.outputs)

    def rows_alive(self, units: int) -> float:
        return 3.0


@dataclass(frozen=True)
class SecantVectors:
    """Each unit's share of u(x) − u(b), (B, U, out, k): one push per unit."""

    def __call__(self, batch: Batch) -> Tensor:
        start = batch.position - batch.direction
        members = batch.members.to(batch.direction.dtype).transpose(0, 1)
        changes = members[..., None] * batch.direction  # (U, B, S, d)
        with torch.no_grad():
            return _followed(batch.score, Both(start, batch.position.clone(), changes)).change.transpose(0, 1)  # type: ignore[union-attr]

    def passes(self, units: int) -> int:
        return units

    def rows_alive(self, units: int) -> float:
        return 2.0 + units
