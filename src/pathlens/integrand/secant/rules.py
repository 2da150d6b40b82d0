"""The table: every operation's mean derivative between its two values (METHODS §13), one small function an operation.

A rule has its operation's signature and gives the followed result, or NotImplemented for a use it does not cover. With
0 for the baseline's run, 1 for the text's and a bar for the mean of both:

    elementwise g         (g(x1) − g(x0)) / (x1 − x0)
    product a·b           ā·Δb + Δa·b̄
    quotient a/n          (Δa − ȳ·Δn) / n̄               so every normalisation, however it is written, is bounded
    softmax p             L·(Δz − Σ w·Δz),  L the logarithmic mean of p0 and p1,  w = L / ΣL
    maximum               the share of the way on which each entry is the largest
    linear operations     themselves

An operation that is not here is integrated along its own line (own_line.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp
from torch.nn import functional

from pathlens.errors import SecantError
from pathlens.integrand import products
from pathlens.integrand.secant.both import AFFINE, RULES, Both, Rule, Step, affine, end_of, moves, start_of, values

HOMES = (Tensor, torch, functional, torch.special, torch.fft)


def named(names: str, homes: Sequence[Any] = HOMES) -> list[Any]:
    """The functions of these names, wherever torch offers them."""
    found = [getattr(home, name, None) for name in names.split() for home in homes]
    return [each for each in found if callable(each)]


def rule(names: str) -> Callable[[Rule], Rule]:
    def note(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(named(names), function))
        return function

    return note


# Affine operations: their own mean derivative

AFFINE.update(
    named(
        "view reshape flatten unflatten ravel squeeze unsqueeze contiguous transpose permute swapaxes swapdims movedim "
        "moveaxis t adjoint expand expand_as broadcast_to broadcast_tensors repeat repeat_interleave tile roll flip fliplr "
        "flipud rot90 cat concat concatenate stack hstack vstack dstack chunk split split_with_sizes tensor_split unbind "
        "narrow select index_select gather take take_along_dim masked_select diagonal diag diag_embed diagonal_scatter tril "
        "triu masked_fill masked_fill_ masked_scatter scatter scatter_ scatter_add scatter_add_ index_add index_add_ "
        "index_copy index_copy_ index_put index_put_ index_fill index_fill_ where pad unfold fold as_strided view_as "
        "reshape_as clone to type_as type float double half bfloat16 cpu cuda sum mean nansum cumsum add sub subtract rsub "
        "neg negative positive __add__ __radd__ __sub__ __rsub__ __neg__ __pos__ __iadd__ __isub__ add_ sub_ neg_ zero_ "
        "fill_ copy_ avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d interpolate pixel_shuffle fft ifft fft2 "
        "ifft2 fftn ifftn rfft irfft rfftn irfftn fftshift view_as_real view_as_complex real imag __getitem__ __setitem__ "
        "trace block_diag tril_ triu_ unsqueeze_ squeeze_ transpose_ diff atleast_1d atleast_2d dropout_ slice_scatter "
        "select_scatter resolve_conj resolve_neg conj logical_not"
    )
)


def _constant(function: Any) -> Rule:
    return lambda x, *args, **more: function(end_of(x), *args, **more)


for each in named(
    "new_zeros new_ones new_full new_empty new_tensor zeros_like ones_like empty_like full_like rand_like randn_like size dim "
    "ndimension numel nelement stride is_floating_point is_complex is_contiguous element_size get_device is_nonzero_ "
    "result_type can_cast is_tensor is_signed storage_offset is_inference is_pinned"
):
    RULES[each] = _constant(each)


@rule("detach detach_ requires_grad_")
def detach(x: Both, *args: Any) -> Any:
    """A value that is not trained through is a value all the same, and the output depends on it."""
    return x


@rule("dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d")
def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return NotImplemented if training and p > 0 else x


@rule("batch_norm")
def batch_norm(x: Any, *args: Any, training: bool = False, **more: Any) -> Any:
    if training or (len(args) > 4 and args[4]):
        return NotImplemented
    return affine(functional.batch_norm, (x, *args), more)


# Elementwise functions

SMOOTH = "tanh sigmoid erf erfc exp2 expm1 sin cos atan arctan sinh cosh asinh gelu silu softplus mish logsigmoid tanhshrink sinc"
SCALED = "log log2 log10 log1p reciprocal acos asin acosh atanh"  # what is small is small beside x itself
KINKED = (
    "relu abs absolute leaky_relu rrelu prelu clamp clip clamp_min clamp_max hardtanh relu6 hardswish hardsigmoid softshrink "
    "threshold nan_to_num elu celu selu softsign"
)
JUMPING = "hardshrink sign sgn round floor ceil trunc frac fix heaviside"


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def slope_between(f: Callable[[Tensor], Tensor], x0: Tensor, x1: Tensor, kind: str = "smooth") -> Tensor:
    """(f(x1) − f(x0)) / (x1 − x0) of each number; where the two are close, the mean of f′ at two Gauss points.

    `kind` says how close is close: beside 1 and x ("smooth"), beside x ("scaled"), or never but for equality ("kinked").
    The bound is where what the difference loses to rounding meets the Gauss points' own error, Δ⁴/4320.
    """
    wide0, wide1 = _wide(x0), _wide(x1)
    delta = wide1 - wide0
    slope = (f(wide1) - f(wide0)) / delta
    close = delta == 0
    if kind != "kinked":
        bound = 0.5 * (4320 * torch.finfo(delta.dtype).eps) ** 0.25
        size = torch.maximum(wide0.abs(), wide1.abs())
        close |= delta.abs() <= bound * (size.clamp_max(1.0) if kind == "scaled" else 1.0)
    if close.any():
        centre, half = (wide0 + wide1)[close] / 2, delta[close] / (2 * math.sqrt(3.0))
        ones = torch.ones_like(centre)
        parts = [jvp(f, (centre + sign * half,), (ones,))[1] for sign in (-1, 1)] if kind != "kinked" else [
            jvp(f, (centre,), (ones,))[1]
        ] * 2  # fmt: skip
        slope[close] = (parts[0] + parts[1]) / 2
    return slope


def _scaled_by(slope: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda v: v * slope.to(v.dtype)


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
            f = lambda t: function(t, *args, **more)  # noqa: E731
            slope = slope_between(f, x0, x1, kind) if not broadcast else _kinked_slope(f, x0, x1)
            step = Step(f(x0), f(x1), _scaled_by(slope))
        result = step.of(x)
        return write(x, result) if inplace else result

    return follow


def _kinked_slope(f: Callable[[Tensor], Tensor], x0: Tensor, x1: Tensor) -> Tensor:
    """The same where other tensors (bounds, slopes by channel) stand beside x: no cutting out of single numbers."""
    delta = x1 - x0
    return torch.where(delta == 0, jvp(f, (x1,), (torch.ones_like(x1),))[1], (f(x1) - f(x0)) / delta)


for kind, names in (("smooth", SMOOTH), ("scaled", SCALED), ("kinked", KINKED)):
    for each in named(names):
        RULES[each] = elementwise(each, kind)


@rule("clamp clip")
def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """Between numbers that stay, an elementwise function; between tensors that move, maximum and minimum."""
    if not (isinstance(min, Both) or isinstance(max, Both)):
        return elementwise(torch.clamp, "kinked")(x, min, max)
    x = x if min is None else maximum(x, min)
    return x if max is None else minimum(x, max)


def _jumping(function: Any) -> Rule:
    def follow(x: Any, *args: Any, **more: Any) -> Any:
        with torch.no_grad():
            start, end = (function(of(x), *(of(a) for a in args), **more) for of in (start_of, end_of))
        if not torch.equal(start, end):
            raise SecantError(
                f"{function.__name__} jumps between the baseline and the text, so no mean derivative exists; use method='sig', "
                "or rule='split'"
            )
        return end

    return follow


for each in named(JUMPING):
    RULES[each] = _jumping(each)


@rule("exp")
def exp(x: Any) -> Any:
    """The logarithmic mean of both values: e^x̄ · sinh(h)/h, h = Δx/2."""
    with torch.no_grad():
        x0, x1 = values(x)
        step = Step(x0.exp(), x1.exp(), _scaled_by(log_mean(_wide(x0), _wide(x1))))
    return step.of(x)


@rule("sqrt")
def sqrt(x: Any) -> Any:
    """1/(n0 + n1)."""
    with torch.no_grad():
        n0, n1 = (each.sqrt() for each in values(x))
        step = Step(n0, n1, _scaled_by(1 / (n0 + n1).clamp_min(torch.finfo(n0.dtype).tiny)))
    return step.of(x)


@rule("rsqrt")
def rsqrt(x: Any) -> Any:
    return _inverse(torch.sqrt(x), torch.rsqrt)


@rule("reciprocal")
def reciprocal(x: Any) -> Any:
    return _inverse(x, None, x)


def _inverse(n: Both, function: Any, x: Both | None = None) -> Both:
    """1/n: its change is −Δn / (n0·n1); remembered as a reciprocal, so that a product with it is a quotient by n."""
    with torch.no_grad():
        n0, n1 = values(n)
        _same_sign(n0, n1)
        slope = -1 / (n0 * n1)
        step = Step(1 / n0, 1 / n1, _scaled_by(slope))
    result = step.of(n)
    result.reciprocal = n
    return result


def _same_sign(n0: Tensor, n1: Tensor) -> None:
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
        root = x if exponent in (-1, -2) else torch.sqrt(x)
        root = power(root, 2) if exponent == -2 else root
        return root if exponent == 0.5 else _inverse(root, None)
    with torch.no_grad():
        x0, x1 = values(x)
        if exponent == 2:
            slope = x0 + x1
        elif exponent == 3:
            slope = x0 * x0 + x0 * x1 + x1 * x1
        else:
            slope = slope_between(lambda t: t.pow(exponent), x0, x1, "scaled")
        step = Step(x0.pow(exponent), x1.pow(exponent), _scaled_by(slope))
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
        step = Step(base**x0, base**x1, _scaled_by(slope_between(lambda t: base**t, x0, x1)))
    return step.of(exponent)


# Products and quotients


def _mean(x: Both) -> Tensor:
    x0, x1 = values(x)
    return torch.lerp(x0, x1, 0.5)


def bilinear(function: Any) -> Rule:
    """Δ(ab) = ā·Δb + Δa·b̄; with one side constant the operation is its own mean derivative."""

    def follow(a: Any, b: Any, **more: Any) -> Any:
        if not (moves(a) and moves(b)):
            return affine(function, (a, b), more)
        return bilinear_of(lambda x, y: function(x, y, **more), a, b)

    return follow


def bilinear_of(f: Callable[[Tensor, Tensor], Tensor], a: Both, b: Both) -> Both:
    with torch.no_grad():
        mean_a, mean_b = _mean(a), _mean(b)
        step = Step(f(a.start, b.start), f(a.end, b.end), lambda u, v: _lift(f, u, mean_b, v, mean_a))
    return step.of(a, b)


def _lift(f: Callable[[Tensor, Tensor], Tensor], u: Tensor, mean_b: Tensor, v: Tensor, mean_a: Tensor) -> Tensor:
    """f(u, b̄) + f(ā, v); the changes of U units stand in front, so shorter shapes get their ones first."""
    if u.ndim == mean_a.ndim and v.ndim == mean_b.ndim:
        return f(u, mean_b) + f(mean_a, v)
    return torch.vmap(lambda one, other: f(one, mean_b) + f(mean_a, other))(u, v)


for each in named("matmul mm bmm __matmul__ dot mv inner outer multiply kron tensordot cross"):
    RULES[each] = bilinear(each)
RULES[Tensor.__rmatmul__] = lambda b, a: torch.matmul(a, b)


@rule("mul multiply __mul__ __rmul__")
def mul(a: Any, b: Any, **more: Any) -> Any:
    """A product; with 1/n, the quotient by n."""
    for x, other in ((a, b), (b, a)):
        if moves(other) and other.reciprocal is not None and isinstance(x, Both) and x is not other:
            return divide(x, other.reciprocal)
    if moves(a) and moves(b):
        if a is b:
            return power(a, 2)
        return bilinear_of(torch.mul, a, b)
    return affine(torch.mul, (a, b), more)


@rule("div divide true_divide __truediv__ __div__")
def divide(a: Any, b: Any, **more: Any) -> Any:
    """y = a/n: Δy = (Δa − ȳ·Δn) / n̄."""
    if more.get("rounding_mode") is not None:
        return NotImplemented
    if not moves(b):
        return affine(torch.div, (a, b), {})
    if not moves(a):
        return affine(torch.mul, (a, _inverse(b, None)), {}) if not _is_one(a) else _inverse(b, None)
    with torch.no_grad():
        n0, n1 = values(b)
        _same_sign(n0, n1)
        y0, y1 = a.start / n0, a.end / n1
        mean, n = torch.lerp(y0, y1, 0.5), torch.lerp(n0, n1, 0.5)
    return Step(y0, y1.detach(), lambda u, v: _quotient(u, v, mean, n)).of(a, b)


def _quotient(u: Tensor, v: Tensor, mean: Tensor, n: Tensor) -> Tensor:
    if u.ndim > mean.ndim or v.ndim > n.ndim:
        return torch.vmap(lambda one, other: (one - mean * other) / n)(u, v)
    return (u - mean * v) / n


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
def lerp(a: Any, b: Any, weight: Any) -> Any:
    return a + (b - a) * weight


def _convolution(function: Any) -> Rule:
    """Weights that stay: affine. Both moving is left to the operation's own line."""

    def follow(x: Any, weight: Any, *args: Any, **more: Any) -> Any:
        if moves(x) and moves(weight):
            return NotImplemented
        return affine(function, (x, weight, *args), more)

    return follow


