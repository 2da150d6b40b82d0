"""One line per unit: the paths of Sequential Integrated Gradients, and what every path by unit shares."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from pathlens.errors import InputError
from pathlens.types import Ends, Route


def token_lines(ends: Ends, units: Bool[Tensor, "U S"]) -> Route:
    """Unit U alone moves, all others stay at their true value: legs `x̄^U → x`, one per moving unit.

    Corner 0 is the text, corner 1 + i is the text with unit i at its baseline; leg (1 + i → 0) belongs to i.

    Paper: Enguehard, "Sequential Integrated Gradients" (2023), the reading `context="full"`.

    Limits: the legs do not lead from the baseline to the text, so the scores complete per unit
    (`F(x) − F(x̄^U)`) and not in total (`complete=False`). A unit's score is not the sum of its tokens'.
    """
    units = memberships(ends, units)
    moving = moving_units(ends, units)
    start = torch.where(ends.held[:, None], ends.end, ends.start)

    def corner(index: int) -> Tensor:
        return ends.end if index == 0 else torch.where(units[index - 1][:, None], start, ends.end)

    return Route(
        corners=1 + len(units),
        corner=corner,
        legs=torch.stack([moving + 1, torch.zeros_like(moving)], dim=1),
        owner=moving,
        length=shares(unit_lengths(ends, units)[moving]),
        complete=False,
    )


def memberships(ends: Ends, units: Tensor) -> Tensor:
    """`units` (U, S) as booleans; a token that moves must belong to exactly one unit, or sums would lie."""
    units = torch.as_tensor(units, dtype=torch.bool, device=ends.end.device)
    if units.dim() != 2 or units.shape[1] != len(ends.end):
        shape, tokens = tuple(units.shape), len(ends.end)
        raise InputError(f"units must be (units, tokens) memberships over {tokens} tokens, got shape {shape}")
    wrong = moving_tokens(ends) & (units.sum(dim=0) != 1)
    if wrong.any():
        token = int(wrong.nonzero()[0])
        count = int(units[:, token].sum())
        raise InputError(f"token {token} moves, so it must belong to exactly one unit; it belongs to {count}")
    return units


def moving_tokens(ends: Ends) -> Tensor:
    """(S,) bool: tokens that differ from their baseline and are not held."""
    return (ends.start != ends.end).any(dim=1) & ~ends.held


def moving_units(ends: Ends, units: Tensor) -> Tensor:
    """Indices of the units with a moving token, by their first token, left to right."""
    moving = (units & moving_tokens(ends)).any(dim=1).nonzero().flatten()
    first = units[moving].to(torch.uint8).argmax(dim=1)
    return moving[first.argsort(stable=True)]


def unit_lengths(ends: Ends, units: Tensor) -> Tensor:
    """(U,) float64: ‖δ_U‖, how far each unit has to go."""
    square = (ends.delta.double() ** 2).sum(dim=1)
    square = torch.where(ends.held, 0.0, square)
    return (units.double() @ square).sqrt()


def shares(length: Tensor) -> Tensor:
    """Lengths as shares of their sum."""
    total = length.sum()
    return length / total if total > 0 else torch.full_like(length, 1 / max(len(length), 1))
