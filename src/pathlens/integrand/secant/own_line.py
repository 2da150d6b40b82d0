"""An operation without a rule, integrated along its own line: ∫₀¹ J(x0 + t·Δx) dt, with as many nodes as its own sum needs.

In forward mode, or the way back taken back where a kernel has none. Between kinks, as choices of entries have them, the
line is halved until each piece holds its own sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap
from torch.utils._pytree import tree_flatten, tree_unflatten

from pathlens.errors import SecantError, first_line, setting
from pathlens.integrand.batch import any_derivative, out_of_memory
from pathlens.integrand.secant.both import Both, both_results, end_of, moves, note_integrated, passes, start_of
from pathlens.quadrature import gauss

CLOSE = {torch.float64: 1e-12, torch.float32: 1e-6}  # of the operation's change, relative to its largest value
PIECE = {torch.float64: 1e-13, torch.float32: 1e-6}  # the same of a piece between kinks
NODES = (4, 8, 16, 32, 64)
MOST = 2048  # nodes of a line with kinks: half a hundred kinks in float64, twice as many in float32
SHORTEST = 2.0**-44  # a piece; one that does not hold its sum by then jumps

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
        plan = line.nodes()
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

    def nodes(self) -> Plan:
        """Nodes at which the operation's own sum holds: Σ wₖ J(xₖ)·Δx = Δf."""
        value, part, scales = self._measured()
        first, last = value(0.0), value(1.0)

        def hold(start: Sequence[Tensor], end: Sequence[Tensor], plan: Plan, limits: dict[torch.dtype, float]) -> bool:
            reached = self._sum(plan, part)
            return all(
                not a.numel() or float((sum_ - (b - a)).abs().max()) <= limits.get(a.real.dtype, 1e-2) * scale
                for a, b, sum_, scale in zip(start, end, reached, scales, strict=True)
            )

        for count in NODES:
            plan = _within(0.0, 1.0, count)
            if hold(first, last, plan, CLOSE):
                return plan
        plan, pieces, tried = [], [(0.0, 1.0, first, last)], 0
        while pieces:
            low, high, start, end = pieces.pop()
            some = _within(low, high, 2)
            tried += 1
            if hold(start, end, some, PIECE):
                plan += some
                continue
            if high - low < SHORTEST:
                raise self._jumps()
            if tried > MOST:
                raise SecantError(
                    f"{self.name} has no rule, and too many kinks or too steep a derivative between the baseline and the text to be "
                    f"integrated: secants cannot follow it. Use {setting(method='ig')}, or {setting(method='sig')}"
                )
            middle = (low + high) / 2
            between = value(middle)
            pieces += [(middle, high, between, end), (low, middle, start, between)]
        return plan

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
