"""Blocks that run again on the way back, one after another, each once for all the numbers that are asked for.

A checkpoint runs its block again for every number; a whole answer has one for each of its sentences. Here a block's outputs are
leaves of their own graph, and the slopes of all numbers are taken through it before the block in front is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint

from pathlens.integrand.secant.both import Both, followed_run, moves

_RECORDED: ContextVar[list[Segment] | None] = ContextVar("recorded", default=None)
_SEVERAL: ContextVar[bool] = ContextVar("several", default=False)
_checkpointed = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
Slopes = list[Tensor | None]  # of one tensor, for every number


@dataclass(frozen=True, eq=False)
class Segment:
    """One block's run: what entered it, and the leaves that stand for what left it."""

    forward: Callable[..., Any]
    entered: list[Any]
    form: TreeSpec
    left: list[Tensor]

    def inputs(self) -> list[Tensor]:
        return [leaf.end for leaf in self.entered if moves(leaf) and leaf.end.requires_grad]

    def again(self) -> tuple[list[Tensor], list[Tensor]]:
        """Run once more: its inputs as leaves, and its outputs with their graph."""
        inputs: list[Tensor] = []

        def fresh(leaf: Any) -> Any:
            if not (moves(leaf) and leaf.end.requires_grad):
                return leaf
            inputs.append(leaf.end.detach().requires_grad_())
            return Both(leaf.start.clone(), inputs[-1].clone())  # a block may write into its input

        args, kwargs = tree_unflatten([fresh(leaf) for leaf in self.entered], self.form)
        with torch.enable_grad(), followed_run():
            output = self.forward(*args, **kwargs)
            return inputs, [leaf.end for leaf in tree_flatten(output)[0] if moves(leaf)]


def run_again(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A block that keeps its input alone for the way back: a segment while they are recorded, else a checkpoint."""
    recorded, (entered, form) = _RECORDED.get(), tree_flatten((args, kwargs))
    if any(hasattr(leaf, "get_seq_length") for leaf in entered):
        return forward(*args, **kwargs)  # it writes into a cache: a second run would write again
    if recorded is None:
        return _checkpointed(forward, *args, **kwargs)
    at_rest = [Both(leaf.start.clone(), leaf.end.detach().clone()) if moves(leaf) else leaf for leaf in entered]
    inner_args, inner_kwargs = tree_unflatten(at_rest, form)
    entered = [leaf.kept() if isinstance(leaf, Both) else leaf for leaf in entered]
    leaves, shape = tree_flatten(forward(*inner_args, **inner_kwargs))
    for number, leaf in enumerate(leaves):
        if moves(leaf):
            leaves[number] = Both(leaf.start, leaf.end.detach().requires_grad_())
    recorded.append(Segment(forward, entered, form, [leaf.end for leaf in leaves if moves(leaf)]))
    return tree_unflatten(leaves, shape)


@contextmanager
def recorded_segments() -> Iterator[list[Segment]]:
    """While a score runs: the blocks that are to run again, as it comes to them."""
    segments: list[Segment] = []
    token = _RECORDED.set(segments)
    try:
        yield segments
    finally:
        _RECORDED.reset(token)


def several() -> bool:
    """Is a block's way back taken for several numbers, one after another? Then what they share is worth keeping."""
    return _SEVERAL.get()


def slopes_of(
    numbers: Sequence[Float[Tensor, ""]], position: Float[Tensor, "B S d"], segments: list[Segment]
) -> list[Float[Tensor, "B S d"]]:
    """J̄ᵀ of every number; segments are used up, the last first."""
    leaves = [position, *(leaf for segment in segments for leaf in segment.left)]
    known = _Known(leaves, len(numbers), kept=bool(segments))
    for place, each in enumerate(numbers):  # no slopes are given: torch would import sympy to look at their shapes
        kept = known.kept or place + 1 < len(numbers)
        known.note(place, torch.autograd.grad(each, leaves, retain_graph=kept, allow_unused=True))
    token = _SEVERAL.set(len(numbers) > 1)  # here alone: elsewhere what is kept would be kept for every block at once
    try:
        while segments:
            segment = segments.pop()
            reached = [known.take(leaf) for leaf in segment.left]
            if any(slope is not None for slopes in reached for slope in slopes):
                inputs, outputs = segment.again()
                known.add(segment.inputs(), _through(outputs, inputs, reached, kept=False))
    finally:
        _SEVERAL.reset(token)
    return [torch.zeros_like(position) if slope is None else slope for slope in known.take(position)]


class _Known:
    """Slopes of every number by the leaves, as far as they are known."""

    def __init__(self, leaves: Sequence[Tensor], count: int, *, kept: bool) -> None:
        self.kept = kept  # what lies between segments may be come through again
        self.leaves = list(leaves)
        self.slopes: list[Slopes] = [[None] * count for _ in leaves]

    def add(self, tensors: Sequence[Tensor], slopes: Sequence[Slopes]) -> None:
        """Slopes of tensors between the segments, taken on to the leaves these were made of."""
        for number, more in enumerate(zip(*_through(tensors, self.leaves, slopes, kept=self.kept), strict=True)):
            self.note(number, more)

    def note(self, number: int, slopes: Sequence[Tensor | None]) -> None:
        """One number's slopes by every leaf, added to those that are known."""
        for summed, slope in zip(self.slopes, slopes, strict=True):
            before = summed[number]
            summed[number] = slope if before is None else before if slope is None else before + slope

    def take(self, leaf: Tensor) -> Slopes:
        place = next(k for k, each in enumerate(self.leaves) if each is leaf)
        del self.leaves[place]
        return self.slopes.pop(place)


def _through(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], slopes: Sequence[Slopes], *, kept: bool
) -> list[Slopes]:
    """For every input the slopes of every number, from those of the outputs; `kept`: the graph stays afterwards."""
    wanted = [
        [(output, each[number]) for output, each in zip(outputs, slopes, strict=True) if each[number] is not None]
        for number in range(len(slopes[0]) if slopes else 0)
    ]
    last = max((number for number, known in enumerate(wanted) if known), default=-1)
    made: list[Slopes] = [[] for _ in inputs]
    for number, known in enumerate(wanted):
        grads: Sequence[Tensor | None] = [None] * len(inputs)
        if known and inputs:
            ends, given = zip(*known, strict=True)
            more = {"retain_graph": kept or number < last, "allow_unused": True}
            grads = torch.autograd.grad(ends, inputs, given, **more)
        for slopes_of_input, grad in zip(made, grads, strict=True):
            slopes_of_input.append(grad)
    return made
