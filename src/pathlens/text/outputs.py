"""What a generator is asked about: output tokens, given or its own, how they are laid into the rows of one path, and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from pathlens.checks import whole_text
from pathlens.errors import InputError, setting
from pathlens.text.adapter import Case
from pathlens.text.tokens import BROKEN, Tokens, decoded, spans_of, trimmed, with_parts
from pathlens.types import Span


@dataclass(frozen=True)
class Output:
    """A continuation: T tokens and the characters of its text they stand for."""

    ids: tuple[int, ...]
    text: str
    offsets: tuple[Span, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def shown(self) -> str:
        """The text for people, as long as it is: an output may end in the middle of a character."""
        return self.text.replace(BROKEN, "…")

    @property
    def names(self) -> tuple[str, ...]:
        plain = [self.text[start:end] for start, end in self.offsets]
        plain = ["[part]" if name and not name.strip(BROKEN) else name for name in plain]  # cut inside a character
        return with_parts(plain, [(0, span) for span in self.offsets])


@dataclass(frozen=True)
class Reading:
    """Which logits make up the target of one text: (where, which token, with which sign) of every output token."""

    at: tuple[int, ...]  # positions
    ids: tuple[int, ...]
    sign: tuple[float, ...]
    outputs: tuple[str, ...] = ()
    offsets: tuple[Span, ...] = ()
    part: tuple[int, ...] = ()  # which number each token counts for, where several make one (a sentence)


@dataclass(frozen=True, eq=False)
class Asked(Tokens):
    """A prompt with the output tokens that are sources themselves, and what is read from it."""

    reading: Reading = Reading((), (), ())
    name: str = ""
    again: int | str | None = None  # the target that asks for it


class Kept(NamedTuple):
    """Logits, at a few positions only: a vocabulary is large."""

    logits: Float[Tensor, "B P V"]
    at: Int[Tensor, " P"]  # the positions, ascending


def output_of_text(tokenizer: Any, prompt: str, target: str) -> Output:
    """The tokens of `target` as they are when it follows the prompt; refused where it changes the prompt's own."""
    whole_text("the output to explain", target)
    alone = list(_encoded(tokenizer, prompt)["input_ids"])
    both = _encoded(tokenizer, prompt + target)
    ids = list(both["input_ids"])
    if ids == alone:
        raise InputError(f"{target!r} has no tokens after this prompt; give a text with words").plainly(
            f"“{target}” adds nothing to the prompt. Write words.", "target"
        )
    if ids[: len(alone)] != alone:
        raise InputError(_split_differently(tokenizer, prompt, target, alone, ids)).plainly(
            f"The model reads the prompt differently when “{target}” follows it at once. "
            + (
                "Move the blank from the end of the prompt to the beginning of what it says."
                if prompt != prompt.rstrip()
                else "Begin what it says with a blank, or with a new word."
            ),
            "target",
        )
    count = len(prompt)
    offsets = [
        trimmed(target, max(0, start - count), max(0, end - count))
        for start, end in spans_of(tokenizer, both, prompt + target)[len(alone) :]
    ]
    return Output(tuple(ids[len(alone) :]), target, tuple(offsets))


def contrasted(outputs: Sequence[Output]) -> str:
    """One output, or one against another, for people."""
    return " against ".join(repr(output.shown) for output in outputs)


def output_of_ids(tokenizer: Any, before: Sequence[int], ids: Sequence[int]) -> Output:
    text, offsets = decoded(tokenizer, before, ids)
    return Output(tuple(int(i) for i in ids), text, offsets)


def _encoded(tokenizer: Any, text: str) -> Any:
    fast = getattr(tokenizer, "is_fast", False)
    return tokenizer(text, add_special_tokens=False, return_offsets_mapping=fast, verbose=False)


def _split_differently(tokenizer: Any, prompt: str, target: str, alone: list[int], both: list[int]) -> str:
    same = next((i for i, (a, b) in enumerate(zip(alone, both, strict=False)) if a != b), min(len(alone), len(both)))

    def shown(ids: list[int]) -> str:
        first = max(0, same - 1)
        tail = output_of_ids(tokenizer, ids[:first], ids[first:])
        ends = [end for _, end in tail.offsets]  # blanks in front belong to a token here
        return " ".join(repr(tail.text[start:end]) for start, end in pairwise([0, *ends])) or "nothing"

    hint = ""
    blanks = len(prompt) - len(prompt.rstrip())
    if blanks:
        hint = f"; move the blank from the end of the prompt to the target: {prompt.rstrip()!r} and {setting(target=prompt[-blanks:] + target)}"
    return (
        f"the tokenizer splits the prompt differently when the target {target!r} follows it: alone it ends in "
        f"{shown(alone)}, followed by the target in {shown(both)}, so the target's tokens cannot be told from the prompt's{hint}"
    )


