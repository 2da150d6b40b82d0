"""Laws of the adaptive driver: nothing is evaluated twice, nodes go where the output moves, trust is bounded.

Token i's share is c_i(t) along the leg, its integral known in closed form; the output is the sum of the integrals.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.integrand import Batch, Coordinates, Gradient, Hessian, Outputs, Value
from pathlens.integrate import adaptive as driver
from pathlens.integrate.drive import Goal, covering, doubling, fixed, splitting
from pathlens.integrate.memory import Limits, Planner
from pathlens.path.staircase import staircase
from pathlens.text.adapter import Request
from pathlens.text.load import load
from pathlens.types import Ends, Route
from tests.support import models

LINE = Route.through(torch.tensor([0.0, 1.0])[:, None, None].expand(2, 2, 1))


def late(t: np.ndarray) -> np.ndarray:
    """The integrals up to t of three tokens' shares, (n, 3): all that happens is near t = 0.8."""
    rise = 1 / (1 + np.exp(-30 * (t - 0.8)))
    return np.stack([rise, 0.5 * rise**2, -0.3 * np.tanh(20 * (t - 0.75))], axis=1)


def early(t: np.ndarray) -> np.ndarray:
    return np.stack([np.tanh(5 * t), t**2, -0.5 * np.sin(3 * t)], axis=1)


def hidden(t: np.ndarray) -> np.ndarray:
    """Two tokens move early and cancel in the output, which rests until 0.8."""
    wave = np.sin(9 * t) * np.exp(-8 * t)
    return late(t) + np.stack([wave, -wave, 0 * t], axis=1)


class Run:
    """The driver on known integrals, and every place that it asked for."""

    def __init__(self, integrals, tolerance=1e-3, legs=1, known=False):
        self.asked, self.slopes = Counter(), 0
        corners = torch.linspace(0, 1, legs + 1)[:, None, None].expand(legs + 1, 3, 1)
        route = Route.through(corners)
        exact = integrals(np.ones(1))[0] - integrals(np.zeros(1))[0]
        outputs = [torch.tensor(integrals(np.array([t]))[0].sum()) for t in (0.0, 1.0)]
        ends = {0: outputs[0], legs: outputs[1]} if known else {}
        self.bound = tolerance * abs(exact.sum())
        goal = Goal(self.bound, lambda value: (value.sum() - exact.sum()).abs(), known=ends)
        work, answer = driver.adaptive(route, Gradient(), goal), None
        try:
            while True:
                ask = work.send(answer)
                t = (ask.points.leg + ask.points.t) / legs
                if isinstance(ask.integrand, Value):
                    self.asked.update(np.round(t, 12).tolist())
                    values = integrals(t).sum(1, keepdims=True)
                else:
                    self.slopes += len(t)
                    step = 1e-6
                    values = (integrals(t + step) - integrals(t - step)) / (2 * step) / legs
                answer = torch.from_numpy(ask.points.weight @ values)
        except StopIteration as end:
            self.result = end.value
        self.error = np.abs(self.result.value.numpy() - exact).max()


@pytest.mark.parametrize("legs", [1, 4])
@pytest.mark.parametrize("integrals", [early, late, hidden])
def test_no_output_is_asked_for_twice_and_known_ends_never(integrals, legs):
    run = Run(integrals, legs=legs, known=True)
    assert max(run.asked.values()) == 1 and not {0.0, 1.0} & set(run.asked)
    assert run.error <= run.bound and run.result.nodes == run.slopes


def test_nodes_go_where_the_output_moves(monkeypatch):
    placed = {tolerance: Run(late, tolerance) for tolerance in (1e-2, 1e-3, 1e-5)}
    assert all(run.error <= run.bound for run in placed.values())
    monkeypatch.setattr(driver, "REST", 0.0)
    assert placed[1e-3].slopes < 0.7 * Run(late).slopes


def test_a_part_where_only_the_sum_rests_is_refined_all_the_same():
    run = Run(hidden)
    assert run.error <= run.bound and max(run.result.error) <= run.bound


def test_an_estimate_is_taken_for_less_only_where_the_sum_is_known_to_be_better():
    def interval(sums: list[list[float]], change: float) -> driver.Interval:
        rows = torch.tensor(sums, dtype=torch.float64)
        change_of = torch.tensor(change, dtype=torch.float64)
        return driver.Interval(0, 0.0, 1.0, len(sums) - 1, change=change_of, sums=rows, calibrated=True)

    fast = [[1.0, 2.0], [1.5, 2.4], [1.52, 2.41]]  # steps shrink 25 times: one unit by 0.02, one by 0.01
    settled, missed = interval(fast, 3.93), interval(fast, 3.93 + 0.5)
    # a step is trusted to shrink ten times at most, and a sum that is known to be right to take a fifth of the estimate
    assert settled.cautious.tolist() == pytest.approx([0.1 * 0.02, 0.1 * 0.01])
    assert settled.error.tolist() == pytest.approx((0.2 * settled.cautious).tolist())
    assert missed.error.tolist() == pytest.approx(missed.cautious.tolist()) and missed.error.sum() == pytest.approx(0.5)
    slow = interval(
        [[1.0, 2.0], [1.5, 2.4], [1.9, 2.7]], 4.6
    )  # steps hardly shrink: a sum that is right proves nothing
    assert (slow.error >= 0.75 * slow.cautious).all() and (slow.error <= slow.cautious).all()


