"""Integrated Hessians: closed forms, the paper's double integral, rows that are IG, and costs that follow the choice."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import pathlens as pl
from pathlens.errors import InputError, ModelError
from pathlens.integrand import Batch, Gradient, Hessian, RowSums, hessian
from pathlens.integrate.adaptive import Interval, nested_weights, refined
from pathlens.integrate.drive import Goal
from pathlens.integrate.interactions import LogWeight, interactions
from pathlens.integrate.loop import Job, run
from pathlens.integrate.memory import Limits, Planner
from pathlens.path.line import line
from pathlens.quadrature import rule
from pathlens.text.adapter import Request
from pathlens.text.load import load
from pathlens.types import Ends, Route
from tests.support import models
from tests.support.models import ARCHITECTURES, TEXTS
from tests.support.twins import hessians as twins


class Formula(nn.Module):
    """A table's function, in float64."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function
        self.anchor = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x):
        return self.function(x) + self.anchor


def wavy(seed: int = 0, width: int = 5) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 1)).double()


def row(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


# -- closed forms


@pytest.mark.parametrize(("n", "exact"), [(4, 1e-12), (None, 1e-9)])  # one Gauss rule, or placed nodes
def test_xor_polynomial(n, exact):
    xor = Formula(lambda x: x[:, 0] + x[:, 1] - 2 * x[:, 0] * x[:, 1])
    both = pl.explain(xor, row(1, 1), method="ih", n_steps=n)
    assert_allclose(both.matrix, [[0.5, -0.5], [-0.5, 0.5]], atol=exact)
    assert_allclose(both.scores, 0, atol=1e-12)
    one = pl.explain(xor, row(1, 0), method="ih", n_steps=n)
    assert one.matrix[0, 1] == one.matrix[1, 0] == 0
    assert_allclose(one.matrix[0, 0], 1)


@pytest.mark.parametrize("strength", [-3.0, 0.7])
def test_product_of_two_is_shared_in_quarters(strength):
    result = pl.explain(Formula(lambda x: strength * x[:, 0] * x[:, 2]), row(1, 5, 1), method="ih").matrix
    assert_allclose(result[np.ix_([0, 2], [0, 2])], strength / 4, rtol=1e-9)
    assert_allclose(result[1], 0, atol=1e-14)


def interactions_of(toy: pl.ToyModel, ends: Ends) -> torch.Tensor:
    """Closed form: off the diagonal δ_iᵀ H_ij δ_j / 4; on it the rest of IG_i."""
    matrix = torch.einsum("id,idje,je->ij", ends.delta, toy.hessian(len(ends.end)), ends.delta) / 4
    rest = toy.ig(ends.start, ends.end) - matrix.sum(1) + matrix.diagonal()
    return matrix - torch.diag(matrix.diagonal()) + torch.diag(rest)


@pytest.mark.parametrize("baseline", [None, "some other words", torch.full((4,), 0.3)], ids=["zero", "text", "tensor"])
@pytest.mark.parametrize("n", [None, 4])
def test_quadratic_toy_equals_its_closed_form(baseline, n):
    toy = pl.ToyModel()
    result = pl.explain(toy, "a few plain words here", method="ih", baseline=baseline, n_steps=n)
    ends = toy.case("a few plain words here", request=Request(baseline=baseline)).ends
    assert_allclose(result.matrix, interactions_of(toy, ends).numpy(), atol=1e-9)
    assert_allclose(result.scores, toy.ig(ends.start, ends.end).numpy(), atol=1e-12)
    assert result.certificate.converged


# -- the paper's formula


def test_equals_the_double_integral():
    net, x, b = wavy(), row(1, -2, 0.5, 1.5, -1), row(0.2, 0.1, 0, -0.3, 0)
    result = pl.explain(net, x, method="ih", baseline=b, tolerance=1e-8)
    score = lambda point: net(point.reshape(1, -1)).sum()  # noqa: E731
    literal = twins.integrated_hessians(score, b[:, None], x[:, None], nodes=20)
    assert_allclose(result.matrix, literal.numpy(), atol=1e-8)


def test_equals_every_second_derivative_of_a_transformer():
    model = load(models.classifier("bert"))
    case = model.case(TEXTS[1], request=Request())
    nodes = rule("log")(3)
    with model.quiet(), sdpa_kernel(SDPBackend.MATH):
        score = lambda point: case.score(point[None], [case])[0]  # noqa: E731
        literal = twins.single_integral(score, case.ends.start, case.ends.end, nodes.t, nodes.weight)
    result = pl.explain(model, TEXTS[1], method="ih", n_steps=3, tolerance=10.0)
    assert_allclose(result.matrix, literal.numpy(), atol=1e-5 * np.abs(literal.numpy()).max())


def test_the_published_grid_tends_to_the_same_and_slower():
    net, x, b = wavy(3, 2), row(1, -2), row(0, 0)
    score = lambda point: net(point.reshape(1, -1)).sum()  # noqa: E731
    exact = pl.explain(net, x, method="ih", tolerance=1e-8).matrix
    error = [
        np.abs(twins.published_estimate(score, b[:, None], x[:, None], k, end_points=ends).numpy() - exact).max()
        for k, ends in ((4, True), (16, True), (16, False))
    ]
    ours = np.abs(pl.explain(net, x, method="ih", n_steps=16).matrix - exact).max()
    assert error[0] > 3 * error[1] > 9 * error[2] and error[2] > 10 * ours


# -- where the nodes go


@pytest.mark.parametrize("level", range(6))
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.0, 0.09)])
def test_log_weights_from_zero_are_exact_for_polynomials(level, low, high):
    """∫₀ʰ −ln u · uᵈ du = h^(d+1)·(1/(d+1)² − ln h/(d+1)), up to a quarter of the 3n/2 that the nodes allow."""
    t, rows = nested_weights(0, level)
    weight = LogWeight().weigh(Interval(0, low, high, level), t, rows)[level]
    count = len(t)
    for degree in range(0 if count == 1 else (3 * count + 1) // 4 + 1):
        exact = high ** (degree + 1) * (1 / (degree + 1) ** 2 - np.log(high) / (degree + 1))
        assert_allclose(weight @ (high * t) ** degree, exact, rtol=1e-12)


def test_what_an_interval_must_sum_to_is_known_from_its_ends():
    net, x = wavy(), row(1, -2, 0.5, 1.5, -1)
    case = load(net).case(x, request=Request())
    job = Job(case, torch.eye(5, dtype=torch.float64), _interval_sums(case))
    run([job], Limits())
    for interval in job.result:
        assert_allclose(interval.value.sum(), interval.change, rtol=1e-6)


def _interval_sums(case):
    goal = Goal(1e-9, lambda value: torch.tensor(0.0), 400)
    first = [Interval(0, 0.0, 0.5, 2), Interval(0, 0.5, 1.0, 2)]
    return (yield from refined(line(case.ends), RowSums(), goal, first, LogWeight()))[1]


def test_a_narrow_feature_is_closed_in_on():
    """One Gauss rule for the whole line needs several times the nodes."""
    step = Formula(lambda x: torch.tanh(60 * (x.sum(1) - 0.7)) + x[:, 0] * x[:, 1])
    exact = pl.explain(step, row(1, 1), method="ih", tolerance=1e-7, max_nodes=4000).matrix
    placed = pl.explain(step, row(1, 1), method="ih")
    assert placed.certificate.converged and np.abs(placed.matrix - exact).max() < placed.certificate.bound
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = pl.explain(step, row(1, 1), method="ih", n_steps=placed.certificate.nodes)
    assert np.abs(whole.matrix - exact).max() > 3 * np.abs(placed.matrix - exact).max()


@pytest.mark.parametrize("n", [None, 24])
@pytest.mark.parametrize(("sharp", "where", "strength"), [(31.0, 1.37, 1.22), (32.0, 0.81, 9.87)])
def test_entries_that_cancel_in_their_row_are_not_called_settled(n, sharp, where, strength):
    """(x₁ − x₂)²·h(x₁ + x₂) adds to all four entries and to no row: row sums are exact long before the matrix."""
    hidden = Formula(
        lambda x: strength * (x[:, 0] - x[:, 1]) ** 2 * torch.tanh(sharp * (x.sum(1) - where)) + torch.tanh(x.sum(1))
    )
    u, weight = (rule("gauss")(2000).t, rule("gauss")(2000).weight)
    curve = -2 * np.tanh(2 * u) / np.cosh(2 * u) ** 2 - 2 * strength * np.tanh(sharp * (2 * u - where))
    exact = weight @ (-u * np.log(u) * curve)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = pl.explain(hidden, row(1, 1), method="ih", n_steps=n)
    off = abs(result.matrix[0, 1] - exact)
    assert off <= result.certificate.bound if n is None else not result.certificate.converged
    assert off <= max(result.certificate.error_estimate) + 1e-3 * abs(exact)


def test_a_gradient_is_not_needed_at_the_baseline():
    """√x₁·x₂: infinite at 0, where its weight u ln u is 0."""
    result = pl.explain(Formula(lambda x: x[:, 0].sqrt() * x[:, 1]), row(1, 1), method="ih")
    assert_allclose(result.matrix, [[1 / 9, 2 / 9], [2 / 9, 4 / 9]], atol=2 * result.certificate.bound)


# -- rows, symmetry, packing


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rows_are_ig_and_the_matrix_is_symmetric(architecture):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair = models.classifier(architecture)
        both = pl.explain(pair, TEXTS[1], method="ih", max_nodes=128, tolerance=1e-2)
        ig = pl.explain(pair, TEXTS[1], method="ig", tolerance=1e-4)
    scale = max(np.abs(both.matrix).max(), 1e-3)
    assert np.abs(both.matrix - both.matrix.T).max() < 2e-5 * scale and both.meta["asymmetry"] < 2e-5 * scale
    cert = both.certificate
    assert len(cert.rows) == len(both.tokens)
    assert_allclose(both.matrix.sum(1) - both.scores, 0, atol=max(cert.rows) + 1e-12)
    assert cert.gap == pytest.approx(abs(both.matrix.sum() - (cert.f_input - cert.f_baseline)), abs=1e-9)
    assert_allclose(both.scores, ig.scores, atol=0.01 * abs(cert.f_input - cert.f_baseline) + 1e-4)
    if cert.converged:
        assert max(*cert.rows, cert.gap) <= cert.bound


def test_a_row_gap_is_not_made_to_vanish():
    """With far too few nodes the rows miss IG, and the certificate says by how much."""
    with pytest.warns(pl.ConvergenceWarning):
        result = pl.explain(models.classifier("bert"), TEXTS[0], method="ih", n_steps=2)
    assert max(result.certificate.rows) > result.certificate.bound
    assert not result.certificate.converged


def test_packing_changes_nothing():
    pair = models.classifier("bert")
    together = pl.explain(pair, TEXTS, method="ih", n_steps=3, tolerance=10.0)
    for text, result in zip(TEXTS, together, strict=True):
        for extra in ({}, {"internal_batch_size": 2}, {"memory_budget": 1_500_000}):
            alone = pl.explain(pair, text, method="ih", n_steps=3, tolerance=10.0, **extra)
            assert_allclose(alone.matrix, result.matrix, atol=2e-6 * max(1, np.abs(result.matrix).max()))


def test_forward_and_reverse_give_the_same_in_any_room():
    net, torch_batch = wavy(), torch.Generator().manual_seed(1)
    position = torch.randn(3, 5, 1, generator=torch_batch, dtype=torch.float64)
    members = torch.eye(5)[None].expand(3, 5, 5)
    t = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)

    def batch(room: float) -> Batch:
        return Batch(lambda p: net(p[..., 0])[:, 0], position, position + 1, members, t, room)

    whole = Hessian(mode="forward")(batch(float("inf")))
    for other in (
        Hessian(mode="reverse")(batch(1.0)),
        Hessian(mode="forward")(batch(1.0)),
        Hessian((0, 3))(batch(1e9)),
    ):
        assert_allclose(other, whole if other.shape[1] == 5 else whole[:, [0, 3]], atol=1e-12)
    assert_allclose(RowSums()(batch(1.0)), whole.sum(2), atol=1e-12)


