"""Any block of a model by name: its inputs in the text's run, its output as a vector per position (VAIG)."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from pathlens.errors import InputError, setting
from pathlens.text.adapter import Case, Request, collate
from pathlens.text.network import Forward, Network, check_layer, replaced_forwards
from pathlens.types import Ends


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a block: its arguments by name (each with `rows` equal rows where it has a batch), its output."""

    arguments: dict[str, Any]
    output: Float[Tensor, "1 out k"]
    rows: int


@dataclass(frozen=True, eq=False)
class BlockScore:
    """Rows of all moving inputs, one below the other → the block's output (B, out, k).

    Masks, position ids and rotary tables stay at the text's values.
    """

    block: nn.Module
    call: Call
    moving: tuple[str, ...]
    widths: tuple[int, ...]  # inputs of different width share one tensor, the narrower ones filled with zeros

    def __call__(self, points: Float[Tensor, "B S d"], cases: Sequence[Case]) -> Float[Tensor, "B out k"]:
        parts = torch.split(points, points.shape[1] // len(self.moving), dim=1)
        moved = {name: part[..., :width] for name, part, width in zip(self.moving, parts, self.widths, strict=True)}
        rest = {name: value for name, value in self.call.arguments.items() if name not in moved}
        held = {name: _expand(value, self.call.rows, points.shape[0]) for name, value in rest.items()}
        return _first_tensor(_apply(self.block, {**held, **moved}))


@dataclass(frozen=True, eq=False)
class UptoBlockScore:
    """States of a layer → a block's output further up (B, out, k), by running the model."""

    network: Network
    block: nn.Module
    layer: int

    def __call__(self, points: Float[Tensor, "B S d"], cases: Sequence[Case]) -> Float[Tensor, "B out k"]:
        caught: list[Tensor] = []

        def forward(original: Forward, *args: Any, **kwargs: Any) -> Any:
            output = original(*args, **kwargs)
            caught.append(_first_tensor(output))
            return output

        with replaced_forwards([self.block], forward):
            self.network.run(points, collate(cases, points), self.layer)
        return caught[-1]


def find_block(network: Network, name: str) -> nn.Module:
    """A submodule by its name, also without the prefix of the body."""
    body: nn.Module = getattr(network.module, "base_model", network.module)
    for root in (network.whole, network.module, body):
        modules: dict[str, nn.Module] = dict(root.named_modules())
        if name and name in modules:
            return modules[name]
    close = difflib.get_close_matches(str(name), list(modules), n=4, cutoff=0.4)
    raise InputError(
        f"{setting(block=name)} is not a part of this model; close names: {', '.join(close) or 'none'} "
        "(list them with: [name for name, _ in model.named_modules()])"
    ).plainly(f"“{name}” is no part of this model. Choose one from the list.", "block")


def block_case(
    network: Network, draft: Case, ends: Ends, context: Mapping[str, Shaped[Tensor, "..."]], request: Request
) -> Case:
    """From the block's own inputs to its output; with `layer=k`, from `ends`, that layer's states, to its output."""
    block = find_block(network, str(request.block))
    text = record_call(network, block, draft.ends.end, context, str(request.block))
    outputs = draft.tokens if text.output.shape[1] == len(draft) else tuple(map(str, range(text.output.shape[1])))
    draft = replace(draft, target_name=f"output of {request.block}", outputs=outputs)
    if request.layer is not None:
        score = UptoBlockScore(network, block, check_layer(request.layer, network.depth))
        return replace(draft, ends=ends, score=score, pack=object())
    baseline = record_call(network, block, draft.ends.start, context, str(request.block))
    moving, notes = _moving(text, baseline, len(draft), request)
    widths = tuple(text.arguments[name].shape[-1] for name in moving)
    start = _stack([baseline.arguments[name][0] for name in moving])
    end = _stack([text.arguments[name][0] for name in moving])
    times = len(moving)
    return replace(
        draft,
        ends=Ends(start, end, torch.zeros(len(end), dtype=torch.bool, device=end.device)),
        score=BlockScore(block, text, moving, widths),
        pack=object(),  # a block's other arguments belong to one text: its rows are packed among themselves only
        tokens=draft.tokens * times,
        offsets=draft.offsets * times,
        segments=draft.segments * times,
        sources=tuple(name for name in moving for _ in draft.tokens),
        context={},
        notes=(*draft.notes, *notes),
    )


def record_call(
    network: Network,
    block: nn.Module,
    embeds: Float[Tensor, "S d"],
    context: Mapping[str, Shaped[Tensor, "..."]],
    name: str,
) -> Call:
    """Run the text once and note the block's arguments and output (of its last call, where it is shared).

    It runs in a few equal rows: what has that many rows is batched, what has not (tables of positions) is not.
    """
    calls: list[Call] = []
    rows = 3 if len(embeds) != 3 else 5

    def forward(original: Forward, *args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        named = inspect.signature(original).bind(*args, **kwargs).arguments
        named |= named.pop("kwargs", {})
        calls.append(Call(named, _first_tensor(output)[:1].detach(), rows))
        return output

    with torch.no_grad(), replaced_forwards([block], forward):
        network.call(embeds.expand(rows, *embeds.shape), {k: v.expand(rows, *v.shape[1:]) for k, v in context.items()})
    if not calls:
        raise InputError(f"{setting(block=name)} is never run when this model reads a text").plainly(
            f"“{name}” does nothing when this model reads a text. Choose another part.", "block"
        )
    return calls[-1]


def _apply(block: nn.Module, arguments: Mapping[str, Any]) -> Any:
    args: list[Any] = []
    kwargs = dict(arguments)
    for name, parameter in inspect.signature(block.forward).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            args.extend(kwargs.pop(name, ()))
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY and name in kwargs:
            args.append(kwargs.pop(name))
    return block(*args, **kwargs)


def _moving(text: Call, baseline: Call, length: int, request: Request) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The inputs that are activations: float (1, S, ·) tensors that differ between the text and its baseline."""
    floats = {n: v for n, v in text.arguments.items() if isinstance(v, Tensor) and v.is_floating_point()}
    candidates = [name for name, v in floats.items() if v.ndim == 3 and v.shape[:2] == (text.rows, length)]
    unknown = [name for name in request.hold if name not in candidates]
    if unknown:
        raise InputError(
            f"{setting(hold=unknown)}: the block's inputs are {', '.join(candidates) or 'none of the kind'}"
        )
    free = [name for name in candidates if name not in request.hold]
    moving = [name for name in free if not torch.equal(text.arguments[name], baseline.arguments[name])]
    if not moving and not request.hold:
        moving = candidates[:1]  # text equal to its baseline: everything is zero
    if not moving:
        raise InputError(
            f"{setting(block=request.block)} has no input left to move (inputs: {', '.join(candidates) or 'none with one row per token'}"
            f"; held: {', '.join(request.hold) or 'none'})"
        ).plainly(f"Nothing moves at the input of “{request.block}”. Choose another part.", "block")
    notes = [f"the block's inputs {', '.join(moving)} move together"] if len(moving) > 1 else []
    notes += [f"held at the text's value: {', '.join(request.hold)}"] if request.hold else []
    return tuple(moving), tuple(notes)


def _stack(parts: list[Float[Tensor, "S _"]]) -> Float[Tensor, "rows d"]:
    width = max(part.shape[-1] for part in parts)
    return torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[-1])) for part in parts])


def _expand(value: Any, had: int, rows: int) -> Any:
    if isinstance(value, Tensor) and value.ndim > 1 and value.shape[0] == had:
        return value[:1].expand(rows, *value.shape[1:])
    if isinstance(value, tuple):
        return tuple(_expand(part, had, rows) for part in value)
    return value


def _first_tensor(output: Any) -> Float[Tensor, "B out k"]:
    """A block's output; one vector per text is one output position."""
    first = output[0] if isinstance(output, tuple | list) and output else output
    first = getattr(output, "last_hidden_state", first)
    if isinstance(first, Tensor) and first.ndim >= 2:
        return first[:, None] if first.ndim == 2 else first
    raise InputError(
        f"this block's output ({type(output).__name__}) does not begin with a tensor; choose another block"
    ).plainly("This part of the model gives no numbers that can be explained. Choose another part.", "block")
