"""Laws of the rules: they integrate their weight function, and what they say they do, to the stated degree.

Then a bank of integrals with exact answers: every rule falls at its order, no faster claimed and no slower.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pathlens.errors import InputError
from pathlens.quadrature import allocate, coarse, gauss, left, log_weight, midpoint, right, rule, trapezoid
from pathlens.quadrature.nested import COUNTS, new_nodes, weights
from pathlens.types import FIXED_RULES, Nodes

NAMES = (*FIXED_RULES, "log")  # for ∫ f, and for ∫ −ln u f
counts = st.one_of(st.integers(1, 48), st.sampled_from([64, 127, 128, 255, 256, 511, 512]))


def nested_rule(level: int) -> Nodes:
    return Nodes(np.concatenate([new_nodes(l) for l in range(level + 1)]), weights(level))


def apply(nodes: Nodes, f) -> float:
    return float(nodes.weight @ f(nodes.t))


def legendre(t: np.ndarray, degree: int) -> np.ndarray:
    """P_k(2t − 1), k = 0 … degree, one row each: of size 1 at any degree, where powers of t fade away."""
    return np.polynomial.legendre.legvander(2 * t - 1, degree).T


# -- law 1: weights sum to the integral of the weight function; exact to the stated degree


@given(st.sampled_from(NAMES), counts)
@settings(deadline=None, max_examples=60)
def test_weights_sum_to_one_and_nodes_lie_on_the_leg(name, n):
    nodes = rule(name)(n)
    assert len(nodes) == n == len(nodes.weight)
    assert nodes.t.dtype == nodes.weight.dtype == np.float64
    assert abs(nodes.weight.sum() - 1) < 2e-15 * max(1, np.sqrt(n))
    assert (nodes.weight > 0).all()
    assert nodes.t.min() >= 0 and nodes.t.max() <= 1
    assert (np.diff(nodes.t) > 0).all()


@pytest.mark.parametrize("name", ["midpoint", "trapezoid", "gauss"])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 101, 512])
def test_symmetric_rules_are_symmetric(name, n):
    nodes = rule(name)(n)
    assert_allclose(nodes.t, 1 - nodes.t[::-1], atol=1e-15)
    assert_allclose(nodes.weight, nodes.weight[::-1], rtol=1e-9, atol=1e-16)


@pytest.mark.parametrize("n", [1, 2, 5, 16, 64, 200, 512])
def test_gauss_is_exact_to_degree_2n_minus_1_and_no_further(n):
    moments = legendre(gauss(n).t, 2 * n) @ gauss(n).weight
    assert_allclose(moments[:-1], np.eye(1, 2 * n)[0], atol=1e-13)
    assert abs(moments[-1]) > 1e-4


@pytest.mark.parametrize("n", [1, 2, 5, 16, 64, 200, 512])
def test_log_rule_is_exact_to_degree_2n_minus_1_and_no_further(n):
    nodes = log_weight(n)
    k = np.arange(1, 2 * n + 1)
    exact = np.concatenate([[1.0], (-1.0) ** k / (k * (k + 1))])  # ∫ −ln u P_k(2u − 1) du
    moments = legendre(nodes.t, 2 * n) @ nodes.weight
    assert_allclose(moments[:-1], exact[:-1], atol=1e-13)
    assert abs(moments[-1] - exact[-1]) > 1e-7


@pytest.mark.parametrize("n", [1, 3, 32, 512])
def test_log_rule_moments(n):
    nodes = log_weight(n)
    k = np.arange(2 * n)
    powers = nodes.t ** k[:, None]
    assert_allclose(powers @ nodes.weight, 1 / (k + 1) ** 2, rtol=1e-12)
    # The same nodes with w·u serve −u ln u; its integral is ¼.
    assert_allclose(powers[:-1] @ (nodes.weight * nodes.t), 1 / (k[:-1] + 2) ** 2, rtol=1e-12)
    assert_allclose((nodes.weight * nodes.t).sum(), 0.25, rtol=1e-14)


def test_log_rule_known_digits():
    """Two nodes by hand: the zeros of the monic quadratic orthogonal to 1 and u under −ln u."""
    assert_allclose(log_weight(2).t, (15 + np.array([-1, 1]) * np.sqrt(106)) / 42, rtol=1e-14)


@pytest.mark.parametrize("level", range(len(COUNTS)))
def test_nested_rules(level):
    n = COUNTS[level]
    nodes = nested_rule(level)
    assert len(nodes) == len(nodes.weight) == n == 2 ** (level + 1) - 1
    assert (nodes.weight > 0).all() and abs(nodes.weight.sum() - 1) < 2e-15
    order = np.argsort(nodes.t)
    t, weight = nodes.t[order], nodes.weight[order]
    assert t[0] > 0 and t[-1] < 1 and (np.diff(t) > 0).all()
    assert_allclose(t, 1 - t[::-1], atol=2e-16)
    assert_allclose(weight, weight[::-1], rtol=1e-11)
    degree = 1 if level == 0 else (3 * n + 1) // 2
    moments = legendre(t, degree) @ weight
    assert_allclose(moments, np.eye(1, degree + 1)[0], atol=1e-13)


@pytest.mark.parametrize("level", range(1, len(COUNTS)))
def test_new_nodes_fall_between_the_old_ones(level):
    """One new node in each gap and one before each end: a level keeps the n nodes below it and adds n + 1."""
    old = np.sort(nested_rule(level - 1).t)
    assert_allclose(np.searchsorted(old, new_nodes(level)), np.arange(len(old) + 1))


def test_nested_level_beyond_its_degree_is_not_exact():
    """Patterson's 15 nodes stop at degree 23 (odd degrees are free by symmetry)."""
    nodes = nested_rule(3)
    assert abs((legendre(nodes.t, 24) @ nodes.weight)[24]) > 1e-4