def test_a_long_text_keeps_one_direction_at_a_time(monkeypatch):
    """From LONG tokens on reverse mode is taken twice: the same matrix."""
    pair = models.classifier("bert")
    short = pl.explain(pair, TEXTS[0], method="ih", n_steps=3, tolerance=10.0)
    monkeypatch.setattr(hessian, "LONG", len(short.tokens))
    monkeypatch.setattr(hessian, "forward_over_reverse", None)  # it would fail
    long = pl.explain(pair, TEXTS[0], method="ih", n_steps=3, tolerance=10.0)
    assert_allclose(long.matrix, short.matrix, atol=2e-6 * max(1, np.abs(short.matrix).max()))


def test_memory_is_counted_with_the_attention_that_will_run():
    """Attention written out keeps S × S numbers that the fused kernel does not."""
    case = load(models.classifier("bert")).case(" ".join(TEXTS * 3), request=Request())
    planner = Planner(Limits(budget=1 << 40))
    assert planner.estimate(case, Hessian()) > planner.estimate(case, Gradient())


def test_units_are_sums_of_their_tokens():
    pair, spans = models.classifier("bert"), [(0, 9), (10, 30)]
    tokens = pl.explain(pair, TEXTS[0], method="ih", n_steps=16, tolerance=10.0)
    groups = pl.explain(pair, TEXTS[0], method="ih", n_steps=16, tolerance=10.0, unit=spans)
    inside = [
        [s[0] >= 0 and s[1] <= 9 and s[1] > 0 for s in tokens.offsets],
        [s[0] >= 10 and s[1] <= 30 for s in tokens.offsets],
    ]
    a, b = (np.flatnonzero(part) for part in inside)
    i, j = (groups.offsets.index(span) for span in spans)
    assert_allclose(groups.matrix[i, j], tokens.matrix[np.ix_(a, b)].sum(), atol=1e-5)
    assert_allclose(groups.matrix[i, i], tokens.matrix[np.ix_(a, a)].sum(), atol=1e-5)


