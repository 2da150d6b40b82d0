"""The path law: from the baseline to the text, held tokens never move. And what each simple path promises."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pathlens.errors import InputError
from pathlens.path.line import line
from pathlens.path.staircase import prefix, staircase, token_lines
from pathlens.types import Ends, Route


def make_ends(seed: int, tokens: int, width: int = 3, dtype=torch.float32) -> Ends:
    """Random ends; some tokens are held, some equal to their baseline without being held."""
    draw = torch.Generator().manual_seed(seed)
    end = torch.randn(tokens, width, generator=draw, dtype=dtype)
    start = torch.randn(tokens, width, generator=draw, dtype=dtype)
    kind = torch.rand(tokens, generator=draw)
    held, resting = kind < 0.25, (kind >= 0.25) & (kind < 0.4)
    start[held | resting] = end[held | resting]
    return Ends(start, end, held)


def make_units(seed: int, tokens: int) -> torch.Tensor:
    """A random partition of the tokens, not always contiguous, never empty."""
    draw = np.random.default_rng(seed)
    label = draw.integers(0, max(1, tokens // 2), size=tokens)
    return torch.from_numpy(np.array([label == k for k in np.unique(label)]))


def leg_ends(route: Route, leg: int) -> tuple[torch.Tensor, torch.Tensor]:
    first, last = route.legs[leg].tolist()
    return route.corner(first), route.corner(last)


many = given(seed=st.integers(0, 10_000), tokens=st.integers(1, 7))


def paths_of(ends: Ends, units: torch.Tensor) -> dict[str, Route]:
    stairs = {f"staircase {cells}": staircase(ends, units, cells) for cells in (1, 2, 5)}
    return {"line": line(ends), "prefix": prefix(ends, units), **stairs}


@many
@settings(deadline=None, max_examples=60)
def test_complete_paths_lead_from_the_baseline_to_the_text(seed, tokens):
    ends, units = make_ends(seed, tokens), make_units(seed, tokens)
    for name, route in paths_of(ends, units).items():
        assert route.complete
        assert torch.equal(route.corner(route.corners - 1), ends.end), name
        if len(route.legs):
            assert torch.equal(route.corner(0), ends.start), name
            assert route.legs[0, 0] == 0 and route.legs[-1, 1] == route.corners - 1
            assert torch.equal(route.legs[1:, 0], route.legs[:-1, 1]), name
            assert route.length.sum() == pytest.approx(1)


@many
@settings(deadline=None, max_examples=60)
def test_tokens_that_are_held_or_at_their_baseline_never_move(seed, tokens):
    ends, units = make_ends(seed, tokens), make_units(seed, tokens)
    rest = (ends.start == ends.end).all(dim=1)
    for name, route in {**paths_of(ends, units), "lines": token_lines(ends, units)}.items():
        for i in range(route.corners):
            assert torch.equal(route.corner(i)[rest], ends.end[rest]), name


@many
@settings(deadline=None, max_examples=60)
def test_a_held_token_stays_at_the_text_whatever_its_baseline_says(seed, tokens):
    """A baseline given as a tensor may hold other rows in the places of special tokens."""
    ends, units = make_ends(seed, tokens), make_units(seed, tokens)
    ends = Ends(ends.start + ends.held[:, None].float(), ends.end, ends.held)
    for name, route in {**paths_of(ends, units), "lines": token_lines(ends, units)}.items():
        for i in range(route.corners):
            assert torch.equal(route.corner(i)[ends.held], ends.end[ends.held]), name


@many
@settings(deadline=None, max_examples=60)
def test_an_owned_leg_moves_its_owner_alone(seed, tokens):
    ends, units = make_ends(seed, tokens), make_units(seed, tokens)
    routes = {**paths_of(ends, units), "lines": token_lines(ends, units)}
    del routes["line"]
    for name, route in routes.items():
        for leg, owner in enumerate(route.owner.tolist()):
            before, after = leg_ends(route, leg)
            moved = (before != after).any(dim=1)
            assert moved.any() and not (moved & ~units[owner]).any(), name


@many
@settings(deadline=None, max_examples=40)
def test_a_unit_goes_its_whole_way_exactly_once(seed, tokens):
    """Each unit's legs add up to its δ: what makes the shares of a linear model exact on every staircase."""
    ends, units = make_ends(seed, tokens, dtype=torch.float64), make_units(seed, tokens)
    routes = paths_of(ends, units)
    del routes["line"]
    for name, route in routes.items():
        travelled = torch.zeros(len(units), *ends.end.shape, dtype=torch.float64)
        for leg, owner in enumerate(route.owner.tolist()):
            before, after = leg_ends(route, leg)
            travelled[owner] += after - before
        assert torch.allclose(travelled, units[:, :, None] * ends.delta, atol=1e-12), name


@many
@settings(deadline=None, max_examples=40)
def test_lengths_are_shares_of_the_way(seed, tokens):
    ends, units = make_ends(seed, tokens, dtype=torch.float64), make_units(seed, tokens)
    for name, route in {**paths_of(ends, units), "lines": token_lines(ends, units)}.items():
        pairs = [leg_ends(route, leg) for leg in range(len(route.legs))]
        length = torch.tensor([float((after - before).norm()) for before, after in pairs])
        if len(pairs) and length.sum() > 0:
            assert torch.allclose(route.length.float(), length / length.sum(), atol=1e-5), name


