"""What a picture is made of on axes of its own: curves, bars, points, heat maps, phrases.

Series differ in colour, marker and dash, so a grey print still tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import blocks, canvas, palette, places
from pathlens.draw.canvas import DIM, INK, LINE, Part, inches, write
from pathlens.draw.grid import Grid, strongest_phrases
from pathlens.draw.svg import FEATURES, LEAST, NAMED, Axis, spread
from pathlens.draw.words import fit, visible
from pathlens.explanation.record import Phrase

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours for categories, which colour-blind readers can tell apart
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
MARKERS = "osD^vPX*"
DASHES = ("-", "--", "-.", ":")
CROWD = 7  # ticks of an axis that all have room for a name
NUMBERS, LABELS = 18, 60  # up to this many rows and columns the cells carry their numbers, their tokens


def frame(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    """Title, labels, grid and frame as all plots have them."""
    axes.set_title(visible(title) if title else "", size=10, color=INK, loc="left", parse_math=False)
    axes.set_xlabel(xlabel, size=9, color=DIM, parse_math=False)
    axes.set_ylabel(ylabel, size=9, color=DIM, parse_math=False)
    axes.tick_params(labelsize=8, color=LINE)
    axes.grid(color=LINE, lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINE)


def chart_on(axes: Axes, chart: blocks.Chart) -> None:
    """One line per series, by colour, marker and dash."""
    frame(axes, chart.title, chart.xlabel, chart.ylabel if chart.ylabel not in chart.title else "")
    for k, (name, points) in enumerate(chart.series.items()):
        xs, ys = [x for x, _ in points], [max(abs(y), LEAST) if chart.log else y for _, y in points]
        style: Any = {"color": COLORS[k % 8], "marker": MARKERS[k % 8], "ls": DASHES[(k // 8 + k) % 4]}
        axes.plot(xs, ys, label=visible(name), lw=1.6, ms=4 if len(xs) > 1 else 10, **style)
    if chart.log:
        axes.set(xscale="log", yscale="log")
        axes.minorticks_off()
        axes.xaxis.set_major_formatter("{x:g}")  # the ones that come with such axes write mathematics
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}")
    if chart.ticks:
        every = 2 if len(chart.ticks) > CROWD else 1  # names that would touch each other: every second one
        names = [words if k % every == 0 else "" for k, (_, words) in enumerate(chart.ticks)]
        axes.set_xticks([place for place, _ in chart.ticks], labels=names)
    if chart.level is not None:
        axes.axhline(chart.level, color=DIM, lw=1, ls=(0, (1, 2)))
        if chart.level_name:
            _level_name(axes, chart.level, chart.level_name)


def _letters(size: float) -> places.Letters:
    """Letters of that size, in points."""
    return places.Letters(lambda text: 72 * inches(text, size), 1.3 * size)


def _write_name(axes: Axes, name: places.Name, room: places.Box, size: float) -> None:
    """A name that was placed in points from the axes' top left corner, on ground of its own."""
    ground: Any = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
    side = {"start": "left", "middle": "center", "end": "right"}[name.anchor]
    place = name.x / room.right, 1 - name.y / room.bottom
    style: Any = {"ha": side, "va": "center", "transform": axes.transAxes, "bbox": ground, "zorder": 4}
    write(axes, *place, name.text, size=size, color=DIM, **style)


def _level_name(axes: Axes, level: float, text: str) -> None:
    """What a level across is called, where no curve runs."""
    scale = 72 / axes.figure.dpi
    room = places.Box(0, 0, axes.bbox.width * scale, axes.bbox.height * scale)

    def placed(points: Any) -> list[places.Point]:
        shares = axes.transAxes.inverted().transform(axes.transData.transform(points))
        return [(x * room.right, (1 - y) * room.bottom) for x, y in shares.tolist()]

    axes.autoscale_view()
    lines = [np.asarray(line.get_xydata()) for line in axes.get_lines()[:-1]]  # the last is the level itself
    curves = [placed(line) for line in lines if len(line)]
    [(_, y)] = placed([(axes.get_xlim()[0], level)])
    _write_name(axes, places.along(visible(text), y, _letters(8), room, curves), room, 8)


def key(axes: Axes) -> None:
    """Names of the series, beside the plot."""
    if len(axes.get_lines()):
        legend = axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8)
        for text in legend.get_texts():
            text.set_parse_math(False)