@pytest.mark.parametrize("layer", [1, 3])
def test_at_a_layer_the_matrix_still_sums_to_the_change(layer):
    result = pl.explain(models.classifier("bert"), TEXTS[1], method="ih", layer=layer)
    assert result.certificate.converged and result.certificate.gap <= result.certificate.bound


def test_similarity_with_the_second_text_fixed():
    pair = models.encoder()
    result = pl.explain(pair, TEXTS[1], TEXTS[0], method="ih", tolerance=1e-2)
    ig = pl.explain(pair, TEXTS[1], TEXTS[0], method="ig", tolerance=1e-4)
    assert_allclose(result.matrix.sum(1), ig.scores, atol=2 * result.certificate.bound + 1e-4)


# -- expected Hessians


def test_expected_hessians_are_the_mean_and_their_rows_expected_gradients():
    net, x = wavy(), row(1, -2, 0.5, 1.5, -1)
    sample = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).double()
    together = pl.explain(net, x, method="ih", baseline=sample, tolerance=1e-6)
    each = [pl.explain(net, x, method="ih", baseline=b, tolerance=1e-6).matrix for b in sample]
    assert_allclose(together.matrix, np.mean(each, axis=0), atol=1e-12)
    assert_allclose(together.standard_error, np.std(each, axis=0, ddof=1) / np.sqrt(6), atol=1e-12)
    gradients = pl.explain(net, x, method="ig", baseline=sample, tolerance=1e-6)
    assert_allclose(together.matrix.sum(1), gradients.scores, atol=1e-5)
    assert together.certificate.gap < 1e-5 and max(together.certificate.rows) < 1e-5


