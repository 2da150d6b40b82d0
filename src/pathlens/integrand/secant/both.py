"""A tensor in two runs at once, the baseline's and the text's, and how an operation is followed through both.

Every operation of the network is replaced by its mean derivative J̄ between its two values, J̄·Δin = Δout exactly
(docs/methods/secant.md). A rule (table.py) gives both values and `push`, the linear map v ↦ J̄·v, made of torch operations. Forward
mode applies it to the changes of U units. Reverse mode applies it to the text's values and keeps the graph of that, so
autograd itself takes the transpose: one rule serves both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp, vmap
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from pathlens.errors import PathlensError, SecantError, first_line, setting
from pathlens.integrand.batch import out_of_memory
from pathlens.integrand.forward_tensor import RULES as PUSH_RULES
from pathlens.integrand.forward_tensor import ForwardTensor
from pathlens.integrand.forward_tensor import by_torch as push_by_torch

Rule = Callable[..., Any]
RULES: dict[Any, Rule] = {}  # torch function -> rule with its own signature; filled by table.py
AFFINE: set[Any] = set()  # torch functions that are affine in everything that moves; filled by table.py
# rules that ask a tensor for its shape, its kind or itself, not for its values; filled by table.py
FACTS: set[Any] = set()
COMPLEX: set[Any] = set()  # rules that hold for complex numbers too; filled by table.py and products.py
INTEGRATED: ContextVar[dict[str, int] | None] = ContextVar("integrated", default=None)  # operations without a rule


@dataclass
class Run:
    """What a run of the score leaves to be looked at when it is over."""

    # how its output may have become another than the model's own
    doubts: list[str] = field(default_factory=list)
    # plain tensors that it wrote into, and that have two values now
    written: list[Tensor] = field(default_factory=list)


_RUN: ContextVar[Run | None] = ContextVar("run", default=None)


@contextmanager
def followed_run() -> Iterator[Run]:
    """While a score runs: plain tensors that are written into are plain again afterwards (a model may own them)."""
    run = Run()
    token = _RUN.set(run)
    try:
        with _uncompiled():
            yield run
    finally:
        _RUN.reset(token)
        for each in run.written:
            _become_plain(each)


def _uncompiled() -> AbstractContextManager[Any]:
    """Compiled modules run as they were written: in a compiler's graph there are no operations to follow."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def doubt(reason: str) -> None:
    """Something that an output of its own would show: the output is compared with the model's when the run is over."""
    if (run := _RUN.get()) is not None:
        run.doubts.append(reason)


class Both(Tensor):
    """`start` and `end`: the value in the baseline's run and in the text's.

    Forward mode: `change` (U, …) is each unit's share of end − start. Reverse mode: `change` is None, and `end` carries
    the graph. `remembered` is n where this was made as 1/n, with the versions of both: a product with it is then a division,
    whose rule is bounded, for as long as nobody writes into either.
    It has no memory of its own: what goes past the rules is an error, never a value without its change.
    """

    start: Tensor
    end: Tensor
    change: Tensor | None
    remembered: tuple[Both, tuple[int, ...]] | None
    chosen: bool  # made of choices alone: a count, or a truth value as a number

    @staticmethod
    def __new__(cls, start: Tensor, end: Tensor, change: Tensor | None = None) -> Both:
        made = Tensor._make_wrapper_subclass(
            cls, end.shape, strides=end.stride(), dtype=end.dtype, device=end.device, requires_grad=False
        )
        made.start, made.end, made.change, made.remembered, made.chosen = start, end, change, None, False
        return made

    def kept(self) -> Both:
        """The same as an object of its own: a tensor that was written into is plain again when the run is over."""
        made = Both(self.start, self.end, self.change)
        made.remembered, made.chosen = self.remembered, self.chosen
        return made

    def remember_inverse_of(self, n: Both) -> None:
        self.remembered = n, _versions(self, n)

    @property
    def inverse_of(self) -> Both | None:
        """n, where this is 1/n to this day."""
        if self.remembered is None or _versions(self, self.remembered[0]) != self.remembered[1]:
            return None
        return self.remembered[0]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _view_what_was_written(args)
        if kwargs:
            _view_what_was_written(kwargs.values())
            if kwargs.get("out") is not None:
                raise SecantError(
                    f"{_name(func)} writes its result with out=, which has no rule; use {setting(method='ig')}"
                )
            args, kwargs = _in_order(args, kwargs)
        try:
            return _followed(func, args, kwargs or {})
        except Exception as error:
            if passes(error):
                raise
            raise SecantError(
                f"{_name(func)} is called in a way that secants cannot follow ({type(error).__name__}: {first_line(error)}); use "
                f"{setting(method='ig')}"
            ) from error

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise SecantError(
            f"the model calls {func} in a way that secants cannot follow (a compiled kernel or an autograd function of its "
            "own); use method='ig'"
        )

    def __repr__(self) -> str:  # type: ignore[override]  # the inherited one would read the memory that is not there
        return f"Both({tuple(self.shape)}, {self.dtype})"


