"""Whatever a module is written of: exact between both runs, forwards and backwards, or an error that names the operation.

Never another number: both ends are the model's own, and no error of another library comes through.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import pathlens as pl
from pathlens.errors import SecantError
from pathlens.integrand.secant.both import RULES, Both
from pathlens.integrand.secant.table import named
from pathlens.text.load import load

D = torch.float64


class _Module(nn.Module):
    """Two linear readings of the input, (B, 4, 6) each, and what is made of them, read out after tanh."""

    def __init__(self, function, dtype=D) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.function = function
        self.one, self.other = nn.Linear(6, 6, dtype=dtype), nn.Linear(6, 6, dtype=dtype)
        self.last = nn.Linear(6, 3, dtype=dtype)
        self.recurrent = nn.ModuleDict(
            {
                "lstm": nn.LSTM(6, 6, 2, batch_first=True, bidirectional=True, proj_size=3, dtype=dtype),
                "gru": nn.GRU(6, 3, batch_first=True, bidirectional=True, dtype=dtype),
                "rnn": nn.RNN(6, 6, bias=False, dtype=dtype),
            }
        )
        self.requires_grad_(False)

    def forward(self, x):
        made = self.function(self, self.one(x), self.other(x))
        return torch.tanh(self.last(made.reshape(len(x), -1, 6))).mean(1)


def packed(net, h, name="gru", lengths=(3, 2, 4)):
    """Three texts of different lengths, as pack_padded_sequence lays them."""
    texts = torch.cat([h, h.flip(1), h * 2])
    data = nn.utils.rnn.pack_padded_sequence(texts, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    out = nn.utils.rnn.pad_packed_sequence(net.recurrent[name](data)[0], batch_first=True)[0]
    return out.reshape(len(h), -1, 6)


def norm_to(h):
    return h.pow(2).mean(-1, keepdim=True).add(1.0)


def changed_root(net, h, g):
    n = norm_to(h).sqrt()
    r = n.reciprocal()
    n.add_(1.0)
    return h * r + n


def part_of_root(net, h, g):
    r = 1 / norm_to(h).sqrt()
    r[:, 0].fill_(0.5)
    return h * r


def view_of_root(net, h, g):
    r = torch.rsqrt(norm_to(h))
    r.view(-1).mul_(3.0)
    return h * r


def clamped_root(net, h, g):
    r = torch.rsqrt(norm_to(h))
    r.squeeze(-1).clamp_(max=0.8)
    return h * r


def through(alias, write=torch.Tensor.sigmoid_):
    def function(net, h, g):
        write(alias(h))
        return h

    return function


def _complex(h, g):
    return torch.complex(h, g)


EXACT = {
    "root, its number changed since": changed_root,
    "root, part of it changed since": part_of_root,
    "root, a view of it changed since": view_of_root,
    "root, clamped through a view": clamped_root,
    "alias by to": through(lambda h: h.to(h.dtype)),
    "alias by expand": through(lambda h: h.expand(-1, -1, -1)),
    "alias by diagonal": through(lambda h: h.diagonal(dim1=1, dim2=2), torch.Tensor.tanh_),
    "alias by transpose": through(lambda h: h.transpose(1, 2), lambda v: v[:, 0].exp_()),
    "alias of an alias": through(lambda h: h.to(h.dtype)[:, 1:].mT, lambda v: v.mul_(3).tanh_()),
    "strided within": lambda net, h, g: h[:, 1:].as_strided((len(h), 2, 6), (24, 6, 1)) * 2,
    "lstm": lambda net, h, g: net.recurrent["lstm"](h)[0],
    "gru": lambda net, h, g: net.recurrent["gru"](h)[0] + net.recurrent["gru"](h[0])[1].sum(),
    "rnn": lambda net, h, g: net.recurrent["rnn"](h)[0],
    "packed gru": lambda net, h, g: packed(net, h),
    "packed lstm": lambda net, h, g: packed(net, h, "lstm"),
    "cdist": lambda net, h, g: torch.cdist(h, g) @ h,
    "cdist, sizes": lambda net, h, g: torch.cdist(h, g, p=1.0) @ h,
    "weighted bag": lambda net, h, g: functional.embedding_bag(
        torch.arange(6).expand(4 * len(h), -1), net.one.weight, per_sample_weights=h.reshape(-1, 6), mode="sum"
    ),
    "index_reduce": lambda net, h, g: h.index_reduce(1, torch.tensor([0, 0, 1, 2]), g, "prod"),
    "fft, size": lambda net, h, g: torch.fft.fft(h, dim=1).abs(),
    "fft, power": lambda net, h, g: (lambda z: (z * z.conj()).real)(torch.fft.fft(h, dim=1)),
    "fft, product": lambda net, h, g: torch.fft.ifft(torch.fft.fft(h, dim=1) * torch.fft.fft(g, dim=1), dim=1).real,
    "complex product": lambda net, h, g: (_complex(h, g) * _complex(g, h * 2)).real,
    "complex square": lambda net, h, g: (_complex(h, g) ** 2).imag,
    "complex quotient": lambda net, h, g: (_complex(h, g) / (_complex(g, h) + 3)).real,
    "complex product of matrices": lambda net, h, g: ((z := _complex(h, g)) @ z.mH @ z).real,
    "complex and real": lambda net, h, g: torch.view_as_real(_complex(h, g) * torch.sigmoid(h)).sum(-1),
    "complex gate": lambda net, h, g: (lambda z: (z * torch.sigmoid(z.abs())).real)(_complex(h, g)),
    "complex functions": lambda net, h, g: (torch.exp(_complex(h, g)) + torch.tanh(_complex(h, g))).real,
    "polar": lambda net, h, g: (lambda z: z.real + z.imag)(torch.polar(torch.exp(h), g)),
    "near one, acos": lambda net, h, g: torch.acos(1 - 1e-3 * torch.sigmoid(h)) * 30,
    "near one, acosh": lambda net, h, g: torch.acosh(1 + 1e-3 * torch.sigmoid(h)) * 30,
    "near one, atanh": lambda net, h, g: torch.atanh(1 - 2e-3 * torch.sigmoid(h)),
    "near one, log": lambda net, h, g: torch.log1p(-1 + 1e-2 * torch.sigmoid(h)),
    "steep softplus": lambda net, h, g: functional.softplus(h * 1e-4, beta=1e4) * 1e4,
    "steep power": lambda net, h, g: 1e8 ** (h * 0.02),
    "matmul by names": lambda net, h, g: torch.matmul(input=h, other=g.mT) @ h,
    "mul by names": lambda net, h, g: torch.mul(input=h, other=g),
    "add by names": lambda net, h, g: torch.add(input=h, other=g, alpha=2),
    "clamp by names": lambda net, h, g: torch.clamp(input=h, min=-0.2, max=0.3),
    "softmax by names": lambda net, h, g: torch.softmax(input=h, dim=-1),
    "exp by names": lambda net, h, g: torch.exp(input=h),
    "power by names": lambda net, h, g: torch.pow(input=h, exponent=3) + torch.pow(self=2.0, exponent=g),
    "addmv by names": lambda net, h, g: torch.addmv(input=h[0, 0], mat=g[0].mT @ g[0], vec=h[0, 1]).expand(len(h), -1),
    "where by names": lambda net, h, g: torch.where(condition=torch.ones(4, 6).bool().tril(), input=h, other=g),
    "cross": lambda net, h, g: torch.cat([torch.cross(h[..., :3], g[..., :3], -1), h[..., 3:]], -1),
    "type by place": lambda net, h, g: torch.softmax(h, -1, torch.float64) * torch.log_softmax(g, -1, torch.float64),
    "torch.layer_norm": lambda net, h, g: torch.layer_norm(h, (6,), None, None, 1e-5, False),
    "torch.batch_norm": lambda net, h, g: (
        torch.batch_norm(
            h.mT, None, None, torch.full((6,), 0.1, dtype=D), torch.full((6,), 2.0, dtype=D), False, 0.1, 1e-5, False
        ).mT
    ),
    "native layer norm": lambda net, h, g: sum(torch.native_layer_norm(h, (6,), None, None, 1e-5)[::2]),
    "norm of a transposed": lambda net, h, g: functional.layer_norm(h.mT, (4,)).view(len(h), -1, 6),
    "instance norm": lambda net, h, g: (
        functional.instance_norm(h.mT).mT.tanh()
        + torch.instance_norm(g, None, None, None, None, True, 0.1, 1e-5, False)
    ),
    "attention, one row of mask": lambda net, h, g: functional.scaled_dot_product_attention(
        h, g, h, attn_mask=torch.tensor([True, True, False, True])
    ),
    "attention, groups and a mask that moves": lambda net, h, g: functional.scaled_dot_product_attention(
        torch.stack([h, g, h, g * 2], 1),
        torch.stack([g, h], 1),
        torch.stack([h, g], 1),
        attn_mask=(h @ g.mT)[:, None],
        enable_gqa=True,
    ).mean(1),
    "hypot": lambda net, h, g: torch.hypot(h, g),
    "median": lambda net, h, g: h + h.median(-1, keepdim=True).values,
    "kth value": lambda net, h, g: h * torch.kthvalue(h, 3, -1, keepdim=True).values,
    "running maximum": lambda net, h, g: h.cummax(1).values,
    "quantile": lambda net, h, g: h - torch.quantile(h, 0.3, dim=1, keepdim=True),
    "scattered maximum": lambda net, h, g: h.scatter_reduce(1, torch.zeros(h.shape, dtype=torch.int64), g, "amax"),
    "leaky_relu_": lambda net, h, g: functional.leaky_relu_(h, 0.2) + torch.celu_(g),
    "threshold without a jump": lambda net, h, g: functional.threshold(h, 0.1, 0.1),
    "inverse of a matrix": lambda net, h, g: h @ (h.mT @ h + torch.eye(6, dtype=D)).inverse(),
}
REFUSED = {
    "as_strided": lambda net, h, g: h.as_strided((len(h), 3, 6), (24, 6, 1), 6),
    "as_strided ": lambda net, h, g: h[:, :2].as_strided((len(h), 4, 6), (24, 6, 1)),
    "scatter": lambda net, h, g: h.scatter(1, torch.zeros(h.shape, dtype=torch.int64), g, reduce="multiply"),
    "data": lambda net, h, g: setattr(h, "data", torch.tanh(h.data)) or h,
    "numpy": lambda net, h, g: h + torch.from_numpy(h.detach().numpy()),
    "threshold": lambda net, h, g: functional.threshold(h, 0.1, 20.0),
    "fmod": lambda net, h, g: torch.fmod(h, 0.3),
    "unique": lambda net, h, g: h * h.unique().sum(),
    "gather": lambda net, h, g: h + torch.gather(h * 2, -1, h.median(-1, keepdim=True).indices),
    "both ends": lambda net, h, g: scripted(h) + g,
    "matmul": lambda net, h, g: torch.matmul(h, g.mT, wrong=1) if isinstance(h, Both) else h,
}


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * x


def points(dtype=D) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(4, 6, dtype=dtype), torch.randn(4, 6, dtype=dtype) * 0.5


@pytest.mark.parametrize("name", EXACT)
def test_a_module_is_followed_exactly(name):
    net, (x, b) = _Module(EXACT[name]), points()
    scores = pl.explain(net, x, baseline=b, method="secant", target=1, check=False)
    vectors = pl.explain(net, x, baseline=b, method="secant", gives="vectors", check=False)
    with torch.no_grad():
        last, first = (net(each.clone()[None])[0].numpy() for each in (x, b))
    assert (scores.certificate.f_input, scores.certificate.f_baseline) == pytest.approx((last[1], first[1]), abs=1e-12)
    assert np.abs(last - first).max() > 1e-4, "nothing moved"
    assert scores.scores.sum() == pytest.approx(last[1] - first[1], abs=1e-12)
    assert vectors.vectors.sum(1)[0] == pytest.approx(last - first, abs=1e-12)
    largest = np.abs(scores.scores).max()
    assert vectors.vectors[0, :, 1] == pytest.approx(scores.scores, abs=1e-11 * max(1.0, largest))


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("gives", ["scores", "vectors"])
def test_what_cannot_be_followed_is_refused_by_name(name, gives):
    net, (x, b) = _Module(REFUSED[name]), points()
    with pytest.raises(SecantError, match=rf"{name.strip()}.*method='(ig|sig)'") as refused:
        pl.explain(net, x, baseline=b, method="secant", gives=gives, check=False)
    assert "\n" not in str(refused.value)


class _Read(nn.Module):
    """A linear reading of the input, (B, 6), one operation, and its entries weighted."""

    def __init__(self, function, dtype) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.function, self.reading = function, nn.Linear(6, 6, dtype=dtype)

    def forward(self, x):
        made = self.function(self.reading(x))
        return made @ torch.linspace(0.5, 1.5, made.shape[-1], dtype=made.dtype)


def apart(h):
    """Some entries move by far more than others, and than the one in the middle."""
    return h * torch.tensor([30.0, -20.0, 0.01, 0.01, -30.0, 20.0], dtype=h.dtype)


CONTINUOUS = {  # without a rule, with kinks, or with a derivative that torch knows to ten digits alone
    "median": lambda h: apart(h).median(-1, keepdim=True).values,
    "nanmedian": lambda h: apart(h).nanmedian(-1, keepdim=True).values,
    "kthvalue": lambda h: apart(h).kthvalue(4, -1, keepdim=True).values,
    "quantile": lambda h: apart(h).quantile(0.5, dim=-1, keepdim=True),
    "digamma": lambda h: torch.digamma(2 + h * h),
    "digamma of exp": lambda h: torch.digamma(h.exp()),
    "scaled bessel": torch.special.i0e,
}


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype, close", [(D, 1e-8), (torch.float32, 1e-5)], ids=["float64", "float32"])
def test_what_is_continuous_is_followed_whatever_the_points(name, dtype, close):
    """A kink leaves its slope times the width of the last piece, however small the output is beside what moves."""
    net = _Read(CONTINUOUS[name], dtype)
    for seed in range(8):
        torch.manual_seed(seed)
        x, b = torch.randn(2, 6, dtype=dtype)
        result = pl.explain(net, x, baseline=b, method="secant", check=False)
        assert result.certificate.relative_gap < close, seed


JUMPS = {
    "remainder": lambda h: torch.remainder(h, 0.3),
    "frac": lambda h: torch.frac(3 * h),
    "small beside what moves": lambda h: 100 * h.median(-1, keepdim=True).values + 1e-3 * torch.remainder(h, 0.3),
    "a pole of one sign": lambda h: torch.polygamma(1, 2 * h),
    "a pole of both": lambda h: torch.tan(3 * h),
}


@pytest.mark.parametrize("name", JUMPS)
@pytest.mark.parametrize("dtype", [D, torch.float32], ids=["float64", "float32"])
def test_what_jumps_is_refused_whatever_the_points(name, dtype):
    net = _Read(JUMPS[name], dtype)
    for seed in range(2):
        torch.manual_seed(seed)
        x, b = torch.randn(2, 6, dtype=dtype)
        with pytest.raises(SecantError, match="secants cannot follow it|jumps"):
            pl.explain(net, x, baseline=b, method="secant", check=False)


def test_an_operation_without_forward_mode_has_scores_and_says_that_it_has_no_vectors():
    def segments(net, h, g):
        return torch.segment_reduce(h[0], "mean", lengths=torch.tensor([2, 2])).repeat(2, 1) + g

    net, (x, b) = _Module(segments), points()
    result = pl.explain(net, x, baseline=b, method="secant", target=1)
    with torch.no_grad():
        assert result.scores.sum() == pytest.approx(float((net(x[None]) - net(b[None]))[0, 1]), abs=1e-12)
    with pytest.raises(SecantError, match="segment_reduce.*method='vaig'"):
        pl.explain(net, x, baseline=b, method="secant", gives="vectors")


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn", "packed gru", "cdist", "weighted bag"])
def test_kernels_of_float32_are_followed_too(name):
    """Torch's fused ones have no forward mode there."""
    net, (x, b) = _Module(EXACT[name], torch.float32), points(torch.float32)
    result = pl.explain(net, x, baseline=b, method="secant", target=1)
    assert result.certificate.converged and result.scores.any()
    exactly = pl.explain(copy.deepcopy(net).double(), x.double(), baseline=b.double(), method="secant", target=1)
    assert result.scores == pytest.approx(exactly.scores, abs=2e-6)


