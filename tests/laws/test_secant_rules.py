"""Each operation's mean derivative: exact between its two values, the same forwards and backwards, and equal to the
operation's own line integral where the rule is that integral."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.func import jvp
from torch.nn import functional

from pathlens.errors import SecantError
from pathlens.integrand.secant import elementwise, own_line, watching_integrated
from pathlens.integrand.secant.both import AFFINE, RULES, Both
from pathlens.integrand.secant.table import named
from pathlens.quadrature import gauss
from tests.support.twins.secants import line_integral

S, D = 5, 6


def draw(seed: int, *shape: int, positive: bool = False, low: float = 0.3) -> Tensor:
    torch.manual_seed(seed)
    x = torch.randn(shape or (3, S, D), dtype=torch.float64)
    return x.abs() + low if positive else x


def unary(names: str, homes=(torch, functional)) -> list:
    return named(names, homes)


POSITIVE = {"log", "log2", "log10", "log1p", "reciprocal", "sqrt", "rsqrt", "acosh", "pow"}
BOUNDED = {"acos", "asin", "atanh"}
WITH = {
    "clamp": (-0.5, 0.5),
    "clip": (-0.5, 0.5),
    "clamp_min": (0.1,),
    "clamp_max": (0.1,),
    "threshold": (0.2, 0.2),
    "_threshold": (0.2, 0.2),
}
PER_CHANNEL = {"prelu": lambda f: lambda x: f(x, torch.linspace(0.1, 0.4, S, dtype=x.dtype))}


def elementwise_cases():
    for kind, names in (("smooth", elementwise.SMOOTH), ("scaled", elementwise.SCALED), ("kinked", elementwise.KINKED)):
        for f in unary(names):
            name = f.__name__
            if name in PER_CHANNEL:
                f = PER_CHANNEL[name](f)
            elif name in WITH:
                f = lambda x, f=f, more=WITH[name]: f(x, *more)  # noqa: E731
            yield pytest.param(f, name, id=f"{kind}-{name}")


def ends_for(name: str) -> tuple[Tensor, Tensor]:
    if name in BOUNDED:
        return torch.tanh(draw(1)) * 0.9, torch.tanh(draw(2)) * 0.9
    positive = name in POSITIVE
    shift = 1.0 if name == "acosh" else 0.0
    x0, x1 = draw(1, positive=positive) + shift, draw(2, positive=positive) + shift
    x1[0, 0] = x0[0, 0]  # nothing moves
    x1[0, 1] = x0[0, 1] + 1e-7  # hardly anything
    x1[0, 2] = x0[0, 2] + 3e-4
    return x0, x1


def forward(f, x0s, x1s, changes):
    """J̄·v for each of the given changes (U, …)."""
    with torch.no_grad():
        return f(*(Both(a, b, v) for a, b, v in zip(x0s, x1s, changes, strict=True)))


def backward(f, x0s, x1s, slope):
    leaves = [x.clone().requires_grad_() for x in x1s]
    out = f(*(Both(a, leaf.clone()) for a, leaf in zip(x0s, leaves, strict=True)))
    return out, torch.autograd.grad(out.end, leaves, slope, allow_unused=True)


def check(f, x0s, x1s, *, integral: bool, close: float = 1e-11):
    """Both values, exactness, forward against backward, and the slow twin."""
    deltas = [b - a for a, b in zip(x0s, x1s, strict=True)]
    torch.manual_seed(7)
    some = [torch.randn_like(d) for d in deltas]
    units = [
        torch.stack([d, v, d - v]) for d, v in zip(deltas, some, strict=True)
    ]  # the whole change, a part, the rest
    with torch.no_grad():
        y0, y1 = f(*x0s), f(*x1s)
    out = forward(f, x0s, x1s, units)
    assert torch.equal(torch.isfinite(out.start), torch.isfinite(y0))
    scale = max(1.0, float(y0.abs().max()), float(y1.abs().max()))
    assert torch.allclose(out.start, y0, atol=1e-14 * scale, rtol=1e-13) and torch.allclose(
        out.end, y1, atol=1e-14 * scale
    )
    whole, part, rest = out.change
    assert float((whole - (y1 - y0)).abs().max()) <= close * scale, "J̄·Δin is not Δout"
    assert torch.allclose(part + rest, whole, atol=1e-9 * scale), "not linear"
    slope = torch.randn_like(y1)
    back, pulled = backward(f, x0s, x1s, slope)
    assert torch.allclose(back.end.detach(), y1, atol=1e-14 * scale)
    inner = sum(float((g * v).sum()) for g, v in zip(pulled, some, strict=True) if g is not None)
    assert inner == pytest.approx(float((slope * part).sum()), rel=1e-9, abs=1e-9 * scale)
    if integral:
        twin = line_integral(f, x0s, x1s, some)
        assert float((twin - part).abs().max()) <= max(close, 1e-8) * scale, "not the operation's own line integral"


@pytest.mark.parametrize("f, name", elementwise_cases())
def test_elementwise_functions_are_their_own_line_integral(f, name):
    x0, x1 = ends_for(name)
    kinked = name.lstrip("_") in elementwise.KINKED.split()
    check(f, [x0], [x1], integral=not kinked)
    if kinked:  # Gauss nodes do not see a kink: share of the way instead, by many midpoints
        some = torch.ones_like(x0)
        twin = line_integral(f, [x0], [x1], [some], midpoints=1500)
        out = forward(f, [x0], [x1], [some[None]])
        moved = (x1 - x0).abs() > 1e-3
        assert float((twin - out.change[0])[moved].abs().max()) < 2e-3


MASK = torch.tensor([[False, True, True, True, True]])


def masked(x: Tensor) -> Tensor:
    return torch.softmax(x.masked_fill(~MASK[..., None], -math.inf), 1)


def by_hand(x: Tensor) -> Tensor:
    """RMSNorm as model code writes it."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def layer_norm_by_hand(x: Tensor) -> Tensor:
    u = x - x.mean(-1, keepdim=True)
    return u / torch.sqrt(u.pow(2).mean(-1, keepdim=True) + 1e-12)


