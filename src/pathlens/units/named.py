"""Units of a prompt whose parts have names: every turn or passage one unit, and the template one more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pathlens.errors import InputError
from pathlens.types import Span
from pathlens.units.groups import Units, units

REST = "template"
LEVELS = ("turn", "passage")


def named_units(
    unit: str,
    spans: Mapping[str, Mapping[str, Sequence[int]]],
    tokens: Sequence[str],
    offsets: Sequence[Span],
    segments: Sequence[int],
    texts: Sequence[str],
) -> Units:
    """`unit="turn"` or "passage": one unit per named span of the prompt, an answer's tokens as they are.

    Whatever else the prompt has (the chat template, a token held at its beginning) is one unit called "template", so
    that the units cover everything that can move and their scores still add up.
    """
    if not spans.get(unit):
        raise InputError(
            f"unit={unit!r} is for prompts that say what their parts are: give pl.chat(user=…, passages=[…]) or a list "
            "of messages as the text, or name the parts with unit={name: (start, end)}"
        )
    wanted = {name: tuple(span) for name, span in spans[unit].items()}
    found = units(wanted, tokens, offsets, segments, texts)
    rest = np.array(
        [
            segment <= 0 and not (name in wanted and tuple(span) == wanted[name])
            for name, span, segment in zip(found.names, found.offsets, found.segments, strict=True)
        ]
    )
    return _with_rest(found, rest) if rest.any() else found


def _with_rest(found: Units, rest: np.ndarray) -> Units:
    """The units of `rest` made one, which stands first and in no text."""
    kept = np.flatnonzero(~rest)
    pick = lambda values: tuple(values[k] for k in kept)  # noqa: E731
    return replace(
        found,
        names=(REST, *pick(found.names)),
        offsets=((0, 0), *pick(found.offsets)),
        segments=(-1, *pick(found.segments)),
        special=(True, *pick(found.special)),
        members=np.vstack([found.members[rest].any(0), found.members[kept]]),
    )