# -- one row, some pairs


def test_one_feature_against_all_costs_one_row():
    net, x = wavy(width=5), row(1, -2, 0.5, 1.5, -1)
    whole = pl.explain(net, x, method="ih", n_steps=16)
    one = pl.explain(net, x, method="ih", n_steps=16, interaction_index=3)
    assert_allclose(one.matrix[3], whole.matrix[3], atol=1e-12)
    assert_allclose(one.matrix[:, 3], whole.matrix[3], atol=1e-12)
    assert np.isnan(one.matrix[0, 1]) and len(one.certificate.rows) == 1 and one.meta["rows"] == [3]
    ig_passes = pl.explain(net, x, method="ig", tolerance=2.5e-4).certificate.passes
    cost = (one.certificate.passes - ig_passes) / (whole.certificate.passes - ig_passes)
    assert cost < 0.3  # one product of five, and the gradient that both need
    assert np.isfinite([score for *_, score in one.top(3)]).all()


def test_a_unit_by_name_is_another_row_in_each_text_of_a_list():
    """Texts of one length, worked on together: each asks for a row of its own."""
    texts, pair = ["movie was good", "was it movie", "it was movie"], models.in_double(models.classifier("bert"))
    together = pl.explain(pair, texts, method="ih", n_steps=4, interaction_index="movie", tolerance=1)
    assert [result.meta["rows"] for result in together] == [[1], [3], [3]]
    for text, result in zip(texts, together, strict=True):
        alone = pl.explain(pair, text, method="ih", n_steps=4, interaction_index="movie", tolerance=1)
        assert_allclose(result.matrix, alone.matrix, atol=1e-9)


