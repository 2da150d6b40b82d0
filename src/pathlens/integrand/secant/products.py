"""Rules of products, quotients and linear layers: Δ(ab) = ā·Δb + Δa·b̄, and Δ(a/n) = (Δa − ȳ·Δn)/n̄."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pathlens.integrand import products as layouts
from pathlens.integrand.secant.both import COMPLEX, RULES, Both, Rule, Step, affine, moves, values
from pathlens.integrand.secant.elementwise import inverse, power, same_sign
from pathlens.integrand.secant.table import named, rule


def _mean(x: Both) -> Tensor:
    x0, x1 = values(x)
    return torch.lerp(x0, x1, 0.5)


def bilinear(function: Any) -> Rule:
    """Δ(ab) = ā·Δb + Δa·b̄; with one side constant the operation is its own mean derivative."""

    def follow(a: Any, b: Any, *args: Any, **more: Any) -> Any:
        if not (moves(a) and moves(b)):
            return affine(function, (a, b, *args), more)
        return bilinear_of(lambda x, y: function(x, y, *args, **more), a, b)

    return follow


def bilinear_of(f: Callable[[Tensor, Tensor], Tensor], a: Both, b: Both, pull: Any = None) -> Both:
    with torch.no_grad():
        mean_a, mean_b = _mean(a), _mean(b)
        kept = () if pull is None else (mean_a, mean_b)
        step = Step(f(a.start, b.start), f(a.end, b.end), lambda u, v: _lift(f, u, mean_b, v, mean_a), pull, kept)
    return step.of(a, b)


def _lift(f: Callable[[Tensor, Tensor], Tensor], u: Tensor, mean_b: Tensor, v: Tensor, mean_a: Tensor) -> Any:
    """f(u, b̄) + f(ā, v); the changes of U units stand in front, so shorter shapes get their ones first."""
    if u.ndim == mean_a.ndim and v.ndim == mean_b.ndim:
        return f(u, mean_b) + f(mean_a, v)
    return torch.vmap(lambda one, other: f(one, mean_b) + f(mean_a, other))(u, v)


for each in (
    *named("matmul mm bmm __matmul__ dot mv inner outer ger vdot kron tensordot cross"),
    torch.linalg.cross,
    torch.linalg.vecdot,
):
    RULES[each] = bilinear(each)
RULES[Tensor.__rmatmul__] = lambda b, a: torch.matmul(a, b)
COMPLEX.update(
    (Tensor.__rmatmul__, *named("matmul mm bmm __matmul__ mv outer mul multiply __mul__ __rmul__ einsum abs absolute"))
)


@rule("mul multiply __mul__ __rmul__")
def mul(a: Any, b: Any, **more: Any) -> Any:
    """A product; with 1/n, the quotient by n."""
    for x, other in ((a, b), (b, a)):
        if moves(other) and isinstance(x, Both) and x is not other and (n := other.inverse_of) is not None:
            return divide(x, n)
    if moves(a) and moves(b):
        if a is b and not a.is_complex():
            return power(a, 2)
        return bilinear_of(torch.mul, a, b, lambda g, mean_a, mean_b: (g * mean_b.conj(), g * mean_a.conj()))
    return affine(torch.mul, (a, b), more)


@rule("div divide true_divide __truediv__ __div__")
def divide(a: Any, b: Any, **more: Any) -> Any:
    """y = a/n: Δy = (Δa − ȳ·Δn) / n̄."""
    if more.get("rounding_mode") is not None:
        return NotImplemented
    if not moves(b):
        return affine(torch.div, (a, b), {})
    if not moves(a):
        return affine(torch.mul, (a, inverse(b)), {}) if not _is_one(a) else inverse(b)
    with torch.no_grad():
        n0, n1 = values(b)
        same_sign(n0, n1)
        y0, y1 = a.start / n0, a.end / n1
        mean, n = torch.lerp(y0, y1, 0.5), torch.lerp(n0, n1, 0.5)
    return Step(y0, y1.detach(), lambda u, v: _quotient(u, v, mean, n), _quotient_back, (mean, n)).of(a, b)


def _quotient(u: Tensor, v: Tensor, mean: Tensor, n: Tensor) -> Any:
    if u.ndim > mean.ndim or v.ndim > n.ndim:
        return torch.vmap(lambda one, other: (one - mean * other) / n)(u, v)
    return (u - mean * v) / n


def _quotient_back(g: Tensor, mean: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    share = g / n
    return share, -mean * share


def _is_one(a: Any) -> bool:
    return isinstance(a, int | float) and a == 1


@rule("__rtruediv__ __rdiv__")
def rdivide(b: Any, a: Any) -> Any:
    return divide(a, b)


@rule("einsum")
def einsum(equation: str, *operands: Any) -> Any:
    operands = tuple(operands[0]) if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    moving = [x for x in operands if moves(x)]
    if len(moving) == 1:
        return affine(torch.einsum, (equation, *operands), {})
    if len(operands) != 2:
        return NotImplemented
    return bilinear_of(lambda x, y: torch.einsum(equation, x, y), *operands)


def _with_product(product: Any) -> Rule:
    """beta·input + alpha·(a @ b)."""

    def follow(
        base: Any, *factors: Any, beta: float = 1, alpha: float = 1, value: float = 1, **named_factors: Any
    ) -> Any:
        made, alpha = product(*factors, *named_factors.values()), alpha * value
        made = made if alpha == 1 else made * alpha
        return made + (base if beta == 1 else base * beta)

    return follow


for names, product in (
    ("addmm addmv", torch.matmul),
    ("baddbmm", torch.bmm),
    ("addcmul", torch.mul),
    ("addr", torch.outer),
):
    for each in named(names):
        RULES[each] = _with_product(product)


@rule("addcdiv")
def addcdiv(base: Any, a: Any, b: Any, *, value: float = 1) -> Any:
    return base + (a / b) * value


@rule("lerp")
def lerp(start: Any, end: Any, weight: Any) -> Any:
    return start + (end - start) * weight


@rule("cdist")
def cdist(a: Any, b: Any, p: float = 2.0, *_: Any, **more: Any) -> Any:
    return torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), ord=p, dim=-1)


def _convolution(function: Any) -> Rule:
    """Weights that stay: affine. Both moving is left to the operation's own line."""

    def follow(x: Any, weight: Any, *args: Any, **more: Any) -> Any:
        if moves(x) and moves(weight):
            return NotImplemented
        return affine(function, (x, weight, *args), more)

    return follow


