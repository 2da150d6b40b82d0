"""Arcs between two texts and inside one, as inline SVG.

At most `MOST` arcs are drawn, strongest first, so that 500 tokens stay light; a slider hides the weaker ones.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from pathlens.draw import palette, tables, view
from pathlens.draw.markup import Markup, element
from pathlens.explanation.record import Interactions, PairExplanation

MOST = 300
FIRST = 24  # arcs visible before anyone touches the slider
LETTER, BLANK = 8.2, 14.0  # pixels of a letter and between tokens
ROOMY = 700.0
WIDEST = 1500.0  # beyond this, tokens become ticks and only the ends of strong arcs are named
TICKED = 960.0
GAP, TOP = 150.0, 30.0


class Line:
    """Tokens on one horizontal line: where each one sits, and which of them are named."""

    def __init__(self, tokens: Sequence[str], shown: Sequence[int], named: Sequence[int]):
        self.tokens, self.shown = tokens, list(shown)
        widths = [LETTER * _columns(view.visible(tokens[i])) for i in self.shown]
        self.ticks = sum(widths) + BLANK * len(widths) > WIDEST
        # a short text spreads out, so that its arcs do not crowd
        blank = min(max((ROOMY - sum(widths)) / max(len(widths), 1), BLANK), 4 * BLANK)
        self.at: dict[int, float] = {}
        if self.ticks:
            step = TICKED / max(len(self.shown) - 1, 1)
            self.at = {i: 30 + k * step for k, i in enumerate(self.shown)}
            self.width = 60 + TICKED
            self.named = _apart([i for i in named if i in self.at], self.at)
        else:
            x = blank / 2
            for i, width in zip(self.shown, widths, strict=True):
                self.at[i] = x + width / 2
                x += width + blank
            self.width, self.named = x, self.shown

    def shift(self, extra: float) -> None:
        """Move everything right: the shorter of two texts is centred."""
        self.at = {i: x + extra for i, x in self.at.items()}

    def draw(self, y: float, *, up: bool) -> list[Markup]:
        """The tokens, upright, or slanted names above (`up`) or below a row of ticks."""
        if not self.ticks:
            return [_label(self.tokens[i], self.at[i], y, i) for i in self.shown]
        marks = "".join(f"M{self.at[i]:.1f} {y - 4:.0f}v8" for i in self.shown)
        found = [element("path", {"class": "ticks", "d": marks})]
        turn = -50 if up else 50
        return found + [
            _label(self.tokens[i], self.at[i], y - 8 if up else y + 14, i, f"rotate({turn} {self.at[i]:.1f} {y:.0f})")
            for i in self.named
        ]


def between(result: PairExplanation) -> Markup:
    """Arcs from the tokens of one text to those of the other."""
    found = tables.pairs(result, MOST)
    first, second = [a for a, _, _ in found[:FIRST]], [b for _, b, _ in found[:FIRST]]
    above = Line(result.tokens_a, _shown(result.special_a, result.tokens_a, {a for a, _, _ in found}), first)
    below = Line(result.tokens_b, _shown(result.special_b, result.tokens_b, {b for _, b, _ in found}), second)
    width = max(above.width, below.width)
    for line in (above, below):
        line.shift((width - line.width) / 2)
    slack = 80.0 if above.ticks or below.ticks else 0.0  # room for slanted names
    top, bottom = TOP + slack, TOP + slack + GAP
    limit = palette.limit([value for *_, value in found])
    paths = []
    for rank, (a, b, value) in enumerate(found):
        start, end, bend = top + 9, bottom - 17, GAP / 2
        shape = f"M{above.at[a]:.1f} {start:.0f}C{above.at[a]:.1f} {start + bend:.0f} "
        shape += f"{below.at[b]:.1f} {end - bend:.0f} {below.at[b]:.1f} {end:.0f}"
        tip = f"{view.visible(result.tokens_a[a])} × {view.visible(result.tokens_b[b])}"
        paths.append(_arc(shape, tip, value, limit, rank, f"a{a} b{b}"))
    texts = [
        element("g", {"class": "a"}, *above.draw(top, up=True)),
        element("g", {"class": "b"}, *below.draw(bottom, up=False)),
    ]
    return _figure(paths, texts, width, bottom + 18 + slack, [value for *_, value in found])


def inside(result: Interactions) -> Markup:
    """Arcs over one text; the two halves of a pair are summed."""
    found = tables.pairs(result, MOST)
    ends = {i for pair in found for i in pair[:2]}
    line = Line(result.tokens, _shown(result.special, result.tokens, ends), [i for p in found[:FIRST] for i in p[:2]])
    heights = {(a, b): min(18 + 0.32 * abs(line.at[b] - line.at[a]), 170.0) for a, b, _ in found}
    base = 16 + 0.75 * max(heights.values(), default=0.0)
    limit = palette.limit([value for *_, value in found])
    paths = []
    for rank, (a, b, value) in enumerate(found):
        x, y, rise = line.at[a], line.at[b], base - heights[a, b]
        shape = f"M{x:.1f} {base:.0f}C{x:.1f} {rise:.0f} {y:.1f} {rise:.0f} {y:.1f} {base:.0f}"
        tip = f"{view.visible(result.tokens[a])} with {view.visible(result.tokens[b])}"
        paths.append(_arc(shape, tip, value, limit, rank, f"a{a} a{b}"))
    text = element("g", {"class": "a"}, *line.draw(base + 18, up=False))
    return _figure(paths, [text], line.width, base + 30 + (80 if line.ticks else 0), [value for *_, value in found])


def _arc(shape: str, tip: str, value: float, limit: float, rank: int, ends: str) -> Markup:
    share = palette.strength(value, limit)
    shown = palette.number(value, palette.decimals(limit, 4))
    return element(
        "path",
        {
            "class": f"arc {'up' if value > 0 else 'down'}", "d": shape, "data-rank": rank, "data-ends": ends,
            "data-size": f"{abs(value):.4g}", "stroke-width": f"{0.8 + 5.2 * share:.1f}",
            "stroke-opacity": f"{0.25 + 0.65 * share:.2f}", "display": "none" if rank >= FIRST else None,
        },
        element("title", None, f"{tip}: {shown}"),
    )  # fmt: skip


def _label(token: str, x: float, y: float, index: int, turn: str | None = None) -> Markup:
    place = {
        "x": f"{x:.1f}",
        "y": f"{y:.0f}",
        "data-unit": index,
        "transform": turn,
        "class": "slanted" if turn else None,
    }
    return element("text", place, view.visible(token))


def _figure(paths: list[Markup], texts: list[Markup], width: float, height: float, values: list[float]) -> Markup:
    count, limit = len(paths), palette.limit(values)
    size = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "width": f"{width:.0f}", "height": f"{height:.0f}"}
    words = {"class": "arcs", "role": "img", "aria-label": f"arcs for the {count} strongest pairs"}
    # weakest first, so that strong arcs lie on top
    drawing = element("svg", {**size, **words}, *reversed(paths), *texts)
    first = min(FIRST, count)
    top = element("input", {"type": "range", "class": "top", "min": 1, "max": max(count, 1), "value": first})
    least = element("input", {"type": "range", "class": "least", "min": 0, "max": 100, "value": 0})
    controls = element(
        "div",
        {"class": "controls", "data-digits": palette.decimals(limit)},
        element("label", None, "strongest ", top, element("output", {"class": "shown"}, f"{first} of {count}")),
        element("label", None, "at least ", least, element("output", {"class": "floor"}, "0")),
    )
    return element("figure", None, controls, element("div", {"class": "scroll"}, drawing))


def _shown(special: Sequence[bool], tokens: Sequence[str], ends: set[int]) -> list[int]:
    """Tokens on the line: those of the text, and special ones where an arc ends."""
    flags = special or (False,) * len(tokens)
    return [i for i in range(len(tokens)) if not flags[i] or i in ends]


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _apart(wanted: Sequence[int], at: dict[int, float], least: float = 13.0) -> list[int]:
    """Names that do not run into each other, the strongest first."""
    kept: list[int] = []
    for i in wanted:
        if all(abs(at[i] - at[k]) >= least for k in kept):
            kept.append(i)
    return kept