for each in named("conv1d conv2d conv3d conv_transpose1d conv_transpose2d _grouped_mm grouped_mm"):
    RULES[each] = _convolution(each)


class _Linear(torch.autograd.Function):
    """x @ weightᵀ + bias of both runs in one product, pulled back for the text's run alone."""

    @staticmethod
    def forward(ctx: Any, end: Tensor, start: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
        ctx.weight = weight
        both = products.linear(torch.stack([start, end]), weight, bias)
        first, last = both[0].data, both[1].data  # `data`: no views of one another, so a model may write into them
        ctx.mark_non_differentiable(first)
        ctx.set_materialize_grads(False)
        return first, last

    @staticmethod
    def backward(ctx: Any, _: Any, slope: Tensor | None) -> Any:  # type: ignore[override]
        return None if slope is None else products.pulled(slope, ctx.weight), None, None, None


@rule("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    if not moves(x) or moves(weight) or moves(bias):
        if moves(x) and moves(weight):
            product = torch.matmul(x, weight.mT)
            return product if bias is None else product + bias
        return affine(functional.linear, (x, weight, bias), {})
    if x.change is None:
        with torch.enable_grad():
            return Both(*_Linear.apply(x.end, x.start, weight, bias))
    start, end = products.linear(torch.stack([x.start, x.end]), weight, bias).unbind(0)
    return Both(start, end, products.linear(x.change, weight))


# Softmax and its kin


def log_mean(l0: Tensor, l1: Tensor) -> Tensor:
    """The logarithmic mean of e^l0 and e^l1: e^mean · sinh(h)/h with h = (l1 − l0)/2, stable for all h; 0 where both are 0."""
    half = (l1 - l0) / 2
    small = half.abs() < 5  # beyond, the plain quotient loses nothing
    h = torch.where(small, half, 1.0)
    series = 1 + h * h / 6 * (1 + h * h / 20)
    ratio = torch.where(h.abs() < 0.05, series, torch.sinh(h) / torch.where(h == 0, 1.0, h))
    near = torch.exp((l0 + l1) / 2) * ratio
    far = (l1.exp() - l0.exp()) / torch.where(small, 1.0, 2 * half)
    never = torch.isneginf(l0) | torch.isneginf(l1)
    return torch.where(small, near, far).masked_fill(never | torch.isnan(half), 0.0)


def _soft(z: Both, dim: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """log p of both runs, L and w."""
    l0, l1 = (torch.log_softmax(_wide(each), dim) for each in values(z))
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


# Norms


def _normalised(x: Both, dims: tuple[int, ...], eps: float, *, centred: bool) -> Step:
    """y = u/n, n = √(mean u² + ε): Δn = mean(ū·Δu)/n̄, Δy = (Δu − ȳ·Δn)/n̄."""
    u0, u1 = (_wide(each) for each in values(x))
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


# Maxima


@rule("maximum fmax")
def maximum(a: Any, b: Any) -> Any:
    """b + relu(a − b): each side by the share of the way on which it is the larger."""
    with torch.no_grad():
        (a0, a1), (b0, b1) = ((start_of(x), end_of(x).detach()) for x in (a, b))
        share = _kinked_slope(torch.relu, a0 - b0, a1 - b1)
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


# Writing into a tensor: the rule's result takes the place of the old values


def write(target: Both, result: Both) -> Both:
    with torch.no_grad():
        target.start.copy_(result.start)
    with torch.enable_grad():
        target.end.copy_(result.end)
    if target.change is not None:
        target.change.copy_(result.change)
    target.reciprocal = None
    return target


def _writing(follow: Rule) -> Rule:
    def written(x: Any, *args: Any, **more: Any) -> Any:
        result = follow(x, *args, **more) if isinstance(x, Both) else NotImplemented
        return write(x, result) if isinstance(result, Both) else NotImplemented

    return written


def _in_place_rules() -> dict[Any, Rule]:
    made = {}
    for name in dir(Tensor):
        plain = f"__{name[3:]}" if name in ("__imul__", "__itruediv__", "__ipow__") else name[:-1]
        function = getattr(Tensor, plain, None) if name.endswith("_") else None
        if function in RULES and getattr(Tensor, name) not in RULES and getattr(Tensor, name) not in AFFINE:
            made[getattr(Tensor, name)] = _writing(RULES[function])
    return made


RULES.update(_in_place_rules())
