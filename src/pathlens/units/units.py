"""Units: which tokens are explained together. Words, sentences, given spans and named parts, by characters of the text.

Characters decide, never the tokenizer's marks ("##", "Ġ", "▁"): the same rules then serve every model.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool

from pathlens.errors import InputError, setting
from pathlens.types import PROMPT_UNITS, TEXT_UNITS, Span
from pathlens.units.cuts import point_at, sentence_spans, trim, word_spans

Place = tuple[int, int, int]  # (segment, start, end)
Label = tuple[str | int, ...]  # tokens with equal labels are one unit
UnitRow = tuple[str, Span, int, np.ndarray]  # (name, characters, segment, members (S,)) of one unit
Parts = Mapping[str, Mapping[str, Sequence[int]]]  # of a prompt, by level: {"turn": {"user": (start, end)}, …}
TEMPLATE, REST = "template", "rest"  # what is left of a prompt: marks alone, or messages too that are held


@dataclass(frozen=True, eq=False)
class Units:
    """A partition of a text's tokens, by first token from left to right; special tokens stand alone."""

    names: tuple[str, ...]
    offsets: tuple[Span, ...]  # characters of the text of `segments`
    segments: tuple[int, ...]  # 0: first text, 1: second text, -1: special
    members: Bool[np.ndarray, "U S"]  # every column has exactly one True

    def __len__(self) -> int:
        return len(self.names)

    @property
    def special(self) -> tuple[bool, ...]:
        return tuple(segment < 0 for segment in self.segments)

    def rows(self) -> Iterator[UnitRow]:
        """The units one by one."""
        return zip(self.names, self.offsets, self.segments, self.members, strict=True)

    @staticmethod
    def of(rows: Iterable[UnitRow]) -> Units:
        names, offsets, segments, members = zip(*rows, strict=True)
        return Units(names, offsets, segments, np.stack(members))


@dataclass(frozen=True)
class TokenTable:
    """What is known of the tokens, in one piece."""

    names: Sequence[str]
    offsets: Sequence[Span]
    segments: Sequence[int]
    texts: Sequence[str]

    def __iter__(self) -> Iterator[Place]:
        """(segment, start, end) of each token."""
        for segment, (start, end) in zip(self.segments, self.offsets, strict=True):
            yield segment, start, end

    def blank(self, segment: int, start: int, end: int) -> bool:
        return not self.texts[segment][start:end].strip()


def units(
    unit: str | Iterable[Sequence[int]] | Mapping[str, Sequence[int]] | Opened,
    tokens: Sequence[str],
    offsets: Sequence[Span],
    segments: Sequence[int],
    texts: Sequence[str],
    parts: Parts | None = None,
) -> Units:
    """The units of a text: `"token"`, `"word"`, `"sentence"`, character spans, or `{name: (start, end)}`; of a prompt
    that says what its `parts` are also `"turn"` and `"passage"`; and any of these with some of its units opened.

    A span is (start, end) in the first text or (segment, start, end). A token that touches several words
    joins them into one unit (some tokenizers put ". The" in one token). A token that touches several
    sentences or spans goes where it has most of its characters. Whitespace goes with the following unit,
    else the preceding. What lies outside the given spans becomes units of its own, one per unbroken run.

    Limits: word borders inside Chinese, Japanese, Thai and kin follow changes of script, a heuristic;
    for exact words give their spans.
    """
    table = TokenTable(tokens, offsets, segments, texts)
    if isinstance(unit, Opened):
        return _opened(unit, table, parts or {})
    if not isinstance(unit, str):
        return _by_given_spans(unit, table)
    if unit in PROMPT_UNITS:
        return _by_part(unit, table, parts or {})
    if unit == "token":
        spans = tuple((start, end) for start, end in offsets)
        return Units(tuple(tokens), spans, tuple(segments), np.eye(len(tokens), dtype=bool))
    cuts = {"word": word_spans, "sentence": sentence_spans}
    if unit not in cuts:
        raise InputError(
            f"{setting(unit=unit)} is unknown; use {', '.join(TEXT_UNITS)}, a list of character spans, or {{name: (start, end)}}"
        )
    places = [(k, start, end) for k, text in enumerate(texts) for start, end in cuts[unit](text)]
    if unit == "word":
        places = _joined(places, table)
    return _collect(_homes(places, table), places, {}, table)


