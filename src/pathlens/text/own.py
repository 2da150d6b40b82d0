"""The right output: what is explained is what the model itself says, and a list says what its texts say alone.

Looked at for the first text of every kind of request, from token ids as a user calls the model: one pass more. Texts of
another length that follow are read once in one batch with the first: two passes more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pathlens.errors import ModelError
from pathlens.text.adapter import Case, Scores

if TYPE_CHECKING:
    from pathlens.text.language import LanguageModel


@dataclass
class Seen:
    """What is known of one kind of request."""

    first: Case | None  # until a text of another length was compared with it
    apart: bool = False  # padding changes the model's output: only texts of one length share a batch


def compared(model: LanguageModel, draft: Case, case: Case, layer: int) -> Case:
    """The case, once its output is known to be the model's own; an error that shows both numbers where it is not."""
    read: Any = getattr(case.score, "read", None)
    kind = (layer, type(read), getattr(read, "score", ""), len(case.texts), len(case.meta.get("outputs", ())))
    if kind not in model.seen:
        with torch.no_grad():
            own, explained = read(model.own(draft), [case]), case.score(case.ends.end[None], [case])
        if _far(own, explained, case.ends.end.dtype):
            raise ModelError(_both(model, own, explained, layer))
        model.seen[kind] = Seen(case, apart=bool(model.network.altered))
    seen = model.seen[kind]
    if seen.first is not None and len(seen.first) != len(case) and seen.first.pack == case.pack and not seen.apart:
        seen.apart = not _packs(seen.first, case)
        seen.first = None
    return replace(case, pack=(case.score, len(case))) if seen.apart else case


def _packs(one: Case, other: Case) -> bool:
    """Do both give in one batch what they give alone?"""
    cases, ends = [one, other], (one.ends.end, other.ends.end)
    points = torch.nn.utils.rnn.pad_sequence(list(ends), batch_first=True)
    with torch.no_grad():
        together = one.score(points, cases)
        alone = [case.score(end[None], [case]) for case, end in zip(cases, ends, strict=True)]
    return not any(_far(value, row[None], points.dtype) for value, row in zip(alone, together, strict=True))


def _far(own: Scores, other: Scores, dtype: torch.dtype) -> bool:
    """Further apart than rounding explains: half of the digits the numbers were computed with."""
    allowed = max(torch.finfo(each).eps for each in (dtype, own.dtype)) ** 0.5
    return own.shape != other.shape or not bool((own - other).abs().max() <= allowed * max(1.0, float(own.abs().max())))


def _both(model: LanguageModel, own: Tensor, explained: Tensor, layer: int) -> str:
    def shown(value: Tensor) -> str:
        return f"{value.item():.6g}" if value.numel() == 1 else f"a vector of length {value.float().norm():.6g}"

    cure = (
        f"layer={layer} cannot be entered in this architecture: use layer=0"
        if layer
        else (
            "this architecture does something with its input that pathlens does not follow: write a model kind "
            "(docs/extending.md) or report it with the class's name"
        )
    )
    return (
        f"{type(model.user).__name__} itself gives {shown(own)} for this text, and what would be explained is "
        f"{shown(explained)}: the scores would belong to another number. {cure[0].upper()}{cure[1:]}"
    )
