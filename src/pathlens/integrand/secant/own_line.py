"""An operation without a rule, integrated along its own line: ∫₀¹ J(x0 + t·Δx) dt, with as many nodes as its own sum needs.

In forward mode, or the way back taken back where a kernel has none. Between kinks, as choices of entries have them, the
line is halved until each piece holds its own sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap
from torch.utils._pytree import tree_flatten, tree_unflatten

from pathlens.errors import SecantError, first_line, setting
from pathlens.integrand.batch import any_derivative, out_of_memory
from pathlens.integrand.float64 import Float64
from pathlens.integrand.secant.both import Both, both_results, end_of, moves, note_integrated, passes, start_of
from pathlens.quadrature import gauss

CLOSE = {torch.float64: 1e-12, torch.float32: 1e-6}  # of the operation's change, relative to its largest value
PIECE = {torch.float64: 1e-13, torch.float32: 1e-6}  # the same of a piece between kinks
ENOUGH = 1e-6  # what METHODS ask for, where more nodes bring no more (torch's derivative of digamma has ten digits)
KINKS = 1e-6  # what all kinks may leave, of all the way that the values go: at a pole that is far more
HALF = 1e-2  # each of these in half precision
NODES = (4, 8, 16, 32, 64)
MOST = 2048  # pieces of a line with kinks that are tried: half a hundred kinks in float64, twice as many in float32
SHORTEST = 2.0**-44  # a piece; in one that does not hold its sum by then something has a kink, or jumps

Function = Callable[..., tuple[Tensor, ...]]
Measure = Callable[[float], Sequence[Tensor]]
Plan = list[tuple[float, float]]  # nodes and their weights


def follow(func: Any, leaves: list[Any], form: Any) -> Any:
    """Both values of every result, and its mean derivative as a sum over nodes."""
    moving = [i for i, leaf in enumerate(leaves) if moves(leaf)]

    def run(of: Callable[[Any], Any]) -> Any:
        args, kwargs = tree_unflatten([of(leaf) for leaf in leaves], form)
        return func(*args, **kwargs)

    with torch.no_grad():
        results, shape = tree_flatten(both_results(func, run(start_of), run(end_of)))
    chosen = [i for i, item in enumerate(results) if moves(item)]
    if not chosen:  # a size, a mask, a choice
        return tree_unflatten(results, shape)

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
    line = Between(name, step, [each.start for each in inputs], [each.end.detach() for each in inputs])
    with torch.no_grad(), any_derivative():
        plan = line.plan()
        first, last = line.values(0.0), line.values(1.0)
        if inputs[0].change is not None:
            changes = line.push(plan, [x.change for x in inputs])
            joined = [Both(*each) for each in zip(first, last, changes, strict=True)]
        else:
            with torch.enable_grad():
                tensors = (*(each.end for each in inputs), *line.starts)
                values = _Pulled.apply((line, plan, last), len(inputs), *tensors)  # type: ignore[no-untyped-call]
            joined = [Both(*each) for each in zip(first, values, strict=True)]
    for i, item in zip(chosen, joined, strict=True):
        results[i] = item
    return tree_unflatten(results, shape)


@dataclass(frozen=True, eq=False)
class Between:
    """One operation between its two values."""

    name: str
    step: Function
    starts: Sequence[Tensor]
    ends: Sequence[Tensor]
    exact: torch.dtype | None = None  # where the sum need be no more exact than in another precision than its own

    def at(self, t: float) -> tuple[Tensor, ...]:
        return tuple(torch.lerp(a, b, t) for a, b in zip(self.starts, self.ends, strict=True))

    def values(self, t: float) -> tuple[Tensor, ...]:
        return self.step(*self.at(t))

    def along(self, t: float, changes: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """J(x_t) on the changes."""
        try:
            moved: tuple[Tensor, ...] = jvp(self.step, self.at(t), tuple(changes))[1]
        except NotImplementedError:  # no forward mode; but the way back is linear, and has a way back of its own
            made, *back = vjp(self.step, *self.at(t))
            moved = vjp(lambda *slopes: back[0](slopes), *map(torch.zeros_like, made))[1](tuple(changes))
        return moved

    def push(self, plan: Plan, changes: Sequence[Tensor]) -> list[Tensor]:
        """J̄ on the changes of every unit."""
        try:
            return vmap(lambda *some: self._sum(plan, lambda t: self.along(t, some)))(*changes)
        except Exception as error:
            if passes(error):
                raise
            raise SecantError(
                f"{self.name} has no rule, and torch no derivative of it in forward mode ({first_line(error)}): secants have scores "
                f"of it and no vectors. Use {setting(method='vaig')}, {setting(method='ij')} for pairs, or ask for a score"
            ) from error

    def _sum(self, plan: Plan, part: Callable[[float], Sequence[Tensor]]) -> list[Tensor]:
        total: list[Tensor] = []
        for t, weight in plan:
            parts = [weight * each for each in part(t)]
            total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
        return total

    def plan(self) -> Plan:
        """Nodes at which the operation's own sum holds: Σ wₖ J(xₖ)·Δx = Δf.

        Those of float32 are looked for in float64, where there is one: beside a kink float32 has no digits left.
        """
        if all(each.dtype == torch.float32 for each in self.starts):
            try:
                with Float64():
                    starts, ends = ([each.double() for each in some] for some in (self.starts, self.ends))
                    return replace(self, starts=starts, ends=ends, exact=torch.float32).nodes()
            except (RuntimeError, TypeError) as error:  # a kernel, or a device, without it
                if out_of_memory(error):
                    raise
        return self.nodes()

    def nodes(self) -> Plan:
        """The same in the precision that the values have."""
        value, part, scales = self._measured()
        first, last = value(0.0), value(1.0)
        plan, reached, off = Plan(), list[Tensor](), list[Tensor]()
        for count in NODES:
            plan, before = _within(0.0, 1.0, count), reached
            reached = self._sum(plan, part)
            off = _missing(first, last, reached)
            if self._hold(off, CLOSE, scales):
                return plan
        enough = _hold(off, [ENOUGH * scale for scale in scales])
        if enough and all(_largest(a - b) <= 0.1 * _largest(c) for a, b, c in zip(reached, before, off, strict=True)):
            return plan  # twice the nodes moved nothing: this is how exact the derivative itself is
        try:
            return self._halved(value, part, scales)
        except SecantError:
            if enough:
                return plan
            raise

    def _halved(self, value: Measure, part: Measure, scales: Sequence[float]) -> Plan:
        """A line with kinks, halved until every piece holds its own sum."""
        first, last = value(0.0), value(1.0)
        plan, pieces, tried, kinks = Plan(), [(0.0, 1.0, first, last)], 0, False
        while pieces:
            low, high, start, end = pieces.pop()
            some = _within(low, high, 2)
            tried += 1
            off = _missing(start, end, self._sum(some, part))
            if self._hold(off, PIECE, scales):
                plan += some
                continue
            if high - low < SHORTEST:
                if not _is_kink(off, part, (low, *(t for t, _ in some), high)):
                    raise self._jumps()
                plan, kinks = plan + some, True
                continue
            if tried > MOST:
                raise SecantError(
                    f"{self.name} has no rule, and too many kinks or too steep a derivative between the baseline and the text to be "
                    f"integrated: secants cannot follow it. Use {setting(method='ig')}, or {setting(method='sig')}"
                )
            middle = (low + high) / 2
            between = value(middle)
            pieces += [(middle, high, between, end), (low, middle, start, between)]
        if kinks:  # beside a pole every slope is steep enough for what is missing
            way = self._sum(plan, lambda t: [each.abs() for each in part(t)])
            limits = [KINKS * max(scale, _largest(each)) for scale, each in zip(scales, way, strict=True)]
            if not _hold(_missing(first, last, self._sum(plan, part)), limits):
                raise self._jumps()
        return plan

    def _hold(self, off: Sequence[Tensor], limits: Mapping[torch.dtype, float], scales: Sequence[float]) -> bool:
        both = zip(off, scales, strict=True)
        return _hold(off, [limits.get(self.exact or each.dtype, HALF) * scale for each, scale in both])

    def _jumps(self) -> SecantError:
        return SecantError(
            f"{self.name} has no rule, and its derivative does not add up to its change between the baseline and the text (it jumps, "
            f"or its derivative is not its own): secants cannot follow it. Use {setting(method='ig')}, or {setting(method='sig')}"
        )

    def _measured(self) -> tuple[Measure, Measure, list[float]]:
        """What a sum is held against, the values, its parts, and their size; without forward mode of one number made of them."""
        delta = [b - a for a, b in zip(self.starts, self.ends, strict=True)]
        ends = self.values(0.0), self.values(1.0)
        scales = [
            max((float(y.abs().max()) for y in both if y.numel()), default=1.0) for both in zip(*ends, strict=True)
        ]
        try:
            self.along(0.5, delta)
            return self.values, lambda t: self.along(t, delta), [max(each, 1e-30) for each in scales]
        except RuntimeError as error:
            if out_of_memory(error):
                raise
        generator = torch.Generator().manual_seed(0)
        signs = [(2.0 * torch.randint(0, 2, y.shape, generator=generator) - 1).to(y) for y in ends[0]]
        signs = [each * (1 + 1j) if each.is_complex() else each for each in signs]

        def dot(some: Sequence[Tensor], others: Sequence[Tensor]) -> list[Tensor]:
            return [torch.stack([(a.conj() * b).real.sum() for a, b in zip(some, others, strict=True)]).sum()]

        size = sum(each * y.numel() ** 0.5 for each, y in zip(scales, signs, strict=True))

        def pulled(t: float) -> tuple[Tensor, ...]:
            _, *back = vjp(self.step, *self.at(t))
            slopes: tuple[Tensor, ...] = back[0](tuple(signs))
            return slopes

        return lambda t: dot(signs, self.values(t)), lambda t: dot(pulled(t), delta), [max(size, 1e-30)]


def _missing(start: Sequence[Tensor], end: Sequence[Tensor], reached: Sequence[Tensor]) -> list[Tensor]:
    return [(sum_ - (b - a)).abs() for a, b, sum_ in zip(start, end, reached, strict=True)]


def _hold(off: Sequence[Tensor], limits: Sequence[float]) -> bool:
    return all(_largest(each) <= limit for each, limit in zip(off, limits, strict=True))


def _is_kink(off: Sequence[Tensor], part: Measure, at: Sequence[float]) -> bool:
    """Is what a piece misses no more than its steepest slope times its width? A jump is more, however short the piece."""
    slopes = zip(*(part(t) for t in at), strict=True)
    steepest = [torch.stack([each.abs().nan_to_num(0.0, 0.0, 0.0) for each in of_one]).amax(0) for of_one in slopes]
    return all(bool((a <= b * (at[-1] - at[0])).all()) for a, b in zip(off, steepest, strict=True))


def _largest(some: Tensor) -> float:
    return float(some.abs().max()) if some.numel() else 0.0


def _within(low: float, high: float, count: int) -> Plan:
    rule, width = gauss(count), high - low
    return [(low + width * float(t), width * float(w)) for t, w in zip(rule.t, rule.weight, strict=True)]


class _Pulled(torch.autograd.Function):
    """Reverse mode: Σ wₖ J(xₖ)ᵀ, with the values of the text's run."""

    @staticmethod
    def forward(ctx: Any, known: Any, count: int, *tensors: Tensor) -> Any:
        ctx.line, ctx.plan, last = known
        ctx.count = count
        ctx.save_for_backward(*tensors)
        return tuple(last)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        tensors = ctx.saved_tensors
        line = Between(ctx.line.name, ctx.line.step, tensors[ctx.count :], tensors[: ctx.count])
        total = [torch.zeros_like(each) for each in line.ends]
        with torch.no_grad(), any_derivative():
            for t, weight in ctx.plan:
                for sum_, part in zip(total, vjp(line.step, *line.at(t))[1](tuple(slopes)), strict=True):
                    sum_.add_(part, alpha=weight)
        return (None, None, *total, *[None] * len(line.starts))