def _by_given_spans(unit: Any, table: TokenTable) -> Units:
    named = _given(unit, table.texts)
    places = [place for _, place in named]
    home = _homes(places, table)
    for missing in sorted(set(range(len(places))) - set(home)):
        segment, start, end = places[missing]
        raise InputError(
            f"span {(start, end)} has no token of its own: it is smaller than the token around it, or the "
            f"text was cut before it; widen the span\n{point_at(table.texts[segment], start, end)}"
        )
    return _collect(home, places, {k: name for k, (name, _) in enumerate(named)}, table)


def _given(unit: Any, texts: Sequence[str]) -> list[tuple[str, Place]]:
    """The spans as (name, place), left to right, each checked against the text it points into."""
    if not isinstance(unit, Iterable):
        raise InputError(f"unit must be a name, spans or {{name: (start, end)}}, got {unit!r}")
    pairs = list(unit.items()) if isinstance(unit, Mapping) else [(None, span) for span in unit]
    if not pairs:
        raise InputError(f"unit has no spans; give at least one (start, end), or use {setting(unit='token')}")
    placed = sorted(((name, _place(span, texts)) for name, span in pairs), key=lambda pair: pair[1])
    for (_, before), (_, after) in pairwise(placed):
        if before[0] == after[0] and after[1] < before[2]:
            where = point_at(texts[after[0]], after[1], min(before[2], after[2]))
            raise InputError(f"spans {before[1:]} and {after[1:]} overlap; a token can be in one unit only\n{where}")
    shown = ((name, texts[at][start:end].strip(), (at, start, end)) for name, (at, start, end) in placed)
    return [(text if name is None else str(name), place) for name, text, place in shown]


def _place(span: Sequence[int], texts: Sequence[str]) -> Place:
    try:
        numbers = tuple(int(number) for number in span)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) not in (2, 3):
        raise InputError(f"a span is (start, end) or (segment, start, end) in characters, got {span!r}")
    segment, start, end = numbers if len(numbers) == 3 else (0, *numbers)
    if not 0 <= segment < len(texts):
        raise InputError(f"span {span!r} points at text {segment}, but there are {len(texts)}, from 0")
    text = texts[segment]
    if start < 0 or end > len(text) or start > end:
        where = point_at(text, start, end)
        raise InputError(f"span {(start, end)} is not inside the text of {len(text)} characters\n{where}")
    if not text[start:end].strip():
        raise InputError(f"span {(start, end)} is empty\n{point_at(text, start, end)}")
    return segment, start, end


def _joined(places: Sequence[Place], table: TokenTable) -> list[Place]:
    """The places with those that share a token made one."""
    glued = {k for touched in _touched(places, table) if touched for k in range(min(touched), max(touched))}
    joined: list[Place] = []
    for k, (segment, start, end) in enumerate(places):
        if k - 1 in glued:
            joined[-1] = (segment, joined[-1][1], end)
        else:
            joined.append((segment, start, end))
    return joined


def _homes(places: Sequence[Place], table: TokenTable) -> list[int]:
    """For each token the place it shares most visible characters with, −1 for none."""
    return [max(touched, key=touched.__getitem__, default=-1) for touched in _touched(places, table)]


def _touched(places: Sequence[Place], table: TokenTable) -> list[dict[int, int]]:
    """For each token {place: visible characters shared}; a blank token touches only what it lies inside."""
    ends = [(segment, end) for segment, _, end in places]
    result = []
    for segment, start, end in table:
        touched = {}
        k = bisect_right(ends, (segment, start))  # the first place that ends after the token's start
        while segment >= 0 and k < len(places) and places[k][0] == segment and places[k][1] < max(end, start + 1):
            _, low, high = places[k]
            shared = table.texts[segment][max(start, low) : min(end, high)]
            if shared.strip() or (table.blank(segment, start, end) and low < start and end < high):
                touched[k] = sum(not character.isspace() for character in shared)
            k += 1
        result.append(touched)
    return result