def panel_on(axes: Axes, panel: blocks.Bars) -> None:
    """Bars from top to bottom, with intervals where they are known."""
    frame(axes, panel.title, panel.axis, "")
    values = [bar.value for bar in panel.bars]
    ends = [[bar.value if end is None else end for end in (bar.low, bar.high)] for bar in panel.bars]
    reach = np.abs(np.array(ends) - np.array(values)[:, None])
    colors = [palette.color(float(np.sign(value)), 1, signed=panel.signed) for value in values]
    errors = reach.T if reach.any() else None
    axes.barh(range(len(values)), values, xerr=errors, color=colors, ecolor=INK, capsize=2, height=0.72, lw=0)
    canvas.names(axes, "y", [fit(bar.name, 34) for bar in panel.bars], size=9)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.axvline(0, color=DIM, lw=0.8)
    axes.grid(axis="y", visible=False)


def swarm_on(axes: Axes, block: blocks.Swarm) -> None:
    """Per feature the scores as points, darker where the feature is larger."""
    frame(axes, "", "score", "")
    order = block.strongest(FEATURES)
    for row, feature in enumerate(order):
        x = block.scores[:, feature]
        shades = [palette.color(0.15 + 0.85 * r, 1, signed=False) if r < 1 else "#1f6b52" for r in block.ranks(feature)]
        axes.scatter(x, row + spread(x), s=14, c=shades, edgecolors="#1f6b52", linewidths=0.3, zorder=3)
    canvas.names(axes, "y", [block.names[i] for i in order], size=9)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.axvline(0, color=DIM, lw=0.8)
    words = "pale: small value of the feature · dark: large"
    write(axes, 1, 1.02, words, size=8, color=DIM, ha="right", va="bottom", transform=axes.transAxes)


def point_names(block: blocks.Scatter, wide: float, tall: float) -> tuple[list[places.Name], str]:
    """Names of the points on axes of that many inches, in points from their top left; what the numbers among them mean."""
    room = places.Box(0, 0, 72 * wide, 72 * tall)
    (left, right), (low, high) = _limits(block)
    across, up = Axis(left, right, 0, room.right), Axis(low, high, room.bottom, 0)
    shown = block.points if len(block.points) <= NAMED else ()
    placed = [(fit(name, 24) if name else "", across.place(x), up.place(y)) for name, x, y in shown]
    return places.beside(placed, _letters(7), 3.5, room)


def _limits(block: blocks.Scatter) -> list[tuple[float, float]]:
    """Ends of both axes: all points and zero with some room around them; across, zero only where both mean the same."""
    ends = []
    for values, zero in (([x for _, x, _ in block.points], block.same), ([y for *_, y in block.points], True)):
        low, high = min([*values, *([0.0] if zero else [])]), max([*values, *([0.0] if zero else [])])
        pad = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
        ends.append((low - pad, high + pad))
    return ends


def scatter_on(axes: Axes, block: blocks.Scatter, names: Sequence[places.Name], room: tuple[float, float]) -> None:
    """Named points around zero and, where both numbers mean the same, the diagonal. room: the axes' inches."""
    frame(axes, "", block.xlabel, block.ylabel)
    _, xs, ys = zip(*block.points, strict=True)
    axes.scatter(xs, ys, s=26, color=palette.color(1, 1, signed=False), edgecolors=INK, linewidths=0.4, zorder=5)
    axes.axhline(0, color=DIM, lw=0.6)
    if block.same:
        axes.axline((0, 0), slope=1, color=DIM, lw=0.8, ls=(0, (4, 3)))
    across, up = _limits(block)
    axes.set(xlim=across, ylim=up)
    for name in names:
        _write_name(axes, name, places.Box(0, 0, 72 * room[0], 72 * room[1]), 7)


