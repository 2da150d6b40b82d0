"""Staircases: one unit moves at a time, so each step's share is a plain difference of two outputs."""

from __future__ import annotations

import torch
from torch import Tensor

from pathlens.errors import InputError
from pathlens.path.token_lines import memberships, moving_units, shares, unit_lengths
from pathlens.types import Ends, Route


def prefix(ends: Ends, units: Tensor) -> Route:
    """Units go from baseline to text one after another, left to right; leg k belongs to the k-th moving unit.

    Earlier units are already at their value, later ones still at the baseline: the shares telescope to
    `F(x) − F(b)`. SIG's reading `context="prefix"`. Where nothing moves there are no legs, only the text.

    Limits: the order matters; the first units are judged in a context that is all baseline.
    """
    units = memberships(ends, units)
    order = moving_units(ends, units)
    start = torch.where(ends.held[:, None], ends.end, ends.start)

    def corner(index: int) -> Tensor:
        arrived = units[order[:index]].any(dim=0)
        return ends.end if index == len(order) else torch.where(arrived[:, None], ends.end, start)

    return _chain(len(order) + 1, corner, order, unit_lengths(ends, units)[order])


def staircase(ends: Ends, units: Tensor, cells: int) -> Route:
    """The line cut into `cells`; in each, the units move one at a time, there and back (split-step IG).

    Forward order over a cell's first half, backward order over its second half: a symmetric splitting, so
    the shares tend to IG's at second order in 1/cells where F is smooth. The last unit of one half is the
    first of the next, and its two steps are one leg: 2·cells·(U − 1) + 1 legs for U moving units.

    Corners are made when asked for, from the half and the step inside it: none is kept.

    Limits: the total is exact for every number of cells, each share is not; judge a share by its change
    from cells/2 to cells.
    """
    if cells < 1:
        raise InputError(f"a staircase needs at least 1 cell, got cells={cells}")
    units = memberships(ends, units)
    order = moving_units(ends, units)
    count, halves = len(order), 2 * cells
    start = torch.where(ends.held[:, None], ends.end, ends.start)
    if count < 2:  # one unit: its staircase is its line
        return prefix(ends, units)

    rank = torch.zeros(len(ends.end), dtype=torch.long, device=start.device)  # token -> place of its unit
    for place, unit in enumerate(order):
        rank[units[unit]] = place
    corners = halves * (count - 1) + 2

    def corner(index: int) -> Tensor:
        if index in (0, corners - 1):
            return start if index == 0 else ends.end
        half, step = divmod(index - 1, count - 1)  # `step + 1` units of this half have moved
        moved = rank <= step if half % 2 == 0 else rank >= count - 1 - step
        level = (half + moved.to(start.dtype)) / halves
        return torch.lerp(start, ends.end, level[:, None])

    place = _places(count, halves)
    weight = torch.full((corners - 1,), 1.0, dtype=torch.float64)
    weight[count - 1 :: count - 1] = 2.0  # two steps of the same unit in one leg ...
    weight[[0, -1]] = 1.0  # ... but for the last leg, which ends the line (and the first, which begins it)
    return _chain(corners, corner, order[place], unit_lengths(ends, units)[order[place]].cpu() * weight)


def _places(count: int, halves: int) -> Tensor:
    """Which unit (by place) moves on each leg: 0 1 … U−1 | U−2 … 0 | 1 … U−1 | …"""
    there = torch.arange(count - 1)
    swing = torch.cat([there, there.flip(0) + 1])
    return torch.cat([swing.repeat(halves // 2), torch.tensor([0])])


def _chain(corners: int, corner, owner: Tensor, length: Tensor) -> Route:
    """Legs from each corner to the next, each with its owner."""
    step = torch.arange(corners - 1)
    return Route(corners, corner, torch.stack([step, step + 1], dim=1), owner.cpu(), shares(length).cpu())