def test_a_line_has_one_leg_that_everyone_shares():
    route = line(make_ends(1, 4))
    assert route.legs.tolist() == [[0, 1]] and route.owner.tolist() == [-1] and route.length.tolist() == [1.0]


def test_token_lines_put_one_unit_at_the_baseline_and_leave_the_rest():
    end, start = torch.ones(3, 2), torch.zeros(3, 2)
    ends = Ends(start, end, torch.tensor([True, False, False]))
    ends = Ends(torch.where(ends.held[:, None], end, start), end, ends.held)
    route = token_lines(ends, torch.eye(3, dtype=torch.bool))
    assert not route.complete
    assert route.legs.tolist() == [[2, 0], [3, 0]] and route.owner.tolist() == [1, 2]
    assert torch.equal(route.corner(0), end)
    assert route.corner(2)[:, 0].tolist() == [1, 0, 1]
    assert route.corner(3)[:, 0].tolist() == [1, 1, 0]


def test_prefix_goes_left_to_right_whatever_the_order_of_the_units():
    ends = Ends(torch.zeros(3, 1), torch.ones(3, 1), torch.zeros(3, dtype=torch.bool))
    units = torch.tensor([[False, False, True], [True, True, False]])
    route = prefix(ends, units)
    assert route.owner.tolist() == [1, 0]
    assert [route.corner(i).flatten().tolist() for i in range(3)] == [[0, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_the_staircase_is_the_split_step_of_its_definition():
    """Twin: forward over a cell's first half, backward over its second; equal movers in a row merged."""
    ends, cells = make_ends(3, 4, dtype=torch.float64), 3
    ends = Ends(ends.start, ends.start + torch.randn(4, 3, dtype=torch.float64), torch.zeros(4, dtype=bool))
    units = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=torch.bool)
    level, walked = torch.zeros(4, dtype=torch.float64), []
    for half in range(2 * cells):
        for unit in range(3) if half % 2 == 0 else reversed(range(3)):
            level = torch.where(units[unit], (half + 1) / (2 * cells), level)
            if walked and walked[-1][0] == unit:
                walked.pop()
            walked.append((unit, ends.start + level[:, None] * ends.delta))
    route = staircase(ends, units, cells)
    assert route.owner.tolist() == [unit for unit, _ in walked]
    assert route.corners == len(walked) + 1
    for i, (_, point) in enumerate(walked):
        assert torch.allclose(route.corner(i + 1), point, atol=1e-12)


def test_staircase_shares_tend_to_integrated_gradients_at_second_order():
    """F = x₁x₂x₃ + sin(x₁x₃): shares against 64 Gauss nodes on the line; halving cells quarters the gap."""

    def score(x):
        return x[0, 0] * x[1, 0] * x[2, 0] + torch.sin(x[0, 0] * x[2, 0])

    start, end = torch.zeros(3, 1, dtype=torch.float64), torch.tensor([[1.0], [0.7], [-1.3]]).double()
    ends = Ends(start, end, torch.zeros(3, dtype=torch.bool))
    nodes, weights = np.polynomial.legendre.leggauss(64)
    exact = torch.zeros(3, dtype=torch.float64)
    for t, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        point = (start + t * (end - start)).requires_grad_()
        exact += weight * (torch.autograd.grad(score(point), point)[0] * end).sum(dim=1)
    gaps = []
    for cells in (4, 8, 16):
        route = staircase(ends, torch.eye(3, dtype=torch.bool), cells)
        shares = torch.zeros(3, dtype=torch.float64)
        for leg, owner in enumerate(route.owner.tolist()):
            before, after = leg_ends(route, leg)
            shares[owner] += score(after) - score(before)
        assert shares.sum() == pytest.approx(float(score(end) - score(start)), abs=1e-12)
        gaps.append(float((shares - exact).abs().max()))
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.15)
    assert gaps[1] / gaps[2] == pytest.approx(4, rel=0.15)


def test_where_nothing_moves_the_paths_have_no_legs_of_their_own():
    end = torch.ones(2, 3)
    ends = Ends(end, end, torch.tensor([True, False]))
    units = torch.eye(2, dtype=torch.bool)
    for route in (prefix(ends, units), staircase(ends, units, 4), token_lines(ends, units)):
        assert len(route.legs) == len(route.owner) == len(route.length) == 0
        assert torch.equal(route.corner(0), end)
    assert torch.equal(line(ends).corner(0), end)


def test_units_that_do_not_cover_the_moving_tokens_are_refused():
    ends = Ends(torch.zeros(3, 1), torch.ones(3, 1), torch.zeros(3, dtype=torch.bool))
    with pytest.raises(InputError, match="token 2 moves"):
        prefix(ends, torch.tensor([[True, True, False]]))
    with pytest.raises(InputError, match="exactly one unit; it belongs to 2"):
        token_lines(ends, torch.tensor([[True, True, True], [False, True, False]]))
    with pytest.raises(InputError, match="over 3 tokens"):
        staircase(ends, torch.ones(1, 4, dtype=torch.bool), 2)
    with pytest.raises(InputError, match="at least 1 cell"):
        staircase(ends, torch.ones(1, 3, dtype=torch.bool), 0)
