"""A tensor in forward mode: many directions carried through a network together with the one point they start from.

`vmap(jvp)` gives the same numbers, but works out an activation's slope, a softmax or a normalisation once per
direction where once per point is enough. Here a tensor carries its value and its change along U directions; each
operation has a rule (forward_mode.py), and one that has none is differentiated by torch itself. The changes of all
directions lie in one block, so a layer is one long matrix product.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.func import jvp, vmap
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

Rule = Callable[..., Any]
RULES: dict[Any, Rule] = {}  # torch function -> rule with its own signature; filled by forward_mode.py


class CannotFollow(Exception):
    """An operation that cannot be followed here; the caller takes torch's own forward mode."""


class ForwardTensor(Tensor):
    """`value` (…) and `change` (U, …), the derivative along each of U directions.

    It has no memory of its own: what goes past the rules (a compiled kernel, an in-place change) ends in CannotFollow,
    never in a value without its change.
    """

    value: Tensor
    change: Tensor

    @staticmethod
    def __new__(cls, value: Tensor, change: Tensor) -> ForwardTensor:
        made = Tensor._make_wrapper_subclass(
            cls, value.shape, strides=value.stride(), dtype=value.dtype, device=value.device
        )
        made.value, made.change = value, change
        return made

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        rule = RULES.get(func)
        if rule is not None:
            result = rule(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        return by_torch(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch declares it as switched off
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise CannotFollow(f"{func} went past the rules")

    # the inherited one would read the memory that is not there
    def __repr__(self) -> str:  # type: ignore[override]
        return f"ForwardTensor(value {tuple(self.value.shape)}, change {tuple(self.change.shape)})"


def value_of(item: Any) -> Any:
    return item.value if isinstance(item, ForwardTensor) else item


def _in_place(name: str) -> bool:
    """add_, __iadd__, __setitem__; but not __invert__, __index__, __int__."""
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and f"__{name[3:]}" in dir(operator))
    return name.endswith("_")


def by_torch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Any other operation: torch's own derivative of this one step, for all directions."""
    name = getattr(func, "__name__", str(func))
    if _in_place(name) or kwargs.get("out") is not None or kwargs.get("inplace"):
        raise CannotFollow(f"{name} changes a tensor in place")
    result = func(*tree_map(value_of, args), **tree_map(value_of, kwargs))
    parts, shape = tree_flatten(result)
    moving = [i for i, item in enumerate(parts) if isinstance(item, Tensor) and item.is_floating_point()]
    if not moving:
        return result  # a size, a mask, a choice: nothing of it changes along a direction
    leaves, form = tree_flatten((args, kwargs))
    carried = [i for i, leaf in enumerate(leaves) if isinstance(leaf, ForwardTensor)]

    def step(*values: Tensor) -> tuple[Tensor, ...]:
        filled = list(leaves)
        for i, value in zip(carried, values, strict=True):
            filled[i] = value
        again, keywords = tree_unflatten(filled, form)
        outputs = tree_flatten(func(*again, **keywords))[0]
        return tuple(outputs[i] for i in moving)

    values = tuple(leaves[i].value for i in carried)
    changes = vmap(lambda *change: jvp(step, values, change)[1])(*(leaves[i].change for i in carried))
    for i, change in zip(moving, changes, strict=True):
        parts[i] = ForwardTensor(parts[i], change)
    return tree_unflatten(parts, shape)