class _Elementwise(nn.Module):
    def __init__(self, function, dtype) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.ones(1, dtype=dtype))

    def forward(self, x):
        return self.function(x).sum(-1) * self.weight


SINGULAR = {  # function, from, to: close to a place where its scale is far below 1
    "log1p": (lambda p: torch.log1p(-p), [0.9, 0.95, 0.93], [0.97, 0.999, 0.9999]),
    "log": (lambda p: torch.log(1 - p), [0.9, 0.95, 0.93], [0.97, 0.999, 0.9999]),
    "acos": (torch.acos, [0.95, 0.96, 0.97], [0.9999, 1 - 1e-6, 0.99999]),
    "asin": (torch.asin, [0.95, 0.96, 0.97], [0.9999, 1 - 1e-6, 0.99999]),
    "atanh": (torch.atanh, [0.95, 0.96, 0.97], [0.9999, 0.99999, 0.99999]),
    "acosh": (torch.acosh, [1.0001, 1.00001, 1.000001], [1.05, 1.06, 1.07]),
    "softplus": (lambda p: functional.softplus(p, beta=1000), [-0.03, -0.03, -0.02], [0.03, 0.04, 0.02]),
    "power of": (lambda p: 1e8**p, [0.0, 0.01, 0.02], [0.07, 0.07, 0.08]),
    "power": (lambda p: p**0.3, [0.0, 1e-6, 0.02], [0.03, 0.07, 0.08]),
}