def heat_on(axes: Axes, grid: Grid, upright: bool) -> None:
    """Cells in colour, with their names and numbers as far as they fit."""
    # rounded to 1/200 of full colour, so that large maps need few colours
    steps = np.rint(np.clip(np.nan_to_num(grid.values) / grid.limit, -1, 1) * 200).astype(int)
    shades = {int(k): palette.color(float(k), 200, signed=grid.signed) for k in np.unique(steps)}
    image = np.array([[list(palette.rgb(shades[int(k)])) for k in row] for row in steps]) / 255
    axes.imshow(image, aspect="auto", interpolation="nearest")
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False, labelsize=9)
    axes.set(xticks=[], yticks=[])
    if len(grid.rows) <= LABELS:
        canvas.names(axes, "y", [fit(name, 20) for name in grid.rows])
    if len(grid.columns) <= LABELS:
        canvas.names(axes, "x", [fit(name, 20) for name in grid.columns], rotation=90 if upright else 0)
    axes.spines[:].set_color(LINE)
    if grid.edge:
        axes.axhline(0.5, color=INK, lw=1.2)
        axes.axvline(0.5, color=INK, lw=1.2)
    if max(grid.values.shape) <= NUMBERS:
        digits = 3 if len(grid.columns) <= 12 else 2
        for (i, j), value in np.ndenumerate(grid.values):
            ink = palette.text_color(shades[int(steps[i, j])])
            write(axes, j, i, grid.text(value, digits, narrow=True), size=8, ha="center", va="center", color=ink)


def leaves_width(nodes: Sequence[Phrase]) -> float:
    """Inches that the leaves take side by side."""
    return sum(_leaf(node) for node in nodes if not node.children)


def _leaf(node: Phrase) -> float:
    return max(inches(visible(node.text), 10), inches("0.000", 8)) + 0.16


def _back(node: Phrase, limit: float) -> str:
    return palette.color(float(np.copysign(node.dividend, node.signed)), limit)


def _value(node: Phrase) -> str:
    return f"{'+' if node.signed > 0 else '-' if node.signed < 0 else ''}{node.value:.3f}"


def phrase_boxes(block: blocks.Phrases, inner: float) -> Part:
    """Each phrase a box over its parts."""
    nodes, step = block.nodes, 0.5
    stretch = max(min(inner / leaves_width(nodes), 2.6), 1.0)

    depths, _ = strongest_phrases(nodes, len(nodes))
    widths: dict[int, float] = {}
    for i in reversed(depths):  # the parts before the whole
        widths[i] = sum(widths[child] for child in nodes[i].children) or _leaf(nodes[i]) * stretch
    lefts = {0: 0.0}
    for i in depths:
        for k, child in enumerate(nodes[i].children):
            lefts[child] = lefts[i] + sum(widths[before] for before in nodes[i].children[:k])

    def draw(axes: Axes) -> None:
        for i, depth in depths.items():
            back, x, y, wide = _back(nodes[i], block.limit), lefts[i], depth * step, widths[i]
            axes.broken_barh([(x + 0.02, wide - 0.04)], (y, step - 0.05), facecolor=back, edgecolor=LINE, lw=0.8)
            shown = visible(nodes[i].text)
            if inches(shown, 10) > wide - 0.08:
                shown = fit(shown, max(int((wide - 0.1) * 72 / (10 * 0.5)), 2))
            style = {"ha": "center", "va": "center", "color": palette.text_color(back)}
            write(axes, x + wide / 2, y + 0.15, shown, size=10, **style)
            write(axes, x + wide / 2, y + 0.33, _value(nodes[i]), size=8, **style)

    return Part((max(depths.values()) + 1) * step + 0.1, draw)


def phrase_outline(block: blocks.Phrases, depths: Mapping[int, int], inner: float) -> Part:
    """A line and a bar for each phrase kept, where the words do not fit side by side."""
    nodes = block.nodes
    step, bar = 0.25, 2.0
    right = inner - bar - 0.7

    def draw(axes: Axes) -> None:
        for k, (i, depth) in enumerate(depths.items()):
            node, x, y = nodes[i], min(0.2 * depth, right / 2), (k + 0.5) * step
            back = _back(node, block.limit)
            shown = fit(node.text, max(int((right - x) * 72 / (9 * 0.62)), 4))
            axes.broken_barh([(x - 0.03, inches(shown, 9) + 0.06)], (y - 0.1, 0.2), color=back, lw=0)
            write(axes, x, y, shown, size=9, va="center", color=palette.text_color(back))
            write(axes, right + 0.6, y, _value(node), size=9, va="center", ha="right", color=DIM)
            color = palette.color(float(np.sign(node.signed)), 1)
            axes.barh(y, bar * min(node.value, 1), left=right + 0.7, height=0.6 * step, color=color, lw=0)

    return Part(len(depths) * step + 0.1, draw)