def answered(work, integrals):
    """A driver's end, its questions answered by integrals that are known, (n, 2) up to t; and every sum it was sent."""
    sums, answer = [], None
    try:
        while True:
            points = work.send(answer).points
            step = 1e-6
            slopes = (integrals(points.t + step) - integrals(points.t - step)) / (2 * step)
            answer = torch.from_numpy(points.weight @ slopes)
            sums.append(answer)
    except StopIteration as end:
        return end.value, sums


def two(t):
    return np.stack([np.exp(2 * t), np.sin(5 * t)], axis=1)


def free(gap: float = 0.0) -> Goal:
    """A goal that is never reached, and a gap of the total that is known to be there."""
    return Goal(0.0, lambda value: torch.tensor(gap, dtype=torch.float64), ceiling=100)


def test_an_estimate_by_doubling_is_what_the_last_doubling_changed():
    result, sums = answered(doubling(LINE, Gradient(), free(), name="midpoint"), two)
    last, before = sums[-1][0], sums[-2][0]
    assert result.error.tolist() == pytest.approx((last - before).abs().tolist(), rel=1e-12)


def test_an_estimate_of_given_nodes_is_the_coarser_rules_change_at_the_rate_it_shrinks():
    result, (rows,) = answered(fixed(LINE, Gradient(), free(), name="midpoint", n=27), two)
    fine, coarse, coarser = rows
    last, before = (fine - coarse).abs(), (coarse - coarser).abs()
    assert result.error.tolist() == pytest.approx((last * (last / before).clamp(0.1, 1.0)).tolist(), rel=1e-12)


@pytest.mark.parametrize("gap", [0.5, 3.0])
def test_estimates_cover_a_gap_that_is_known_to_be_there(gap):
    result, (rows,) = answered(fixed(LINE, Gradient(), free(gap), name="gauss", n=9), two)
    step = rows[0] - rows[1]
    assert float(result.error.sum()) >= gap * (1 - 1e-9)
    assert result.error.tolist() == pytest.approx((step.abs() * gap / abs(float(step.sum()))).tolist()), (
        "units that cancel"
    )
    assert covering(torch.zeros(4), gap).sum() == pytest.approx(gap), "also where nothing else was estimated"
    wide = torch.tensor([1.0, 7.0])
    assert torch.equal(covering(wide, gap), wide), "and nothing is added to estimates that cover it"


def test_a_staircases_estimate_remembers_the_halving_before():
    """Two staircases that share a kink alike do not move against each other: a quarter of the last move but one stands."""
    moves = iter([8.0, 4.0, 4.0])  # the share that each fineness finds

    def answer(work):
        value = work.send(None)
        while True:
            share = next(moves)
            total = torch.zeros(len(value.points.weight), 1, dtype=torch.float64)
            total[0], total[1] = share, -share
            value = work.send(total)

    goal = Goal(1.5, lambda value: torch.tensor(0.0), ceiling=100)
    ends = Ends(torch.zeros(2, 1), torch.ones(2, 1), torch.zeros(2, dtype=torch.bool))
    units = torch.eye(2, dtype=torch.bool)
    with pytest.raises(StopIteration) as end:
        answer(splitting(lambda cells: staircase(ends, units, cells), 2, goal))
    assert [round(error, 9) for _, _, error in end.value.value.history] == [8.0, 4.0, 1.0]


@pytest.mark.parametrize("context", ["full", "prefix"])
def test_sig_takes_a_pass_for_each_word_and_for_both_ends(context):
    result = pl.explain(pl.ToyModel(), "not really funny at all", method="sig", context=context)
    assert result.certificate.passes == len(result.tokens) + (2 if context == "full" else 1)


def test_laid_out_weights_are_part_of_the_budget():
    budget = 64 << 20
    limits = Limits(budget=budget)
    case = pl.ToyModel().case("a few words", request=Request())
    assert Planner(limits).budget(case) + limits.for_weights() == budget


def test_memory_is_counted_once_and_never_kept_half_counted():
    case = load(models.classifier("bert")).case("a few words", request=Request())
    counted = Limits().counted  # as an explainer keeps it from text to text
    tight, wide, again = (
        Planner(Limits(budget=budget, counted=counted)).estimate(case, Gradient())
        for budget in (1000, 1 << 30, 1 << 30)
    )
    assert tight <= 1000 < wide == again
    assert [count for count, _ in counted.values()] == [wide]


@pytest.mark.parametrize(
    "integrand", [Gradient(), Coordinates(), Outputs(1, "reverse"), Hessian(mode="reverse")], ids=str
)
def test_what_does_not_move_has_no_share_whatever_its_slope(integrand):
    """Two tokens and padding, whose length has no derivative: 0, and no second run is needed to find it out."""
    position = torch.tensor([[[3.0, 4.0], [1.0, 2.0], [0.0, 0.0]]])
    direction = position.clone()

    def score(rows):
        length = rows.pow(2).sum(-1).sqrt().sum(-1)
        return length[:, None, None] if isinstance(integrand, Outputs) else length

    members = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    value = integrand(Batch(score, position, direction, members, torch.ones(1)))
    units = value.sum(-1) if isinstance(integrand, Hessian | Coordinates) else value.flatten(1)
    assert units[0, :2].tolist() == pytest.approx([5.0, 5.0**0.5]) and units.isfinite().all()
