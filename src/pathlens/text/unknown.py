"""Where unknown pieces stand: a tokenizer that says no places, and pieces that read as no letters of the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from pathlens.types import Span

Piece = str | None  # its letters; None: unknown, it stands for one letter or more


def unknown_places(pieces: Sequence[Piece], letters: Sequence[str], words: Sequence[int]) -> list[Span] | None:
    """The letters of every piece, from left to right; pieces that could be divided otherwise get their whole stretch each.

    `words` has the word of every letter. An unknown piece stays within one, if the text can be read so, and the text ends with
    the last piece, unless it was cut. None: the text cannot be read so at all.
    """
    each = enumerate((None,) if piece is None else piece for piece in pieces)
    atoms = [(number, letter) for number, of_piece in each for letter in of_piece]
    for ends, open_end in ((_ends(words), False), (_ends(words), True), ([len(letters)] * len(letters), False)):
        spans = _feasible([letter for _, letter in atoms], letters, ends, open_end)
        if spans is not None:
            return _stretches(len(pieces), [number for number, _ in atoms], spans)
    return None


def _ends(words: Sequence[int]) -> list[int]:
    """Where the word of every letter ends."""
    last = {word: place + 1 for place, word in enumerate(words)}
    return [last[word] for word in words]


def _feasible(atoms: Sequence[Piece], letters: Sequence[str], ends: Sequence[int], open_end: bool) -> list[Span] | None:
    """From the first place where an atom may begin to the last where it may end, over all readings; places as bits."""
    where: dict[str, int] = {}
    for place, letter in enumerate(letters):
        where[letter] = where.get(letter, 0) | 1 << place
    reach = [((1 << end + 1) - 1) ^ ((1 << place + 1) - 1) for place, end in enumerate(ends)]
    before = list(accumulate(atoms, lambda here, atom: _after(here, atom, where, reach), initial=1))
    after = before[-1] if open_end else before[-1] & 1 << len(letters)
    if not after:
        return None
    spans = []
    for here, atom in zip(reversed(before[:-1]), reversed(atoms), strict=True):
        last = after.bit_length() - 1
        if atom is None:
            begins = sum(1 << place for place in _bits(here) if place < len(letters) and reach[place] & after)
        else:
            begins = here & after >> 1 & where.get(atom, 0)
        spans.append((next(_bits(begins)), last))
        after = begins
    return spans[::-1]


def _after(here: int, atom: Piece, where: dict[str, int], reach: Sequence[int]) -> int:
    """Where the next atom may begin."""
    if atom is not None:
        return (here & where.get(atom, 0)) << 1
    there = 0
    for place in _bits(here):
        there |= reach[place] if place < len(reach) else 0
    return there


def _bits(places: int) -> Iterator[int]:
    while places:
        lowest = places & -places
        yield lowest.bit_length() - 1
        places ^= lowest


def _stretches(count: int, numbers: Sequence[int], atoms: Sequence[Span]) -> list[Span]:
    """The atoms' spans put together by piece; pieces whose spans overlap could be divided otherwise and share one."""
    spans: list[Span] = [(0, 0)] * count
    for number, (start, end) in zip(numbers, atoms, strict=True):
        low, high = spans[number] if spans[number] != (0, 0) else (start, end)
        spans[number] = min(low, start), max(high, end)
    filled = [number for number in range(count) if spans[number][1]]
    group: list[int] = filled[:1]
    for number in filled[1:]:
        if spans[number][0] < max(spans[each][1] for each in group):
            group.append(number)
        else:
            _shared(spans, group)
            group = [number]
    _shared(spans, group)
    return spans


def _shared(spans: list[Span], group: Sequence[int]) -> None:
    if group:
        whole = min(spans[each][0] for each in group), max(spans[each][1] for each in group)
        for each in group:
            spans[each] = whole