for each in named("conv1d conv2d conv3d conv_transpose1d conv_transpose2d _grouped_mm grouped_mm"):
    RULES[each] = _convolution(each)


class _LinearOfBothRuns(torch.autograd.Function):
    """x @ weightᵀ + bias of both runs in one product, pulled back for the text's run alone."""

    @staticmethod
    def forward(ctx: Any, end: Tensor, start: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
        ctx.weight = weight
        both = layouts.linear(torch.stack([start, end]), weight, bias)
        first, last = both[0].data, both[1].data  # `data`: no views of one another, so a model may write into them
        ctx.mark_non_differentiable(first)
        ctx.set_materialize_grads(False)
        return first, last

    @staticmethod
    def backward(ctx: Any, _: Any, slope: Tensor | None) -> Any:
        return None if slope is None else layouts.pulled(slope, ctx.weight), None, None, None


@rule("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    if not moves(x) or moves(weight) or moves(bias):
        if moves(x) and moves(weight):
            product = torch.matmul(x, weight.mT)
            return product if bias is None else product + bias
        return affine(functional.linear, (x, weight, bias), {})
    if x.change is None:
        with torch.enable_grad():
            return Both(*_LinearOfBothRuns.apply(x.end, x.start, weight, bias))  # type: ignore[no-untyped-call]
    start, end = layouts.linear(torch.stack([x.start, x.end]), weight, bias).unbind(0)
    return Both(start, end, layouts.linear(x.change, weight))