@pytest.mark.parametrize("gives", ["scores", "vectors"])
@pytest.mark.parametrize("dtype, close", [(torch.float32, 2e-6), (D, 1e-14)], ids=["float32", "float64"])
@pytest.mark.parametrize("name", SINGULAR)
def test_near_a_singularity_each_number_has_its_own_change(name, dtype, close, gives):
    f, start, end = SINGULAR[name]
    b, x = torch.tensor(start, dtype=dtype), torch.tensor(end, dtype=dtype)
    result = pl.explain(_Elementwise(f, dtype), x, baseline=b, method="secant", gives=gives, check=False)
    parts = result.scores if gives == "scores" else result.vectors[0, :, 0]
    assert parts == pytest.approx((f(x.double()) - f(b.double())).numpy(), rel=close, abs=close)


def test_values_that_are_nearly_equal_keep_their_derivative():
    """The difference of two values has no digits left there; a mean of the derivative has them all."""
    x0 = torch.linspace(-4, 4, 101)
    for f in (functional.gelu, torch.tanh, functional.silu, torch.sigmoid):
        for step in (0.0, 1e-6, 1e-4):
            out = f(Both(x0, x0 + step, torch.ones(1, len(x0))))
            centre = (x0.double() + step / 2).requires_grad_()
            (slope,) = torch.autograd.grad(f(centre).sum(), centre)
            assert float((out.change[0] - slope).abs().max()) < 3e-6


