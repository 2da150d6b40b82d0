"""Derivatives along many directions at once, in one pass: how the operations of transformers carry a change.

Each rule is the operation's derivative, written out. It has the operation's signature and gives the result, or NotImplemented for a use
it does not cover; torch's own derivative is then taken. What depends on the point alone is worked out once, not per direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jvp
from torch.nn import functional

from pathlens.integrand import products
from pathlens.integrand.forward_tensor import RULES, CannotFollow, ForwardTensor, Rule, value_of


def forward_mode(
    function: Callable[[Tensor], Tensor], point: Float[Tensor, "*point"], directions: Float[Tensor, "U *point"]
) -> Float[Tensor, "U ..."]:
    """d function(point + t·direction)/dt at t = 0 for every direction.

    Limits: CannotFollow where an operation cannot be followed (in place, compiled); torch's own forward mode then says
    whether the model is at fault.
    """
    try:
        output = function(ForwardTensor(point, directions))
    except CannotFollow:
        raise
    except Exception as error:  # of the model's own code, or of a rule: torch's own mode decides
        raise CannotFollow(str(error)) from error
    if not isinstance(output, ForwardTensor):
        raise CannotFollow("the output does not depend on the point")
    return output.change


def rule(*functions: Any) -> Callable[[Rule], Rule]:
    def note(derivative: Rule) -> Rule:
        for function in functions:
            RULES[function] = derivative
        return derivative

    return note


def lifted(item: Any, rank: int) -> Tensor | None:
    """The change (U, …) with ones put in, so that it broadcasts like its value does in a result of this rank."""
    if not isinstance(item, ForwardTensor):
        return None
    missing = rank - item.value.ndim
    return item.change.reshape(len(item.change), *[1] * missing, *item.value.shape) if missing else item.change


def total(parts: list[Tensor | None], shape: torch.Size) -> Tensor:
    there = [part for part in parts if part is not None]
    change = there[0] if len(there) == 1 else there[0] + there[1]
    return change.expand(len(change), *shape)


@rule(torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__)
def add(a: Any, b: Any, **more: Any) -> Any:
    if more:
        return NotImplemented
    value = value_of(a) + value_of(b)
    return ForwardTensor(value, total([lifted(a, value.ndim), lifted(b, value.ndim)], value.shape))


@rule(torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__)
def mul(a: Any, b: Any, **more: Any) -> Any:
    if more:
        return NotImplemented
    first, second = value_of(a), value_of(b)
    value = first * second
    parts = [
        change * other
        for change, other in ((lifted(a, value.ndim), second), (lifted(b, value.ndim), first))
        if change is not None
    ]
    return ForwardTensor(value, total(parts, value.shape))


@rule(torch.div, Tensor.div, Tensor.__truediv__)
def divide(a: Any, b: Any, **more: Any) -> Any:
    if more or isinstance(b, ForwardTensor):
        return NotImplemented
    value = a.value / b
    return ForwardTensor(value, total([lifted(a, value.ndim) / b], value.shape))


@rule(functional.linear)
def linear(x: Any, weight: Tensor, bias: Tensor | None = None) -> Any:
    if isinstance(weight, ForwardTensor) or isinstance(bias, ForwardTensor):
        return NotImplemented
    return ForwardTensor(products.linear(x.value, weight, bias), products.linear(x.change, weight))


@rule(functional.dropout)
def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return NotImplemented if training and p > 0 else x


def _constant(function: Any) -> Rule:
    """New tensors shaped like this one: nothing of them changes."""
    return lambda x, *args, **more: function(value_of(x), *args, **more)


for each in ("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor"):
    RULES[getattr(Tensor, each)] = _constant(getattr(Tensor, each))
for function in (torch.zeros_like, torch.ones_like, torch.empty_like, torch.full_like):
    RULES[function] = _constant(function)


def _reshaped(function: Any) -> Rule:
    def carry(x: Any, *args: Any, **more: Any) -> Any:
        if any(isinstance(arg, torch.dtype) for arg in (*args, *more.values())):
            return NotImplemented
        value = function(x.value, *args, **more)
        return ForwardTensor(value, x.change.reshape(len(x.change), *value.shape))

    return carry


for each in ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "contiguous"):
    for home in (Tensor, torch):
        if hasattr(home, each):
            RULES[getattr(home, each)] = _reshaped(getattr(home, each))


@rule(torch.transpose, Tensor.transpose, torch.swapaxes, Tensor.swapaxes)
def transpose(x: Any, dim0: int, dim1: int) -> Any:
    rank = x.value.ndim
    change = x.change.transpose(dim0 % rank + 1, dim1 % rank + 1)
    return ForwardTensor(x.value.transpose(dim0, dim1), change)


@rule(torch.permute, Tensor.permute)
def permute(x: Any, *dims: Any) -> Any:
    order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    rank = x.value.ndim
    return ForwardTensor(x.value.permute(order), x.change.permute(0, *(dim % rank + 1 for dim in order)))


@rule(Tensor.__getitem__)
def getitem(x: Any, index: Any) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    plain = int, slice, type(None), type(Ellipsis)
    if not isinstance(x, ForwardTensor) or any(isinstance(p, bool) or not isinstance(p, plain) for p in parts):
        return NotImplemented
    return ForwardTensor(x.value[parts], x.change[(slice(None), *parts)])


def _elementwise(function: Any) -> Rule:
    """f(x) of each number alone: its slope is one tensor for all directions."""

    def carry(x: Any, *args: Any, **more: Any) -> Any:
        if any(isinstance(arg, Tensor) for arg in (*args, *more.values())) or more.get("inplace"):
            return NotImplemented
        value, slope = jvp(lambda y: function(y, *args, **more), (x.value,), (torch.ones_like(x.value),))[:2]
        return ForwardTensor(value, x.change * slope)

    return carry


for each in ("relu", "tanh", "sigmoid", "erf", "exp", "log", "sqrt", "rsqrt", "square", "pow", "sin", "cos"):
    for home in (Tensor, torch):
        RULES[getattr(home, each)] = _elementwise(getattr(home, each))
for activation in (functional.gelu, functional.relu, functional.silu, functional.elu, functional.softplus):
    RULES[activation] = _elementwise(activation)


@rule(torch.softmax, Tensor.softmax, functional.softmax)
def softmax(x: Any, dim: int, *args: Any, dtype: torch.dtype | None = None, **more: Any) -> Any:
    if dtype not in (None, x.value.dtype) or args:
        return NotImplemented
    value = torch.softmax(x.value, dim)
    change, along = x.change * value, dim % x.value.ndim + 1
    return ForwardTensor(value, change.addcmul_(change.sum(along, keepdim=True), value, value=-1))


@rule(functional.layer_norm)
def layer_norm(x: Any, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Any:
    """x̂ = (x − mean) / σ: its change is (c − mean(c) − x̂ · mean(x̂ c)) / σ."""
    if len(shape) != 1 or isinstance(weight, ForwardTensor) or isinstance(bias, ForwardTensor):
        return NotImplemented
    value, mean, per_deviation = torch.native_layer_norm(x.value, shape, weight, bias, eps)
    unit = (x.value - mean) * per_deviation
    gain = per_deviation.expand_as(unit) if weight is None else per_deviation * weight
    level = x.change.mean(-1, keepdim=True)
    along = (x.change * unit).mean(-1, keepdim=True)
    change = (x.change * gain).addcmul_(level, gain, value=-1)
    return ForwardTensor(value, change.addcmul_(along, unit * gain, value=-1))


def rows(change: Tensor) -> Tensor:
    """(U, …, m, k) → (…, U·m, k): all directions' rows against one matrix."""
    moved = change.movedim(0, -3)
    return moved.reshape(*moved.shape[:-3], -1, moved.shape[-1])