def test_patterson_published_digits():
    """Patterson, Math. Comp. 22 (1968): outermost nodes of the 7- and 15-point rules, and a weight."""
    assert_allclose(2 * new_nodes(2)[-1] - 1, 0.960491268708020283, rtol=1e-15)
    assert_allclose(2 * new_nodes(3)[-1] - 1, 0.993831963212755022, rtol=1e-15)
    assert_allclose(2 * weights(2)[-1], 0.104656226026467265, rtol=1e-15)


# -- the bank: integrals with exact answers


def lorentz(middle, width):
    return (
        lambda t: width / ((t - middle) ** 2 + width**2),
        np.arctan((1 - middle) / width) + np.arctan(middle / width),
    )


BANK = {
    "exp": (np.exp, np.e - 1),
    "oscillating": (lambda t: np.cos(20 * t), np.sin(20) / 20),
    "lorentzian": lorentz(0.4, 0.15),
    "tanh": (lambda t: 1 / np.cosh(5 * (t - 0.3)) ** 2, (np.tanh(3.5) + np.tanh(1.5)) / 5),
    "near the start": (lambda t: 1 / (t + 0.05), np.log(21)),
}
KINK = (lambda t: np.abs(t - 1 / 3), 5 / 18)
NARROW = lorentz(1 / np.sqrt(7), 1e-3)


def error(nodes: Nodes, problem) -> float:
    f, exact = problem
    return abs(apply(nodes, f) - exact)


@pytest.mark.parametrize("problem", BANK)
@pytest.mark.parametrize(("name", "order"), [("left", 1), ("right", 1), ("midpoint", 2), ("trapezoid", 2)])
def test_riemann_rules_fall_at_their_order(problem, name, order):
    coarser, finer = (error(rule(name)(cells + (name == "trapezoid")), BANK[problem]) for cells in (400, 800))
    assert np.log2(coarser / finer) == pytest.approx(order, abs=0.05)


@pytest.mark.parametrize("problem", BANK)
def test_gauss_and_nested_rules_converge_geometrically(problem):
    assert error(gauss(16), BANK[problem]) < 1e-3
    assert error(gauss(64), BANK[problem]) < 1e-13
    errors = [error(nested_rule(level), BANK[problem]) for level in (2, 3, 4, 5)]
    assert errors[-1] < 1e-13
    assert all(later < max(before / 10, 1e-14) for before, later in pairwise(errors))


