"""Weights laid out once for a run: the same numbers, nothing kept, nothing taken where it does not pay."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import pathlens as pl
from pathlens.integrand import products
from pathlens.text.load import load

TEXTS = ["a film that is never dull", "hardly moving and not good", "a good plot with bad acting in it , really"]


@pytest.fixture
def at_once(monkeypatch):
    """Every weight is laid out at its first row."""
    monkeypatch.setattr(products, "WORTH", {False: 1, True: 1})


def plain(monkeypatch):
    monkeypatch.setattr(products, "available", lambda: False)


@pytest.mark.skipif(not products.available(), reason="no oneDNN: there is nothing to lay out")
class TestWhereItIsThere:
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("shape", [(3, 96), (2, 5, 96), (7, 2, 3, 96)])
    def test_product_and_slope_are_those_of_torch(self, at_once, bias, shape):
        torch.manual_seed(0)
        layer, x = nn.Linear(96, 80, bias=bias), torch.randn(shape, requires_grad=True)
        coefficient = torch.randn(*shape[:-1], 80)
        want = layer(x)
        (slope,) = torch.autograd.grad((want * coefficient).sum(), x)
        with products.kept_layouts():
            with products.kept_products():
                result = layer(x)
            (expected,) = torch.autograd.grad((result * coefficient).sum(), x)
            assert len(products.CURRENT.get().laid) == 2  # there and back: not the plain way after all
        torch.testing.assert_close(result, want, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(expected, slope, rtol=1e-5, atol=1e-5)

    def test_a_strided_slope_comes_back_right(self, at_once):
        torch.manual_seed(0)
        layer, x = nn.Linear(64, 64), torch.randn(3, 4, 64, requires_grad=True)
        coefficient = torch.randn(3, 64, 4)
        (slope,) = torch.autograd.grad((layer(x).transpose(1, 2) * coefficient).sum(), x)
        with products.kept_layouts():
            with products.kept_products():
                result = layer(x).transpose(1, 2)
            (expected,) = torch.autograd.grad((result * coefficient).sum(), x)
        torch.testing.assert_close(expected, slope, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("method", ["ig", "sig", "split"])
    def test_scores_are_those_of_plain_products(self, at_once, monkeypatch, method):
        options = {"rule": "split", "n_steps": 4} if method == "split" else {"method": method}
        options |= {"n_steps": 24} if method == "ig" else {}
        fast = pl.explain("sentiment", TEXTS, **options)
        plain(monkeypatch)
        slow = pl.explain("sentiment", TEXTS, **options)
        for one, other in zip(fast, slow, strict=True):
            size = abs(other.scores).max()
            assert abs(one.scores - other.scores).max() <= 1e-5 * size
            assert one.target == other.target

    def test_pairs_are_those_of_plain_products(self, at_once, monkeypatch):
        fast = pl.explain("minilm", TEXTS[0], TEXTS[1], layer=4, n_steps=4)
        plain(monkeypatch)
        slow = pl.explain("minilm", TEXTS[0], TEXTS[1], layer=4, n_steps=4)
        assert abs(fast.full_matrix - slow.full_matrix).max() <= 1e-5

    def test_a_weight_that_changed_between_two_runs_counts_as_it_is_now(self, at_once):
        """Also one changed behind torch's back, through `.data`, which bumps no version."""
        model = load("sentiment")
        weight = model.module.bert.encoder.layer[2].output.dense.weight
        before = weight.detach().clone()
        try:
            first = pl.explain(model, TEXTS[0], n_steps=8)
            weight.data.mul_(0.5)
            second = pl.explain(model, TEXTS[0], n_steps=8)
        finally:
            weight.data.copy_(before)
        third = pl.explain(model, TEXTS[0], n_steps=8)
        assert abs(second.scores - first.scores).max() > 1e-2
        assert abs(third.scores - first.scores).max() < 1e-5

    def test_laid_out_once_enough_rows_have_met_it(self, monkeypatch):
        monkeypatch.setattr(products, "WORTH", {False: 10, True: 10})
        layer, x = nn.Linear(64, 64), torch.randn(4, 64)
        with products.kept_layouts():
            layouts = products.CURRENT.get()
            assert [layouts.find(layer.weight, x) is not None for _ in range(4)] == [False, False, True, True]
        assert products.CURRENT.get() is None

    def test_a_run_inside_another_is_a_part_of_it(self, at_once):
        layer, x = nn.Linear(64, 64), torch.randn(4, 64)
        with products.kept_layouts():
            layouts = products.CURRENT.get()
            with products.kept_layouts():
                layouts.find(layer.weight, x)
            assert products.CURRENT.get() is layouts and layouts.laid
        assert products.CURRENT.get() is None

    def test_classes_at_both_ends_come_by_what_is_laid_out(self, at_once):
        """Two passes of the model, and a short text has few others."""
        model = load("sentiment")
        explainer = pl.Explainer(model)
        explainer(TEXTS)  # the first of a kind are held against the model itself
        with products.kept_layouts():
            read = explainer.read([(text, None) for text in TEXTS])
            assert products.CURRENT.get().laid
        with products.kept_layouts():
            model.says([each.cases[0] for each in read])
            assert products.CURRENT.get().laid

    def test_no_more_than_the_room(self, at_once):
        first, second = nn.Linear(64, 64), nn.Linear(64, 64)
        x = torch.randn(2, 64)
        with products.kept_layouts(first.weight.nbytes):
            layouts = products.CURRENT.get()
            assert layouts.find(first.weight, x) is not None
            assert layouts.find(second.weight, x) is None
            assert torch.equal(
                products.linear(x, second.weight, second.bias), functional.linear(x, second.weight, second.bias)
            )

    def test_what_does_not_fit_is_left_alone(self, at_once):
        fitting = nn.Linear(64, 64)
        with products.kept_layouts():
            layouts = products.CURRENT.get()
            assert layouts.find(nn.Linear(8, 64).weight, torch.randn(2, 8)) is None  # too small
            assert layouts.find(fitting.weight.double(), torch.randn(2, 64).double()) is None
            assert layouts.find(fitting.weight * 1.0, torch.randn(2, 64)) is None  # made in the forward pass
            assert not layouts.laid

    def test_a_compiled_model_still_explains(self, at_once):
        """torch.compile looks into what runs inside it."""
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 2)).eval()
        x = torch.randn(3, 64)
        want = pl.explain(net, list(x), target=1)
        result = pl.explain(torch.compile(net, backend="eager"), list(x), target=1)
        for one, other in zip(result, want, strict=True):
            assert abs(one.scores - other.scores).max() <= 1e-5


def test_without_it_nothing_changes(monkeypatch):
    plain(monkeypatch)
    with products.kept_layouts():
        assert products.CURRENT.get() is None
        layer, x = nn.Linear(64, 64), torch.randn(2, 64)
        with products.kept_products():
            assert torch.equal(layer(x), functional.linear(x, layer.weight, layer.bias))


def test_a_sum_over_a_vocabulary_keeps_its_digits():
    """One long sum in float32 loses 6e-5 of its terms' sizes here; pieces lose what a short sum loses."""
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(50_000, 64) + 3)
    slope = -torch.softmax(3 * torch.randn(2, 50_000), -1)
    slope[:, 7] += 1
    exact, sizes = slope.double() @ weight.double(), slope.double().abs() @ weight.double().abs()
    assert float(((products.pulled(slope, weight) - exact).abs() / sizes).max()) < 1e-5
