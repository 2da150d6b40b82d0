"""The table of mean derivatives between the two values of an operation (docs/methods/secant.md), one small function an operation.

A rule has its operation's signature and gives the followed result, or NotImplemented for a use it does not cover. With
0 for the baseline's run, 1 for the text's and a bar for the mean of both:

    elementwise g         (g(x1) − g(x0)) / (x1 − x0)                                     elementwise.py
    product a·b           ā·Δb + Δa·b̄                                                     products.py
    quotient a/n          (Δa − ȳ·Δn) / n̄    so every normalisation, however it is written, is bounded
    softmax p             L·(Δz − Σ w·Δz),  L the logarithmic mean of p0 and p1, w = L/ΣL   reductions.py
    maximum               the share of the way on which each entry is the largest          reductions.py
    linear operations     themselves                                                      here

An operation that has no rule is integrated along its own line (own_line.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pathlens.errors import SecantError, setting
from pathlens.integrand.secant.both import (
    AFFINE,
    FACTS,
    RULES,
    Both,
    Rule,
    affine,
    become_both,
    end_of,
    moves,
    writable,
)

HOMES = (Tensor, torch, functional, torch.special, torch.fft)


def named(names: str, homes: Sequence[Any] = HOMES) -> list[Any]:
    """The functions of these names, wherever torch offers them."""
    functions = [getattr(home, name, None) for name in names.split() for home in homes]
    return [each for each in functions if callable(each)]


def rule(names: str) -> Callable[[Rule], Rule]:
    def note(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(named(names), function))
        return function

    return note


AFFINE.update(
    named(
        "view reshape flatten unflatten ravel squeeze unsqueeze contiguous transpose permute swapaxes swapdims movedim "
        "moveaxis t adjoint expand expand_as broadcast_to broadcast_tensors repeat repeat_interleave tile roll flip fliplr "
        "flipud rot90 cat concat concatenate stack hstack vstack dstack chunk split split_with_sizes tensor_split unbind "
        "narrow select index_select gather take take_along_dim masked_select diagonal diag diag_embed diagonal_scatter tril "
        "triu masked_fill masked_fill_ masked_scatter masked_scatter_ scatter_add scatter_add_ index_add index_add_ "
        "index_copy index_copy_ index_put index_put_ index_fill index_fill_ where pad unfold fold view_as "
        "reshape_as clone to type_as type float double half bfloat16 cpu cuda sum mean nansum cumsum add sub subtract rsub "
        "neg negative positive __add__ __radd__ __sub__ __rsub__ __neg__ __pos__ __iadd__ __isub__ add_ sub_ neg_ zero_ "
        "fill_ copy_ avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d interpolate pixel_shuffle fft ifft fft2 "
        "ifft2 fftn ifftn rfft irfft rfftn irfftn fftshift ifftshift stft istft complex view_as_real view_as_complex real imag __getitem__ __setitem__ "
        "trace block_diag tril_ triu_ unsqueeze_ squeeze_ transpose_ diff atleast_1d atleast_2d dropout_ slice_scatter "
        "select_scatter resolve_conj resolve_neg conj logical_not _pack_padded_sequence _pad_packed_sequence"
    )
)


def _constant(function: Any) -> Rule:
    return lambda x, *args, **more: function(end_of(x), *args, **more)


for each in named(
    "new_zeros new_ones new_full new_empty new_tensor zeros_like ones_like empty_like full_like rand_like randn_like size dim "
    "ndimension numel nelement stride is_floating_point is_complex is_contiguous element_size get_device is_nonzero_ "
    "result_type can_cast is_tensor is_signed storage_offset is_inference is_pinned"
):
    RULES[each] = _constant(each)
    FACTS.add(each)
for (
    name
) in "shape dtype device ndim layout requires_grad is_leaf is_cuda is_cpu is_meta is_sparse itemsize nbytes".split():
    fact = getattr(Tensor, name).__get__
    RULES[fact] = _constant(fact)
    FACTS.add(fact)


@rule("detach detach_ requires_grad_")
def detach(x: Both, *args: Any) -> Any:
    """A value that is not trained through is a value all the same, and the output depends on it."""
    return x


RULES[Tensor.data.__get__] = detach  # type: ignore[attr-defined]
FACTS.update((Tensor.data.__get__, *named("detach detach_ requires_grad_")))  # type: ignore[attr-defined]


@rule("dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d")
def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return NotImplemented if training and p > 0 else x


def _batch_norm(function: Any) -> Rule:
    """With the statistics that it has learnt it is affine."""

    def follow(*args: Any, **more: Any) -> Any:
        of_batch = more.get("training") or (len(args) > 5 and args[5])
        return (
            NotImplemented
            if of_batch or not moves(args[0]) or any(map(moves, args[1:]))
            else affine(function, args, more)
        )

    return follow


for each in named("batch_norm"):
    RULES[each] = _batch_norm(each)


def _scatter(function: Any) -> Rule:
    def follow(*args: Any, **more: Any) -> Any:
        return NotImplemented if more.get("reduce") == "multiply" else affine(function, args, more)

    return follow


for each in named("scatter scatter_"):
    RULES[each] = _scatter(each)


def _reach(shape: Sequence[int], stride: Sequence[int]) -> int:
    return sum((n - 1) * step for n, step in zip(shape, stride, strict=True))


@rule("as_strided")
def as_strided(x: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """Within the tensor itself: what lies around it in memory belongs to another run."""
    alike = x.start.stride() == x.end.stride()
    if storage_offset is not None or not alike or _reach(size, stride) > _reach(x.shape, x.end.stride()):
        raise SecantError(
            f"as_strided reads memory outside of its tensor, or from an offset; use {setting(method='ig')}, or write it by slices"
        )
    return affine(torch.as_strided, (x, size, stride), {})


@rule("embedding_bag")
def embedding_bag(input: Any, weight: Any, *args: Any, **more: Any) -> Any:
    """A sum of rows that stay, with weights of their own that may move."""
    return NotImplemented if moves(weight) else affine(functional.embedding_bag, (input, weight, *args), more)


@rule("numpy __array__ tolist")
def numpy(x: Both, *args: Any, **more: Any) -> Any:
    raise SecantError(
        f"the model takes its numbers out of torch (numpy, tolist), and whatever hangs on them is lost; use {setting(method='ig')}"
    )


def write(target: Both, result: Both, name: str = "an operation in place") -> Both:
    with torch.no_grad():
        target.start.copy_(result.start)
    with writable(name), torch.enable_grad():
        target.end.copy_(result.end)
    if target.change is not None and result.change is not None:
        target.change.copy_(result.change)
    return target


def _writing(follow: Rule, name: str) -> Rule:
    def written(x: Any, *args: Any, **more: Any) -> Any:
        if not isinstance(x, Both):
            become_both(x, (*args, *more.values()), name)
        result = follow(x, *args, **more)
        return write(x, result, name) if isinstance(result, Both) else NotImplemented

    return written


def add_in_place_rules() -> None:
    """`x.tanh_()` and `x *= y` by the rule of their plain sister; called when all of these are there."""
    for home in (Tensor, torch, functional):
        for name in dir(home):
            plain = f"__{name[3:]}" if name in ("__imul__", "__itruediv__", "__ipow__") else name[:-1]
            function = getattr(home, plain, None) if name.endswith("_") else None
            if function in RULES and getattr(home, name) not in {
                *RULES,
                *AFFINE,
                Tensor.as_strided_,
                torch.as_strided_,
            }:
                RULES[getattr(home, name)] = _writing(RULES[function], name)