@dataclass(frozen=True)
class ReadOutputs:
    """All output tokens as one number, the continuation's total or the difference of two; or a number for each part."""

    score: str
    each: int | None = None  # T, for a number of each token or part: only texts with as many share a batch

    def __call__(self, output: Kept, cases: Sequence[Case]) -> Float[Tensor, " B"] | Float[Tensor, "B T 1"]:
        readings = [case.target for case in cases]
        most = max(len(reading.ids) for reading in readings)
        device = output.logits.device

        def table(field: str, dtype: torch.dtype) -> Shaped[Tensor, "B T"]:
            """Zeros past a row's own tokens."""
            rows = {id(r): [*getattr(r, field), *[0] * (most - len(r.ids))] for r in readings}
            return torch.tensor([rows[id(r)] for r in readings], dtype=dtype, device=device)

        at = torch.searchsorted(output.at, table("at", torch.long)).clamp_max(len(output.at) - 1)
        rows = torch.arange(len(readings), device=device)[:, None]
        value = output.logits[rows, at, table("ids", torch.long)]
        if self.score != "logit":
            wide = torch.float64 if value.dtype == torch.float64 else torch.float32
            value = value.to(wide) - output.logits.to(wide).logsumexp(-1)[rows, at]
        value = (value.exp() if self.score == "prob" else value) * table("sign", value.dtype)
        if self.each is None or not readings[0].part:
            return value.sum(-1) if self.each is None else value[..., None]
        belongs = torch.nn.functional.one_hot(table("part", torch.long), self.each).to(value.dtype)  # (B, T, parts)
        return (value[..., None] * belongs).sum(1)[..., None]


@dataclass(frozen=True)
class ReadNext:
    """The logits (B, V) of the token after the text, for `function` (None: as one vector)."""

    function: Callable[[Tensor, Sequence[Case]], Tensor] | None = None

    def __call__(self, output: Kept, cases: Sequence[Case]) -> Float[Tensor, " B"] | Float[Tensor, "B 1 V"]:
        last = torch.tensor([case.target.at[0] for case in cases], device=output.logits.device)
        rows = torch.arange(len(cases), device=last.device)
        logits = output.logits[rows, torch.searchsorted(output.at, last)]
        return logits[:, None] if self.function is None else self.function(logits, cases)


def joined(
    opened: Tokens, outputs: Sequence[Output], context: Mapping[str, Shaped[Tensor, "S ..."]], first: int
) -> Asked:
    """The prompt's rows and those of every output but its last token; logits are read from position `first` on.

    An output's tokens are a text of their own: segment 1 (and 2, of a contrast) of the texts.
    """
    tails = [output.ids[:-1] for output in outputs]
    names = [output.names for output in outputs]
    at, start = [], first + 1
    for tail in tails:
        at += [first, *range(start, start + len(tail))]
        start += len(tail)
    parts = vars(opened) | {
        "ids": (*opened.ids, *(i for tail in tails for i in tail)),
        "tokens": (*opened.tokens, *(n for each in names for n in each[:-1])),
        "offsets": (*opened.offsets, *(span for output in outputs for span in output.offsets[:-1])),
        "segments": (*opened.segments, *(k for k, tail in enumerate(tails, 1) for _ in tail)),
        "texts": (*opened.texts, *(output.shown for output in outputs)) if any(tails) else opened.texts,
        "context": context,
    }
    reading = Reading(
        at=tuple(at),
        ids=tuple(i for output in outputs for i in output.ids),
        sign=tuple(sign for output, sign in zip(outputs, (1.0, -1.0), strict=False) for _ in output.ids),
        outputs=tuple(n for each in names for n in each),
        offsets=tuple(span for output in outputs for span in output.offsets),
    )
    return Asked(**parts, reading=reading)


def as_one_text(asked: Asked, follows: bool) -> Asked:
    """For methods that give one number: the prompt and its outputs, read as one text.

    An output that `follows` the prompt goes on where that ends; any other, and a second alternative, has a line of its own.
    """
    text, starts = asked.texts[0], [0]
    for number, output in enumerate(asked.texts[1:]):
        text += "" if follows and number == 0 else "\n"
        starts.append(len(text))
        text += output
    placed = zip(asked.offsets, (starts[max(segment, 0)] for segment in asked.segments), strict=True)
    offsets = tuple((start + shift, end + shift) for (start, end), shift in placed)
    return replace(asked, texts=(text,), segments=tuple(min(each, 0) for each in asked.segments), offsets=offsets)
