"""Names of tokens that people can read: byte-level tokens may be a part of one character."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from pathlens.types import Span

BROKEN = "\N{REPLACEMENT CHARACTER}"  # what a decoder gives for bytes that are no whole character


def with_parts(names: Sequence[str], places: Sequence[tuple[int, Span]]) -> tuple[str, ...]:
    """Tokens in a row that share the very same characters are parts of them: "日[1/2]", "日[2/2]".

    `places` are (segment, characters); special tokens (segment −1) and tokens without characters are left alone.
    """
    result = list(names)
    for (segment, (start, end)), group in groupby(range(len(names)), key=lambda i: places[i]):
        members = list(group)
        if segment >= 0 and end > start and len(members) > 1:
            for part, i in enumerate(members, 1):
                result[i] = f"{names[i]}[{part}/{len(members)}]"
    return tuple(result)


def trimmed(text: str, start: int, end: int) -> Span:
    """The span without blanks in front, unless it is nothing but blanks."""
    first = start
    while first < end and text[first].isspace():
        first += 1
    return (first, end) if first < end else (start, end)


def decoded(tokenizer: Any, before: Sequence[int], ids: Sequence[int]) -> tuple[str, tuple[Span, ...]]:
    """The text of `ids` as it reads after `before`, and the characters of each token.

    Decoded from ever longer prefixes: a tokenizer may drop or add blanks at the start of a text, and a token may end
    in the middle of a character, which then belongs to it and to the tokens that complete it.
    """
    start = len(_decode(tokenizer, before))
    whole = _decode(tokenizer, [*before, *ids])[start:]
    spans, done = [], 0
    for count in range(1, len(ids) + 1):
        text = _decode(tokenizer, [*before, *ids[:count]])[start:]
        sound = len(text.rstrip(BROKEN))
        broken = sound < len(text) and (not whole.startswith(text) or not whole[sound:].strip(BROKEN))
        reached = sound if broken else len(text)
        end = min(len(whole), max(reached, done) + (1 if broken else 0))
        spans.append(trimmed(whole, done, max(end, done)))
        done = max(done, reached)
    return whole, tuple(spans)


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