class _Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.inner, self.rows = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)), 0

    def forward(self, x):
        self.rows += 0 if isinstance(x, Both) else len(x)
        return self.inner(x)


@pytest.mark.parametrize("choices", [{}, {"target": [0, 1]}, {"gives": "vectors"}], ids=str)
def test_the_first_of_every_kind_is_held_against_the_model_itself(choices, monkeypatch):
    """A rule that is wrong: both numbers are shown, each time, until a text comes through right."""
    model, x = load(_Counted()), torch.randn(6)

    def rows() -> int:
        before = model.module.rows
        pl.explain(model, x, method="secant", check=False, **choices)
        return model.module.rows - before

    rule = RULES[torch.tanh]

    def wrong(*args, **more):
        made = rule(*args, **more)
        made.start.add_(0.1)
        return made

    for each in named("tanh"):
        monkeypatch.setitem(RULES, each, wrong)
    for _ in range(2):
        with pytest.raises(SecantError, match=r"the model itself gives .* followed one by one .*method='ig'"):
            rows()
    monkeypatch.undo()
    first = rows()
    assert first == rows() + 2, "one plain pass of both ends, for the first alone"


def test_compiled_modules_run_as_they_were_written():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2)).double()
    x, b = (each[0] for each in points())
    compiled = nn.Sequential(torch.compile(net[:2], backend="eager"), net[2])
    for module in (compiled, torch.compile(net, backend="eager")):
        result = pl.explain(module, x, baseline=b, method="secant", target=0)
        wanted = pl.explain(net, x, baseline=b, method="secant", target=0)
        assert result.scores == pytest.approx(wanted.scores, abs=1e-13)
        assert result.certificate.converged and result.scores.any()


def test_what_does_not_settle_is_advised_what_secants_take():
    net, (x, b) = _Module(lambda net, h, g: (1e6 * h + g) - 1e6 * h, torch.float32), points(torch.float32)
    with pytest.warns(pl.ConvergenceWarning, match=r"float64.*baseline.*method='ig'") as caught:
        pl.explain(net, x, baseline=b, method="secant", gives="vectors", check=False)
    assert not any("max_nodes" in str(each.message) or "n_steps" in str(each.message) for each in caught)
