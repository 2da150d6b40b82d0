"""Many directions in one pass: the same numbers as torch's own forward mode, or no numbers at all."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.func import jvp, vmap
from torch.nn import functional

from pathlens.integrand import Batch, Directional, directional
from pathlens.integrand.batch import any_derivative
from pathlens.integrand.forward_mode import forward_mode
from pathlens.integrand.forward_tensor import CannotFollow
from pathlens.text.adapter import Request
from pathlens.text.load import load
from tests.support import models

FOLLOWED = [name for name in models.ENCODERS if name not in ("mpnet", "deberta-v2")]  # those two write in place


def by_torch(function, point, directions):
    with any_derivative():
        return vmap(lambda one: jvp(function, (point,), (one,))[1])(directions)


def agree(function, point, count=3):
    torch.manual_seed(1)
    directions = torch.randn(count, *point.shape, dtype=point.dtype)
    with any_derivative():
        result = forward_mode(function, point, directions)
    wanted = by_torch(function, point, directions)
    assert result.shape == wanted.shape
    assert (result - wanted).abs().max() <= 1e-11 * max(1.0, float(wanted.abs().max()))


def data(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64)


W, BIAS, SCALE = data(5, 6), data(5), data(6)
STEPS = {
    "linear": lambda x: functional.linear(x, W, BIAS),
    "weight from the point": lambda x: functional.linear(x, x[0, 0] * W),
    "layer norm": lambda x: functional.layer_norm(x, (6,), SCALE, SCALE),
    "layer norm without weights": lambda x: functional.layer_norm(x, (6,)),
    "layer norm over two axes": lambda x: functional.layer_norm(x, (4, 6)),
    "gelu": functional.gelu,
    "tanh gelu": lambda x: functional.gelu(x, approximate="tanh"),
    "chain of numbers": lambda x: 0.5 * x * (1.0 + torch.tanh(0.79 * (x + 0.04 * torch.pow(x, 3.0)))),
    "softmax": lambda x: torch.softmax(x, dim=1),
    "softmax of the last": lambda x: functional.softmax(x, -1),
    "rms": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * SCALE,
    "broadcast sum": lambda x: x + x[:, :1] + x[0, 0],
    "broadcast product": lambda x: x * x[:, :, :1] * SCALE - x / SCALE,
    "quotient": lambda x: x / (1.0 + x.exp()),
    "number first": lambda x: 2.0 - x + (1.0 + x),
    "one row for many": lambda x: x[:1] + torch.ones(3, 4, 6, dtype=x.dtype),
    "matmul": lambda x: x @ x.transpose(1, 2) @ x,
    "matmul with a plain side": lambda x: torch.matmul(W, x.transpose(-1, -2)),
    "matmul that broadcasts": lambda x: torch.matmul(x[:1], x.mT),
    "reshape and order": lambda x: x.view(2, 4, 2, 3).permute(0, 2, 1, 3).reshape(2, -1).unsqueeze(1),
    "order by a tuple": lambda x: torch.permute(x, (2, 0, 1)).contiguous().flatten(1),
    "a choice of rows": lambda x: x[torch.arange(2), torch.tensor([1, 3])],
    "ellipsis and none": lambda x: x[..., None, 2:4][1],
    "pieces": lambda x: torch.cat([part.flip(-1) for part in x.chunk(2, dim=-1)], dim=-1),
    "where": lambda x: torch.where(x > 0, x, 0.1 * x).masked_fill(x.abs() > 2, 0.0),
    "largest": lambda x: x.max(dim=1).values,
    "new tensors": lambda x: x.new_ones(2, 4, 6) * x + torch.zeros_like(x),
    "length": lambda x: functional.normalize(x, dim=-1),
}


@pytest.mark.parametrize("name", STEPS)
def test_every_rule_is_the_derivative(name):
    agree(STEPS[name], data(2, 4, 6))


MASK = torch.tensor([[True, True, False, True]])
ATTENTION = {
    "plain": {},
    "scaled": {"scale": 0.3},
    "keys left out": {"attn_mask": MASK},
    "added": {"attn_mask": torch.zeros(4, 4, dtype=torch.float64).masked_fill(~MASK, -1e30)},
    "a row that may look nowhere": {"attn_mask": torch.eye(4, dtype=torch.bool) & MASK},
    "causal": {"is_causal": True},
}


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("moving", ["qkv", "q", "k", "v", "kv"])
def test_attention(name, moving):
    fixed = data(2, 3, 4, 5)

    def attend(x):
        parts = [x[i] if letter in moving else fixed + i for i, letter in enumerate("qkv")]
        return functional.scaled_dot_product_attention(*parts, **ATTENTION[name])

    agree(attend, data(3, 2, 3, 4, 5))


def test_grouped_heads_and_other_uses_are_left_to_torch():
    def attend(x):
        return functional.scaled_dot_product_attention(x, x[:, :1], x[:, :1], enable_gqa=True)

    agree(attend, data(2, 4, 3, 5))


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("name", models.ENCODERS)
def test_encoders_with_padding(name, layer):
    """Texts of different length in one batch; where a model writes in place, the integrand still answers."""
    model = load(models.encoder(name))
    long, short = (model.case(text, request=Request(vector=True, layer=layer)) for text in models.TEXTS[:2])
    position = long.ends.end.new_zeros(2, *long.ends.end.shape)
    position[0], position[1, : len(short)] = long.ends.start, short.ends.end

    def score(points):
        return long.score(points, [long, short])

    torch.manual_seed(0)
    directions = torch.randn(4, *position.shape)
    with torch.no_grad(), model.quiet():
        wanted = by_torch(score, position, directions)
        if name in FOLLOWED:
            with any_derivative():
                result = forward_mode(score, position, directions)
            assert (result - wanted).abs().max() < 1e-5 * wanted.abs().max()
        members = torch.eye(len(long)).expand(2, -1, -1)
        batch = Batch(score, position, directions[0], members, torch.zeros(2))
        shares = Directional("forward")(batch).sum(1)
        assert (shares - wanted[0]).abs().max() < 1e-5 * wanted.abs().max()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 1.0).add_(1.0),
        lambda x: nn.ReLU(inplace=True)(x * 2.0),
        lambda x: operator.iand(x > 0, x),
        lambda x: operator.iadd(x * 1.0, x),
        lambda x: torch.add(x, 1.0, out=torch.empty(2, 3, dtype=torch.float64)),
        lambda x: torch.zeros(2, 3, dtype=x.dtype).copy_(x),
        lambda x: torch.from_numpy(x.detach().numpy()),
        lambda x: torch.zeros(3),
    ],
)
def test_what_cannot_be_followed_says_so(function):
    """Never a value that has lost its change."""
    with pytest.raises(CannotFollow):
        forward_mode(function, data(2, 3), data(4, 2, 3))


def test_all_products_together_or_a_few_at_a_time_are_the_same(monkeypatch):
    model = load(models.encoder("bert"))
    case = model.case(models.TEXTS[0], request=Request(vector=True))
    position = (case.ends.start + 0.4 * case.ends.delta)[None]
    members = torch.eye(len(case))[None]
    batch = Batch(lambda rows: case.score(rows, [case]), position, case.ends.delta[None], members, torch.zeros(1))
    with model.quiet():
        together = Directional("forward")(batch)
        monkeypatch.setitem(directional.TOKENS_AT_ONCE, "cpu", 2 * len(case))
        apart = Directional("forward")(batch)
    assert (together - apart).abs().max() < 1e-6 * together.abs().max()
