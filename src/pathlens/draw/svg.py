"""Shapes for pages, as inline SVG that follows the page's light or dark colours: arcs, curves, points.

Everything is text and shapes: it copies, zooms and prints, and a point tells its numbers when pointed at.
Series differ in colour, dash and mark, so that a grey print still tells them apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.cells import cell_len

from pathlens.draw import blocks, palette, places
from pathlens.draw.element import SCROLL, Markup, element, join
from pathlens.draw.words import cut, visible

WIDE, HIGH = 640.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 90.0, 24.0, 12.0, 44.0
LEAST = 1e-16  # a zero has no place on a logarithmic axis: it sits at the bottom of double precision
DASHES = ("", "7 3", "2 3", "9 3 2 3", "5 5", "12 4", "1 4", "4 2")
NAMED = 14  # points whose names fit into a scatter
FEATURES = 20  # lines of a swarm
LETTERS = places.Letters(lambda text: 7.0 * cell_len(text), 14.0)  # of a chart, about: the reader's font is not known


# ---------------------------------------------------------------- axes and curves


@dataclass(frozen=True)
class Axis:
    """Numbers → places on the page. `ticks` are numbers worth a line."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        low, high, at = (self._flat(v) for v in (self.low, self.high, value))
        return self.start + (at - low) / ((high - low) or 1.0) * (self.end - self.start)

    def _flat(self, value: float) -> float:
        return math.log10(max(value, LEAST)) if self.log else value

    def ticks(self) -> list[float]:
        if self.log:
            first, last = (math.floor(self._flat(self.low)), math.ceil(self._flat(self.high)))
            powers = [10.0**k for k in range(first, last + 1, max(1, round((last - first) / 6)))]
            return [power for power in powers if self.low <= power * 1.0001 and power <= self.high * 1.0001]
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        step = 10.0 ** math.floor(math.log10(span / 4))
        step *= next((m for m in (1, 2, 5, 10) if span / (step * m) <= 6), 10)
        return [k * step for k in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)]


def chart(given: blocks.Chart) -> Markup:
    """One line per series, a mark at each point."""
    log, level = given.log, given.level
    points = [(x, y) for line in given.series.values() for x, y in line if math.isfinite(y)]
    if not points:
        return element("p", {"class": "outside"}, "no points to draw")
    xs, ys = [x for x, _ in points], [max(abs(y), LEAST) if log else y for _, y in points]
    ys += [level] if level is not None else []
    pad = 0.0 if log else 0.06 * (max(ys) - min(ys) or 1.0)
    across = Axis(min(xs), max(xs), LEFT, WIDE - RIGHT, log)
    low, high = (min(ys) / 1.6, max(ys) * 1.6) if log else (min(ys) - pad, max(ys) + pad)
    up = Axis(low, high, HIGH - BOTTOM, TOP, log)
    marks = _frame(across, up, given)
    if level is not None:
        marks.append(_line("level", LEFT, up.place(level), WIDE - RIGHT, up.place(level)))
    curves = []
    for k, (name, line) in enumerate(given.series.items()):
        known = [(x, y) for x, y in line if math.isfinite(y)]
        placed = [(across.place(x), up.place(max(abs(y), LEAST) if log else y)) for x, y in known]
        curves.append(placed)
        shape = "".join(f"{'L' if i else 'M'}{_n(x)} {_n(y)}" for i, (x, y) in enumerate(placed))
        marks.append(element("path", {"d": shape, "class": f"curve c{k % 8}", "stroke-dasharray": _dash(k)}))
        for (x, y), (a, b) in zip(placed, known, strict=True):
            tip = f"{visible(name)}: {palette.short(b)} at {palette.short(a)}"
            marks.append(_circle(x, y, 3.5 if len(placed) > 1 else 6, f"mark c{k % 8}", tip))
    if level is not None and given.level_name:
        room = places.Box(LEFT, TOP, WIDE - RIGHT, HIGH - BOTTOM)
        marks.append(_name(places.along(given.level_name, up.place(level), LETTERS, room, [c for c in curves if c])))
    return _svg(WIDE, HIGH, f"{given.ylabel} against {given.xlabel}: {', '.join(given.series)}", marks)


def key(names: Sequence[str]) -> Markup:
    """The look of every series beside its name."""
    looks = []
    for k, name in enumerate(names):
        line = element("line", {"x1": 0, "x2": 30, "y1": 4, "y2": 4, "stroke-dasharray": _dash(k)})
        swatch = element("svg", {"viewBox": "0 0 30 8", "aria-hidden": "true"}, line)
        looks.append(element("li", {"class": f"c{k % 8}", "dir": "auto"}, swatch, visible(name)))
    return element("ul", {"class": "series"}, *looks)


