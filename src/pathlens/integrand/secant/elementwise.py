"""Rules of elementwise functions and powers: (g(x1) − g(x0)) / (x1 − x0) of each number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pathlens.errors import SecantError, setting
from pathlens.integrand.secant.both import RULES, Both, Rule, Step, affine, end_of, moves, start_of, values
from pathlens.integrand.secant.table import named, rule, write

SMOOTH = "tanh sigmoid erf erfc exp2 expm1 sin cos atan arctan sinh cosh asinh gelu silu softplus mish logsigmoid tanhshrink sinc"
SCALED = "log log2 log10 log1p reciprocal acos asin acosh atanh"  # what is small is small beside x itself
KINKED = (
    "relu abs absolute leaky_relu rrelu prelu clamp clip clamp_min clamp_max hardtanh relu6 hardswish hardsigmoid softshrink "
    "threshold nan_to_num elu celu selu softsign"
)
JUMPING = "hardshrink sign sgn round floor ceil trunc frac fix heaviside"


ROUNDING = 16  # units in the last place by which the values of a function may be off: gelu's, of x


def wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def step_between(f: Callable[[Tensor], Tensor], x0: Tensor, x1: Tensor, kind: str = "smooth") -> Step:
    """Both values, and (f(x1) − f(x0)) / (x1 − x0) of each number; where that loses its digits, the mean of f′.

    `kind` says where that is looked for: close beside 1 and x ("smooth"), beside x ("scaled"), or only if equal ("kinked").
    The bound is where what the difference loses meets the error of two Gauss points, Δ⁴/4320, for a function whose scale is 1.
    """
    wide0, wide1 = wide(x0), wide(x1)
    first, last, delta = f(wide0), f(wide1), wide1 - wide0
    slope = (last - first).div_(delta)
    close = delta == 0
    if kind != "kinked":
        bound = 0.5 * (4320 * torch.finfo(delta.dtype).eps) ** 0.25
        size = torch.maximum(wide0.abs(), wide1.abs()).clamp_max_(1.0) if kind == "scaled" else 1.0
        close = delta.abs() <= bound * size
    at = close.reshape(-1).nonzero()[:, 0]
    if len(at):
        near, step = wide0.take(at), delta.take(at)
        centre, half = near + step / 2, step / (2 * math.sqrt(3.0))
        points = centre[None] if kind == "kinked" else torch.stack([centre - half, centre + half])
        mean = _derivative(f, points).mean(0)
        if kind != "kinked":  # whatever the scale of f: a mean that gives its change to rounding, or the difference
            value, change = first.take(at), last.take(at).sub_(first.take(at))
            off = (mean * step).sub_(change).abs_()
            good = off <= torch.maximum(value.abs_(), near.abs_()).mul_(ROUNDING * torch.finfo(off.dtype).eps)
            mean = torch.where(good, mean, slope.take(at))
        slope.put_(at, mean)
    if wide0 is not x0:  # the values are the model's own, in its own precision
        first, last = f(x0), f(x1)
    return scaled(first, last, slope)


def _derivative(f: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    """f′ of each number, in reverse mode: torch's forward mode first imports what takes longer than a short text."""
    points = points.detach().requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(f(points).sum(), points)
    return slope


def scaled(start: Tensor, end: Tensor, slope: Tensor) -> Step:
    """Of each number alone: a slope, on the way there and back."""
    return Step(start, end, lambda v: v * slope.to(v.dtype), lambda g, slope: (g * slope,), (slope,))


def elementwise(function: Any, kind: str) -> Rule:
    def follow(x: Any, *args: Any, **more: Any) -> Any:
        inplace = more.pop("inplace", False)
        if any(isinstance(arg, Both) for arg in (*args, *more.values())) or not isinstance(x, Both):
            return NotImplemented
        if not moves(x):
            return affine(function, (x, *args), more)
        broadcast = [arg for arg in (*args, *more.values()) if isinstance(arg, Tensor) and arg.ndim]
        if broadcast and kind != "kinked":
            return NotImplemented
        with torch.no_grad():
            x0, x1 = values(x)
            f: Callable[[Tensor], Tensor] = lambda t: function(t, *args, **more)  # noqa: E731
            step = scaled(f(x0), f(x1), kinked_slope(f, x0, x1)) if broadcast else step_between(f, x0, x1, kind)
        result = step.of(x)
        return write(x, result) if inplace else result

    return follow


def kinked_slope(f: Callable[[Tensor], Tensor], x0: Tensor, x1: Tensor) -> Tensor:
    """The same where other tensors (bounds, slopes by channel) stand beside x: no cutting out of single numbers."""
    delta = x1 - x0
    return torch.where(delta == 0, _derivative(f, x1), (f(x1) - f(x0)) / delta)


for kind, names in (("smooth", SMOOTH), ("scaled", SCALED), ("kinked", KINKED)):
    for each in named(names):
        RULES[each] = elementwise(each, kind)


def _jumps(name: str) -> str:
    return (
        f"{name} jumps between the baseline and the text, so no mean derivative exists; use {setting(method='sig')}, or "
        f"{setting(rule='split')}"
    )