def columns(change: Tensor) -> Tensor:
    """(U, …, k, n) → (…, k, U·n): one matrix against all directions' columns."""
    moved = change.movedim(0, -2)
    return moved.reshape(*moved.shape[:-2], -1)


@rule(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm)
def matmul(a: Any, b: Any) -> Any:
    first, second = value_of(a), value_of(b)
    if min(first.ndim, second.ndim) < 2 or first.shape[:-2] != second.shape[:-2]:
        return NotImplemented
    changes = []
    if isinstance(a, ForwardTensor):
        changes.append((rows(a.change) @ second).unflatten(-2, (len(a.change), -1)).movedim(-3, 0))
    if isinstance(b, ForwardTensor):
        changes.append((first @ columns(b.change)).unflatten(-1, (len(b.change), -1)).movedim(-2, 0))
    return ForwardTensor(first @ second, changes[0] if len(changes) == 1 else changes[0] + changes[1])


@rule(functional.scaled_dot_product_attention)
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """P = softmax(s q kᵀ), o = P v. With G = P ∘ d(s q kᵀ):  do = G v − rowsum(G) ∘ o + P dv.

    Everything lies as (…, S_q, U, ·), so that each product is a long one and the sums are taken in place.
    """
    q, k, v = (value_of(item) for item in (query, key, value))
    same = q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    if dropout_p > 0 or isinstance(attn_mask, ForwardTensor) or not same:
        return NotImplemented
    count = next(len(item.change) for item in (query, key, value) if isinstance(item, ForwardTensor))
    size = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    weight = _weights(q, k, size, attn_mask, is_causal)
    out = weight @ v
    change = out.new_zeros(*out.shape[:-1], count, out.shape[-1])
    if isinstance(value, ForwardTensor):
        change = (weight @ columns(value.change)).unflatten(-1, (count, -1))
    if isinstance(query, ForwardTensor) or isinstance(key, ForwardTensor):
        scores = weight.new_zeros(*weight.shape[:-1], count, weight.shape[-1])
        if isinstance(key, ForwardTensor):
            scores = ((size * q) @ rows(key.change).mT).unflatten(-1, (count, -1))
        if isinstance(query, ForwardTensor):
            add_product(scores, query.change.movedim(0, -2), (size * k).mT)
        scores.mul_(weight[..., None, :])
        add_product(change, scores, v)
        change.addcmul_(scores.sum(-1, keepdim=True), out[..., None, :], value=-1)
    return ForwardTensor(out, change.movedim(-2, 0))


def add_product(total: Tensor, rows: Tensor, matrix: Tensor) -> None:
    """total (…, m, U, n) += rows (…, m, U, k) @ matrix (…, k, n), in place."""
    flat = total.view(-1, total.shape[-3] * total.shape[-2], total.shape[-1])
    flat.baddbmm_(rows.reshape(*flat.shape[:2], -1), matrix.reshape(len(flat), *matrix.shape[-2:]))


def _weights(q: Tensor, k: Tensor, size: float, mask: Tensor | None, causal: bool) -> Tensor:
    """Attention weights of the point; a row that may look nowhere is zero, as in torch."""
    scores = (size * q) @ k.mT
    if causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    if mask is None:
        return torch.softmax(scores, -1)
    scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    nowhere = (scores == -math.inf).all(-1, keepdim=True)
    return torch.softmax(scores, -1).masked_fill(nowhere, 0.0)
