"""An operation without a rule, integrated along its own line: ∫₀¹ J(x0 + t·Δx) dt, with as many nodes as its own sum needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap
from torch.utils._pytree import tree_flatten, tree_unflatten

from pathlens.errors import SecantError
from pathlens.integrand.batch import any_derivative
from pathlens.integrand.secant.both import Both, end_of, moves, note_integrated
from pathlens.quadrature import gauss

CLOSE = {torch.float64: 1e-12, torch.float32: 1e-6}  # of the operation's change, relative to its largest value
NODES = (4, 8, 16, 32, 64)

Function = Callable[..., tuple[Tensor, ...]]


def follow(func: Any, leaves: list[Any], form: Any, probe: Any) -> Any:
    """Both values of every result, and its mean derivative as a sum over nodes."""
    moving = [i for i, leaf in enumerate(leaves) if moves(leaf)]
    results, shape = tree_flatten(probe)
    chosen = [i for i, item in enumerate(results) if isinstance(item, Tensor) and item.is_floating_point()]

    def step(*tensors: Tensor) -> tuple[Tensor, ...]:
        values = [end_of(leaf) for leaf in leaves]
        for i, tensor in zip(moving, tensors, strict=True):
            values[i] = tensor
        args, kwargs = tree_unflatten(values, form)
        parts = tree_flatten(func(*args, **kwargs))[0]
        return tuple(parts[i] for i in chosen)

    name = getattr(func, "__name__", str(func))
    note_integrated(name)
    inputs = [leaves[i] for i in moving]
    starts, ends = [each.start for each in inputs], [each.end.detach() for each in inputs]
    with torch.no_grad(), any_derivative():
        nodes = enough_nodes(name, step, starts, ends)
        first, last = step(*starts), step(*ends)
        if inputs[0].change is not None:
            changes = vmap(lambda *v: _pushed(step, starts, ends, nodes, v))(*(each.change for each in inputs))
            joined = [Both(*each) for each in zip(first, last, changes, strict=True)]
        else:
            with torch.enable_grad():
                tensors = (*(each.end for each in inputs), *starts)
                values = _Pulled.apply((step, nodes, last), len(inputs), *tensors)  # type: ignore[no-untyped-call]
            joined = [Both(*each) for each in zip(first, values, strict=True)]
    for i, item in zip(chosen, joined, strict=True):
        results[i] = item
    return tree_unflatten(results, shape)


def _points(starts: Sequence[Tensor], ends: Sequence[Tensor], t: float) -> tuple[Tensor, ...]:
    return tuple(torch.lerp(a, b, t) for a, b in zip(starts, ends, strict=True))


def _pushed(
    step: Function, starts: Sequence[Tensor], ends: Sequence[Tensor], nodes: int, changes: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    rule, total = gauss(nodes), None
    for t, weight in zip(rule.t, rule.weight, strict=True):
        out = jvp(step, _points(starts, ends, float(t)), tuple(changes))[1]
        parts = [float(weight) * each for each in out]
        total = parts if total is None else [a + b for a, b in zip(total, parts, strict=True)]
    assert total is not None
    return tuple(total)


def enough_nodes(name: str, step: Function, starts: Sequence[Tensor], ends: Sequence[Tensor]) -> int:
    """The number of nodes at which the operation's own sum holds: Σ wₖ J(xₖ)·Δx = Δf."""
    first, last = step(*starts), step(*ends)
    delta = [b - a for a, b in zip(starts, ends, strict=True)]
    for nodes in NODES:
        reached = _pushed(step, starts, ends, nodes, delta)
        if all(_holds(*each) for each in zip(first, last, reached, strict=True)):
            return nodes
    raise SecantError(
        f"{name} has no rule, and its derivative does not add up to its change between the baseline and the text (it jumps, or "
        "its derivative is not its own): secants cannot follow it. Use method='ig', or method='sig'"
    )


def _holds(first: Tensor, last: Tensor, reached: Tensor) -> bool:
    scale = max(float(first.abs().max()), float(last.abs().max())) if first.numel() else 0.0
    off = float((reached - (last - first)).abs().max()) if first.numel() else 0.0
    return off <= CLOSE.get(first.dtype, 1e-2) * max(scale, 1e-30)


class _Pulled(torch.autograd.Function):
    """Reverse mode: Σ wₖ J(xₖ)ᵀ, with the values of the text's run."""

    @staticmethod
    def forward(ctx: Any, plan: Any, count: int, *tensors: Tensor) -> Any:
        step, nodes, last = plan
        ctx.step, ctx.nodes, ctx.count = step, nodes, count
        ctx.save_for_backward(*tensors)
        return tuple(last)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        tensors = ctx.saved_tensors
        ends, starts = tensors[: ctx.count], tensors[ctx.count :]
        rule = gauss(ctx.nodes)
        total = [torch.zeros_like(each) for each in ends]
        with torch.no_grad(), any_derivative():
            for t, weight in zip(rule.t, rule.weight, strict=True):
                pull = vjp(ctx.step, *_points(starts, ends, float(t)))[1]
                for sum_, part in zip(total, pull(tuple(slopes)), strict=True):
                    sum_.add_(part, alpha=float(weight))
        return (None, None, *total, *[None] * len(starts))
