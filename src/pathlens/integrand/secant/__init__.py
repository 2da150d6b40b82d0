"""Secants: an integrand on both ends at once. Two runs, one way back (or one push per unit), and the sum is exact.

Each operation of the network is integrated along its own line, from its value in the baseline's run to its value in the
text's (docs/methods/secant.md), so Σ scores = F(x) − F(b) to rounding, with nothing to converge. The principle is DeepLIFT's Rescale
rule (Shrikumar, Greenside, Kundaje, ICML 2017); products are shared as in a two-player Shapley value.

Limits: unlike an integral of the whole network, the scores depend on how the function is written, operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pathlens.errors import SecantError, first_line, setting
from pathlens.integrand.batch import Batch, Integrand, share_of
from pathlens.integrand.directional import products_together
from pathlens.integrand.secant import attention, pooling, products, recurrent, reductions
from pathlens.integrand.secant.both import Both, followed_run, is_choice, passes, watching_integrated
from pathlens.integrand.secant.segments import recorded_segments, slopes_of
from pathlens.integrand.secant.table import add_in_place_rules

add_in_place_rules()
ROWS = 3.0  # of a plain reverse pass: the values of both runs, and a slope for every operation

__all__ = [
    "Both",
    "SecantCoordinates",
    "SecantError",
    "SecantScores",
    "SecantVectors",
    "attention",
    "pooling",
    "products",
    "recurrent",
    "reductions",
    "watching_integrated",
]


def _followed(score: Callable[[Tensor], Tensor], x: Both) -> Both:
    ends = x.start.clone(), x.end.detach().clone()
    with followed_run() as run:
        try:
            output = score(x)
        except Exception as error:
            if passes(error):
                raise
            with torch.no_grad():
                score(ends[1])  # a plain run that fails as well has an error of its own to show
            raise SecantError(
                f"the model cannot be run on both ends at once ({type(error).__name__}: {first_line(error)}); use "
                f"{setting(method='ig')}"
            ) from error
        if not isinstance(output, Both):
            raise SecantError("the model's output does not depend on its embeddings, or leaves torch on the way")
        if is_choice(output):
            raise SecantError(
                "the model's output is a choice (a count, a class, a truth value): it jumps between the baseline and the text, and "
                f"no mean derivative exists. Use {setting(method='sig')}"
            )
        output = output.kept()
    if run.doubts:
        with torch.no_grad():
            for end, value in zip(ends, (output.start, output.end), strict=True):
                _check_own(score(end), value, run.doubts)
    return output


def _check_own(plain: Tensor, value: Tensor, doubts: list[str]) -> None:
    """What was followed is the model's own output, where there was reason to doubt it."""
    digits = torch.finfo(plain.dtype).eps ** 0.5
    if not torch.allclose(plain, value, rtol=digits, atol=digits * float(plain.abs().max()), equal_nan=True):
        raise SecantError(f"{doubts[0]}. Use {setting(method='ig')} or {setting(method='sig')}")


def _ends(batch: Batch) -> tuple[Tensor, Tensor]:
    start = batch.position - batch.direction if batch.start is None else batch.start
    return start.detach().clone(), batch.position.detach()  # copies: a model may write into its input


def _both_ways(batch: Batch) -> tuple[Both, list[Tensor]]:
    """The output of both runs, and J̄ᵀ of each of its T numbers times the step, (B, S, d) each, in float64 for the sums."""
    start, position = _ends(batch)
    position.requires_grad_()
    with torch.enable_grad(), recorded_segments() as segments:
        output = _followed(batch.reverse_score, Both(start, position.clone()))
        numbers = output.end.reshape(len(output), -1).sum(0).unbind()
    try:
        slopes = slopes_of(numbers, position, segments)
    except Exception as error:
        if passes(error):
            raise
        raise SecantError(
            f"the way back cannot be taken through this model's operations ({type(error).__name__}: {first_line(error)}); use "
            f"{setting(method='ig')}"
        ) from error
    return output, [share_of(slope.double(), batch.direction.double()) for slope in slopes]


@dataclass(frozen=True)
class SecantScores(Integrand):
    """Each unit's share of F(x) − F(b): two runs and one way back for each of T numbers.

    (B, 2 + U), or (B, 2 + U, T, 1) for a list: F(b) and F(x) come first.
    """

    outputs: int = 0  # T of a continuation; 0: one number
    heads: ClassVar[int] = 2
    reverse_rows: ClassVar[float] = ROWS

    def __call__(self, batch: Batch) -> Float[Tensor, "B U ..."]:
        output, shares = _both_ways(batch)
        most, owner = batch.members.max(1)  # the unit of each token, if it has one; a table of numbers would be U × S
        parts = torch.stack([share.sum(2) * most for share in shares], dim=2)  # (B, S, T)
        units = parts.new_zeros(len(parts), batch.members.shape[1], len(shares))
        units.scatter_add_(1, owner[..., None].expand_as(parts), parts)
        heads = torch.stack([output.start, output.end.detach()], 1).double()
        return torch.cat([heads, units[..., None] if self.outputs else units[..., 0]], 1)

    def passes(self, units: int) -> int:
        return 2 + max(1, self.outputs)

    def rows_alive(self, units: int) -> float:
        return ROWS


@dataclass(frozen=True)
class SecantCoordinates(Integrand):
    """The same before summing: every coordinate of every token."""

    by_coordinate: ClassVar[bool] = True
    reverse_rows: ClassVar[float] = ROWS

    def __call__(self, batch: Batch) -> Float[Tensor, "B S d"]:
        return _both_ways(batch)[1][0]

    def passes(self, units: int) -> int:
        return 3

    def rows_alive(self, units: int) -> float:
        return ROWS


@dataclass(frozen=True)
class SecantVectors(Integrand):
    """Each unit's share of u(x) − u(b): one push per unit. (B, 2 + U, out, k), u(b) and u(x) first."""

    heads: ClassVar[int] = 2

    def __call__(self, batch: Batch) -> Float[Tensor, "B U out k"]:
        start, position = _ends(batch)
        members = batch.members.to(position.dtype).transpose(0, 1)  # (U, B, S)
        parts, output = [], None
        with torch.no_grad():
            for some in members.split(products_together(batch)):
                changes = some[..., None] * batch.direction
                output = _followed(batch.score, Both(start.clone(), position.clone(), changes))
                parts.append(output.change)
        assert output is not None
        heads = torch.stack([output.start, output.end], 1)
        return torch.cat([heads, torch.cat(parts).transpose(0, 1)], 1)  # type: ignore[arg-type]

    def passes(self, units: int) -> int:
        return 2 + units

    def rows_alive(self, units: int) -> float:
        return 2.0 + units