def std_by_hand(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)


WEIGHT = draw(3, D, D)
DRAWN_APART = 10 * torch.arange(D, dtype=torch.float64)  # the same entries are the largest in both runs
torch.manual_seed(5)
RECURRENT = (
    torch.nn.RNN(D, 4, 2, nonlinearity="relu", batch_first=True, bidirectional=True).double().requires_grad_(False)
)
CELL = torch.nn.RNNCell(D, 4, nonlinearity="relu").double().requires_grad_(False)
CASES = {  # name -> (function, how many inputs move, is it the operation's own line integral?)
    "linear": (lambda x: functional.linear(x, WEIGHT, WEIGHT[0]), 1, True),
    "sum": (lambda x: x.sum(1), 1, True),
    "index": (lambda x: x[:, [0, 2], 1:], 1, True),
    "cat": (lambda x, y: torch.cat([x, y], 1), 2, True),
    "fft": (lambda x: torch.fft.fftn(x, dim=(1, 2)).real, 1, True),
    "product": (torch.mul, 2, True),
    "product with a row": (lambda x, y: x * y[:, :1], 2, True),
    "matmul": (lambda x, y: x @ y.mT, 2, True),
    "einsum": (lambda x, y: torch.einsum("bid,bjd->bij", x, y), 2, True),
    "addmm": (lambda x, y: torch.baddbmm(x[:, :, :S], x, y.mT, beta=0.5, alpha=2.0), 2, True),
    "square": (lambda x: x**2, 1, True),
    "cube": (lambda x: x**3, 1, True),
    "fifth power": (lambda x: x.pow(5), 1, True),
    "of a constant": (lambda x: 2.0**x, 1, True),
    "exp": (torch.exp, 1, True),
    "quotient": (lambda x, y: x / (1 + y * y), 2, False),
    "softmax": (lambda x: torch.softmax(x, -1), 1, False),
    "softmax of large numbers": (lambda x: torch.softmax(60 * x, -1), 1, False),
    "masked softmax": (masked, 1, False),
    "log-softmax": (lambda x: torch.log_softmax(x, 1), 1, False),
    "log-sum-exp": (lambda x: torch.logsumexp(x, -1), 1, False),
    "layer norm": (lambda x: functional.layer_norm(x, (D,), WEIGHT[0], WEIGHT[1]), 1, False),
    "layer norm of two dimensions": (lambda x: functional.layer_norm(x, (S, D)), 1, False),
    "rms norm": (lambda x: functional.rms_norm(x, (D,), WEIGHT[0]), 1, False),
    "rms norm by hand": (by_hand, 1, False),
    "layer norm by hand": (layer_norm_by_hand, 1, False),
    "norm by its deviation": (std_by_hand, 1, False),
    "group norm": (lambda x: functional.group_norm(x.mT, 3, WEIGHT[0], WEIGHT[1]), 1, False),
    "normalize": (lambda x: functional.normalize(x, dim=-1), 1, False),
    "length": (lambda x: torch.linalg.vector_norm(x, dim=-1), 1, False),
    "cosine": (lambda x, y: functional.cosine_similarity(x, y, dim=-1), 2, False),
    "variance": (lambda x: x.var(-1, unbiased=False), 1, True),
    "glu": (lambda x: functional.glu(x, -1), 1, False),
    "maximum": (torch.maximum, 2, False),
    "minimum": (torch.minimum, 2, False),
    "largest": (lambda x: x.max(1).values if not isinstance(x, Both) else torch.max(x, 1)[0], 1, False),
    "smallest": (lambda x: x.amin(-1), 1, False),
    "smallest of a dimension": (lambda x: torch.min(x, 1)[0] + x.min(dim=1, keepdim=True)[0], 1, False),
    "both extremes": (lambda x: x.aminmax(dim=1)[0] * torch.aminmax(x)[1], 1, False),
    "largest of two dimensions": (lambda x: x.amax((0, 2), keepdim=True) * x.amin((0, -1)), 1, False),
    "largest of what is not masked": (lambda x: x.masked_fill(~MASK[..., None], -math.inf).amax(1), 1, False),
    "max pooling": (lambda x: functional.max_pool1d(x.mT, 2), 1, False),
    "max pooling, with all its options": (
        lambda x: torch.max_pool1d(x, 3, 2, 1, ceil_mode=True).sum() + functional.max_pool2d(x, (2, 3), 1, 1, (2, 1)),
        1,
        False,
    ),
    "max pooling and its places": (
        lambda x: functional.max_pool1d(x + DRAWN_APART, 2, return_indices=True)[0],
        1,
        False,
    ),
    "adaptive max pooling": (
        lambda x: functional.adaptive_max_pool1d(x.mT, 2).sum() + functional.adaptive_max_pool2d(x[:, None], (3, 4)),
        1,
        False,
    ),
    "a recurrent network of ReLU": (lambda x: RECURRENT(x)[0] + RECURRENT(x)[1].sum(), 1, False),
    "a cell of ReLU": (lambda x: CELL(x[0]), 1, False),
    "without its gradient": (lambda x: x.data * x.detach(), 1, False),
    "attention": (lambda q, k, v: functional.scaled_dot_product_attention(q, k, v), 3, False),
    "causal attention": (lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True), 3, False),
    "masked attention": (
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=MASK, scale=0.7),
        3,
        False,
    ),
    "convolution": (lambda x: functional.conv1d(x.mT, WEIGHT[:, :, None].expand(-1, -1, 3), padding=1), 1, True),
    "running product": (lambda x: torch.cumprod(x, 1), 1, True),  # has no rule: integrated along its own line
    "in place": (lambda x: _in_place(x), 1, False),
    "into a blank": (lambda x: _into_a_blank(x), 1, True),
    "into views of a blank": (lambda x: _into_views(x), 1, True),
    "a blank times": (lambda x: torch.full((3, S, D), 2.0, dtype=torch.float64).mT.mul_(x.mT), 1, True),
}


