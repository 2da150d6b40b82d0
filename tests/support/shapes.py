"""What the tests check of every call inside the rooms: the shapes that annotations name."""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import jaxtyping
import torch  # noqa: F401  before TYPE_CHECKING is turned: torch reads it too
from beartype import beartype

ROOMS = ("types", "text", "units", "path", "quadrature", "integrand", "integrate", "explanation", "engine")
LIGHT = ("pathlens.types",)  # what draws a saved result without torch: it names Tensor for type checkers alone
NAME = re.compile(r"[A-Z]\w+")
SHAPE = re.compile(r"\[(Tensor|np\.ndarray), *[\"']")

Thing = TypeVar("Thing", bound=Callable[..., Any])


def install() -> None:
    """From here on the rooms are imported with their shapes checked."""
    jaxtyping.install_import_hook([f"pathlens.{room}" for room in ROOMS], "tests.support.shapes.shapes")
    jaxtyping.jaxtyped = only_where_named(jaxtyping.jaxtyped)
    import_module("pathlens")  # the door names every room for type checkers: not those
    typing.TYPE_CHECKING = True
    try:
        for module in LIGHT:
            import_module(module)
    finally:
        typing.TYPE_CHECKING = False


def only_where_named(jaxtyped: Any) -> Any:
    """jaxtyping's decorator, for functions and records that name a shape; on all of them it would cost 40 % of a run."""

    def decorator(*, typechecker: Any) -> Callable[[Thing], Thing]:
        return lambda thing: jaxtyped(thing, typechecker=typechecker) if names_a_shape(thing) else thing

    return decorator


def names_a_shape(thing: Any) -> bool:
    """In an annotation itself, or by the name of a shape that stands at the top of the module."""
    module = vars(sys.modules[thing.__module__])
    return any(
        SHAPE.search(str(hint)) or any(has_shape(module.get(name)) for name in NAME.findall(str(hint)))
        for hint in getattr(thing, "__annotations__", {}).values()
    )


def shapes(function: Thing) -> Thing:
    """The function with its shapes checked; every other annotation is mypy's business, which sees all calls."""
    function.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if has_shape(hint)}
    return beartype(function)


def has_shape(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(has_shape(part) for part in typing.get_args(hint))
