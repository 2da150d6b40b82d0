"""Charts as SVG for pages: curves and small bar charts that follow the page's light or dark colours.

Everything is text and shapes: it copies, zooms and prints, and a point tells its numbers when pointed at.
Series differ in colour, dash and mark, so that a grey print still tells them apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pathlens.draw import palette, view
from pathlens.draw.markup import Markup, element

WIDE, HIGH = 640.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 90.0, 24.0, 12.0, 44.0
LEAST = 1e-16  # a zero has no place on a logarithmic axis: it sits at the bottom of double precision
# Okabe and Ito's colours for categories, which colour-blind readers can tell apart; then the same for dark pages
INKS = ("#0072b2", "#d55e00", "#009e73", "#a8568a", "#a67300", "#3b8fc2", "#1b1f27", "#7f7f7f")
DARK_INKS = ("#56b4e9", "#ee7933", "#4db491", "#cc79a7", "#e69f00", "#9ad0f5", "#e8eaef", "#9aa3b2")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "5 5", "12 4", "1 4", "4 2")
STYLE = (
    ".pathlens svg.chart{display:block;width:100%;max-width:44rem;height:auto}.pathlens .chart text{font:13px system-ui,"
    "sans-serif;fill:var(--dim)}@media (max-width:40rem){.pathlens figure .chart text{font-size:19px}}.pathlens .chart .grid{stroke:var(--line);stroke-width:1}.pathlens .chart .level{stroke:var(--dim);"
    "stroke-dasharray:1 3}.pathlens .chart .curve{fill:none;stroke:var(--series);stroke-width:2}.pathlens .chart .mark{"
    "fill:var(--series);stroke:var(--ground);stroke-width:1}.pathlens .chart .up{fill:var(--up)}.pathlens .chart .down{"
    "fill:var(--down)}.pathlens .series{display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;margin:0 0 .4rem;padding:0;list-style:none;"
    "font-size:.88rem}.pathlens .series svg{width:2.4em;height:.7em;vertical-align:middle;margin-right:.35em}"
    ".pathlens .series line{stroke:var(--series);stroke-width:3}.pathlens .multiples{display:grid;gap:.4rem 1rem;"
    "grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr))}.pathlens .multiples h3{font-size:.8rem;font-weight:400;"
    "color:var(--dim);margin:0}"
    + "".join(f".pathlens .c{k}{{--series:{ink}}}" for k, ink in enumerate(INKS))
    + "@media (prefers-color-scheme:dark){"
    + "".join(f".pathlens .c{k}{{--series:{ink}}}" for k, ink in enumerate(DARK_INKS))
    + "}"
)  # fmt: skip

Series = Mapping[str, Sequence[tuple[float, float]]]  # name → (x, y) points


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
            step = max(1, round((last - first) / 6))
            return [10.0**k for k in range(first, last + 1, step) if self.low <= 10.0**k * 1.0001 and 10.0**k <= self.high * 1.0001]  # fmt: skip
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        step = 10.0 ** math.floor(math.log10(span / 4))
        step *= next((m for m in (1, 2, 5, 10) if span / (step * m) <= 6), 10)
        return [k * step for k in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)]


def curves(
    series: Series,
    *,
    xlabel: str,
    ylabel: str,
    log: bool = False,
    level: float | None = None,
    level_name: str = "",
    xticks: Sequence[tuple[float, str]] | None = None,
    keyed: bool = True,
) -> Markup:
    """One line per series, a mark at each point; `log`: both axes; `level`: a dotted line across, named.

    xticks: (place, words) where the numbers themselves would say little.
    keyed: a key above; several charts of the same series need only one (`key`).
    """
    points = [(x, y) for line in series.values() for x, y in line if math.isfinite(y)]
    if not points:
        return element("p", {"class": "outside"}, "no points to draw")
    xs, ys = [x for x, _ in points], [max(abs(y), LEAST) if log else y for _, y in points]
    ys += [level] if level is not None else []
    pad = 0.0 if log else 0.06 * (max(ys) - min(ys) or 1.0)
    across = Axis(min(xs), max(xs), LEFT, WIDE - RIGHT, log)
    low, high = (min(ys) / 1.6, max(ys) * 1.6) if log else (min(ys) - pad, max(ys) + pad)
    up = Axis(low, high, HIGH - BOTTOM, TOP, log)
    marks = _frame(across, up, xlabel, ylabel, xticks)
    if level is not None:
        y = up.place(level)
        marks += [element("line", {"class": "level", "x1": LEFT, "x2": WIDE - RIGHT, "y1": _n(y), "y2": _n(y)}),
                  element("text", {"x": WIDE - RIGHT, "y": _n(y - 4), "text-anchor": "end"}, level_name)]  # fmt: skip
    for k, (name, line) in enumerate(series.items()):
        placed = [(across.place(x), up.place(max(abs(y), LEAST) if log else y), x, y) for x, y in line if math.isfinite(y)]  # fmt: skip
        drawn = "".join(f"{'L' if i else 'M'}{_n(x)} {_n(y)}" for i, (x, y, *_) in enumerate(placed))
        marks.append(element("path", {"d": drawn, "class": f"curve c{k % 8}", "stroke-dasharray": _dash(k)}))
        for x, y, a, b in placed:
            tip = f"{view.visible(name)}: {palette.short(b)} at {palette.short(a)}"
            marks.append(element("circle", {"cx": _n(x), "cy": _n(y), "r": 3.5 if len(placed) > 1 else 6, "class": f"mark c{k % 8}"},
                                 element("title", None, tip)))  # fmt: skip
    picture = element("svg", {"viewBox": f"0 0 {WIDE:.0f} {HIGH:.0f}", "class": "chart", "role": "img",
                              "aria-label": f"{ylabel} against {xlabel}: {', '.join(series)}"}, *marks)  # fmt: skip
    return element("figure", None, key(list(series)) if keyed else "", picture)


def _dash(k: int) -> str:
    """Where the eight colours come round again the dashes are others."""
    return DASHES[(k + k // 8) % 8]


def key(names: Sequence[str]) -> Markup:
    """The look of every series beside its name."""

    def one(k: int, name: str) -> Markup:
        line = element("line", {"x1": 0, "x2": 30, "y1": 4, "y2": 4, "stroke-dasharray": _dash(k)})
        swatch = element("svg", {"viewBox": "0 0 30 8", "aria-hidden": "true"}, line)
        return element("li", {"class": f"c{k % 8}", "dir": "auto"}, swatch, view.visible(name))

    return element("ul", {"class": "series"}, *[one(k, name) for k, name in enumerate(names)])


def _frame(
    across: Axis, up: Axis, xlabel: str, ylabel: str, xticks: Sequence[tuple[float, str]] | None
) -> list[Markup]:
    floor = HIGH - BOTTOM
    marks = []
    for value in up.ticks():
        y = up.place(value)
        marks += [element("line", {"class": "grid", "x1": LEFT, "x2": WIDE - RIGHT, "y1": _n(y), "y2": _n(y)}),
                  element("text", {"x": LEFT - 6, "y": _n(y + 4), "text-anchor": "end"}, _tick(value, up.log))]  # fmt: skip
    named = xticks if xticks is not None else [(value, _tick(value, False)) for value in across.ticks()]
    for value, words in named:
        x = across.place(value)
        marks += [element("line", {"class": "grid", "x1": _n(x), "x2": _n(x), "y1": floor, "y2": floor + 4}),
                  element("text", {"x": _n(x), "y": floor + 18, "text-anchor": "middle"}, words)]  # fmt: skip
    middle = (TOP + floor) / 2
    marks.append(element("text", {"x": (LEFT + WIDE - RIGHT) / 2, "y": HIGH - 5, "text-anchor": "middle"}, xlabel))
    marks.append(element("text", {"x": 12, "y": middle, "text-anchor": "middle", "transform": f"rotate(-90 12 {middle:.0f})"}, ylabel))  # fmt: skip
    return marks


def _tick(value: float, log: bool) -> str:
    return f"{value:.0e}" if log else f"{value:.4g}"


def _n(value: float) -> str:
    return f"{value:.1f}"


def small_bars(title: str, names: Sequence[str], values: Sequence[float], limit: float, *, named: bool) -> Markup:
    """One of several small bar charts on a common scale; `named`: is there room for the names below?"""
    wide, high, foot = 180.0, 84.0, 52.0 if named else 4.0
    step = wide / max(len(values), 1)
    zero = high / 2
    marks = [element("line", {"class": "grid", "x1": 0, "x2": wide, "y1": zero, "y2": zero})]
    for k, (name, value) in enumerate(zip(names, values, strict=True)):
        size = zero * palette.strength(value, limit)
        bar = {"x": _n(k * step + 0.1 * step), "width": _n(max(0.8 * step, 0.4)), "height": _n(size),
               "y": _n(zero - size if value > 0 else zero), "class": "up" if value > 0 else "down"}  # fmt: skip
        marks.append(element("rect", bar, element("title", None, f"{view.visible(name)}: {value:+.4g}")))
        if named:
            x = _n((k + 0.5) * step + 4)
            label = view.visible(name)
            marks.append(element("text", {"x": x, "y": high + 4, "text-anchor": "end", "transform": f"rotate(-90 {x} {high + 4:.0f})"},
                                 label if len(label) <= 8 else label[:7] + "…"))  # fmt: skip
    picture = element("svg", {"viewBox": f"0 0 {wide:.0f} {high + foot:.0f}", "class": "chart", "role": "img", "aria-label": title}, *marks)  # fmt: skip
    return element("div", None, element("h3", None, title), picture)
