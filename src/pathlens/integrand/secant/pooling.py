"""Max pooling: in each window, the share of the way on which each entry is the largest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pathlens.integrand.secant.both import RULES, Both, Rule, Step, values
from pathlens.integrand.secant.reductions import largest_shares

Windows = Callable[[int, int, int], Tensor]  # one dimension's number, length and number of windows -> its places


def _each(setting: Any, dimension: int) -> int:
    """An option of pooling is one number, or one for every dimension."""
    many = list(setting) if isinstance(setting, list | tuple) else [setting]
    return int(many[dimension if len(many) > 1 else 0])


def _inside(places: Tensor, length: int) -> Tensor:
    """(windows, places in each); what lies in the padding is never the largest, so another of its window stands there."""
    inside = (places >= 0) & (places < length)
    first = places.gather(1, inside.int().argmax(1, keepdim=True))
    return torch.where(inside, places, first)


def _regular(size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, *_: Any, **more: Any) -> Windows:
    stride = size if stride is None or stride == [] else stride

    def places(dimension: int, length: int, count: int) -> Tensor:
        first = torch.arange(count) * _each(stride, dimension) - _each(padding, dimension)
        return _inside(first[:, None] + torch.arange(_each(size, dimension)) * _each(dilation, dimension), length)

    return places


def _adaptive(*_: Any, **more: Any) -> Windows:
    def places(dimension: int, length: int, count: int) -> Tensor:
        window = torch.arange(count)
        first, end = window * length // count, -(-(window + 1) * length // count)
        spread = first[:, None] + torch.arange(int((end - first).max()))
        return torch.minimum(spread, end[:, None] - 1)

    return places


def _opened(x: Tensor, tables: list[Tensor]) -> Tensor:
    """The last dimensions cut into windows, whose entries come last."""
    for table in tables:
        at = -len(tables)
        x = x.index_select(at, table.flatten().to(x.device)).unflatten(at, tuple(table.shape)).movedim(at, -1)
    return x.flatten(-len(tables))


def _pooling(function: Any, dimensions: int, windows: Callable[..., Windows], *, pairs: bool) -> Rule:
    def follow(x: Any, *args: Any, return_indices: bool = False, **more: Any) -> Any:
        with torch.no_grad():
            x0, x1 = values(x)
            (start, first), (end, last) = (function(each, *args, return_indices=True, **more) for each in (x0, x1))
            places = windows(*args, **more)
            tables = [places(d, x0.shape[d - dimensions], start.shape[d - dimensions]) for d in range(dimensions)]
            shares = largest_shares(_opened(x0, tables), _opened(x1, tables))
        largest = Step(start, end, lambda v: (_opened(v, tables) * shares).sum(-1)).of(x)
        if not (pairs or return_indices):
            return largest
        return largest, last if torch.equal(first, last) else Both(first, last)

    return follow


for name, windows in (("max_pool", _regular), ("adaptive_max_pool", _adaptive)):
    for number in (1, 2, 3):
        plain = getattr(functional, f"{name}{number}d")
        RULES[plain] = _pooling(plain, number, windows, pairs=False)
        RULES[getattr(functional, f"{name}{number}d_with_indices")] = _pooling(plain, number, windows, pairs=True)
        if hasattr(torch, f"{name}{number}d"):  # torch's own adaptive one always gives the places too
            RULES[getattr(torch, f"{name}{number}d")] = _pooling(plain, number, windows, pairs=windows is _adaptive)
