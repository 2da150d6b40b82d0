"""Softplus for ReLU: every way to call relu, for the explanation only, restored whatever happens."""

from __future__ import annotations

import math
from functools import partial
from threading import Thread

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN

import pathlens as pl
from pathlens.studies.nodes import softplus_curve
from pathlens.text.adapter import Request
from pathlens.text.load import load
from pathlens.text.softplus import kinks
from tests.support import models

FORMS = {
    "module": nn.ReLU(),
    "in place": nn.ReLU(inplace=True),
    "functional": functional.relu,
    "functional in place": lambda x: functional.relu(x.clone(), inplace=True),
    "torch": torch.relu,
    "torch_": lambda x: torch.relu_(x.clone()),
    "method": lambda x: x.relu(),
    "method_": lambda x: x.clone().relu_(),
    "hugging face": ACT2FN["relu"],
}


class Xor(nn.Module):
    """f = r(s) − 2r(s − 1), s = x₁ + x₂."""

    def __init__(self, relu=None) -> None:
        super().__init__()
        self.relu = relu or nn.ReLU()
        self.anchor = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x):
        s = x.sum(1)
        return self.relu(s + 0) - 2 * self.relu(s - 1) + self.anchor


ONE_ONE = torch.ones(2, dtype=torch.float64)


@pytest.mark.parametrize("way", FORMS)
def test_every_relu_is_replaced_inside_and_restored_outside(way):
    x = torch.linspace(-3, 3, 13, dtype=torch.float64)
    relu = FORMS[way]
    with pl.softplus(beta=4) as mode:
        inside = relu(x.clone())
    assert_allclose(inside, torch.log1p(torch.exp(4 * x)) / 4, rtol=1e-12)
    assert mode.count >= 1
    assert_allclose(relu(x.clone()), x.clamp(min=0))


@pytest.mark.parametrize(
    "relu", [torch.relu_, Tensor.relu_, partial(functional.relu, inplace=True), nn.ReLU(inplace=True)]
)
def test_in_place_also_what_was_passed_in_is_smoothed(relu):
    """A statement `x.relu_()` whose value nobody uses must not lose its nonlinearity."""
    weight = torch.linspace(-3, 3, 13, dtype=torch.float64).requires_grad_()
    with pl.softplus(beta=4):
        x = weight * 1
        relu(x)
        (slope,) = torch.autograd.grad(x.sum(), weight)
    assert_allclose(x.detach(), torch.log1p(torch.exp(4 * weight.detach())) / 4, rtol=1e-12)
    assert_allclose(slope, torch.sigmoid(4 * weight.detach()), rtol=1e-12)


def test_the_innermost_with_decides_and_other_threads_are_left_alone():
    seen = []
    with pl.softplus(beta=4):
        with pl.softplus(beta=1):
            inner = float(torch.relu(torch.zeros(1)))
        thread = Thread(target=lambda: seen.append(float(torch.relu(torch.zeros(1)))))
        thread.start()
        thread.join()
        outer = float(torch.relu(torch.zeros(1)))
    assert (inner, outer) == pytest.approx((math.log(2), math.log(2) / 4)) and seen == [0.0]


@pytest.mark.parametrize("beta", [np.float32(7), np.int64(7)])
def test_beta_may_be_a_number_of_numpy(beta):
    assert pl.softplus(beta=beta).beta == 7.0


def test_an_error_inside_restores():
    with pytest.raises(KeyError), pl.softplus(beta=4):
        raise KeyError
    assert torch.relu(torch.zeros(1)) == 0


@pytest.mark.parametrize("beta", [0, -1, float("nan"), float("inf"), "ten", True])
def test_beta_must_be_positive(beta):
    with pytest.raises(pl.InputError, match="positive β"):
        pl.softplus(beta=beta)
    with pytest.raises(pl.InputError, match="positive β|softplus must be a finite number or None"):
        pl.explain(Xor(), ONE_ONE, method="ih", softplus=beta)


@pytest.mark.parametrize(
    ("beta", "expected"),
    [(1, -0.068), (2, -0.141), (5, -0.255), (10, -0.298), (20, -0.318), (50, -0.333), (100, -0.338)],
)
def test_xor_tends_to_minus_half_ln_2(beta, expected):
    result = pl.explain(Xor(), ONE_ONE, method="ih", softplus=beta, tolerance=1e-4)
    assert result.matrix[0, 1] == pytest.approx(expected, abs=5e-4)
    assert abs(result.matrix[0, 1] + math.log(2) / 2) < 1 / beta
    assert result.certificate.converged


def test_xor_as_relu_loses_its_interaction_and_says_so():
    with pytest.warns(pl.CurvatureWarning, match=r"ReLU 'relu'.*softplus=10"), pytest.warns(pl.ConvergenceWarning):
        result = pl.explain(Xor(), ONE_ONE, method="ih", n_steps=64)
    assert result.matrix[0, 1] == 0
    assert_allclose(result.matrix.diagonal(), math.log(2), atol=0.02)
    assert result.certificate.gap == pytest.approx(2 * math.log(2), abs=0.04)
    assert not result.certificate.converged and any("piecewise" in note for note in result.meta["notes"])