def test_a_kink_costs_every_rule_its_high_order():
    """The error may jump between counts with where the kink falls, so compare worst cases over a window."""
    for name in ("midpoint", "trapezoid", "gauss"):
        few, many = (max(error(rule(name)(n), KINK) for n in range(m, m + 6)) for m in (16, 128))
        assert 8**1.4 < few / many < 8**2.6  # second order
        assert many > 1e-8
    assert 1e-6 < error(nested_rule(5), KINK) < 1e-3


def test_a_feature_narrower_than_the_gaps_is_missed():
    """Width 0.001: 63 nodes see nothing of it, and 511 are not enough. The reason for halving intervals."""
    for nodes in (gauss(63), nested_rule(5)):
        assert error(nodes, NARROW) > 0.1 * NARROW[1]
    assert error(gauss(512), NARROW) > 1e-3 * NARROW[1]


# -- the −ln u rule where it is used: Integrated Hessians of the XOR net


def xor_total(nodes: Nodes, beta: float) -> tuple[float, float]:
    """ΣΓ and Γ₁₂ at (1,1) from (0,0) for f = r(s) − 2r(s − 1), s = x₁ + x₂, r = softplus_β.

    On the line s = 2u: ΣΓ = ∫ (−u ln u) 4f''(2u) du + ∫ (−ln u) 2f'(2u) du, Γ₁₂ = ∫ (−u ln u) f''(2u) du.
    """
    s = 2 * nodes.t
    on, off = (0.5 * (1 + np.tanh(beta * x / 2)) for x in (s, s - 1))
    first = on - 2 * off
    second = beta * (on * (1 - on) - 2 * off * (1 - off))
    weighted = nodes.weight * nodes.t
    return float(weighted @ (4 * second) + nodes.weight @ (2 * first)), float(weighted @ second)


def xor_change(beta: float) -> float:
    def softplus(x):
        return np.logaddexp(0, beta * x) / beta

    return float(softplus(2.0) - 2 * softplus(1.0) - softplus(0.0) + 2 * softplus(-1.0))


def squared_gauss(n: int) -> Nodes:
    """The opponent: u = v², Gauss–Legendre in v, −ln u folded into the weights."""
    nodes = gauss(n)
    return Nodes(nodes.t**2, -4 * nodes.weight * nodes.t * np.log(nodes.t))


def test_xor_completeness_with_log_nodes():
    exact = xor_change(10)
    ours = [abs(xor_total(log_weight(n), 10)[0] - exact) for n in (16, 32, 64)]
    assert 1e-4 < ours[0] < 1e-3 and 1e-8 < ours[1] < 1e-7 and ours[2] < 1e-13
    opponent = [abs(xor_total(squared_gauss(n), 10)[0] - exact) for n in (16, 32, 64)]
    assert_allclose(opponent, [2e-4, 1.4e-5, 6e-8], rtol=0.1)
    assert abs(xor_total(log_weight(128), 50)[0] - xor_change(50)) < 1e-5


def test_xor_interaction_tends_to_minus_half_ln_2():
    published = {1: -0.068, 2: -0.141, 5: -0.255, 10: -0.298, 20: -0.318, 50: -0.333, 100: -0.338}
    for beta, value in published.items():
        assert xor_total(log_weight(256), beta)[1] == pytest.approx(value, abs=6e-4)
    assert -np.log(2) / 2 < xor_total(log_weight(512), 200)[1] < published[100]


# -- a coarser estimate from the same nodes


@given(st.sampled_from(NAMES), counts)
@settings(deadline=None, max_examples=60)
def test_coarse_weights_sum_to_one_and_do_not_explode(name, n):
    nodes = rule(name)(n)
    weight = coarse(nodes, name)
    assert weight.shape == (n,)
    if n == 1:
        assert not weight.any()
        return
    assert abs(weight.sum() - 1) < 1e-12
    assert np.abs(weight).sum() < 1.01
    assert not np.allclose(weight, nodes.weight)
    assert np.count_nonzero(weight) <= (n + 2) // 2 if n > 4 else np.count_nonzero(weight) < n


@pytest.mark.parametrize("n", [2, 3, 8, 9, 64, 255, 512])
def test_coarse_gauss_and_log_are_interpolatory(n):
    degree = n // 2 - 1
    k = np.arange(degree + 1)
    for name, exact in (("gauss", 1 / (k + 1)), ("log", 1 / (k + 1) ** 2)):
        nodes = rule(name)(n)
        assert_allclose((nodes.t ** k[:, None]) @ coarse(nodes, name), exact, rtol=1e-11)