def _collect(home: Sequence[int], places: Sequence[Place], names: Mapping[int, str], table: TokenTable) -> Units:
    """Tokens with the same home make a unit; homeless ones make runs; blanks join a neighbour."""
    labels = _labels(home, table)
    index = {label: k for k, label in enumerate(dict.fromkeys(labels))}
    members = np.zeros((len(index), len(labels)), dtype=bool)
    members[[index[label] for label in labels], np.arange(len(labels))] = True
    read = {segment: max(e for s, _, e in table if s == segment) for segment in set(table.segments)}

    rows = []
    for row in members:
        tokens = [int(token) for token in np.flatnonzero(row)]
        k = max(home[t] for t in tokens)
        segment = table.segments[tokens[0]]
        if segment < 0:
            rows.append((table.names[tokens[0]], tuple(table.offsets[tokens[0]]), segment))
        elif k in names:
            rows.append((names[k], places[k][1:], segment))
        else:  # its place's characters, as far as the model read the text
            start, end = min(table.offsets[t][0] for t in tokens), max(table.offsets[t][1] for t in tokens)
            if k >= 0:
                start, end = places[k][1], min(places[k][2], read[segment])
            start, end = trim(table.texts[segment], start, end)
            rows.append((table.texts[segment][start:end] or table.names[tokens[0]], (start, end), segment))
    texts, spans, parts = zip(*rows, strict=True) if rows else ((), (), ())
    return Units(texts, spans, parts, members)


def _labels(home: Sequence[int], table: TokenTable) -> list[Label]:
    """One label per token; equal labels are one unit."""
    labels: list[Label | None] = []
    run = 0
    for i, token in enumerate(table):
        if token[0] < 0:
            labels.append(("special", i))
            run += 1
        elif home[i] >= 0:
            labels.append(("place", home[i]))
            run += 1
        else:
            labels.append(None if table.blank(*token) else ("run", token[0], run))
    return _with_blanks(labels, table.segments)


def _with_blanks(labels: Sequence[Label | None], segments: Sequence[int]) -> list[Label]:
    """A blank token joins the next unit of its text, else the one before; a blank text is a unit."""
    settled = list(labels)
    for step in (1, -1):
        for i in range(len(settled))[::-step]:
            near = i + step
            if settled[i] is None and 0 <= near < len(settled) and segments[near] == segments[i]:
                settled[i] = settled[near]
    return [("blank", segment) if label is None else label for label, segment in zip(settled, segments, strict=True)]


# ---- parts with names, and units that are opened


def _by_part(level: str, table: TokenTable, parts: Parts) -> Units:
    """One unit per named span of the prompt, an answer's tokens as they are.

    Whatever else the prompt has (the chat template, a token held at its beginning) is one unit called "template", or
    "rest" where messages are held too, so that the units cover everything that can move and their scores still add up.
    """
    if not parts.get(level):
        raise InputError(
            f"{setting(unit=level)} is for prompts that say what their parts are: give pl.chat(user=…, passages=[…]) or a list "
            "of messages as the text, or name the parts with unit={name: (start, end)}"
        ).plainly(
            f"A {level} is a part of a chat, and this is a plain prompt. Write passages, or choose another unit.",
            "unit",
        )
    wanted = {name: tuple(span) for name, span in parts[level].items()}
    cut = _by_given_spans(wanted, table)
    _, end = parts.get("prompt", {}).get("prompt", (0, len(table.texts[0])))  # an answer may follow in the same text
    rest, kept = [], []
    for row in cut.rows():
        name, span, segment, members = row
        inside = segment < 0 or (segment == 0 and span[0] < end)
        if inside and not (name in wanted and tuple(span) == wanted[name]):
            rest.append(members)
        else:
            kept.append(row)
    name = REST if level == "passage" and "rest" in parts else TEMPLATE
    return Units.of([(name, (0, 0), -1, np.any(rest, axis=0)), *kept]) if rest else cut


@dataclass(frozen=True)
class Opened:
    """Units some of which are cut further: passages, and the tokens of the chosen ones."""

    unit: Any  # as in `units`
    chosen: frozenset[int]  # which of its units are opened
    inside: str = "token"


def _opened(cut: Opened, table: TokenTable, parts: Parts) -> Units:
    tokens = table.names, table.offsets, table.segments, table.texts
    whole, fine = units(cut.unit, *tokens, parts), units(cut.inside, *tokens)
    rows: list[UnitRow] = []
    for number, row in enumerate(whole.rows()):
        if number in cut.chosen:
            inner = [(name, span, segment, members & row[3]) for name, span, segment, members in fine.rows()]
            rows += [unit for unit in inner if unit[3].any()]
        else:
            rows.append(row)
    return Units.of(rows)
