"""Rules of maxima, choices and writing into a tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pathlens.errors import SecantError
from pathlens.integrand.secant.both import RULES, Both, Rule, Step, end_of, moves, start_of, values
from pathlens.integrand.secant.elementwise import elementwise, kinked_slope
from pathlens.integrand.secant.table import named, rule


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
    rate, shares = z1 - z0, torch.zeros_like(z0)
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
    dims = (dim,) if isinstance(dim, int) else tuple(dim) or tuple(range(x.ndim))
    if len(dims) > 1:
        return NotImplemented
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
    if not moves(x):
        return NotImplemented
    if dim is None:
        return amax(x.flatten(), 0)
    index = torch.argmax(x, dim, keepdim=keepdim)
    return torch.return_types.max((amax(x, dim, keepdim), index))


@rule("min")
def min_(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if isinstance(dim, Tensor):
        return minimum(x, dim)
    if not moves(x) or dim is not None:
        return NotImplemented
    return amin(x.flatten(), 0)


def _choosing(function: Any) -> Rule:
    """Where both runs choose the same entries, they are gathered in the text's order; otherwise routing jumps."""

    def follow(x: Any, *args: Any, **more: Any) -> Any:
        with torch.no_grad():
            (_, first), (_, last) = (function(each, *args, **more) for each in values(x))
        if not torch.equal(first.sort(-1).values, last.sort(-1).values):
            raise SecantError(
                f"{function.__name__} chooses other entries for the text than for its baseline (routing to experts, hashing or "
                "sorting): the output jumps there, and no mean derivative exists. Use method='sig', or rule='split'"
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