def _in_place(x: Tensor) -> Tensor:
    y = x * 1.0
    y[:, 0] = 0.0
    y[:, 1] += x[:, 2]
    y[:, 3:].mul_(2.0)
    y.tanh_()
    y *= x
    return y


def _into_a_blank(x: Tensor) -> Tensor:
    blank = torch.zeros(3, S, D, dtype=torch.float64)
    blank[:, 1:] = x[:, :-1]
    blank.index_add_(1, torch.tensor([0, 0]), x[:, 3:])
    return blank * 1.0


def _into_views(x: Tensor) -> Tensor:
    blank = torch.zeros(D, S, 3, dtype=torch.float64).permute(2, 1, 0)
    rest, all_of_it = blank[:, 3:], torch.zeros(3 * S, D, dtype=torch.float64).view(-1)
    blank[:, :2].copy_(x[:, :2])
    blank[0].add_(x[1])  # another view, of what has two values by now
    all_of_it.index_add_(0, torch.arange(x.numel()), 2 * x.reshape(-1))
    rest.sub_(x[:, 3:])  # made before anything was written
    return torch.cat([blank[:, 1:], x * 0 + all_of_it.view(3, S, D), 1.0 * x[:, 3:] + rest], 1)


@pytest.mark.parametrize("name", CASES)
def test_an_operation_is_exact_between_its_two_values(name):
    f, count, integral = CASES[name]
    check(f, [draw(10 + i) for i in range(count)], [draw(20 + i) for i in range(count)], integral=integral, close=1e-10)


