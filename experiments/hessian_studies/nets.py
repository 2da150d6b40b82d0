"""Small networks: many copies trained side by side, and their interactions over whole tables at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from pathlens.integrand import Batch, Hessian
from pathlens.quadrature import rule


class Many(nn.Module):
    """M multilayer perceptrons of one shape and one start, trained together: every layer is a bmm."""

    def __init__(
        self, sizes: Sequence[int], copies: int, seed: int, act: Callable[[Tensor], Tensor] = torch.relu
    ) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.act = act
        self.weight, self.bias = nn.ParameterList(), nn.ParameterList()
        for a, b in itertools.pairwise(sizes):
            start = torch.randn(a, b, generator=draw) * (2 / a) ** 0.5
            self.weight.append(nn.Parameter(start.expand(copies, a, b).clone()))
            self.bias.append(nn.Parameter(torch.zeros(copies, 1, b)))

    def forward(self, x: Tensor) -> Tensor:
        """x (M, N, F) → (M, N)."""
        for weight, bias in zip(self.weight[:-1], self.bias[:-1], strict=True):
            x = self.act(torch.baddbmm(bias, x, weight))
        return torch.baddbmm(self.bias[-1], x, self.weight[-1]).squeeze(-1)

    def one(self, index: int) -> nn.Module:
        """Copy `index` as a plain module, (N, F) → (N,)."""
        return Single(self, index)


class Single(nn.Module):
    def __init__(self, many: Many, index: int) -> None:
        super().__init__()
        self.act = many.act
        self.layers = nn.ModuleList()
        for weight, bias in zip(many.weight, many.bias, strict=True):
            layer = nn.Linear(weight.shape[1], weight.shape[2])
            layer.weight.data = weight[index].detach().T.contiguous()
            layer.bias.data = bias[index, 0].detach().clone()
            self.layers.append(layer)
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.act(layer(x))
        return self.layers[-1](x).squeeze(-1)


def train(
    net: Many, x: Tensor, y: Tensor, *, epochs: int = 25, rate: float = 5e-3, batch: int = 128, seed: int = 0
) -> Many:
    """Squared error, Adam; early stopping: each copy keeps the weights of its best epoch on a tenth held out.

    x (N, F) is the same for all copies, y (M, N) is not; all see the same batches.
    """
    draw = torch.Generator().manual_seed(seed)
    held = len(x) // 10
    x_val, y_val, x, y = x[:held], y[:, :held], x[held:], y[:, held:]
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    best = torch.full((len(y),), float("inf"))
    kept = [p.detach().clone() for p in net.parameters()]
    for epoch in range(epochs):
        for group in optimiser.param_groups:
            group["lr"] = rate * (1.0 if epoch < 0.6 * epochs else 0.2)
        order = torch.randperm(len(x), generator=draw)
        for rows in order.split(batch):
            loss = (net(x[rows].expand(len(y), -1, -1)) - y[:, rows]).square().mean(1).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            error = error_of(net, x_val, y_val)
            better = error < best
            best = torch.where(better, error, best)
            for keep, p in zip(kept, net.parameters(), strict=True):
                keep[better] = p.detach()[better]
    for keep, p in zip(kept, net.parameters(), strict=True):
        p.data.copy_(keep)
    return net


def error_of(net: Many, x: Tensor, y: Tensor) -> Tensor:
    """Mean squared error of each copy, (M,)."""
    with torch.no_grad():
        return (net(x.expand(len(y), -1, -1)) - y).square().mean(1)


def table_interactions(
    f: Callable[[Tensor], Tensor], x: Tensor, start: Tensor, *, nodes: int = 16, chunk: int = 8192
) -> Tensor:
    """Γ of every row, (N, F, F), by the library's integrand and rule, all rows in the same batches.

    `start` (F,) is one baseline for all, (N, F) one for each, (nodes, N, F) another one at every node: the sum
    over nodes is then a sample mean of expected Hessians, with one baseline in both integrals each time.
    """
    points = rule("log")(nodes)
    total = torch.zeros(len(x), x.shape[1], x.shape[1], dtype=torch.float64)
    for k in range(nodes):
        base = (start[k] if start.ndim == 3 else start).expand_as(x)
        for rows in torch.arange(len(x)).split(chunk):
            total[rows] += points.weight[k] * _at(f, x[rows], base[rows], float(points.t[k]))
    return total


def _at(f: Callable[[Tensor], Tensor], x: Tensor, base: Tensor, u: float | Tensor) -> Tensor:
    """M(u) of every row, (N, F, F); `u` is one place for all or one for each row."""
    count, width = x.shape
    u = torch.as_tensor(u, dtype=torch.float64).expand(count)
    members = torch.eye(width).expand(count, width, width)
    place = torch.lerp(base, x, u.to(x)[:, None])[..., None]
    batch = Batch(lambda p: f(p[..., 0]), place, (x - base)[..., None], members, u)
    return Hessian()(batch)


def hessian_at(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """∂²f/∂x_i∂x_j at every row, (N, F, F): the integrand with unit steps, without its first-order term."""
    count, width = x.shape
    batch = Batch(
        lambda p: f(p[..., 0]), x[..., None], torch.ones(count, width, 1), torch.eye(width).expand(count, width, width),
        torch.ones(count, dtype=torch.float64),
    )  # fmt: skip
    value = Hessian()(batch)
    return value - torch.diag_embed(value.diagonal(dim1=1, dim2=2))
