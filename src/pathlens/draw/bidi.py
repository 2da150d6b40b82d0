"""In which order a line that mixes directions is drawn: the Unicode bidirectional algorithm (UAX #9).

Its rules have names there (W1, N0, …), kept here. Explicit embeddings, overrides and isolates are left out: they are pictures
by the time anything is drawn (`words.printable`), so that no text can reorder what stands beside it; tabs are blanks by then.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TypeVar

T = TypeVar("T")
STRONG = {"L": "L", "R": "R", "AL": "R", "EN": "R", "AN": "R"}  # numbers count as right to left among neutrals
NEUTRAL = ("B", "S", "WS", "ON")
DEPTH = 63  # of open brackets, by the algorithm
ODD_PAIRS = {"\u298d": "\u2990", "\u298f": "\u298e"}  # brackets whose closing one is not the next of its kind
MIRRORED = str.maketrans("<>«»‹›≤≥", "><»«›‹≥≤")  # besides brackets


def right_to_left(text: str) -> bool:
    """Does the first letter with a direction run from the right? (P2, P3)"""
    strong = (unicodedata.bidirectional(char) for char in text)
    return next((kind != "L" for kind in strong if kind in ("L", "R", "AL")), False)


def levels(text: str, base: int) -> list[int]:
    """Each character's level: even runs from the left, odd from the right; `base` is that of the paragraphs."""
    kinds = [unicodedata.bidirectional(char) or "L" for char in text]
    result = [base] * len(text)
    for ends, places in _runs([kind == "B" for kind in kinds]):
        seen = [i for i in places if kinds[i] != "BN"]  # X9: what is not seen has no part in it
        if ends or not seen:
            continue
        for i, level in zip(seen, _paragraph([text[i] for i in seen], [kinds[i] for i in seen], base), strict=True):
            result[i] = level
        for i in places:
            if kinds[i] == "BN" and i > places[0]:
                result[i] = result[i - 1]
    return result


def _paragraph(text: Sequence[str], given: Sequence[str], base: int) -> list[int]:
    along = "R" if base % 2 else "L"
    kinds = list(given)
    for i, kind in enumerate(kinds):  # W1: a mark goes with its letter
        if kind == "NSM":
            kinds[i] = kinds[i - 1] if i else along
    _numbers(kinds, along)
    _brackets(text, given, kinds, along)
    for neutral, places in _runs([kind in NEUTRAL for kind in kinds]):
        if neutral:  # N1: between two of one direction they take it; N2: else the paragraph's
            before = STRONG[kinds[places[0] - 1]] if places[0] else along
            after = STRONG[kinds[places[-1] + 1]] if places[-1] + 1 < len(kinds) else along
            for i in places:
                kinds[i] = before if before == after else along
    above = {"L": base % 2, "R": 1 - base % 2, "EN": 2 - base % 2, "AN": 2 - base % 2}  # I1, I2
    return [base + above[kind] for kind in kinds]


def _runs(marks: Sequence[bool]) -> list[tuple[bool, list[int]]]:
    """Places in a row with the same mark."""
    return [(mark, list(group)) for mark, group in groupby(range(len(marks)), key=lambda i: marks[i])]


def _numbers(kinds: list[str], along: str) -> None:
    """W2 to W7: digits, and the signs beside them, go by the letters before."""
    letter = along
    for i, kind in enumerate(kinds):
        letter = kind if kind in ("L", "R", "AL") else letter
        kinds[i] = "AN" if kind == "EN" and letter == "AL" else kind
    kinds[:] = ["R" if kind == "AL" else kind for kind in kinds]
    for i in range(1, len(kinds) - 1):
        before, kind, after = kinds[i - 1 : i + 2]
        if before == after and ((kind == "CS" and before in ("EN", "AN")) or (kind == "ES" and before == "EN")):
            kinds[i] = before
    for sign, places in _runs([kind == "ET" for kind in kinds]):
        beside = {kinds[i] for i in (places[0] - 1, places[-1] + 1) if 0 <= i < len(kinds)}
        for i in places if sign and "EN" in beside else ():
            kinds[i] = "EN"
    letter = along
    for i, kind in enumerate(kinds):
        letter = kind if kind in ("L", "R") else letter
        kinds[i] = "ON" if kind in ("ES", "ET", "CS") else "L" if kind == "EN" and letter == "L" else kind