def test_maxima_are_shared_by_the_way_each_entry_leads():
    x0, x1 = draw(1), draw(2)
    out = forward(
        lambda x: x.amax(-1), [x0], [x1], [torch.eye(D, dtype=torch.float64)[:, None, None].expand(D, 3, S, D)]
    )
    steps = torch.linspace(0, 1, 20001, dtype=torch.float64)[:-1] + 0.5 / 20000
    leads = torch.stack([torch.lerp(x0, x1, float(t)).argmax(-1) for t in steps])
    shares = torch.stack([(leads == i).double().mean(0) for i in range(D)])
    assert float((out.change - shares).abs().max()) < 1e-4
    assert out.change.sum(0) == pytest.approx(torch.ones(3, S).numpy())


def test_max_pooling_is_the_largest_of_each_window():
    x0, x1, v = draw(1), draw(2), draw(3)[None]
    for pooled, written in (
        (lambda x: functional.max_pool1d(x, 2), lambda x: x.unflatten(-1, (3, 2)).amax(-1)),
        (lambda x: functional.max_pool2d(x[:, :4], 2), lambda x: x[:, :4].reshape(3, 2, 2, 3, 2).amax((2, 4))),
        (lambda x: functional.adaptive_max_pool1d(x, 3), lambda x: x.unflatten(-1, (3, 2)).amax(-1)),
    ):
        changes = [forward(f, [x0], [x1], [v]).change for f in (pooled, written)]
        assert float((changes[0] - changes[1]).abs().max()) < 1e-14