def test_nodes_are_not_wasted_on_what_no_node_can_see():
    """More nodes find nothing in a kink: row sums, which are cheap, notice, and the matrix is taken once, at the first look."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    with pytest.warns(pl.CurvatureWarning), pytest.warns(pl.ConvergenceWarning):
        result = pl.explain(net, torch.ones(12), method="ih")
    assert result.certificate.nodes <= 64 and not result.certificate.converged
    assert result.meta["kinks"] == {"relu": ["ReLU '1'", "ReLU '3'"]}


def test_a_kink_that_does_not_matter_costs_no_accuracy():
    """A ReLU far from its kink beside a narrow smooth feature: nodes are still placed until it has settled."""

    class Both(Xor):
        def forward(self, x):
            return torch.tanh(60 * (x.sum(1) - 0.7)) + self.relu(x.sum(1) + 5) + self.anchor

    with pytest.warns(pl.CurvatureWarning):
        result = pl.explain(Both(), ONE_ONE, method="ih")
    assert result.certificate.converged and result.certificate.nodes > 28


def test_no_warning_where_there_is_no_kink(recwarn):
    pl.explain(nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 1)), torch.ones(2), method="ih", n_steps=16)
    with pl.softplus(beta=10):
        pl.explain(Xor(), ONE_ONE, method="ih")
    assert not [w for w in recwarn if issubclass(w.category, pl.CurvatureWarning)]


def test_inside_a_with_is_the_same_as_the_option():
    option = pl.explain(Xor(), ONE_ONE, method="ih", softplus=7.0)
    with pl.softplus(beta=7.0):
        inside = pl.explain(Xor(), ONE_ONE, method="ih")
    assert_allclose(option.matrix, inside.matrix, atol=1e-12)
    assert inside.meta["softplus"] == option.meta["softplus"] and option.meta["softplus"]["output"] == 0
    with pl.softplus(beta=1.0):  # the option is the innermost
        both = pl.explain(Xor(), ONE_ONE, method="ih", softplus=7.0)
    assert both.meta["softplus"] == option.meta["softplus"]


def output_change(function, inputs, beta):
    """f_β(x) − f(x): the error of smoothing, apart from that of integration."""
    with torch.no_grad():
        plain = function(inputs)
        with pl.softplus(beta):
            return function(inputs) - plain


def test_the_result_says_how_far_the_output_moved():
    result = pl.explain(Xor(), ONE_ONE, method="ih", softplus=2.0)
    report = result.meta["softplus"]
    moved = float(output_change(Xor(), ONE_ONE[None], beta=2.0))
    assert report["moved"] == pytest.approx(abs(moved)) and report["calls"] == 2
    assert report["output"] == 0 and result.certificate.f_input == pytest.approx(moved)
    assert any("for the explanation only" in note for note in result.meta["notes"])
    nothing = pl.explain(pl.ToyModel(), "two words", method="ih", softplus=2.0)
    assert any("no ReLU" in note for note in nothing.meta["notes"])


def test_transformers_built_in_layer_does_not_slip_away():
    """In evaluation mode torch runs its encoder layer as one fused call; smoothing must reach inside."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="relu").eval()
    x = torch.randn(1, 3, 8)
    assert float(output_change(layer, x, beta=1.0).abs().max()) > 1e-3


def test_kinks_are_named_with_their_module():
    case = load(nn.Sequential(nn.Linear(2, 3), nn.LeakyReLU(), nn.Linear(3, 2), nn.ReLU())).case(
        torch.ones(2), request=Request()
    )
    assert kinks(case) == {"leaky_relu": ("LeakyReLU '1'",), "relu": ("ReLU '3'",)}


@pytest.mark.parametrize("cut", [lambda x: x.clamp(min=0), lambda x: x.clamp_min(0.0)])
def test_relu_by_another_name_is_seen_and_a_guard_against_zero_is_not(cut):
    named = load(Xor(cut)).case(ONE_ONE, request=Request())
    assert list(kinks(named)) in (["clamp"], ["clamp_min"])
    guard = load(Xor(lambda x: x / x.clamp(min=1e-9))).case(ONE_ONE, request=Request())
    assert kinks(guard) == {}


def test_a_relu_transformer_is_smoothed_through_its_own_activation():
    import transformers as hf

    torch.manual_seed(3)
    model = models.sharpen(
        hf.AutoModelForSequenceClassification.from_config(models.config("bert", hidden_act="relu"))
    ).eval()
    pair = (model, models.tokenizer())
    with pytest.warns(pl.CurvatureWarning, match="relu in"):
        pl.explain(pair, "great !", method="ih", n_steps=4, tolerance=10.0)
    result = pl.explain(pair, "great !", method="ih", n_steps=4, tolerance=10.0, softplus=5.0)
    assert result.meta["softplus"]["calls"] == 3  # one for each block


def test_curve_falls_in_output_change_and_grows_in_nodes(tmp_path):
    curve = softplus_curve(Xor(), ONE_ONE, (2, 10, 50), path=tmp_path / "curve.png")
    moved, nodes = np.array([p.moved for p in curve]), [p.nodes for p in curve]
    assert (np.diff(moved) <= 0).all() and nodes == sorted(nodes) and nodes[0] < nodes[-1]
    assert (tmp_path / "curve.png").stat().st_size > 1000
    page = curve.to_html()
    assert "nodes" in page and f"{curve[0].moved:.1e}" in page and curve.to_dict()["points"][2]["beta"] == 50


def test_logarithmic_axes_are_labelled_in_numbers():
    """Text is drawn as it is, so the labels of a logarithmic axis must not be mathematics ($10^{1}$)."""
    from experiments import plots
    from pathlens.draw import canvas

    drawn = plots.curve([1, 10, 50], {"a": [0.2, 0.7, 4.0]})
    plots.logarithmic(drawn.axes[0], "x", "y")
    canvas.fit(drawn)
    drawn.canvas.draw()
    (axes,) = drawn.axes
    shown = [label.get_text() for label in axes.get_xticklabels(which="both")]
    shown += [label.get_text() for label in axes.get_yticklabels(which="both")]
    assert "10" in shown and "0.5" in shown and not any("$" in label for label in shown)
