"""Which module stands in the way, when a second derivative cannot be had."""

from __future__ import annotations

import re
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from pathlens.errors import ModelError, setting
from pathlens.integrand.batch import Batch, any_derivative

Call = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def no_second_derivative(batch: Batch, error: Exception) -> ModelError:
    """The error to raise: the operation as torch names it, and the innermost module that cannot do it alone."""
    named = re.search(r"aten::\w+", str(error))
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    operation = named.group(0) if named else f"torch says: {first}"
    where = _innermost(batch)
    return ModelError(
        f"no second derivative through {where or 'the model'} ({operation}); Integrated Hessians need operations that "
        "can be differentiated twice. Replace that operation by one built of ordinary torch functions (a custom "
        f"autograd.Function needs a differentiable backward), or use {setting(method='ig')} for scores without interactions"
    )


def check_twice(value: Float[Tensor, "..."]) -> None:
    """Refuse a graph that holds an operation marked `once_differentiable`.

    torch raises for these only where the mark lies on the way to the input, which it never does when the input is
    named (`autograd.grad`): the second derivative would silently lack that operation's part.
    """
    seen, todo = set(), [value.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        function: Any = getattr(type(node), "_forward_cls", None)
        backward: Any = getattr(function, "backward", None)
        if hasattr(backward, "__wrapped__") and backward.__code__.co_filename == torch.autograd.function.__file__:
            raise RuntimeError(f"{function.__name__} is marked once_differentiable")
        todo += [before for before, _ in node.next_functions]


def _innermost(batch: Batch) -> str:
    """Every module of one forward pass tried on its own, innermost first; the first that fails is named."""
    calls: list[Call] = []  # in the order they end: inner modules before those around them
    hook = register_module_forward_hook(
        lambda module, args, kwargs, output: calls.append((module, args, kwargs)), with_kwargs=True
    )
    try:
        with torch.no_grad():
            batch.score(batch.position[:1])
    finally:
        hook.remove()
    for module, args, kwargs in calls:
        if not _twice(module, args, kwargs):
            root = calls[-1][0]
            name = next((name for name, part in root.named_modules() if part is module), "")
            return f"{type(module).__name__} ({name!r})" if name else type(module).__name__
    return ""


def _twice(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Can the module alone be differentiated twice?"""
    moving = [_free(value) for value in args]
    named = {name: _free(value) for name, value in kwargs.items()}
    inputs = [value for value in (*moving, *named.values()) if _is_float(value)]
    if not inputs:
        return True
    try:
        with torch.enable_grad(), any_derivative():
            output = module(*moving, **named)
            output = next(iter(output.values())) if isinstance(output, dict) else output
            output = output[0] if isinstance(output, tuple) else output
            if not (isinstance(output, Tensor) and output.requires_grad):
                return True
            check_twice(output)
            slopes = torch.autograd.grad(output.pow(2).sum(), inputs, create_graph=True, allow_unused=True)
            total = sum(slope.pow(2).sum() for slope in slopes if slope is not None)
            if isinstance(total, Tensor) and total.requires_grad:
                torch.autograd.grad(total, inputs, allow_unused=True)
    except (RuntimeError, TypeError) as error:
        return isinstance(error, TypeError)
    return True


def _free(value: Any) -> Any:
    return value.detach().requires_grad_() if _is_float(value) else value


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
