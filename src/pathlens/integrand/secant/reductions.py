"""Rules of what is taken over a dimension: softmax and norms (bounded where building them from their parts is not), maxima, choices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pathlens.errors import SecantError, setting
from pathlens.integrand.secant.both import RULES, Both, Rule, Step, doubt, end_of, moves, start_of, still, values
from pathlens.integrand.secant.elementwise import elementwise, kinked_slope, log_mean, power, wide
from pathlens.integrand.secant.table import named, rule


def _soft(z: Both, dim: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """log p of both runs, L and w."""
    l0, l1 = (torch.log_softmax(wide(each), dim) for each in values(z))
    mean = log_mean(l0, l1)
    total = mean.sum(dim, keepdim=True)
    return l0, l1, mean, mean / torch.where(total == 0, 1.0, total)


def _in_type(x: Both, *asked: Any) -> Both:
    """In the type that is asked for, by name or by its place."""
    dtype = next((each for each in asked if isinstance(each, torch.dtype)), x.dtype)
    return x if dtype == x.dtype else x.to(dtype)  # type: ignore[return-value]


@rule("softmax")
def softmax(x: Any, dim: int, *args: Any, dtype: torch.dtype | None = None, **more: Any) -> Any:
    """Δp = L·(Δz − Σ w·Δz)."""
    x = _in_type(x, *args, dtype)
    dim = dim % x.ndim - x.ndim  # from the end: the changes of U units stand in front
    with torch.no_grad():
        *_, mean, weight = _soft(x, dim)
        start, end = (torch.softmax(each, dim) for each in values(x))

    def pull(g: Tensor, mean: Tensor, weight: Tensor) -> tuple[Tensor]:
        share = g * mean
        return (share - weight * share.sum(dim, keepdim=True),)

    push = lambda v: mean * (v - (weight * v).sum(dim, keepdim=True))  # noqa: E731
    return Step(start, end, push, pull, (mean, weight)).of(x)


@rule("log_softmax")
def log_softmax(x: Any, dim: int, *args: Any, dtype: torch.dtype | None = None, **more: Any) -> Any:
    """Δ log p = Δz − Σ w·Δz."""
    x = _in_type(x, *args, dtype)
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


@dataclass(frozen=True, eq=False)
class Gain:
    """What a norm multiplies and adds afterwards, weights that stay."""

    weight: Tensor | None = None
    bias: Tensor | None = None

    def scaled(self, y: Tensor) -> Tensor:
        return y if self.weight is None else y * self.weight

    def of(self, y: Tensor) -> Tensor:
        return self.scaled(y) if self.bias is None else self.scaled(y) + self.bias


def _normalised(x: Both, dims: tuple[int, ...], eps: float, gain: Gain, *, centred: bool) -> Both:
    """y = u/n, n = √(mean u² + ε): Δn = mean(ū·Δu)/n̄, Δy = (Δu − ȳ·Δn)/n̄; then the gain."""

    def push(v: Tensor) -> Tensor:
        v = v - v.mean(dims, keepdim=True) if centred else v
        return gain.scaled((v - y * (u * v).mean(dims, keepdim=True)) / n).contiguous()

    def pull(g: Tensor, u: Tensor, y: Tensor, n: Tensor) -> tuple[Tensor]:
        share = gain.scaled(g) / n
        share = share - u * (y * share).mean(dims, keepdim=True)
        return (share - share.mean(dims, keepdim=True) if centred else share,)

    with torch.no_grad():
        u0, u1 = (wide(each) for each in values(x))
        if centred:
            u0, u1 = (each - each.mean(dims, keepdim=True) for each in (u0, u1))
        n0, n1 = (torch.sqrt(each.square().mean(dims, keepdim=True) + eps) for each in (u0, u1))
        y0, y1, n = u0 / n0, u1 / n1, (n0 + n1) / 2
        u, y = torch.lerp(u0, u1, 0.5) / n, torch.lerp(y0, y1, 0.5)
        first, last = (gain.of(each).to(x.dtype).contiguous() for each in (y0, y1))  # as torch lays it
        step = Step(first, last, push, pull, (u, y, n))
    return step.of(x)


@rule("layer_norm")
def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    if moves(weight) or moves(bias):
        return NotImplemented
    return _normalised(x, tuple(range(-len(normalized_shape), 0)), eps, Gain(still(weight), still(bias)), centred=True)


@rule("native_layer_norm")
def native_layer_norm(x: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    dims = tuple(range(-len(normalized_shape), 0))
    made = functional.layer_norm(x, normalized_shape, weight, bias, eps)
    return made, x.mean(dims, keepdim=True), torch.rsqrt(x.var(dims, correction=0, keepdim=True) + eps)


@rule("rms_norm")
def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    if moves(weight):
        return NotImplemented
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    return _normalised(x, tuple(range(-len(normalized_shape), 0)), eps, Gain(still(weight)), centred=False)


@rule("group_norm")
def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    unit = _normalised(x.reshape(x.shape[0], num_groups, -1), (-1,), eps, Gain(), centred=True).reshape(x.shape)
    ones = (-1, *[1] * (x.ndim - 2))
    unit = unit if weight is None else unit * still(weight).reshape(ones)
    return unit if bias is None else unit + still(bias).reshape(ones)


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """A group of each channel; with the statistics that it has learnt it is affine."""
    if use_input_stats:
        return group_norm(x, x.shape[1], weight, bias, eps)
    return functional.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)


RULES[functional.instance_norm] = instance_norm
RULES[torch.instance_norm] = lambda x, weight, bias, mean, var, *more: instance_norm(
    x, mean, var, weight, bias, *more[:3]
)


@rule("norm")
def norm(x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, **more: Any) -> Any:
    """The Euclidean length: Δn = x̄·Δx / n̄. Others out of their parts: a sum of sizes, the largest, a root of powers."""
    p = 2 if p in ("fro", None) else p
    if not isinstance(p, int | float) or p <= 0 or more.get("dtype") is not None:
        return NotImplemented

    def whole(y: Any) -> Any:
        return y.flatten().sum() if dim is None else y.sum(dim, keepdim=keepdim)

    if p == 2:
        return torch.sqrt(whole(power(x, 2)))
    sizes = torch.abs(x)
    if p == math.inf:
        return sizes.flatten().amax(0) if dim is None else sizes.amax(dim, keepdim)
    return whole(sizes) if p == 1 else power(whole(power(sizes, p)), 1 / p)


def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, **more: Any) -> Any:
    return norm(x, ord, dim, keepdim, **more)


def linalg_norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, **more: Any) -> Any:
    """Of a vector its length, of a matrix the root of its squares; other norms of a matrix are not sums over its entries."""
    matrix = x.ndim == 2 if dim is None else isinstance(dim, tuple | list) and len(dim) == 2
    if matrix and ord not in (None, "fro"):
        return NotImplemented
    return norm(x, 2 if ord is None else ord, dim, keepdim, **more)


RULES[torch.linalg.vector_norm], RULES[torch.linalg.norm] = vector_norm, linalg_norm


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


@rule("maximum fmax")
def maximum(a: Any, b: Any) -> Any:
    """b + relu(a − b): each side by the share of the way on which it is the larger."""
    with torch.no_grad():
        (a0, a1), (b0, b1) = ((start_of(x), end_of(x).detach()) for x in (a, b))
        share = kinked_slope(torch.relu, a0 - b0, a1 - b1)
        step_values = torch.maximum(a0, b0), torch.maximum(a1, b1)
    parts = [(x, s) for x, s in ((a, share), (b, 1 - share)) if moves(x)]
    rank = step_values[0].ndim

    def push(*changes: Tensor) -> Tensor:
        total = sum(_lifted(v, x, rank) * s for v, (x, s) in zip(changes, parts, strict=True))
        return total  # type: ignore[return-value]

    return Step(*step_values, push).of(*(x for x, _ in parts))


def _lifted(v: Tensor, x: Tensor, rank: int) -> Tensor:
    """Changes of U units with ones put in behind the first dimension, where x has fewer dimensions than the result."""
    return v if v.ndim == x.ndim else v.reshape(len(v), *[1] * (rank - x.ndim), *x.shape)


@rule("minimum fmin")
def minimum(a: Any, b: Any) -> Any:
    return -maximum(-a, -b)


def largest_shares(z0: Tensor, z1: Tensor) -> Tensor:
    """Along the last dimension: for how much of the way from z0 to z1 each entry is the largest."""
    rate = torch.where(z0 == z1, 0.0, z1 - z0)  # also where both are −∞: masked
    shares = torch.zeros_like(z0)
    now = torch.zeros((*z0.shape[:-1], 1), dtype=z0.dtype, device=z0.device)
    top = z0.max(-1, keepdim=True).values
    leader = torch.where(z0 == top, rate, -torch.inf).argmax(-1, keepdim=True)  # of equals, the one that rises
    while True:
        gain = rate - rate.gather(-1, leader)
        behind = z0.gather(-1, leader) - z0
        meets = torch.where(gain > 0, behind / gain, torch.inf)
        meets = torch.where(meets >= now, meets, torch.where(gain > 0, now, torch.inf))
        until = meets.min(-1, keepdim=True).values.clamp_max(1.0)
        shares.scatter_add_(-1, leader, until - now)
        going = until < 1
        if not going.any():
            return shares
        following = torch.where(meets == until, rate, -torch.inf).argmax(-1, keepdim=True)
        leader, now = torch.where(going, following, leader), until


@rule("amax")
def amax(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    dims = [d % x.ndim for d in ((dim,) if isinstance(dim, int) else tuple(dim) or tuple(range(x.ndim)))]
    if len(dims) > 1:
        whole = amax(x.movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims)), -1)
        return whole.reshape([1 if d in dims else n for d, n in enumerate(x.shape)]) if keepdim else whole
    last = dims[0] % x.ndim - x.ndim
    with torch.no_grad():
        x0, x1 = values(x)
        shares = largest_shares(x0.movedim(last, -1), x1.movedim(last, -1)).movedim(-1, last)
    return Step(x0.amax(last, keepdim), x1.amax(last, keepdim), lambda v: (v * shares).sum(last, keepdim=keepdim)).of(x)


@rule("amin")
def amin(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return -amax(-x, dim, keepdim)


@rule("max")
def max_(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if isinstance(dim, Tensor):
        return maximum(x, dim)
    if dim is None:
        return amax(x.flatten(), 0)
    index = torch.argmax(x, dim, keepdim=keepdim)
    return torch.return_types.max((amax(x, dim, keepdim), index))


@rule("min")
def min_(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if isinstance(dim, Tensor):
        return minimum(x, dim)
    if dim is None:
        return amin(x.flatten(), 0)
    return torch.return_types.min((amin(x, dim, keepdim), torch.argmin(x, dim, keepdim=keepdim)))


@rule("aminmax")
def aminmax(x: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    dims = () if dim is None else dim
    return torch.return_types.aminmax((amin(x, dims, keepdim), amax(x, dims, keepdim)))


def _choosing(function: Any) -> Rule:
    """Where both runs choose the same entries, they are gathered in the text's order; otherwise routing jumps."""

    def follow(x: Any, *args: Any, **more: Any) -> Any:
        with torch.no_grad():
            (_, first), (_, last) = (function(each, *args, **more) for each in values(x))
        if not torch.equal(first, last):  # experts may come in any order; whoever reads it shows in the output
            doubt(
                f"{function.__name__} puts entries in another order for the text than for its baseline, and the model reads that "
                "order: the output jumps there, and no mean derivative exists"
            )
        if not torch.equal(first.sort(-1).values, last.sort(-1).values):
            raise SecantError(
                f"{function.__name__} chooses other entries for the text than for its baseline (routing to experts, hashing or "
                f"sorting): the output jumps there, and no mean derivative exists. Use {setting(method='sig')}, which is exact all the same, "
                f"or {setting(method='ig')}"
            )
        dim = more.get("dim", args[1] if function.__name__ == "topk" and len(args) > 1 else
                       args[0] if function.__name__ == "sort" and args else -1)  # fmt: skip
        kind = torch.return_types.topk if function.__name__ == "topk" else torch.return_types.sort
        return kind((torch.gather(x, dim, last), last))

    return follow


for each in named("topk sort"):
    RULES[each] = _choosing(each)


@rule("glu")
def glu(x: Any, dim: int = -1) -> Any:
    a, b = x.chunk(2, dim)
    return a * torch.sigmoid(b)


@rule("clamp clip")
def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """Between numbers that stay, an elementwise function; between tensors that move, maximum and minimum."""
    if not (isinstance(min, Both) or isinstance(max, Both)):
        return elementwise(torch.clamp, "kinked")(x, min, max)
    x = x if min is None else maximum(x, min)
    return x if max is None else minimum(x, max)
