"""Softplus for ReLU, for the explanation only.

A ReLU network is piecewise linear: its second derivatives are zero wherever they exist, and all of its
interactions sit in the kinks. SoftPlus_β(x) = ln(1 + e^{βx})/β rounds the kinks; as β grows it tends to ReLU
(it is at most ln 2/β above it), and more nodes are needed.

>>> with pl.softplus(beta=10):
...     pl.explain(model, x, method="ih")           # or pl.explain(model, x, method="ih", softplus=10)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode

from pathlens.errors import CurvatureWarning, InputError, setting
from pathlens.text.adapter import Case, ScoreFunction, Scores

IN_PLACE = frozenset({torch.relu_, functional.relu_, Tensor.relu_})
RELU = frozenset({torch.relu, functional.relu, Tensor.relu}) | IN_PLACE
KINKED = ("relu", "leaky_relu", "relu6", "prelu", "rrelu", "threshold", "hardtanh", "_prelu_kernel")  # aten names
DEFAULT_BETA = 10.0  # on XOR networks 1 distorts the output and 50 needs four times the nodes


def check_beta(beta: Any) -> float:
    if isinstance(beta, bool) or not isinstance(beta, Real) or not 0 < float(beta) < float("inf"):
        raise InputError(
            f"softplus needs a positive β, got {beta!r}; 10 is a good start, larger is closer to ReLU and needs more nodes"
        )
    return float(beta)


class softplus(TorchFunctionMode):
    """Inside the `with`, in this thread, every relu is SoftPlus_β: nn.ReLU, F.relu, torch.relu, x.relu().

    Nothing of the model is touched, so nothing has to be put back: leaving the `with`, also by an error, is the
    end of it. `count` says how many calls were replaced. A result made inside says how far the output moved.

    Limits: compiled and scripted modules call ReLU out of reach; `kinks` still finds it there, and a result of
    `ih` warns. Other kinked functions (LeakyReLU, max-pooling, clamp) stay as they are.
    """

    def __init__(self, beta: float = DEFAULT_BETA) -> None:
        super().__init__()
        self.beta = check_beta(beta)
        self.count = 0
        self.paused = False

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if function not in RELU or self.paused:
            return function(*args, **named)
        self.count += 1
        value = args[0] if args else named["input"]
        if function in IN_PLACE or named.get("inplace") or (len(args) > 1 and args[1]):
            return value.copy_(smooth_relu(value.clone(), self.beta))  # callers may use what they passed in
        return smooth_relu(value, self.beta)


def surrounding() -> list[softplus]:
    """The `with softplus` blocks that this call stands in, the innermost, which decides, last."""
    modes: Any = _get_current_function_mode_stack  # torch gives it no types
    return [mode for mode in modes() if isinstance(mode, softplus)]


@contextmanager
def without_softplus() -> Iterator[None]:
    """As if there were no `with softplus` around."""
    around = surrounding()
    before = [mode.paused for mode in around]
    for mode in around:
        mode.paused = True
    try:
        yield
    finally:
        for mode, paused in zip(around, before, strict=True):
            mode.paused = paused


def smooth_relu(value: Tensor, beta: float) -> Tensor:
    """ln(1 + e^{βx})/β, as max(x, 0) + ln(1 + e^{−β|x|})/β would be; torch's own cuts off at βx = 20."""
    return functional.softplus(value, beta=beta, threshold=50.0)


@dataclass(frozen=True)
class Smoothed:
    """A case's score with every relu smoothed, and nothing else anywhere."""

    score: ScoreFunction
    beta: float

    def __call__(self, points: Float[Tensor, "B S d"], cases: Sequence[Case]) -> Scores:
        with softplus(self.beta):
            return self.score(points, cases)