def test_pairs_take_the_fewest_rows_and_survive_saving(tmp_path):
    net, x = wavy(), row(1, -2, 0.5, 1.5, -1)
    whole = pl.explain(net, x, method="ih")
    some = pl.explain(net, x, method="ih", pairs=[("x0", "x4"), (4, 2), (1, 4)])
    assert some.meta["rows"] == [4]
    for i, j in ((0, 4), (4, 2), (1, 4)):
        assert some.matrix[i, j] == some.matrix[j, i] == pytest.approx(whole.matrix[i, j], abs=1e-6)
    again = pl.load(some.save(tmp_path / "some.json"))
    assert_allclose(again.matrix, some.matrix)


def test_a_held_token_costs_nothing_and_is_zero():
    result = pl.explain(models.classifier("bert"), TEXTS[1], method="ih", interaction_index=0)
    assert result.tokens[0] == "[CLS]" and (result.matrix[0] == 0).all()


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"interaction_index": 9}, "from 0 to 4"),
        ({"interaction_index": "nobody"}, "is not there"),
        ({"interaction_index": 1.5}, "got 1.5"),
        ({"interaction_index": []}, "is empty"),
        ({"pairs": []}, "at least one pair"),
        ({"pairs": 3}, "at least one pair"),
        ({"pairs": [(1, 2, 3)]}, "two units each"),
        ({"pairs": [(0, 1)], "interaction_index": 0}, "not both"),
        ({"rule": "gauss"}, "leave rule out"),
        ({"path": "udig"}, "straight line only"),
    ],
)
def test_bad_choices_say_what_to_do(choice, words):
    with pytest.raises(InputError, match=words):
        pl.explain(wavy(), row(1, 2, 3, 4, 5), method="ih", **choice)


def test_a_unit_may_be_a_number_of_numpy():
    net, x = wavy(), row(1, -2, 0.5, 1.5, -1)
    result = pl.explain(net, x, method="ih", interaction_index=np.int64(3))
    assert result.meta["rows"] == [3]