LEADING = (  # what torch calls its first operands, in the order in which every operation takes them
    "condition input self x1 query other x2 mat1 batch1 tensor1 vec1 mat mat2 batch2 tensor2 vec2 vec tensor".split()
)


def _in_order(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Operands first and without their names, as rules take them."""
    named = [name for name in LEADING if name in kwargs]
    return (*args, *(kwargs[name] for name in named)), {k: v for k, v in kwargs.items() if k not in named}


def passes(error: Exception) -> bool:
    """Is it ours, for the plan of memory, or torch's own signal to a checkpoint that is run again? Others are put in our words."""
    return isinstance(error, PathlensError) or out_of_memory(error) or type(error).__name__.startswith("_")


def _followed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """By its rule, as an affine operation, or along its own line."""
    rule = RULES.get(func)
    if rule is not None and func not in FACTS:
        items = (*args, *kwargs.values())
        if any(isinstance(each, list | tuple) for each in items):  # most operations: nothing to be opened
            items = tuple(tree_flatten(items)[0])
        leaves = [each for each in items if isinstance(each, Both)]
        if not all(map(moves, leaves)):  # choices and nothing that moves: it makes a choice, whatever its rule is
            _check_choices(func, leaves)
            return affine(func, args, kwargs)
        if func not in COMPLEX and any(each.end.is_complex() for each in leaves):
            return along_own_line(func, args, kwargs)
    if rule is not None:
        result = rule(*args, **kwargs)
        if result is not NotImplemented:
            return result
    name = _name(func)
    if name == "__set__" and func.__self__.__name__ != "requires_grad":
        raise SecantError(
            f"the model puts another tensor into one that has two values (tensor.{func.__self__.__name__} = ...); use "
            f"{setting(method='ig')}"
        )
    if func in AFFINE or (rule is None and name == "__get__"):
        return affine(func, args, kwargs)
    return along_own_line(func, args, kwargs)


def _versions(*items: Both) -> tuple[int, ...]:
    return tuple(value._version for item in items for value in (item.start, item.end))


@dataclass(frozen=True, eq=False)
class Step:
    """One operation between its two values: both results, and v ↦ J̄·v for the inputs that move.

    Where writing the transpose out is cheaper than having autograd find it: `pull`, g ↦ J̄ᵀ·g for each of these inputs,
    called with g and the tensors in `kept`. Sums over broadcast dimensions are autograd's.
    """

    start: Tensor
    end: Tensor
    push: Callable[..., Tensor]
    pull: Callable[..., tuple[Tensor, ...]] | None = None
    kept: tuple[Tensor, ...] = ()

    def of(self, *moving: Both) -> Both:
        """Followed: forward through every unit's change, or as a node of the text's graph."""
        if moving[0].change is not None:
            change = self.push(*(each.change for each in moving))
            return Both(self.start, self.end, change.to(self.end.dtype))  # of half precision: rules work in a wider one
        # a model may switch gradients off on the way: the output depends on these values all the same
        with torch.enable_grad():
            if self.pull is not None:
                ends = [each.end for each in moving]
                value = _Pull.apply((self.pull, len(ends)), [self.end], *ends, *self.kept)  # type: ignore[no-untyped-call]
                return Both(self.start, value)
            path = self.push(*(each.end for each in moving)).to(self.end.dtype)
            return Both(self.start, _Attach.apply(path, [self.end]))  # type: ignore[no-untyped-call]


class _Attach(torch.autograd.Function):
    """The value of one tensor with the graph of another: what is computed, and how it depends on its inputs."""

    @staticmethod
    def forward(ctx: Any, path: Tensor, value: list[Tensor]) -> Tensor:
        return value.pop().data  # never a view: a model may write into it

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        return slope, None


class _Pull(torch.autograd.Function):
    """A value with its transpose written out; what that needs is kept where checkpoints can let go of it."""

    @staticmethod
    def forward(ctx: Any, plan: Any, value: list[Tensor], *tensors: Tensor) -> Tensor:
        ctx.pull, count = plan
        ctx.spare = len(tensors) - count
        ctx.whole = [each.is_complex() or not value[0].is_complex() for each in tensors[:count]]
        ctx.save_for_backward(*tensors[count:])
        return value.pop().data

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:
        slopes = ctx.pull(slope, *ctx.saved_tensors)
        slopes = (each if whole else each.real for each, whole in zip(slopes, ctx.whole, strict=True))
        return None, None, *slopes, *[None] * ctx.spare


def start_of(item: Any) -> Any:
    return item.start if isinstance(item, Both) else still(item)


def end_of(item: Any) -> Any:
    return item.end if isinstance(item, Both) else still(item)


def values(item: Both) -> tuple[Tensor, Tensor]:
    """Both values, without a graph."""
    return item.start, item.end.detach()


def still(item: Any) -> Any:
    """A weight without its own gradient: nothing but the text is differentiated by."""
    return item.detach() if isinstance(item, Tensor) and item.requires_grad else item


def moves(item: Any) -> bool:
    """Does it carry a change? Whole numbers and truth values that differ between the runs are choices, not changes."""
    return isinstance(item, Both) and not item.chosen and _is_number(item.end)


def is_choice(item: Any) -> bool:
    return isinstance(item, Both) and not moves(item)


def _name(func: Any) -> str:
    return getattr(func, "__name__", str(func))


def _check_choices(func: Any, leaves: list[Any]) -> None:
    """A choice that differs between the runs may be counted and compared, but nothing that moves may hang on it."""
    if any(is_choice(leaf) for leaf in leaves) and any(moves(leaf) for leaf in leaves):
        raise SecantError(
            f"{_name(func)} chooses differently for the text and for its baseline (routing to experts, hashing, sorting or "
            f"rounding): the output jumps there, and no mean derivative exists. Use {setting(method='sig')}, which is exact all the same, "
            f"or {setting(method='ig')}"
        )


def affine(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operation that is its own mean derivative: applied in both runs, and to the changes."""
    if (
        not kwargs
        and moves(args[0])
        and args[0].change is None
        and not _in_place(func, kwargs)
        and _are_plain(args[1:])
    ):
        with torch.no_grad():  # most operations: one tensor that moves, in reverse mode
            start = func(args[0].start, *args[1:])
        with torch.enable_grad():
            return both_results(func, start, func(args[0].end, *args[1:]))
    leaves, form = tree_flatten((args, kwargs))
    _check_choices(func, leaves)
    in_place = _in_place(func, kwargs)
    if in_place and not isinstance(leaves[0], Both):
        become_both(leaves[0], leaves, _name(func))
    start_args, start_kwargs = tree_unflatten([start_of(leaf) for leaf in leaves], form)
    with torch.no_grad():
        start = func(*start_args, **start_kwargs)
    if in_place:
        return _followed_in_place(func, leaves, form, start)
    change = next((leaf.change for leaf in leaves if moves(leaf)), None)
    if change is None:
        end_args, end_kwargs = tree_unflatten([end_of(leaf) for leaf in leaves], form)
        with torch.enable_grad():
            made = both_results(func, start, func(*end_args, **end_kwargs))
        return made if any(moves(leaf) for leaf in leaves) else tree_map(_still_chosen, made)
    moving = [ForwardTensor(leaf.end, leaf.change) if moves(leaf) else end_of(leaf) for leaf in leaves]
    made = both_results(func, start, _changed(func, moving, form))
    for each in tree_flatten(made)[0]:
        if isinstance(each, Both):
            _share_change(each, leaves)
    return made


def _share_change(made: Both, leaves: list[Any]) -> None:
    """Forward mode: where the value is a view of another's, so is the change, for a model may write into either."""
    for leaf in leaves:
        if not moves(leaf) or made.change is None or (leaf.end is made.end and leaf.change is made.change):
            continue
        whole, part = leaf.end, made.end
        if (whole.dtype, whole.is_conj()) != (
            part.dtype,
            part.is_conj(),
        ) or whole.untyped_storage().data_ptr() != part.untyped_storage().data_ptr():
            continue
        if leaf.change.stride()[1:] != whole.stride():
            reach = 1 + sum((n - 1) * step for n, step in zip(whole.shape, whole.stride(), strict=True))
            room = leaf.change.new_empty(len(leaf.change) * reach)
            leaf.change = room.as_strided(leaf.change.shape, (reach, *whole.stride())).copy_(leaf.change)
        first = leaf.change.storage_offset() + part.storage_offset() - whole.storage_offset()
        shape, strides = (len(leaf.change), *part.shape), (leaf.change.stride(0), *part.stride())
        made.change = leaf.change.as_strided(shape, strides, first)


def _still_chosen(item: Any) -> Any:
    """What is made of choices alone is a choice in whatever numbers it is written; the same in both runs, it is plain."""
    if not isinstance(item, Both):
        return item
    item.chosen = True
    return item.end if torch.equal(item.start, item.end) else item


def _are_plain(args: tuple[Any, ...]) -> bool:
    """Numbers, sizes, slices: nothing that moves, nothing with weights, and nothing that might hold such things."""
    return all(
        each is None or type(each) in _PLAIN or (type(each) in (tuple, torch.Size) and _are_plain(each))
        for each in args
    )


_PLAIN = (int, float, bool, slice, type(Ellipsis), torch.dtype, torch.device)


def _changed(func: Any, leaves: list[Any], form: Any) -> Any:
    """An affine operation on value and changes: by forward mode's rules, by torch, or unit by unit as f(change) − f(0)."""
    args, kwargs = tree_unflatten(leaves, form)
    if not any(leaf.is_complex() for leaf in leaves if isinstance(leaf, Tensor)):
        rule = PUSH_RULES.get(func)
        result = NotImplemented if rule is None else rule(*args, **kwargs)
        try:
            result = push_by_torch(func, args, kwargs) if result is NotImplemented else result
            if not any(isinstance(x, Tensor) and x.is_complex() for x in tree_flatten(result)[0]):
                return result
        except RuntimeError as error:  # a kernel without forward mode
            if out_of_memory(error):
                raise
    count = next(len(leaf.change) for leaf in leaves if isinstance(leaf, ForwardTensor))

    def at(pick: Callable[[ForwardTensor], Tensor]) -> Any:
        picked_args, picked_kwargs = tree_unflatten(
            [pick(x) if isinstance(x, ForwardTensor) else x for x in leaves], form
        )
        return tree_flatten(func(*picked_args, **picked_kwargs))

    (zero, shape), (value, _) = at(lambda x: torch.zeros_like(x.value)), at(lambda x: x.value)
    units = [at(partial(_change_of, unit))[0] for unit in range(count)]
    parts = [
        ForwardTensor(each, torch.stack([unit[i] - zero[i] for unit in units])) if _is_number(each) else each
        for i, each in enumerate(value)
    ]
    return tree_unflatten(parts, shape)


def _is_number(item: Any) -> bool:
    return isinstance(item, Tensor) and (item.is_floating_point() or item.is_complex())


def _change_of(unit: int, tensor: ForwardTensor) -> Tensor:
    return tensor.change[unit]


def both_results(func: Any, start: Any, end: Any) -> Any:
    """The results of both runs, leaf by leaf; what is the same in both is given as it is."""
    if isinstance(end, Tensor):
        return _one(func, start, end)
    starts, form = tree_flatten(start)
    ends, end_form = tree_flatten(end)
    if form != end_form:
        raise differ(func)
    return tree_unflatten([_one(func, *each) for each in zip(starts, ends, strict=True)], form)


def _one(func: Any, start: Any, end: Any) -> Any:
    if isinstance(end, ForwardTensor):
        return Both(start, end.value, end.change)
    if not isinstance(end, Tensor):
        if start is not end and start != end:
            raise differ(func)
        return end
    if start.shape != end.shape:
        raise differ(func)
    if _is_number(end):
        return Both(start, end)
    return end if torch.equal(start, end) else Both(start, end)


def differ(func: Any) -> SecantError:
    return SecantError(
        f"{_name(func)} gives another shape or another value for the text than for its baseline, and the model goes another way "
        "there: the two runs cannot be compared operation by operation. Use method='ig' or method='sig'"
    )


def _in_place(func: Any, kwargs: dict[str, Any]) -> bool:
    name = _name(func)
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or name in _IN_PLACE_OPERATORS


_IN_PLACE_OPERATORS = {"__iadd__", "__isub__", "__imul__", "__itruediv__", "__ior__", "__iand__"}


def become_both(target: Any, leaves: Sequence[Any], name: str) -> None:
    """A plain tensor that something moving is written into: from here on it has two values as well, and so has the tensor
    that it is a view of, and with that every other view of it."""
    if type(target) is not Tensor or type(target._base) not in (type(None), Tensor):
        raise SecantError(
            f"the model writes into a weight or a tensor of a kind of its own ({name}); use {setting(method='ig')}"
        )
    whole: Any = target if target._base is None else target._base
    start, end = whole.detach().clone(), whole.detach().clone()
    change = next((leaf.change for leaf in leaves if moves(leaf)), None)
    if change is not None:
        zero = end.new_zeros(len(change) * end.numel())
        change = zero.as_strided((len(change), *end.shape), (end.numel(), *end.stride()))
    dense = end.stride() == whole.stride() and target.dtype == whole.dtype
    chosen = not any(moves(leaf) for leaf in leaves)
    _take_on(whole, start, end, change, chosen)
    if target is not whole:
        if not dense:
            raise SecantError(
                f"the model writes into a view that reads its memory in another way ({name}); use {setting(method='ig')}"
            )
        _become_view(target, whole)
    doubt(f"{name} writes into a tensor whose memory others share, and not every one of them could be followed")


def _take_on(target: Tensor, start: Tensor, end: Tensor, change: Tensor | None, chosen: bool) -> None:
    target.__class__ = Both
    for name, value in zip(_ATTRIBUTES, (start, end, change, None, chosen), strict=True):
        setattr(target, name, value)
    if (run := _RUN.get()) is not None:
        run.written.append(target)


_ATTRIBUTES = ("start", "end", "change", "remembered", "chosen")


def _become_plain(target: Tensor) -> None:
    target.__class__ = Tensor
    for name in _ATTRIBUTES:
        delattr(target, name)


def _become_view(target: Tensor, whole: Both) -> None:
    """A view of what has two values: the same part of either."""
    with torch._C.DisableTorchFunctionSubclass():  # the places of its own memory, not of its values'
        first = target.storage_offset() - whole.storage_offset()
    shape, stride = target.shape, target.stride()
    change = whole.change
    if change is not None:
        change = change.as_strided((len(change), *shape), (change.stride(0), *stride), first)
    with torch.enable_grad():  # a view made without gradients may not be written into with them
        start, end = (each.as_strided(shape, stride, first) for each in (whole.start, whole.end))
    _take_on(target, start, end, change, whole.chosen)


def _view_what_was_written(items: Iterable[Any]) -> None:
    """Plain views of tensors that were written into since: they see what was written."""
    for item in items:
        if type(item) is Tensor:
            if type(item._base) is Both:
                _become_view(item, item._base)
        elif type(item) in (list, tuple):
            _view_what_was_written(item)


def _followed_in_place(func: Any, leaves: list[Any], form: Any, start: Any) -> Any:
    """The same writing in the text's run, where torch follows it through views; changes are written likewise."""
    target = leaves[0]
    if target.change is not None:
        if target.end._base is not None and target.end._base.dtype != target.end.dtype:
            raise SecantError(
                f"{_name(func)} writes into the parts of complex numbers, which has no rule; use {setting(method='ig')}"
            )
        target.change.copy_(_changes_after(func, leaves, form))
    end_args, end_kwargs = tree_unflatten([end_of(leaf) for leaf in leaves], form)
    with writable(_name(func)), torch.enable_grad():
        func(*end_args, **end_kwargs)
    return None if func is Tensor.__setitem__ else target


@contextmanager
def writable(name: str) -> Iterator[None]:
    """What torch itself does not write into while it keeps a graph: one of several views that an operation gave at once."""
    try:
        yield
    except RuntimeError as error:
        raise SecantError(
            f"{name} writes where gradients cannot follow ({error}); use {setting(method='sig')}"
        ) from error


def _changes_after(func: Any, leaves: list[Any], form: Any) -> Any:
    """Every unit's change of a tensor that is written into."""
    moving = [i for i, leaf in enumerate(leaves) if moves(leaf)]

    def written(*tensors: Tensor) -> Any:
        values = [end_of(leaf) for leaf in leaves]
        for i, tensor in zip(moving, tensors, strict=True):
            values[i] = tensor
        values[0] = values[0].clone()
        args, kwargs = tree_unflatten(values, form)
        func(*args, **kwargs)
        return values[0]

    ends = tuple(leaves[i].end for i in moving)
    return vmap(lambda *changes: jvp(written, ends, changes)[1])(*(leaves[i].change for i in moving))


@contextmanager
def watching_integrated() -> Iterator[dict[str, int]]:
    """Which operations had no rule and were integrated along their own line, and how often."""
    names: dict[str, int] = {}
    token = INTEGRATED.set(names)
    try:
        yield names
    finally:
        INTEGRATED.reset(token)


def along_own_line(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operation without a rule: its own derivative, integrated along its own line until its own sum holds."""
    from pathlens.integrand.secant.own_line import follow

    leaves, form = tree_flatten((args, kwargs))
    _check_choices(func, leaves)
    if not any(moves(leaf) for leaf in leaves):
        return affine(func, args, kwargs)
    if _in_place(func, kwargs) or kwargs.get("inplace") or kwargs.get("out") is not None:
        raise SecantError(f"{_name(func)} changes a tensor in place, and has no rule here; use method='ig'")
    return follow(func, leaves, form)


def note_integrated(name: str) -> None:
    names = INTEGRATED.get()
    if names is not None:
        names[name] = names.get(name, 0) + 1
