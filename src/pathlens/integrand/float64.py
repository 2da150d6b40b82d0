"""A model in float64 all the way: whatever it casts to float32, or makes anew, keeps the digits of the rest.

Llama and its kin norm, turn and weigh their states in float32 whatever they run in; others keep sums in float32, or take a
constant of that precision. Each such cast rounds, and between two outputs that hardly differ that shows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

MAKERS = (torch.full, torch.tensor, torch.scalar_tensor)  # of one number, which may be too large for float32
GROUPED = tuple(getattr(home, name, None) for home, name in ((functional, "grouped_mm"), (torch, "_grouped_mm")))


class Float64(TorchFunctionMode):
    """While it is entered, in this thread: float32 is taken for float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in GROUPED:
            return _by_group(func, *args, **kwargs)
        if func in MAKERS and any(isinstance(each, float) for each in (*args, *kwargs.values())):
            kwargs = {"dtype": torch.float64, **kwargs}
        written = _written(func, args, kwargs)
        args, kwargs = tree_map(lambda leaf: leaf if leaf is written else _wide(leaf), (args, kwargs))
        result = (Tensor.double if func is Tensor.float else func)(*args, **kwargs)
        return result if written is not None else tree_map(_wide, result)


def _wide(leaf: Any) -> Any:
    if leaf is torch.float32:
        return torch.float64
    return leaf.double() if type(leaf) is Tensor and leaf.dtype == torch.float32 else leaf


def _written(func: Any, args: Any, kwargs: Any) -> Any:
    """The tensor that is written into: it stays the one it is."""
    name = getattr(func, "__name__", "")
    in_place = name.startswith(("__i", "__set")) or (name.endswith("_") and not name.endswith("__"))
    return args[0] if in_place and args else kwargs.get("out")


def _by_group(func: Any, rows: Any, weights: Any, *, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Each expert's rows by its own weights: the kernel that takes them all at once has no float64."""
    if rows.dtype != torch.float64 or rows.ndim != 2 or weights.ndim != 3 or type(offs) is not Tensor:
        return func(rows, weights, offs=offs, bias=bias, out_dtype=out_dtype)
    ends = offs.tolist()
    starts = [0, *ends[:-1]]
    products = [rows[low:high] @ weights[k] for k, (low, high) in enumerate(zip(starts, ends, strict=True))]
    joined = torch.cat([*products, rows.new_zeros(len(rows) - ends[-1], weights.shape[2])])
    return joined if bias is None else joined + bias
