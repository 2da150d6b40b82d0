"""What the tests check of every call inside the rooms: the shapes that annotations name."""

from __future__ import annotations

import typing
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import torch  # noqa: F401  before TYPE_CHECKING is turned: torch reads it too
from beartype import BeartypeConf, BeartypeStrategy, beartype
from jaxtyping import AbstractArray, install_import_hook

ROOMS = ("types", "text", "units", "path", "quadrature", "integrand", "integrate", "explanation", "engine")
LIGHT = ("pathlens.types",)  # what draws a saved result without torch: it names Tensor for type checkers alone

Function = TypeVar("Function", bound=Callable[..., Any])
by_beartype = beartype(conf=BeartypeConf(strategy=BeartypeStrategy.On))


def shapes(function: Function) -> Function:
    """The function with its shapes checked; every other annotation is mypy's business, which sees all calls."""
    named = {name: hint for name, hint in function.__annotations__.items() if has_shape(hint)}
    if not named:
        return function
    function.__annotations__ = named
    return by_beartype(function)


def has_shape(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(has_shape(part) for part in typing.get_args(hint))


def install() -> None:
    """From here on the rooms are imported with their shapes checked."""
    install_import_hook([f"pathlens.{room}" for room in ROOMS], "tests.support.shapes.shapes")
    import_module("pathlens")  # the door names every room for type checkers: not those
    typing.TYPE_CHECKING = True
    try:
        for module in LIGHT:
            import_module(module)
    finally:
        typing.TYPE_CHECKING = False
