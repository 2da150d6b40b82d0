"""Rules of softmax and of norms: bounded where building them from exp, sums and quotients would not be."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from pathlens.integrand.secant.both import RULES, Both, Step, moves, values
from pathlens.integrand.secant.elementwise import log_mean, power, wide
from pathlens.integrand.secant.table import rule


def _soft(z: Both, dim: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """log p of both runs, L and w."""
    l0, l1 = (torch.log_softmax(wide(each), dim) for each in values(z))
    mean = log_mean(l0, l1)
    total = mean.sum(dim, keepdim=True)
    return l0, l1, mean, mean / torch.where(total == 0, 1.0, total)


@rule("softmax")
def softmax(x: Any, dim: int, *args: Any, dtype: torch.dtype | None = None, **more: Any) -> Any:
    """Δp = L·(Δz − Σ w·Δz)."""
    x = x if dtype in (None, x.dtype) else x.to(dtype)
    dim = dim % x.ndim - x.ndim  # from the end: the changes of U units stand in front
    with torch.no_grad():
        *_, mean, weight = _soft(x, dim)
        start, end = (torch.softmax(each, dim) for each in values(x))
    return Step(start, end, lambda v: mean * (v - (weight * v).sum(dim, keepdim=True))).of(x)


@rule("log_softmax")
def log_softmax(x: Any, dim: int, *args: Any, dtype: torch.dtype | None = None, **more: Any) -> Any:
    """Δ log p = Δz − Σ w·Δz."""
    x = x if dtype in (None, x.dtype) else x.to(dtype)
    dim = dim % x.ndim - x.ndim
    with torch.no_grad():
        *_, weight = _soft(x, dim)
        start, end = (torch.log_softmax(each, dim) for each in values(x))
    return Step(start, end, lambda v: v - (weight * v).sum(dim, keepdim=True)).of(x)


@rule("logsumexp")
def logsumexp(x: Any, dim: Any, keepdim: bool = False, **more: Any) -> Any:
    """Δ lse = Σ w·Δz."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    if len(dims) != 1:
        return NotImplemented
    last = dims[0] % x.ndim - x.ndim
    with torch.no_grad():
        *_, weight = _soft(x, last)
        start, end = (torch.logsumexp(each, last, keepdim) for each in values(x))
    return Step(start, end, lambda v: (weight * v).sum(last, keepdim=keepdim)).of(x)


def _normalised(x: Both, dims: tuple[int, ...], eps: float, *, centred: bool) -> Step:
    """y = u/n, n = √(mean u² + ε): Δn = mean(ū·Δu)/n̄, Δy = (Δu − ȳ·Δn)/n̄."""
    u0, u1 = (wide(each) for each in values(x))
    if centred:
        u0, u1 = (each - each.mean(dims, keepdim=True) for each in (u0, u1))
    n0, n1 = (torch.sqrt(each.square().mean(dims, keepdim=True) + eps) for each in (u0, u1))
    y0, y1, n = u0 / n0, u1 / n1, (n0 + n1) / 2
    mean_u, mean_y = (u0 + u1) / 2, (y0 + y1) / 2

    def push(v: Tensor) -> Tensor:
        v = v - v.mean(dims, keepdim=True) if centred else v
        return (v - mean_y * ((mean_u * v).mean(dims, keepdim=True) / n)) / n

    return Step(y0, y1, push)


def _with_gain(step: Step, gain: Tensor | None, shift: Tensor | None, dtype: torch.dtype, x: Both) -> Both:
    gain, shift = (None if each is None else each.detach() for each in (gain, shift))

    def value(y: Tensor) -> Tensor:
        y = y if gain is None else y * gain
        return (y if shift is None else y + shift).to(dtype)

    scaled = (lambda v: step.push(v)) if gain is None else (lambda v: step.push(v) * gain)
    return Step(value(step.start), value(step.end), scaled).of(x)


@rule("layer_norm")
def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    if moves(weight) or moves(bias):
        return NotImplemented
    with torch.no_grad():
        step = _normalised(x, tuple(range(-len(shape), 0)), eps, centred=True)
    return _with_gain(step, weight, bias, x.dtype, x)


@rule("rms_norm")
def rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    if moves(weight):
        return NotImplemented
    with torch.no_grad():
        eps = torch.finfo(x.dtype).eps if eps is None else eps
        step = _normalised(x, tuple(range(-len(shape), 0)), eps, centred=False)
    return _with_gain(step, weight, None, x.dtype, x)


@rule("group_norm")
def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    rows = x.reshape(x.shape[0], groups, -1)
    with torch.no_grad():
        step = _normalised(rows, (-1,), eps, centred=True)
    unit = step.of(rows).reshape(x.shape)
    ones = (-1, *[1] * (x.ndim - 2))
    unit = unit if weight is None else unit * weight.detach().reshape(ones)
    return unit if bias is None else unit + bias.detach().reshape(ones)


@rule("norm vector_norm")
def norm(x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, **more: Any) -> Any:
    """The Euclidean length: Δn = x̄·Δx / n̄."""
    if p not in (2, 2.0, "fro", None) or more.get("dtype") is not None:
        return NotImplemented
    squares = power(x, 2)
    return torch.sqrt(squares.sum() if dim is None else squares.sum(dim, keepdim=keepdim))


RULES[torch.linalg.norm] = RULES[torch.linalg.vector_norm] = norm


@rule("normalize")
def normalize(x: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Any:
    return NotImplemented if p != 2 else x / torch.clamp_min(norm(x, 2, dim, True), eps)


@rule("cosine_similarity")
def cosine_similarity(a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    unit = [x / torch.clamp_min(torch.linalg.vector_norm(x, dim=dim, keepdim=True), eps) for x in (a, b)]
    return (unit[0] * unit[1]).sum(dim)


@rule("var")
def var(x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    dims = tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    count = math.prod(x.shape[d] for d in dims)
    less = correction if correction is not None else 1 if unbiased in (None, True) else 0
    centred = x - x.mean(dims, keepdim=True)
    return power(centred, 2).sum(dims, keepdim=keepdim) / (count - less)


@rule("std")
def std(*args: Any, **more: Any) -> Any:
    return torch.sqrt(var(*args, **more))