def _dash(k: int) -> str:
    """Where the eight colours come round again the dashes are others."""
    return DASHES[(k + k // 8) % 8]


def _frame(across: Axis, up: Axis, given: blocks.Chart) -> list[Markup]:
    floor, marks = HIGH - BOTTOM, []
    for value in up.ticks():
        y = up.place(value)
        text = f"{value:.0e}" if up.log else f"{value:.4g}"
        marks += [_line("grid", LEFT, y, WIDE - RIGHT, y), _words(LEFT - 6, y + 4, text, "end")]
    for value, words in given.ticks or [(value, f"{value:.4g}") for value in across.ticks()]:
        x = across.place(value)
        marks += [_line("grid", x, floor, x, floor + 4), _words(x, floor + 18, words, "middle")]
    middle = (TOP + floor) / 2
    marks.append(_words((LEFT + WIDE - RIGHT) / 2, HIGH - 5, given.xlabel, "middle"))
    return [*marks, _words(12, middle, given.ylabel, "middle", f"rotate(-90 12 {middle:.0f})")]


# ---------------------------------------------------------------- points


def scatter(given: blocks.Scatter) -> Markup:
    """Points by two numbers, with lines at zero; the diagonal where both numbers mean the same."""
    side, edge, foot = (320.0 if given.same else 190.0), 46.0, 40.0
    xs, ys = [x for _, x, _ in given.points], [y for _, _, y in given.points]
    both = (min(*xs, *ys, 0.0), max(*xs, *ys, 0.0)) if given.same else None
    across = Axis(*(both or (min(xs), max(xs))), edge + 8, edge + side)
    up = Axis(*(both or (min(*ys, 0.0), max(*ys, 0.0))), side, 8)
    wide, tall, zero = edge + side + 10, side + foot, up.place(0.0)
    marks = [_line("grid", edge, zero, wide, zero)]
    taken: list[places.Box] = []
    if given.same:
        x = across.place(0.0)
        ends = [axis.place(value) for value in (up.low, up.high) for axis in (across, up)]
        marks += [_line("grid", x, 8, x, side), _line("level", *ends)]
        diagonal = LETTERS.at(given.same, ends[2] - 12, ends[3] + 2, "end")
        marks.append(_name(diagonal))
        taken.append(diagonal.box)
    for value, anchor in ((across.low, "start"), (across.high, "end")):
        marks.append(_words(across.place(value), side + 15, f"{value:.2g}", anchor))
    marks += [_words(edge, up.place(v) + 4, f"{v:.2g}", "end") for v in (up.low, up.high)]
    marks.append(_words(edge + side / 2, tall - 4, given.xlabel, "middle"))
    if given.same:
        marks.append(_words(12, side / 2, given.ylabel, "middle", f"rotate(-90 12 {side / 2:.0f})"))
    for name, a, b in given.points:
        tip = f"{visible(name)}: {given.xlabel} {a:+.4g}, {given.ylabel} {b:+.4g}" if name else f"{a:.4g}: {b:+.4g}"
        marks.append(_circle(across.place(a), up.place(b), 4.5 if given.same else 3.5, "point", tip))
    kind = "chart scatter" if given.same else "chart"
    shown = given.points if len(given.points) <= NAMED else ()
    placed = [(cut(visible(name), 18) if name else "", across.place(x), up.place(y)) for name, x, y in shown]
    names, meaning = places.beside(placed, LETTERS, 5.0, places.Box(edge, 0, wide, side + 2), taken)
    drawing = _svg(wide, tall, f"{given.ylabel} against {given.xlabel}", [*marks, *map(_name, names)], kind)
    return join([drawing, element("p", {"class": "outside", "dir": "auto"}, meaning)]) if meaning else drawing


def swarm(given: blocks.Swarm) -> Markup:
    """Every score of every feature, a line per feature."""
    shown = given.strongest(FEATURES)
    left, wide, step, foot = 130.0, 640.0, 34.0, 34.0
    across = Axis(min(float(given.scores.min()), 0.0), max(float(given.scores.max()), 0.0), left + 8, wide - 12)
    floor, marks = step * len(shown), []
    for value in across.ticks():
        x = across.place(value)
        marks += [_line("grid", x, 0, x, floor), _words(x, floor + 15, f"{value:.3g}", "middle")]
    for row, feature in enumerate(shown):
        name = visible(given.names[feature])
        marks.append(_words(left, (row + 0.5) * step + 4, cut(visible(name), 18), "end"))
        scores, ranks = given.scores[:, feature], given.ranks(feature)
        for x, y, rank, value in zip(scores, spread(scores), ranks, given.values[:, feature], strict=True):
            place = across.place(float(x)), (row + 0.5 + y) * step
            marks.append(_circle(*place, 3.5, "point", f"{name} {value:.4g}: {x:+.4g}", 0.1 + 0.9 * rank))
    marks.append(_words(wide / 2, floor + foot - 3, "score of the row", "middle"))
    return _svg(wide, floor + foot, "scores of every row, feature by feature", marks)


def spread(x: np.ndarray) -> np.ndarray:
    """Vertical offsets that keep points of nearly equal x apart, symmetric around the line."""
    cell = np.digitize(x, np.linspace(x.min(), x.max() + 1e-12, 41))
    step, place = min(0.09, 0.72 / np.bincount(cell).max()), np.zeros(len(x))
    for c in np.unique(cell):
        here = np.flatnonzero(cell == c)
        order = np.arange(len(here))
        place[here] = (order + 1) // 2 * np.where(order % 2, 1, -1) * step
    return place


# ---------------------------------------------------------------- arcs

FIRST = 24  # arcs visible before anyone touches the slider
LETTER, BLANK = 8.2, 14.0  # pixels of a letter and between tokens
ROOMY, WIDEST, TICKED = 480.0, 1500.0, 960.0  # roomy shrinks to a phone; beyond the widest only strong ends are named
GAP, HEAD, SLACK = 150.0, 30.0, 80.0  # between two lines, above them, and for slanted names


@dataclass(frozen=True)
class Line:
    """Names on one horizontal line: where each one sits, which are written, and how wide it is."""

    names: Sequence[str]
    at: Mapping[int, float]
    written: Sequence[int]
    width: float
    ticks: bool  # too many to write them all

    def labels(self, y: float, *, up: bool) -> list[Markup]:
        """The names, upright, or slanted above (`up`) or below a row of ticks."""
        row = "".join(f"M{x:.1f} {y - 4:.0f}v8" for x in self.at.values())
        marks = [element("path", {"class": "ticks", "d": row})] if self.ticks else []
        turn, beside = (0, y) if not self.ticks else (-50, y - 8) if up else (50, y + 14)
        for i in self.written:
            x = f"{self.at[i]:.1f}"
            slant = {"transform": f"rotate({turn} {x} {y:.0f})", "class": "slanted"} if turn else {}
            place = {"x": x, "y": f"{beside:.0f}", "data-unit": i, **slant}
            marks.append(element("text", place, visible(self.names[i])))
        return marks


def line(names: Sequence[str], shown: Sequence[int], strongest: Sequence[int]) -> Line:
    """`shown` names side by side; where they are too many, ticks and the names of `strongest`."""
    widths = [LETTER * cell_len(visible(names[i])) for i in shown]
    if sum(widths) + BLANK * len(widths) > WIDEST:
        at = {i: 30 + k * TICKED / max(len(shown) - 1, 1) for k, i in enumerate(shown)}
        written: list[int] = []
        for i in strongest:  # as far as they do not run into each other
            if i in at and all(abs(at[i] - at[k]) >= 13.0 for k in written):
                written.append(i)
        return Line(names, at, written, 60 + TICKED, True)
    # a short text spreads out, so that its arcs do not crowd
    blank = min(max((ROOMY - sum(widths)) / max(len(widths), 1), BLANK), 4 * BLANK)
    ends = np.cumsum([width + blank for width in widths]) if widths else np.zeros(1)
    at = {i: float(end - (width + blank) / 2) for i, width, end in zip(shown, widths, ends, strict=False)}
    return Line(names, at, shown, float(ends[-1]) + blank / 2, False)


def arcs(given: blocks.Links) -> Markup:
    """The strongest pairs as arcs, between two lines of names or over one; a slider hides the weaker ones."""
    shapes, texts, width, height = (_between if given.below else _over)(given)
    count, first = len(shapes), min(FIRST, len(shapes))
    size = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "width": f"{width:.0f}", "height": f"{height:.0f}"}
    words = {
        "class": "arcs short" if width <= ROOMY + 2 * BLANK else "arcs",
        "role": "img",
        "aria-label": f"arcs for the {count} strongest pairs",
    }
    # weakest first, so that strong arcs lie on top
    paths = reversed([_arc(given, rank, shape) for rank, shape in enumerate(shapes)])
    drawing = element("svg", {**size, **words}, *paths, *texts)
    top = element("input", {"type": "range", "class": "top", "min": 1, "max": max(count, 1), "value": first})
    least = element("input", {"type": "range", "class": "least", "min": 0, "max": 100, "value": 0})
    controls = element(
        "div",
        {"class": "controls", "data-digits": palette.decimals(given.limit)},
        element("label", None, "strongest ", top, element("output", {"class": "shown"}, f"{first} of {count}")),
        element("label", None, "at least ", least, element("output", {"class": "floor"}, "0")),
    )
    return element("figure", None, controls, element("div", {**SCROLL, "aria-label": "arcs"}, drawing))


Shapes = tuple[list[str], list[Markup], float, float]  # of arcs, the names, width and height


def _between(given: blocks.Links) -> Shapes:
    first = given.links[:FIRST]
    above = line(given.above, given.shown[0], [a for a, *_ in first])
    below = line(given.below, given.shown[1], [b for _, b, _ in first])
    width = max(above.width, below.width)
    above, below = (  # the shorter of two texts stands in the middle
        replace(each, at={i: x + (width - each.width) / 2 for i, x in each.at.items()}) for each in (above, below)
    )
    slack = SLACK if above.ticks or below.ticks else 0.0
    top, bottom = HEAD + slack, HEAD + slack + GAP
    start, end, bend = top + 9, bottom - 17, GAP / 2
    shapes = [
        f"M{above.at[a]:.1f} {start:.0f}C{above.at[a]:.1f} {start + bend:.0f} "
        f"{below.at[b]:.1f} {end - bend:.0f} {below.at[b]:.1f} {end:.0f}"
        for a, b, _ in given.links
    ]
    texts = [
        element("g", {"class": "a"}, *above.labels(top, up=True)),
        element("g", {"class": "b"}, *below.labels(bottom, up=False)),
    ]
    return shapes, texts, width, bottom + 18 + slack


def _over(given: blocks.Links) -> Shapes:
    over = line(given.above, given.shown[0], [i for a, b, _ in given.links[:FIRST] for i in (a, b)])
    heights = [min(18 + 0.32 * abs(over.at[b] - over.at[a]), 170.0) for a, b, _ in given.links]
    base = 16 + 0.75 * max(heights, default=0.0)
    shapes = []
    for (a, b, _), height in zip(given.links, heights, strict=True):
        x, y, rise = over.at[a], over.at[b], base - height
        shapes.append(f"M{x:.1f} {base:.0f}C{x:.1f} {rise:.0f} {y:.1f} {rise:.0f} {y:.1f} {base:.0f}")
    text = element("g", {"class": "a"}, *over.labels(base + 18, up=False))
    return shapes, [text], over.width, base + 30 + (SLACK if over.ticks else 0)


def _arc(given: blocks.Links, rank: int, shape: str) -> Markup:
    link = given.links[rank]
    a, b, value = link
    share = palette.strength(value, given.limit)
    shown = palette.number(value, palette.decimals(given.limit, 4), sign=given.signed)
    kind = "length" if not given.signed else "up" if value > 0 else "down"
    return element(
        "path",
        {
            "class": f"arc {kind}", "d": shape, "data-rank": rank, "data-ends": f"a{a} {'b' if given.below else 'a'}{b}",
            "data-size": f"{abs(value):.4g}", "stroke-width": f"{0.8 + 5.2 * share:.1f}",
            "stroke-opacity": f"{0.25 + 0.65 * share:.2f}", "display": "none" if rank >= FIRST else None,
        },
        element("title", None, f"{given.name(link)}: {shown}"),
    )  # fmt: skip


# ---------------------------------------------------------------- shapes


def _svg(wide: float, tall: float, label: str, marks: Sequence[Markup], kind: str = "chart") -> Markup:
    size = {"viewBox": f"0 0 {wide:.0f} {tall:.0f}", "class": kind, "role": "img", "aria-label": label}
    return element("svg", size, *marks)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return element("line", {"class": kind, "x1": _n(x1), "y1": _n(y1), "x2": _n(x2), "y2": _n(y2)})


def _words(x: float, y: float, text: str, anchor: str, turn: str | None = None) -> Markup:
    return element("text", {"x": _n(x), "y": _n(y), "text-anchor": anchor, "transform": turn}, text)


def _name(name: places.Name) -> Markup:
    place = {"x": _n(name.x), "y": _n(name.y + 4), "text-anchor": name.anchor, "class": "name"}
    return element("text", place, name.text)


def _circle(x: float, y: float, r: float, kind: str, tip: str, shade: float | None = None) -> Markup:
    place = {"cx": _n(x), "cy": _n(y), "r": r, "class": kind}
    full = {} if shade is None else {"fill-opacity": f"{shade:.2f}"}
    return element("circle", {**place, **full}, element("title", None, tip))


def _n(value: float) -> str:
    return f"{value:.1f}"
