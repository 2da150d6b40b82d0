"""Where names stand, on a page and in a picture: free of each other, of dots and of curves.

Lengths are in the medium's own unit (pixels, points); y runs downwards.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Point = tuple[float, float]
SIDES = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))  # right, left, above, below, corners
ANCHORS = {1: "start", 0: "middle", -1: "end"}  # of a text that stands to the right, in the middle, to the left
NEAR, FARTHEST = 3, 12  # how many times as far from its dot as a name a number may stand; where nothing else is left


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def inside(self, room: Box) -> bool:
        across = room.left <= self.left and self.right <= room.right
        return across and room.top <= self.top and self.bottom <= room.bottom

    def crossed(self, start: Point, end: Point) -> bool:
        """Does a straight line come into the box?"""
        first, last = 0.0, 1.0  # the share of the line that is between the sides looked at so far
        for a, b, low, high in zip(start, end, self[:2], self[2:], strict=True):
            if a == b:
                if not low < a < high:
                    return False
                continue
            near, far = sorted(((low - a) / (b - a), (high - a) / (b - a)))
            first, last = max(first, near), min(last, far)
        return first < last


@dataclass(frozen=True)
class Name:
    """A text, where it is anchored (`y` is the middle of its line), and the room it takes."""

    text: str
    x: float
    y: float
    anchor: str
    box: Box


@dataclass(frozen=True)
class Letters:
    """How much room texts take: the width of each, the height of a line."""

    width: Callable[[str], float]
    line: float

    def at(self, text: str, x: float, y: float, anchor: str) -> Name:
        wide, half = self.width(text), self.line / 2
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        return Name(text, x, y, anchor, Box(left, y - half, left + wide, y + half))

    def around(self, text: str, x: float, y: float, reach: float) -> Iterator[Name]:
        """The text on every side of a point, `reach` away from it."""
        for across, down in SIDES:
            near = reach if not (across and down) else reach * math.sqrt(0.5)
            aside = down * (near + self.line / 2) if not across else down * (near + self.line / 4)
            yield self.at(text, x + across * near, y + aside, ANCHORS[across])


def beside(
    points: Sequence[tuple[str, float, float]], letters: Letters, dot: float, room: Box, taken: Sequence[Box] = ()
) -> tuple[list[Name], str]:
    """A name beside every dot of that radius; where none has room a number, and what the numbers mean.

    taken: where other words stand already.
    """
    around = [*taken, *(Box(x - dot, y - dot, x + dot, y + dot) for _, x, y in points)]
    numbered: list[int] = []
    while True:
        named = [k for k, (name, _, _) in enumerate(points) if name and k not in numbered]
        choices = {k: [*letters.around(*points[k], 1.6 * dot)] for k in named}
        # dots on one place have numbers all around them, the last ones farther away
        rings = range(1, (NEAR if named else FARTHEST) + 1)
        for number, k in enumerate(numbered, 1):
            every = (letters.around(str(number), *points[k][1:], 1.6 * dot * far) for far in rings)
            choices[k] = [name for ring in every for name in ring]
        placed, stuck = _placed(choices, room, around)
        if stuck is None or not named:
            return placed, " · ".join(f"{number} {points[k][0]}" for number, k in enumerate(numbered, 1))
        # what has no room becomes a number; where that was a number, the nearest name does
        far = {k: math.dist(points[k][1:], points[stuck][1:]) for k in named if k != stuck}
        numbered = sorted([*numbered, stuck if stuck in named else min(far, key=far.__getitem__)])


def _placed(choices: Mapping[int, Sequence[Name]], room: Box, around: Sequence[Box]) -> tuple[list[Name], int | None]:
    """Of each its first choice that is free, one after the other; and the first that had none."""
    placed: list[Name] = []
    stuck = None
    for k, every in choices.items():
        full = [*around, *(each.box for each in placed)]
        free = (each for each in every if each.box.inside(room) and not any(map(each.box.meets, full)))
        first = next(free, None)
        stuck = k if first is None and stuck is None else stuck
        placed.append(first or every[0])
    return placed, stuck


def along(text: str, y: float, letters: Letters, room: Box, curves: Sequence[Sequence[Point]]) -> Name:
    """The name of a level across a chart: above or below the line, at an end or in the middle, where no curve runs."""
    aside = letters.line / 3  # from the frame
    middle = (room.left + room.right) / 2
    ends = ((room.right - aside, "end"), (room.left + aside, "start"), (middle, "middle"))
    every = [letters.at(text, x, y + side * letters.line * 0.6, anchor) for x, anchor in ends for side in (-1, 1)]
    inside = [each for each in every if each.box.inside(room)] or every

    def free(name: Name) -> bool:
        if any(name.box.crossed(curve[0], curve[0]) for curve in curves if len(curve) == 1):
            return False
        return not any(name.box.crossed(*pair) for curve in curves for pair in itertools.pairwise(curve))

    return next(filter(free, inside), inside[0])