def _jumping(function: Any) -> Rule:
    def follow(x: Any, *args: Any, **more: Any) -> Any:
        with torch.no_grad():
            start, end = (function(of(x), *(of(a) for a in args), **more) for of in (start_of, end_of))
        if not torch.equal(start, end):
            raise SecantError(_jumps(function.__name__))
        return end

    return follow


for each in named(JUMPING):
    RULES[each] = _jumping(each)


def _threshold(function: Any) -> Rule:
    """x above the threshold, a value below: it jumps there unless that value is the threshold."""

    def follow(x: Any, threshold: float, value: float, inplace: bool = False) -> Any:
        x0, x1 = values(x)
        if value != threshold and not torch.equal(x0 > threshold, x1 > threshold):
            raise SecantError(_jumps("threshold"))
        return elementwise(function, "kinked")(x, threshold, value, inplace=inplace)

    return follow


for each in named("threshold _threshold"):
    RULES[each] = _threshold(each)


@rule("abs absolute")
def size_of(x: Any) -> Any:
    """Of a complex number, the length of its two parts."""
    if x.is_complex():
        return torch.linalg.vector_norm(torch.view_as_real(x.resolve_conj()), dim=-1)
    return elementwise(torch.abs, "kinked")(x)


@rule("hypot")
def hypot(a: Any, b: Any) -> Any:
    return torch.sqrt(a * a + b * b)


@rule("exp")
def exp(x: Any) -> Any:
    """The logarithmic mean of both values: e^x̄ · sinh(h)/h, h = Δx/2."""
    with torch.no_grad():
        x0, x1 = values(x)
        step = scaled(x0.exp(), x1.exp(), log_mean(wide(x0), wide(x1)))
    return step.of(x)


@rule("sqrt")
def sqrt(x: Any) -> Any:
    """1/(n0 + n1)."""
    with torch.no_grad():
        n0, n1 = (each.sqrt() for each in values(x))
        step = scaled(n0, n1, 1 / (n0 + n1).clamp_min(torch.finfo(n0.dtype).tiny))
    return step.of(x)


@rule("rsqrt")
def rsqrt(x: Any) -> Any:
    return inverse(sqrt(x))


@rule("reciprocal")
def reciprocal(x: Any) -> Any:
    return inverse(x)


def inverse(n: Any) -> Both:
    """1/n: its change is −Δn / (n0·n1); remembered as a reciprocal, so that a product with it is a quotient by n."""
    with torch.no_grad():
        n0, n1 = values(n)
        same_sign(n0, n1)
        step = scaled(1 / n0, 1 / n1, -1 / (n0 * n1))
    result = step.of(n)
    result.remember_inverse_of(n)
    return result


def same_sign(n0: Tensor, n1: Tensor) -> None:
    if bool((n0 * n1 <= 0).any()):
        raise SecantError(
            "the model divides by a number that is zero, or whose sign differs between the baseline and the text: the quotient "
            "has no mean derivative. Use method='ig', or another baseline"
        )


@rule("square")
def square(x: Any) -> Any:
    return power(x, 2)


@rule("pow __pow__ float_power")
def power(x: Any, exponent: Any) -> Any:
    """Whole and half powers by their own formulas; Δ(x²) = 2x̄·Δx."""
    if isinstance(exponent, Both) or not isinstance(x, Both):
        return _power_of_constant(x, exponent)
    if isinstance(exponent, Tensor):
        if exponent.ndim:
            return NotImplemented
        exponent = exponent.item()
    if exponent == 1:
        return x
    if exponent in (-0.5, 0.5, -1, -2):
        root = x if exponent in (-1, -2) else sqrt(x)
        root = power(root, 2) if exponent == -2 else root
        return root if exponent == 0.5 else inverse(root)
    with torch.no_grad():
        x0, x1 = values(x)
        if exponent == 2:
            step = scaled(x0 * x0, x1 * x1, x0 + x1)
        elif exponent == 3:
            step = scaled(x0**3, x1**3, x0 * x0 + x0 * x1 + x1 * x1)
        else:
            step = step_between(lambda t: t.pow(exponent), x0, x1, "scaled")
    return step.of(x)


@rule("__rpow__")
def rpower(exponent: Any, base: Any) -> Any:
    return _power_of_constant(base, exponent)


def _power_of_constant(base: Any, exponent: Any) -> Any:
    if isinstance(base, Both) or not isinstance(exponent, Both):
        return NotImplemented
    with torch.no_grad():
        x0, x1 = values(exponent)
        if isinstance(base, Tensor) and base.ndim:
            return torch.exp(exponent * base.log())
        step = step_between(lambda t: base**t, x0, x1)
    return step.of(exponent)


def log_mean(l0: Tensor, l1: Tensor) -> Tensor:
    """The logarithmic mean of e^l0 and e^l1, stable however near or far they are; 0 where both are 0."""
    return log_mean_below(torch.maximum(l0, l1).exp_(), l0 - l1)


def log_mean_below(larger: Tensor, logs_apart: Tensor) -> Tensor:
    """The same from the larger of the two: larger·(1 − e^−a)/a with a the distance of their logarithms (written over)."""
    distance = logs_apart.abs_().clamp_min_(torch.finfo(logs_apart.dtype).tiny)
    return torch.expm1(-distance).div_(distance).mul_(larger).neg_().nan_to_num_(0.0)