@pytest.mark.parametrize(("name", "fine", "few"), [("left", 24, 12), ("right", 24, 12), ("midpoint", 24, 8)])
def test_coarse_riemann_is_the_same_rule_on_wider_cells(name, fine, few):
    nodes, wide = rule(name)(fine), rule(name)(few)
    weight = coarse(nodes, name)
    used = weight > 0
    assert_allclose(nodes.t[used], wide.t)
    assert_allclose(weight[used], wide.weight)


def test_coarse_trapezoid_is_the_trapezoid_on_wider_cells():
    nodes, wide = trapezoid(25), trapezoid(13)
    weight = coarse(nodes, "trapezoid")
    assert_allclose(nodes.t[weight > 0], wide.t)
    assert_allclose(weight[weight > 0], wide.weight)


@given(st.sampled_from(["midpoint", "trapezoid", "gauss"]), st.integers(3, 100))
@settings(deadline=None, max_examples=60)
def test_coarse_integrates_a_straight_line(name, n):
    """Whatever the count leaves over, a straight line stays exact (one used node in the middle, or two)."""
    nodes = rule(name)(n)
    assert coarse(nodes, name) @ nodes.t == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("problem", BANK)
@pytest.mark.parametrize("name", FIXED_RULES)
def test_coarse_difference_covers_the_error(problem, name):
    """Where f is resolved. With fewer nodes the two errors of left and right can cancel by luck."""
    f, _ = BANK[problem]
    for n in (32, 33, 64) if name == "gauss" else (300, 301, 302):
        nodes = rule(name)(n)
        estimate = abs((nodes.weight - coarse(nodes, name)) @ f(nodes.t))
        true = error(nodes, BANK[problem])
        assert estimate > true / 2 or true < 1e-13


# -- names, and sharing nodes among legs


@pytest.mark.parametrize("n", [1, 2, 5, 32])
def test_left_and_right_take_the_end_of_each_cell_they_are_named_by(n):
    """Of a rising function one is below its integral, the other above, each by half a cell."""
    assert left(n).weight @ left(n).t == pytest.approx(0.5 - 0.5 / n, abs=1e-12) and left(n).t[0] == 0
    assert right(n).weight @ right(n).t == pytest.approx(0.5 + 0.5 / n, abs=1e-12) and right(n).t[-1] == 1


def test_unknown_names_are_answered_with_the_choices():
    with pytest.raises(InputError, match=r"simpson.*left, right, midpoint, trapezoid, gauss, log"):
        rule("simpson")


def test_changing_an_answer_does_not_change_the_next_one():
    for make in (gauss, log_weight, midpoint, trapezoid):
        make(5).t[:] = 7
        make(5).weight[:] = 7
        assert make(5).t.max() <= 1 and make(5).weight.max() < 1
    for level in (0, 3):
        new_nodes(level)[:] = 7
        weights(level)[:] = 7
        assert new_nodes(level).max() < 1 and weights(level).sum() == pytest.approx(1)


@given(st.integers(1, 400), st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_allocate(n, lengths):
    share = np.array(lengths)
    share = share / share.sum() if share.sum() > 1e-200 else np.zeros(len(share))
    given_nodes = allocate(n, share)
    assert given_nodes.min() >= 1
    assert given_nodes.sum() == max(n, len(share))
    order = np.argsort(share, kind="stable")
    longer = share[order][1:] > share[order][:-1]
    assert (np.diff(given_nodes[order])[longer] >= 0).all()  # a longer leg never gets fewer


def test_allocate_in_proportion():
    assert allocate(10, np.array([0.5, 0.3, 0.2])).tolist() == [5, 3, 2]
    assert allocate(10, np.array([0.96, 0.01, 0.01, 0.02])).tolist() == [7, 1, 1, 1]
    assert allocate(2, np.array([0.2, 0.3, 0.5])).tolist() == [1, 1, 1]
    assert allocate(9, np.zeros(3)).tolist() == [3, 3, 3]
    assert allocate(64, np.array([1.0])).tolist() == [64]