def _brackets(text: Sequence[str], given: Sequence[str], kinds: list[str], along: str) -> None:
    """N0: two brackets that belong together take one direction."""
    for start, end in sorted(_pairs(text, kinds)):
        inside = {STRONG[kind] for kind in kinds[start + 1 : end] if kind in STRONG}
        if not inside:
            continue
        before = next((STRONG[kind] for kind in reversed(kinds[:start]) if kind in STRONG), along)
        chosen = along if along in inside else before
        for i in (start, end):
            kinds[i] = chosen
            while i + 1 < len(kinds) and given[i + 1] == "NSM":
                i += 1
                kinds[i] = chosen


def _pairs(text: Sequence[str], kinds: Sequence[str]) -> Iterator[tuple[int, int]]:
    open_ones: list[tuple[str, int]] = []
    for i, char in enumerate(text):
        if kinds[i] != "ON":
            continue
        char = unicodedata.normalize("NFC", char)  # two brackets have a second code point
        if char in closing():
            if len(open_ones) == DEPTH:
                return
            open_ones.append((closing()[char], i))
        for k in range(len(open_ones) - 1, -1, -1):
            if open_ones[k][0] == char:
                yield open_ones[k][1], i
                del open_ones[k:]
                break


@functools.cache
def closing() -> dict[str, str]:
    """The closing bracket of every opening one."""
    pairs = dict(ODD_PAIRS)
    for code in range(0x10000):
        if unicodedata.category(chr(code)) == "Ps" and unicodedata.mirrored(chr(code)) and chr(code) not in pairs:
            after = (chr(code + step) for step in (1, 2))
            pairs |= {chr(code): each for each in after if unicodedata.category(each) == "Pe"}
    return pairs


def turned(text: str) -> str:
    """Signs without a letter among them as they stand where text runs from the right: backwards, brackets mirrored."""
    both = closing() | {end: start for start, end in closing().items()}
    return "".join(both.get(char, char) for char in reversed(text)).translate(MIRRORED)


def line(runs: Sequence[tuple[str, Sequence[int], T]], base: int) -> list[tuple[str, T]]:
    """A line's pieces, each with its characters' levels and whatever belongs to it, as they stand from left to right.

    A piece that mixes directions is cut. The letters within a piece are left to whoever draws it, who turns them by its first
    one; signs alone have no such letter, and are turned here.
    """
    cuts: list[tuple[int, tuple[str, T]]] = []
    last = max((k for k, (text, *_) in enumerate(runs) if not _blank(text)), default=-1)
    for k, (text, high, thing) in enumerate(runs):
        ends = 0 if k > last else len(text.rstrip()) if k == last else len(text)
        settled = [level if i < ends else base for i, level in enumerate(high)]  # L1: blanks at the end of a line
        for level, group in groupby(range(len(text)), key=settled.__getitem__):
            part = "".join(text[i] for i in group)
            letters = any(unicodedata.bidirectional(char) in ("R", "AL") for char in part)
            cuts.append((level, (part if level % 2 == 0 or letters else turned(part), thing)))
    return in_order(cuts)


def _blank(text: str) -> bool:
    return not text.strip()


def in_order(runs: Sequence[tuple[int, T]]) -> list[T]:
    """(level, run) of a line from left to right: L2, from the highest level to the lowest odd one whatever is at least that
    high is turned round."""
    order = list(runs)
    for level in range(max((level for level, _ in runs), default=0), 0, -1):
        turned_runs: list[tuple[int, T]] = []
        for high, group in groupby(order, key=lambda run: run[0] >= level):
            runs_here = list(group)
            turned_runs += runs_here[::-1] if high else runs_here
        order = turned_runs
    return [run for _, run in order]
