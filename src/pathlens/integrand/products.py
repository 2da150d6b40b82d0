"""Matrix products with weights that stay as they are: laid out once for the processor, then used for many rows.

torch gives a float32 product on a processor to a library that lays the weight out anew at every call. oneDNN, which
torch carries too, can keep it laid out; a whole reverse pass of many rows then takes about an eighth less, and on
processors whose widest instructions that library leaves alone, less than half. Laying out costs what it saves on WORTH
rows at most, and a short run that ends just after it has only paid; so it waits until a weight has met as many, and
everything is forgotten when the run ends: between two runs a weight may change, inside one it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from pathlens.integrand.batch import Batch

# rows on the way there and back (transposing is the dearer half) that pay for it: measured 40 to 310 and 70 to 620, by the
# weight's sides and the processor's instructions
WORTH = {False: 256, True: 512}
SMALLEST = 64  # of a weight's two sides
LONG, PIECE = 8192, 512  # rows of a weight (a head over a vocabulary) whose sum is taken in pieces, and a piece's


def available() -> bool:
    """Measured where torch has both libraries; the two operations are what its own compiler uses."""
    operations = ("_linear_pointwise", "_reorder_linear_weight")
    both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return both and all(hasattr(torch.ops.mkldnn, name) for name in operations)


@dataclass(eq=False)
class Layouts:
    """Weights as this run has laid them out, and as their transposes for the way back."""

    room: int  # bytes they may hold together; further ones stay as they are
    rows: dict[tuple[int, bool], int] = field(default_factory=dict)
    laid: dict[tuple[int, bool], tuple[nn.Parameter, Tensor]] = field(default_factory=dict)
    held: int = 0

    def find(self, weight: Any, x: Tensor, *, back: bool = False) -> Tensor | None:
        """The layout for x @ weightᵀ (`back`: for x @ weight), or None where the plain product is taken."""
        if not _fits(weight, x):
            return None
        key = (id(weight), back)  # the entry keeps the weight, so its id is not given to another
        if key not in self.laid:
            self.rows[key] = self.rows.get(key, 0) + x.shape[:-1].numel()
            size = weight.nbytes
            if self.rows[key] < WORTH[back] or self.held + size > self.room:
                return None
            plain = weight.detach()
            laid = torch.ops.mkldnn._reorder_linear_weight(plain.t().contiguous() if back else plain)
            self.laid[key], self.held = (weight, laid), self.held + size
        return self.laid[key][1]


CURRENT: ContextVar[Layouts | None] = ContextVar("layouts", default=None)


@contextmanager
def kept_layouts(room: int = 512 << 20) -> Iterator[None]:
    """For one run: what is laid out inside is forgotten at the end, and never holds more than `room` bytes.

    A run inside another is a part of it.
    """
    if CURRENT.get() is not None:
        yield
        return
    token = CURRENT.set(Layouts(room) if available() else None)
    try:
        yield
    finally:
        CURRENT.reset(token)


def _fits(weight: Any, x: Tensor) -> bool:
    return (
        type(weight) is nn.Parameter
        and weight.ndim == 2
        and min(weight.shape) >= SMALLEST
        and type(x) is Tensor
        and all(each.dtype == torch.float32 and each.device.type == "cpu" for each in (weight, x))
    )


def laid_product(x: Tensor, laid: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, laid, bias, "none", [], "")
    return product


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """functional.linear of a tensor that nothing is differentiated by."""
    layouts = CURRENT.get()
    laid = layouts.find(weight, x) if layouts is not None else None
    return functional.linear(x, weight, bias) if laid is None else laid_product(x, laid, bias)


def pulled(slope: Tensor, weight: Tensor) -> Tensor:
    """slope @ weight: a linear layer on the way back."""
    layouts = CURRENT.get()
    laid = layouts.find(weight, slope, back=True) if layouts is not None else None
    if laid is not None:
        return laid_product(slope, laid, None)
    return slope @ weight.detach() if len(weight) <= LONG else _long_sum(slope, weight.detach())


def _long_sum(slope: Tensor, weight: Tensor) -> Tensor:
    """slope @ weight, its pieces added in float64: over a whole vocabulary one word stands against all others, and what
    float32 loses in one long sum was most of the gap of a language model's secants (5e-5 of the change, now 3e-6)."""
    total = slope.new_zeros((*slope.shape[:-1], weight.shape[1]), dtype=torch.float64)
    for part, rows in zip(slope.split(PIECE, -1), weight.split(PIECE), strict=True):
        total += part @ rows
    return total.to(slope.dtype)


class _Linear(torch.autograd.Function):
    """x @ weightᵀ + bias, differentiated by x alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.weight = weight
        return linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        return pulled(slope, ctx.weight), None, None


class _Routed(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is functional.linear and not kwargs and len(args) in (2, 3) and _fits(args[1], args[0]):
            if not torch.is_grad_enabled():
                return linear(*args)
            return _Linear.apply(*args, *[None] * (3 - len(args)))  # type: ignore[no-untyped-call]
        return func(*args, **(kwargs or {}))


def reverse_products(batch: Batch) -> AbstractContextManager[Any]:
    """The same for a reverse pass; not where blocks run again on the way back, which would take another way then."""
    return nullcontext() if batch.lean is not None else kept_products()


def kept_products() -> AbstractContextManager[Any]:
    """Inside, linear layers use the run's layouts. Only where nothing but x is differentiated, and only once."""
    return nullcontext() if CURRENT.get() is None else _Routed()
