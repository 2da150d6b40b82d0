"""One unit moves at a time: SIG's line per unit, and staircases, where each step's share is a difference of two outputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
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

    def corner(index: int) -> Float[Tensor, "S d"]:
        return ends.end if index == 0 else torch.where(units[index - 1][:, None], start, ends.end)

    length = shares(unit_lengths(ends, units)[moving])
    legs = torch.stack([moving + 1, torch.zeros_like(moving)], dim=1)
    return Route(1 + len(units), corner, legs, moving, length, complete=False)


def within_groups(ends: Ends, units: Bool[Tensor, "U S"], group: Int[Tensor, "U"]) -> Route:
    """Groups are left out whole, one at a time, and their units put back left to right, all other groups at their value.

    A group's units sum to `F(x) − F(x̄^G)`, and what lies before a unit is at the text's value while it moves. Groups of one
    unit: `token_lines`; a single group: `prefix`. Corner 0 is the text, corner 1 + u has u and what follows it in its group
    at the baseline.
    """
    units = memberships(ends, units)
    order = moving_units(ends, units)
    start = torch.where(ends.held[:, None], ends.end, ends.start)
    place = {int(unit): rank for rank, unit in enumerate(order)}
    after = [[v for v in order.tolist() if group[v] == group[u] and place[v] >= place[u]] for u in range(len(units))]

    def corner(index: int) -> Float[Tensor, "S d"]:
        return ends.end if index == 0 else torch.where(units[after[index - 1]].any(0)[:, None], start, ends.end)

    following = [1 + after[u][1] if len(after[u]) > 1 else 0 for u in order.tolist()]
    legs = torch.stack([order.cpu() + 1, torch.tensor(following, dtype=torch.long)], dim=1)
    length = shares(unit_lengths(ends, units)[order])
    return Route(1 + len(units), corner, legs, order, length, complete=False)


def left_out(ends: Ends, groups: Bool[Tensor, "G S"]) -> Route:
    """Corner g is the text with group g at its baseline; legs stay where they are, for outputs alone."""
    start = torch.where(ends.held[:, None], ends.end, ends.start)
    corners, length = torch.arange(len(groups)), shares(torch.ones(len(groups)))
    legs, nobody = torch.stack([corners, corners], dim=1), torch.zeros_like(corners)
    corner = lambda index: torch.where(groups[index][:, None], start, ends.end)  # noqa: E731
    return Route(len(groups), corner, legs, nobody, length, complete=False)


def prefix(ends: Ends, units: Bool[Tensor, "U S"]) -> Route:
    """Units go from baseline to text one after another, left to right; leg k belongs to the k-th moving unit.

    Earlier units are already at their value, later ones still at the baseline: the shares telescope to
    `F(x) − F(b)`. SIG's reading `context="prefix"`. Where nothing moves there are no legs, only the text.

    Limits: the order matters; the first units are judged in a context that is all baseline.
    """
    units = memberships(ends, units)
    order = moving_units(ends, units)
    start = torch.where(ends.held[:, None], ends.end, ends.start)

    def corner(index: int) -> Float[Tensor, "S d"]:
        arrived = units[order[:index]].any(dim=0)
        return ends.end if index == len(order) else torch.where(arrived[:, None], ends.end, start)

    return _chain(len(order) + 1, corner, order, unit_lengths(ends, units)[order])


def staircase(ends: Ends, units: Bool[Tensor, "U S"], cells: int) -> Route:
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
    for number, unit in enumerate(order):
        rank[units[unit]] = number
    corners = halves * (count - 1) + 2

    def corner(index: int) -> Float[Tensor, "S d"]:
        if index in (0, corners - 1):
            return start if index == 0 else ends.end
        half, step = divmod(index - 1, count - 1)  # `step + 1` units of this half have moved
        moved = rank <= step if half % 2 == 0 else rank >= count - 1 - step
        level = (half + moved.to(start.dtype)) / halves
        return torch.lerp(start, ends.end, level[:, None])

    # which unit (by place) moves on each leg: 0 1 … U−1 | U−2 … 0 | 1 … U−1 | …
    there = torch.arange(count - 1)
    place = torch.cat([torch.cat([there, there.flip(0) + 1]).repeat(cells), torch.tensor([0])])
    weight = torch.full((corners - 1,), 1.0, dtype=torch.float64)
    weight[count - 1 :: count - 1] = 2.0  # two steps of the same unit in one leg ...
    weight[[0, -1]] = 1.0  # ... but for the last leg, which ends the line (and the first, which begins it)
    return _chain(corners, corner, order[place], unit_lengths(ends, units)[order[place]].cpu() * weight)


def _chain(corners: int, corner: Callable[[int], Tensor], owner: Int[Tensor, "L"], length: Float[Tensor, "L"]) -> Route:
    """Legs from each corner to the next, each with its owner."""
    step = torch.arange(corners - 1)
    return Route(corners, corner, torch.stack([step, step + 1], dim=1), owner.cpu(), shares(length).cpu())


def memberships(ends: Ends, units: Bool[Tensor, "U S"]) -> Bool[Tensor, "U S"]:
    """The units, on the device of the text; a token that moves must belong to exactly one unit, or sums would lie."""
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


def moving_tokens(ends: Ends) -> Bool[Tensor, "S"]:
    """Tokens that differ from their baseline and are not held."""
    return (ends.start != ends.end).any(dim=1) & ~ends.held


def moving_units(ends: Ends, units: Bool[Tensor, "U S"]) -> Int[Tensor, "moving"]:
    """Indices of the units with a moving token, by their first token, left to right."""
    moving = (units & moving_tokens(ends)).any(dim=1).nonzero().flatten()
    first = units[moving].to(torch.uint8).argmax(dim=1)
    return moving[first.argsort(stable=True)]


def unit_lengths(ends: Ends, units: Bool[Tensor, "U S"]) -> Float[Tensor, "U"]:
    """In float64: ‖δ_U‖, how far each unit has to go."""
    square = (ends.delta.double() ** 2).sum(dim=1)
    square = torch.where(ends.held, 0.0, square)
    return (units.double() @ square).sqrt()


def shares(length: Float[Tensor, "L"]) -> Float[Tensor, "L"]:
    """Lengths as shares of their sum."""
    total = length.sum()
    return length / total if total > 0 else torch.full_like(length, 1 / max(len(length), 1))
