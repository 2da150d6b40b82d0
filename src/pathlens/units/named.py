"""Units of a prompt whose parts have names: every turn or passage one unit, and the template one more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pathlens.errors import InputError
from pathlens.types import Span
from pathlens.units.groups import Cut, Units, units

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
    _, end = spans.get("prompt", {"prompt": (0, len(texts[0]))})["prompt"]  # an answer may follow in the same text
    rest = np.array(
        [
            (segment < 0 or (segment == 0 and span[0] < end)) and not (name in wanted and tuple(span) == wanted[name])
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


@dataclass(frozen=True)
class Opened(Cut):
    """Units some of which are cut further: passages, and the tokens of the chosen ones."""

    unit: Any  # as in `units`, or one of LEVELS
    chosen: frozenset[int]  # which of its units are opened
    inside: str = "token"
    spans: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)

    def units(
        self, tokens: Sequence[str], offsets: Sequence[Span], segments: Sequence[int], texts: Sequence[str]
    ) -> Units:
        told = tokens, offsets, segments, texts
        known = isinstance(self.unit, str) and self.unit in LEVELS
        whole = named_units(self.unit, self.spans, *told) if known else units(self.unit, *told)
        fine = units(self.inside, *told)
        rows = []
        for number in range(len(whole)):
            members = whole.members[number]
            if number not in self.chosen:
                rows.append((whole, number, members))
                continue
            inner = [(fine, k, fine.members[k] & members) for k in range(len(fine))]
            rows += [row for row in inner if row[2].any()]
        return Units(
            names=tuple(of.names[k] for of, k, _ in rows),
            offsets=tuple(of.offsets[k] for of, k, _ in rows),
            segments=tuple(of.segments[k] for of, k, _ in rows),
            special=tuple(of.special[k] for of, k, _ in rows),
            members=np.stack([members for *_, members in rows]),
        )