@pytest.mark.parametrize("most", [21, 40, 100])
def test_the_ceiling_holds_and_the_warning_names_ways_that_exist(most):
    step = Formula(lambda x: torch.tanh(300 * (x.sum(1) - 0.7)))
    with pytest.warns(pl.ConvergenceWarning, match="placed where they are needed") as seen:
        result = pl.explain(step, row(1, 1), method="ih", max_nodes=most, tolerance=1e-6)
    assert result.certificate.nodes <= most and not result.certificate.converged
    assert not any("split" in str(each.message) for each in seen)


def test_a_bent_path_is_refused():
    bent = Route.through(torch.randn(3, 2, 1))
    with pytest.raises(InputError, match="straight line"):
        next(interactions(bent, None, None))


def test_the_log_rule_is_nobodys_choice():
    for method in ("ig", "ih"):
        with pytest.raises(InputError, match="rule must be .* got 'log'"):
            pl.explain(wavy(), row(1, 2, 3, 4, 5), method=method, rule="log")


# -- operations without a second derivative; memory


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * slope


class OnceOnly(nn.Module):
    def forward(self, x):
        return _Once.apply(x)


@pytest.fixture(params=[1, 10**6], ids=["as long texts", "as short texts"])
def either_way_first(request, monkeypatch):
    """Long texts try reverse twice first, short ones forward over reverse."""
    monkeypatch.setattr(hessian, "LONG", request.param)


@pytest.mark.usefixtures("either_way_first")
@pytest.mark.parametrize("after", [nn.Tanh(), nn.Identity()])  # torch itself says nothing in the second case
def test_the_module_without_a_second_derivative_is_named(after):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Sequential(OnceOnly()), after, nn.Linear(4, 1))
    with pytest.raises(ModelError, match=r"OnceOnly \('2.0'\).*once_differentiable"):
        pl.explain(net, torch.ones(3), method="ih")
    pl.explain(net, torch.ones(3), method="ig")


class _NoForwardMode(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * slope


@pytest.mark.usefixtures("either_way_first")
def test_without_forward_mode_reverse_is_taken_twice():
    cube = Formula(lambda x: _NoForwardMode.apply(x.sum(1)))
    result = pl.explain(cube, row(1, 2), method="ih")
    assert_allclose(
        result.matrix, pl.explain(Formula(lambda x: x.sum(1) ** 3), row(1, 2), method="ih").matrix, atol=1e-9
    )


def test_more_units_than_memory_are_taken_in_chunks(monkeypatch):
    """Directions at once follow the budget down to one, and running out of memory all the same is survived."""
    seen = []
    real = hessian.forward_over_reverse

    def scarce(batch, directions):
        seen.append(min(hessian.directions_at_once(batch), len(directions)))
        if seen[-1] > 2 and len(directions) > 2:
            raise RuntimeError("CUDA out of memory")
        return real(batch, directions)

    pair = models.classifier("bert")
    plain = pl.explain(pair, TEXTS[2], method="ih", n_steps=4, tolerance=10.0)
    monkeypatch.setattr(hessian, "forward_over_reverse", scarce)
    tight = pl.explain(pair, TEXTS[2], method="ih", n_steps=4, tolerance=10.0, memory_budget=4_000_000)
    assert_allclose(tight.matrix, plain.matrix, atol=1e-5)
    assert max(seen) > 2 and min(seen) <= 2


def test_words_of_rows_that_were_all_asked_for_forget_the_tokens_rows(tmp_path):
    """Places and gaps of rows are the tokens': kept on words, showing and saving them failed."""
    text, choices = "Unbelievably unfunny.", {"method": "ih", "n_steps": 3, "tolerance": 1}
    tokens = pl.explain("sentiment", text, **choices)
    every = list(range(len(tokens.tokens)))
    asked = pl.explain("sentiment", text, interaction_index=every, **choices)
    assert asked.origin.rows == tuple(every) and len(asked.certificate.rows) == len(every)
    for words in (tokens.words(), asked.words()):
        assert 1 < len(words.tokens) < len(every) and not words.altered and words.certificate.rows == ()
        assert words.origin.rows is None and pl.load(words.save(tmp_path / "words.json")).altered == ""
        assert "rows within" not in words.to_html()
