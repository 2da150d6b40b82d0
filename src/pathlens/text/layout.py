"""How a prompt and its outputs are laid into the rows of one path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from pathlens.text.adapter import Case
from pathlens.text.outputs import Asked, Output, Reading
from pathlens.text.tokens import Tokens


def joined(opened: Tokens, outputs: Sequence[Output], context: Mapping[str, Tensor], first: int, **more: Any) -> Asked:
    """The prompt's rows and those of every output but its last token; logits are read from position `first` on.

    An output's tokens are a text of their own: segment 1 (and 2, of a contrast) of the texts.
    """
    tails = [output.ids[:-1] for output in outputs]
    names = [output.names for output in outputs]
    at, start = [], first + 1
    for tail in tails:
        at += [first, *range(start, start + len(tail))]
        start += len(tail)
    several = any(tails)
    own = {f.name: getattr(opened, f.name) for f in fields(Tokens)}
    own |= {
        "ids": (*opened.ids, *(i for tail in tails for i in tail)),
        "tokens": (*opened.tokens, *(n for each in names for n in each[:-1])),
        "offsets": (*opened.offsets, *(span for output in outputs for span in output.offsets[:-1])),
        "segments": (*opened.segments, *(k for k, tail in enumerate(tails, 1) for _ in tail)),
        "texts": (*opened.texts, *(output.shown for output in outputs)) if several else opened.texts,
        "context": context,
    }
    reading = Reading(
        at=tuple(at),
        ids=tuple(i for output in outputs for i in output.ids),
        sign=tuple(sign for output, sign in zip(outputs, (1.0, -1.0), strict=False) for _ in output.ids),
        outputs=tuple(n for each in names for n in each),
        offsets=tuple(span for output in outputs for span in output.offsets),
    )
    return Asked(**own, reading=reading, **more)


def as_one_text(asked: Asked, follows: bool) -> Asked:
    """For methods that give one number: the prompt and its outputs, read as one text.

    An output that `follows` the prompt goes on where that ends; any other, and a second alternative, has a line of its own.
    """
    text, starts = asked.texts[0], [0]
    for number, output in enumerate(asked.texts[1:]):
        text += "" if follows and number == 0 else "\n"
        starts.append(len(text))
        text += output
    places = [starts[max(segment, 0)] for segment in asked.segments]
    return replace(
        asked,
        texts=(text,),
        segments=tuple(min(segment, 0) for segment in asked.segments),
        offsets=tuple((start + shift, end + shift) for (start, end), shift in zip(asked.offsets, places, strict=True)),
    )


def branches(opened: Tokens, outputs: Sequence[Output]) -> Tensor:
    """(S,) 0 for the prompt, k for the tokens of output k: alternatives do not see each other."""
    tails = [k for k, output in enumerate(outputs, 1) for _ in output.ids[:-1]]
    return torch.tensor([*[0] * len(opened), *tails], dtype=torch.long)


def kept_positions(cases: Sequence[Case], device: torch.device) -> Tensor:
    """(P,) every position that some row is read at; before the target is known, the last one."""
    wanted = {at for case in cases for at in (case.target.at if case.target else (len(case) - 1,))}
    return torch.tensor(sorted(wanted), device=device)