def heads_by_hand(layer: torch.nn.MultiheadAttention, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    parts = zip((q, k, v), layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True)
    q, k, v = (functional.linear(*each).unflatten(-1, (2, 3)).transpose(-2, -3) for each in parts)
    made = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return layer.out_proj(made.transpose(-2, -3).flatten(-2))


@pytest.mark.parametrize("weights", [False, True], ids=["fused", "with weights"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("itself", [True, False], ids=["self", "cross"])
def test_torchs_own_attention_layer_is_opened(itself, masked, weights):
    torch.manual_seed(6)
    layer = torch.nn.MultiheadAttention(D, 2, batch_first=True).double().eval().requires_grad_(False)
    seen = torch.rand(3, 1, 1, S) > 0.3
    seen[..., 0] = True
    more = {"key_padding_mask": ~seen[:, 0, 0], "attn_mask": torch.zeros(S, S).bool()} if masked else {}

    def opened(x: Tensor, y: Tensor) -> Tensor:
        other = x if itself else y
        return layer(x, other, other, need_weights=weights, **more)[0] + y

    def by_hand(x: Tensor, y: Tensor) -> Tensor:
        other = x if itself else y
        return heads_by_hand(layer, x, other, other, seen if masked else None) + y

    x0s, x1s, some = ([3 * draw(at), draw(at + 1)] for at in (10, 20, 30))
    check(opened, x0s, x1s, integral=False, close=1e-10)
    with watching_integrated() as names:
        changes = [forward(f, x0s, x1s, [v[None] for v in some]).change for f in (opened, by_hand)]
    assert not names and float((changes[0] - changes[1]).abs().max()) < 1e-12


@pytest.mark.parametrize("first", [False, True], ids=["norm last", "norm first"])
def test_torchs_own_encoder_layer_is_opened(first):
    torch.manual_seed(7)
    layer = torch.nn.TransformerEncoderLayer(D, 2, 8, batch_first=True, norm_first=first).double().eval()
    causal = torch.nn.Transformer.generate_square_subsequent_mask(S, dtype=torch.float64)
    for more in ({}, {"src_mask": causal, "is_causal": True}, {"src_key_padding_mask": ~MASK.expand(3, -1)}):
        with watching_integrated() as names:
            check(lambda x, more=more: layer(x, **more), [draw(1)], [draw(2)], integral=False, close=1e-10)
        assert not names


def test_factors_stay_bounded_where_a_norm_is_nearly_zero():
    """The norm's rule, however it is written: no factor beyond 2/max(n0, n1)."""
    x0, x1 = 1e-9 * draw(1), draw(2)
    out = forward(by_hand, [x0], [x1], [draw(3)[None]])
    n = torch.maximum(*(x.pow(2).mean(-1).sqrt() for x in (x0, x1)))
    assert float((out.change[0].abs().amax(-1) * n).max()) < 40


def test_rules_cover_what_they_claim():
    for name in "gelu silu tanh softmax layer_norm rms_norm matmul mul div linear scaled_dot_product_attention".split():
        assert any(f in RULES for f in named(name)), name
    assert not set(RULES) & AFFINE, "an operation has a rule or is affine, not both"


def test_an_operation_of_its_own_line_has_the_nodes_its_own_sum_needs():
    """A steep one more than a flat one, until the sum holds to rounding."""
    flat, steep = (
        own_line.Between(
            "f", lambda x, k=k: (torch.tanh(k * x),), [torch.zeros(1).double()], [torch.ones(1).double()]
        ).nodes()
        for k in (0.1, 3.0)
    )
    assert len(flat) == 8 or len(flat) == 4
    assert len(steep) >= 16


LINES = {  # of a number from 0 to 1, with one place at which it has no derivative; and is there one number that it comes to?
    "kink": (lambda x, at: (x - at).abs(), True),
    "kink of something small": (lambda x, at: (x - at).abs() + (1 - 2 * at) * (1 - x) - (1 - at) + 0.01, True),
    "jump": (lambda x, at: x + 1e-3 * (x > at), False),
    "jump of something far larger than at both ends": (lambda x, at: x * (1 - x) * 1e3 + 1e-4 * (x > at), False),
    "pole": (lambda x, at: (x - at).abs().log(), False),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_kink_is_integrated_and_a_jump_is_refused(name, dtype):
    f, continuous = LINES[name]
    for at in (0.1234, 0.3, 0.71):
        ends = [torch.zeros(1, dtype=dtype)], [torch.ones(1, dtype=dtype)]
        line = own_line.Between("f", lambda x, at=at: (f(x, at),), *ends)
        if continuous:
            sum_ = sum(weight * float(line.along(t, [torch.ones(1, dtype=dtype)])[0]) for t, weight in line.plan())
            assert sum_ == pytest.approx(
                float(line.values(1.0)[0] - line.values(0.0)[0]), abs=1e-11 if dtype == torch.float64 else 1e-5
            )
        else:
            with pytest.raises(SecantError, match="f has no rule"):
                line.plan()


def test_an_operation_without_a_rule_is_integrated_and_named():
    with watching_integrated() as names:
        forward(lambda x: torch.cumprod(x, 1), [draw(1)], [draw(2)], [draw(3)[None]])
    assert names == {"cumprod": 1}


@pytest.mark.parametrize(
    "f, word",
    [
        (lambda x: x.round() * x, "round"),
        (lambda x: x.topk(2, -1)[0], "topk"),
        (lambda x: x[x.argmax(-1) == 0].sum(), "__getitem__"),
        (lambda x: torch.where(x > 0, x, 2 * x), "where"),
        (lambda x: x if bool(x.sum() > 0) else -x, "__bool__"),
        (lambda x: x * float(x.sum()), "__float__"),
        (lambda x: 1 / x, "divides"),
        (lambda x: torch.add(x, x, out=torch.zeros_like(x)), "add writes its result with out="),
    ],
)
def test_what_has_no_mean_derivative_is_an_error_that_names_it(f, word):
    with pytest.raises(SecantError, match=word):
        forward(f, [draw(1)], [-draw(1)], [draw(3)[None]])


def test_gauss_and_jvp_make_the_twin():
    """The twin itself, on x²: ∫ 2(x0 + tΔ)·v dt = (x0 + x1)·v."""
    x0, x1, v = draw(1), draw(2), draw(3)
    assert torch.allclose(line_integral(torch.square, [x0], [x1], [v]), (x0 + x1) * v)
    rule = gauss(3)
    slow = sum(
        w * jvp(torch.square, (torch.lerp(x0, x1, t),), (v,))[1] for t, w in zip(rule.t, rule.weight, strict=True)
    )
    assert torch.allclose(slow, (x0 + x1) * v)