def smoothed(case: Case, beta: float) -> Case:
    """The case with softplus for ReLU; its notes and meta say how far the output moved at both ends."""
    beta = check_beta(beta)
    score = Smoothed(case.score, beta)
    ends = torch.stack([case.ends.start, case.ends.end])
    with torch.no_grad():
        with without_softplus():
            plain = case.score(ends, [case, case]).double()
        with softplus(beta) as mode:
            moved = case.score(ends, [case, case]).double()
    report: dict[str, Any] = {"beta": beta, "calls": mode.count, "moved": float((moved - plain)[1].norm())}
    note = f"softplus (β = {beta:g}) had no ReLU to replace"
    if mode.count and plain.ndim == 1:
        (f_baseline, f_input), (new_baseline, new_input) = plain.tolist(), moved.tolist()
        report |= {"output": f_input, "smoothed": new_input, "moved_baseline": abs(new_baseline - f_baseline)}
        note = (
            f"ReLU was replaced by softplus (β = {beta:g}) for the explanation only: the output moved from "
            f"{f_input:.6g} to {new_input:.6g}, at the baseline from {f_baseline:.6g} to {new_baseline:.6g}"
        )
    return replace(case.noted(note, softplus=report), score=score, pack=(case.pack, score))


class _Watch(TorchDispatchMode):
    """Notes kinked operations and the module they were called in."""

    def __init__(self, stack: list[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stack = stack
        self.kinked: dict[str, list[Any]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__.rstrip("_")
        cut_at_zero = name in ("clamp", "clamp_min") and len(args) == 2 and args[1] == 0  # ReLU by another name
        if name in KINKED or (cut_at_zero and args[0].is_floating_point()):
            self.kinked.setdefault(name, []).append(self.stack[-1] if self.stack else None)
        return function(*args, **(kwargs or {}))


def kinks(case: Case) -> dict[str, tuple[str, ...]]:
    """{operation: modules} whose second derivative is zero wherever it exists, found in one pass through the model."""
    stack: list[Any] = []
    entered: list[Any] = []  # the model itself first

    def enter(module: Any, args: Any) -> None:
        entered.append(module)
        stack.append(module)

    def leave(module: Any, args: Any, output: Any) -> None:
        stack.pop()

    hooks = register_module_forward_pre_hook(enter), register_module_forward_hook(leave)
    try:
        with torch.no_grad(), _Watch(stack) as watch:
            case.score(case.ends.end[None], [case])
    finally:
        for hook in hooks:
            hook.remove()
    names = {id(part): name for name, part in entered[0].named_modules()} if entered else {}
    known = {operation: [m for m in modules if m is not None] for operation, modules in watch.kinked.items()}
    called = {op: [f"{type(m).__name__} {names.get(id(m), '')!r}" for m in modules] for op, modules in known.items()}
    return {operation: tuple(dict.fromkeys(modules)) for operation, modules in called.items()}


def warn_of_kinks(case: Case) -> Case:
    """Second derivatives of a ReLU model say nothing about its interactions: warn, and note it in the result."""
    kinked = kinks(case)
    if not kinked:
        return case
    inside = {operation: ", ".join(modules[:3]) or "the model" for operation, modules in kinked.items()}
    where = "; ".join(f"{operation} in {modules}" for operation, modules in inside.items())
    note = (
        f"second derivatives vanish where the model is piecewise linear ({where}): interactions that sit in the kinks are "
        "missing and the matrix need not add up. The option softplus, 10 say, rounds ReLU for the explanation only; other "
        "kinked functions must be replaced in the model"
    )
    # where `explain` was called
    warnings.warn(f"{note} ({setting(softplus=10)}, or `with pl.softplus(beta=10):`)", CurvatureWarning, stacklevel=9)
    return case.noted(note, kinks={operation: list(modules) for operation, modules in kinked.items()})


def prepared(case: Case, beta: float | None, *, second_order: bool) -> Case:
    """What `explain` does with a case: `softplus=β` where it was asked for, the warning where it was needed."""
    around = surrounding()
    if beta is not None:
        case = smoothed(case, beta)
    elif around:  # the `with` around the call does it already; the result says what it did
        noted = smoothed(case, around[-1].beta)
        case = replace(case, notes=noted.notes, meta=noted.meta)
    return warn_of_kinks(case) if second_order else case
