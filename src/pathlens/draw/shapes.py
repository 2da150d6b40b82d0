"""Blocks in a picture: parts of a sheet, one below the other, and plots on axes of their own.

Series differ in colour, marker and dash, so a grey print still tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import blocks, canvas, palette
from pathlens.draw.canvas import DIM, INK, LINE, Part, inches, paragraph, write
from pathlens.draw.grid import Continued, Grid, strongest_phrases
from pathlens.draw.svg import LEAST as LEAST_ERROR
from pathlens.draw.svg import spread
from pathlens.draw.words import Stretch, printable, right_to_left, visible
from pathlens.errors import InputError
from pathlens.explanation.record import Phrase

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours for categories, which colour-blind readers can tell apart
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
MARKERS = "osD^vPX*"
DASHES = ("-", "--", "-.", ":")
LEAST, WIDEST = 8.4, 13.4  # inches of a sheet without its margins
BARS, PAIRS, PHRASES, FEATURES = 24, 8, 36, 20
LETTERS = 300  # of a plain text
NUMBERS, LABELS = 18, 60  # up to this many rows and columns the cells carry their numbers, their tokens

Drawn = tuple[tuple[Part, ...], tuple[str, ...]]  # parts of a sheet, and notes on what was left out


def whole(page: blocks.Page, inner: float) -> list[Part]:
    """Heading, blocks, legend, certificate, notes."""
    head = [paragraph(page.title, inner, size=13, color=INK, weight="bold", after=0.03 if page.subtitle else 0.12)]
    head += [paragraph(page.subtitle, inner, after=0.12)] if page.subtitle else []
    body, left_out = stacked(page.blocks, inner)
    proof, foot = page.proof, [Part(0.1)]
    if proof.full is not None:
        foot.append(_scale(proof.full, proof.signed))
    if proof.legend:
        foot.append(paragraph(proof.legend, inner, color=INK))
    for each in proof.sums:
        words = f"{each.mark} {each.name}: {each.words}" if each.name else f"{each.mark} {each.words}"
        foot.append(paragraph(words, inner, color=INK, weight="normal" if each.settled else "bold"))
    return [*head, *body, *foot, *(paragraph(f"· {visible(n)}", inner, size=8) for n in (*left_out, *page.notes))]


def stacked(every: Sequence[blocks.Block], inner: float) -> Drawn:
    """Blocks one below the other."""
    drawn = [draw(block, inner) for block in every]
    return tuple(part for parts, _ in drawn for part in parts), tuple(note for _, notes in drawn for note in notes)


def _scale(full: float, signed: bool) -> Part:
    """The colours from one end to the other, with the numbers at the ends."""
    digits = palette.decimals(full)
    low, high = palette.number(-full, digits) if signed else "0", palette.number(full, digits, sign=signed)
    start, wide = inches(low, 8) + 0.08, 2.6

    def draw(axes: Axes) -> None:
        write(axes, 0, 0.09, low, size=8, color=DIM, va="center")
        for k, share in enumerate(np.linspace(-1 if signed else 0, 1, 65)):
            shade = palette.shade(float(share), 1, signed=signed)
            axes.broken_barh([(start + k * wide / 65, wide / 64)], (0.02, 0.14), color=shade, lw=0)
        write(axes, start + wide + 0.08, 0.09, high, size=8, color=DIM, va="center")

    return Part(0.28, draw)


def _titled(title: str, inner: float) -> list[Part]:
    return [paragraph(title, inner, size=9.5, color=INK, after=0.04)] if title else []


def _plot(
    tall: float, put: Callable[[Any], None], inner: float, *, left: float = 0.7, wide: float | None = None
) -> Part:
    """Real axes inside a part: room on the left for numbers, below for the label."""
    across = (wide or inner) - left - 0.1

    def draw(axes: Axes) -> None:
        put(axes.inset_axes((left / inner, 0.5 / tall, across / inner, (tall - 0.85) / tall)))

    return Part(tall, draw)


# ---------------------------------------------------------------- how wide a sheet a block wants


@singledispatch
def wants(block: blocks.Block) -> float:
    """Inches; most blocks take what they get."""
    return 0.0


@wants.register
def _(block: blocks.Phrases) -> float:
    return min(_leaves_width(block.nodes), WIDEST)


@wants.register
def _(block: blocks.Listing) -> float:
    return min(sum(_natural(block, 9)), 11.0)


@wants.register
def _(block: blocks.Charts) -> float:
    return 10.0 if len(block.charts) > 1 else 0.0


@wants.register
def _(block: blocks.Panels) -> float:
    return 0.0 if block.common else 10.4


@wants.register
def _(block: blocks.Live) -> float:
    return max(map(wants, block.otherwise))


@wants.register
def _(block: blocks.Only) -> float:
    return wants(block.block) if "figure" in block.media else 0.0


# ---------------------------------------------------------------- a function per kind of block


@singledispatch
def draw(block: blocks.Block, inner: float) -> Drawn:
    """Parts `inner` inches wide, and notes about what was left out."""
    raise TypeError(f"no way to draw a {type(block).__name__}")


@draw.register
def running(block: blocks.Running, inner: float) -> Drawn:
    every = (_colored(paragraph, block.limit, inner) for paragraph in block.paragraphs)
    return (*_titled(block.title, inner), *every), ()


def _colored(stretches: Sequence[Stretch], limit: float, inner: float, size: float = 13) -> Part:
    """Running text on coloured ground, broken into lines between stretches."""
    lines = _lines(stretches, inner, size)
    if right_to_left("".join(stretch.text for stretch in stretches)):
        lines = [[(inner - x - inches(text, size), text, s) for x, text, s in line] for line in lines]
    step = size * 1.9 / 72

    def draw(axes: Axes) -> None:
        for k, line in enumerate(lines):
            shown = [part for part in line if part[2].units or not part[1].isspace()]
            backs = [palette.color(stretch.value, limit) for *_, stretch in shown]
            places = [(x, inches(text, size)) for x, text, _ in shown]
            axes.broken_barh(places, ((k + 0.06) * step, 0.8 * step), facecolors=backs, lw=0)
            for (x, wide), back, (_, text, _) in zip(places, backs, shown, strict=True):
                style = {"size": size, "color": palette.text_color(back), "ha": "center", "va": "center_baseline"}
                write(axes, x + wide / 2, (k + 0.47) * step, text, **style)

    return Part(len(lines) * step + 0.12, draw)


def _lines(stretches: Sequence[Stretch], room: float, size: float) -> list[list[tuple[float, str, Stretch]]]:
    """(x, text, stretch) line by line; a stretch longer than a line is cut where the line ends."""
    lines: list[list[tuple[float, str, Stretch]]] = [[]]
    x = 0.0
    for stretch in stretches:
        for part in printable(stretch.text).replace("\t", "    ").splitlines(keepends=True) or [""]:
            word = part.rstrip("\n") if stretch.units else part.strip("\n")
            while word:
                wide = inches(word, size)
                if x + wide > room and x > 0 and (stretch.units or not word.isspace()):
                    lines, x = [*lines, []], 0.0
                    word = word.lstrip()
                    continue
                fits = max(next((k for k in range(len(word), 0, -1) if inches(word[:k], size) <= room), 1), 1)
                lines[-1].append((x, word[:fits], stretch))
                x, word = x + inches(word[:fits], size), word[fits:]
            if part.endswith("\n"):
                lines, x = [*lines, []], 0.0
    return [line for line in lines if line]


@draw.register
def texts(block: blocks.Texts, inner: float) -> Drawn:
    cut = [(name, text if len(text) <= LETTERS else text[:LETTERS] + " …") for name, text in block.named]
    return tuple(paragraph(f"{name}  {visible(text)}".strip(), inner, size=11, color=INK) for name, text in cut), ()


@draw.register
def sentences(block: blocks.Sentences, inner: float) -> Drawn:
    return (), block.lines


@draw.register
def bars(block: blocks.Bars, inner: float) -> Drawn:
    """A bar per unit (the strongest of many), one line for the others, and the sum."""
    shown, sums, notes = block.pick(BARS)
    lines: list[tuple[str, float | None, str]] = [(name, value, block.text(value)) for name, value in shown]
    lines += [(name, None, text) for name, text in sums]
    label = min(max([inches(canvas.cut(name, 34), 10) for name, *_ in lines], default=0.0), 3.0) + 0.1
    step = 0.235
    down = max((-value / block.limit for _, value in shown if value < 0), default=0.0) if block.signed else 0.0
    up = max((value / block.limit for _, value in shown if value > 0), default=0.0)
    arm = min(inner - label - 0.85, 5.0) / max(down + up, 1e-9)
    zero = label + 0.85 + arm * down

    def draw(axes: Axes) -> None:
        for k, (name, value, text) in enumerate(lines):
            last = value is None and k == len(lines) - 1
            style = {"color": INK if value is not None or last else DIM, "weight": "bold" if last else "normal"}
            y = (k + 0.5) * step
            write(axes, label - 0.08, y, canvas.cut(name, 34), size=10, ha="right", va="center", **style)
            write(axes, label + 0.62, y, text, size=10, ha="right", va="center", **style)
            if value is not None:
                color = palette.shade(float(np.sign(value)), 1, signed=block.signed)
                axes.barh(y, arm * value / block.limit, left=zero, height=0.72 * step, color=color, lw=0)
        axes.plot([zero, zero], [0, len(shown) * step], color=DIM, lw=0.8)

    return (Part(len(lines) * step + 0.15, draw),), notes


@draw.register
def links(block: blocks.Links, inner: float) -> Drawn:
    if not block.links:
        return (), ()
    drawn, _ = bars(block.strongest(PAIRS), inner)
    return (*_titled(block.title, inner), *drawn), ()


@draw.register
def grid(block: Grid, inner: float) -> Drawn:
    """A heat map: numbers in the cells of a small one, tokens beside a medium one, a large one by itself."""
    rows, columns = block.values.shape
    label = _longest(block.rows) if rows <= LABELS else 0.1
    longest = _longest(block.columns) if columns <= LABELS else 0.1
    cell = min((inner - label) / columns, max(0.62, min(longest, 0.9)))
    upright = columns <= LABELS and (columns > 12 or longest > cell)
    top = longest if upright or columns > LABELS else 0.25
    tall = top + min(rows * (0.28 if rows <= NUMBERS else cell), 8.0)

    def draw(axes: Axes) -> None:
        place = label / inner, 0.15 / (tall + 0.15), columns * cell / inner, (tall - top) / (tall + 0.15)
        _heat(axes.inset_axes(place), block, upright)

    return (Part(tall + 0.15, draw),), block.notes


def _longest(names: Sequence[str]) -> float:
    return max(inches(canvas.cut(name, 20), 9) for name in names) + 0.14


def _heat(axes: Axes, grid: Grid, upright: bool) -> None:
    # rounded to 1/200 of full colour, so that large maps need few colours
    steps = np.rint(np.clip(np.nan_to_num(grid.values) / grid.limit, -1, 1) * 200).astype(int)
    shades = {int(k): palette.shade(float(k), 200, signed=grid.signed) for k in np.unique(steps)}
    image = np.array([[_rgb(shades[int(k)]) for k in row] for row in steps])
    axes.imshow(image, aspect="auto", interpolation="nearest")
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False, labelsize=9)
    axes.set(xticks=[], yticks=[])
    if len(grid.rows) <= LABELS:
        canvas.names(axes, "y", [canvas.cut(name, 20) for name in grid.rows])
    if len(grid.columns) <= LABELS:
        canvas.names(axes, "x", [canvas.cut(name, 20) for name in grid.columns], rotation=90 if upright else 0)
    axes.spines[:].set_color(LINE)
    if grid.edge:
        axes.axhline(0.5, color=INK, lw=1.2)
        axes.axvline(0.5, color=INK, lw=1.2)
    if max(grid.values.shape) <= NUMBERS:
        digits = palette.decimals(grid.limit, 3 if len(grid.columns) <= 12 else 2)
        for (i, j), value in np.ndenumerate(grid.values):
            ink = palette.text_color(shades[int(steps[i, j])])
            text = palette.number(float(value), digits, sign=grid.signed, narrow=True)
            write(axes, j, i, text, size=8, ha="center", va="center", color=ink)


def _rgb(color: str) -> tuple[float, ...]:
    return tuple(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))


@draw.register
def continued(block: Continued, inner: float) -> Drawn:
    every = [_colored(part, block.limit, inner) for part in (*block.prompt, block.spoken) if part]
    table, notes = grid(block.grid, inner)
    return (paragraph("the prompt, and what it said", inner, size=8), *every, *table), notes


@draw.register
def phrases(block: blocks.Phrases, inner: float) -> Drawn:
    """Each phrase a box over its parts, or an outline with bars where the words do not fit side by side."""
    return _boxes(block, inner) if _leaves_width(block.nodes) <= WIDEST else _outline(block, inner)


def _leaves_width(nodes: Sequence[Phrase]) -> float:
    return sum(_leaf(node) for node in nodes if not node.children)


def _leaf(node: Phrase) -> float:
    return max(inches(visible(node.text), 10), inches("0.000", 8)) + 0.16


def _back(node: Phrase, limit: float) -> str:
    return palette.color(float(np.copysign(node.dividend, node.signed)), limit)


def _value(node: Phrase) -> str:
    return f"{'+' if node.signed > 0 else '-' if node.signed < 0 else ''}{node.value:.3f}"


def _boxes(block: blocks.Phrases, inner: float) -> Drawn:
    nodes, step = block.nodes, 0.5
    stretch = max(min(inner / _leaves_width(nodes), 1.6), 1.0)

    def put(i: int, x: float, depth: int) -> list[tuple[int, float, float, int]]:
        """(node, left, width, depth) of a phrase and all inside it, itself first."""
        parts: list[list[tuple[int, float, float, int]]] = []
        for child in nodes[i].children:
            parts.append(put(child, x + sum(part[0][2] for part in parts), depth + 1))
        wide = sum(part[0][2] for part in parts) or _leaf(nodes[i]) * stretch
        return [(i, x, wide, depth), *(box for part in parts for box in part)]

    places = put(0, 0.0, 0)

    def draw(axes: Axes) -> None:
        for i, x, wide, depth in places:
            back, y = _back(nodes[i], block.limit), depth * step
            axes.broken_barh([(x + 0.02, wide - 0.04)], (y, step - 0.05), facecolor=back, edgecolor=LINE, lw=0.8)
            shown = visible(nodes[i].text)
            room = max(int((wide - 0.1) * 72 / (10 * 0.5)), 2)
            shown = shown if inches(shown, 10) <= wide - 0.08 else canvas.cut(shown, room)
            style = {"ha": "center", "va": "center", "color": palette.text_color(back)}
            write(axes, x + wide / 2, y + 0.15, shown, size=10, **style)
            write(axes, x + wide / 2, y + 0.33, _value(nodes[i]), size=8, **style)

    return (Part((max(depth for *_, depth in places) + 1) * step + 0.1, draw),), ()


def _outline(block: blocks.Phrases, inner: float) -> Drawn:
    nodes = block.nodes
    kept, notes = strongest_phrases(nodes, PHRASES)
    lines: list[tuple[int, int]] = []
    waiting = [(0, 0)]
    while waiting:
        i, depth = waiting.pop()
        lines.append((i, depth))
        waiting += [(child, depth + 1) for child in reversed(nodes[i].children) if child in kept]
    step, bar = 0.25, 2.0
    right = inner - bar - 0.7

    def draw(axes: Axes) -> None:
        for k, (i, depth) in enumerate(lines):
            node, x, y = nodes[i], min(0.2 * depth, right / 2), (k + 0.5) * step
            back = _back(node, block.limit)
            shown = canvas.cut(node.text, max(int((right - x) * 72 / (9 * 0.62)), 4))
            axes.broken_barh([(x - 0.03, inches(shown, 9) + 0.06)], (y - 0.1, 0.2), color=back, lw=0)
            write(axes, x, y, shown, size=9, va="center", color=palette.text_color(back))
            write(axes, right + 0.6, y, _value(node), size=9, va="center", ha="right", color=DIM)
            color = palette.color(float(np.sign(node.signed)), 1)
            axes.barh(y, bar * min(node.value, 1), left=right + 0.7, height=0.6 * step, color=color, lw=0)

    return (Part(len(lines) * step + 0.1, draw),), notes


@draw.register
def listing(block: blocks.Listing, inner: float) -> Drawn:
    """Columns as wide as they need, the widest wrapped."""
    size = 9.0
    step, widths = size * 1.5 / 72, _fitted(_natural(block, size), inner)
    cells = [(None, *row) for row in block.rows]
    marks = block.marks or ("",) * len(block.rows)
    head = _table_row(("", *block.columns), (None,) * len(widths), widths, block, step, size, DIM)
    parts = [head] if any(block.columns) else []
    for mark, row in zip(marks, cells, strict=True):
        words = (mark, *(block.cell(value) for value in row[1:]))
        parts.append(_table_row(words, row, widths, block, step, size, INK))
    return (*_titled(block.title, inner), *parts, Part(0.12)), ()


def _table_row(
    words: Sequence[str], values: Sequence[blocks.Cell], widths: Sequence[float], block: blocks.Listing, step: float,
    size: float, color: str,
) -> Part:  # fmt: skip
    wrapped = [canvas.wrap(text, max(wide - 0.12, 0.1), size) for text, wide in zip(words, widths, strict=True)]
    right = (False, *block.numeric)

    def draw(axes: Axes) -> None:
        x = 0.0
        for lines, wide, value, end in zip(wrapped, widths, values, right, strict=True):
            ink = color
            if isinstance(value, float) and block.limit:
                back = palette.color(value, block.limit)
                axes.broken_barh([(x - 0.04, wide - 0.08)], (0.0, step), color=back, lw=0)
                ink = palette.text_color(back)
            at, side = (x + wide - 0.16, "right") if end else (x, "left")
            for k, line in enumerate(lines):
                write(axes, at, (k + 0.5) * step, line.rstrip(), size=size, color=ink, va="center", ha=side)
            x += wide

    return Part(max(map(len, wrapped)) * step + 0.04, draw)


def _natural(block: blocks.Listing, size: float) -> list[float]:
    """Inches each column would like: the marks', then the others'."""
    rows = [block.columns, *([block.cell(value) for value in row] for row in block.rows)]
    wanted = [max(inches(text, size) for text in column) + 0.2 for column in zip(*rows, strict=True)]
    return [max(map(inches, block.marks, [size] * len(block.marks))) + 0.2 if block.marks else 0.0, *wanted]


def _fitted(wanted: list[float], inner: float) -> list[float]:
    while sum(wanted) > inner and max(wanted) > 0.6:  # the widest gives way
        widest = max(range(len(wanted)), key=wanted.__getitem__)
        wanted = [max(wide * 0.92, 0.6) if k == widest else wide for k, wide in enumerate(wanted)]
    return wanted


@draw.register
def charts(block: blocks.Charts, inner: float) -> Drawn:
    """Two abreast, with one key at the right of the first row."""
    abreast = min(len(block.charts), 2)
    names = max([inches(canvas.cut(name, 40), 8) for name in block.names], default=0.0)
    wide = (inner - names - 0.7) / abreast
    rows = [block.charts[k : k + abreast] for k in range(0, len(block.charts), abreast)]

    def row_part(number: int, row: Sequence[blocks.Chart]) -> Part:
        tall = 3.0 if abreast > 1 else 3.6

        def draw(axes: Axes) -> None:
            for k, chart in enumerate(row):
                left = (k * wide + 0.7) / inner
                inside = axes.inset_axes((left, 0.5 / tall, (wide - 0.85) / inner, (tall - 0.85) / tall))
                chart_on(inside, chart)
                if number == 0 and k == len(row) - 1:
                    key(inside)

        return Part(tall, draw)

    return (*_titled(block.title, inner), *(row_part(k, row) for k, row in enumerate(rows))), ()


@draw.register
def multiples(block: blocks.Multiples, inner: float) -> Drawn:
    abreast = min(len(block.panels), 4)
    rows = [block.panels[k : k + abreast] for k in range(0, len(block.panels), abreast)]
    named = len(block.names) <= 14
    wide = (inner - 0.5) / abreast

    def row_part(row: Sequence[tuple[str, tuple[float, ...]]], last: bool) -> Part:
        foot = 0.85 if named and last else 0.1
        tall = 1.35 + foot

        def draw(axes: Axes) -> None:
            for k, (title, values) in enumerate(row):
                place = (0.5 + k * wide) / inner, foot / tall, (wide - 0.15) / inner, 1.05 / tall
                _small(axes.inset_axes(place), title, block, values, named and last, k == 0)

        return Part(tall, draw)

    return (*_titled(block.title, inner), *(row_part(row, row is rows[-1]) for row in rows)), ()


def _small(
    axes: Axes, title: str, block: blocks.Multiples, values: Sequence[float], named: bool, numbers: bool
) -> None:
    axes.bar(range(len(values)), values, color=[palette.color(float(np.sign(v)), 1) for v in values], lw=0)
    axes.axhline(0, color=DIM, lw=0.6)
    axes.set(ylim=(-1.08 * block.limit, 1.08 * block.limit), xticks=[])
    axes.tick_params(labelsize=7, labelleft=numbers, length=2, color=LINE)
    if named:
        canvas.names(axes, "x", [canvas.cut(name, 9) for name in block.names], rotation=90, size=7)
    axes.set_title(title, size=8, color=DIM, pad=3, parse_math=False)
    _spines(axes)


@draw.register
def panels(block: blocks.Panels, inner: float) -> Drawn:
    """Two abreast, or one below the other on a common scale."""
    if not block.panels:
        raise InputError("there is nothing to draw yet: no row was explained")
    abreast = 1 if block.common or len(block.panels) == 1 else 2
    rows = [block.panels[k : k + abreast] for k in range(0, len(block.panels), abreast)]
    limits = (min(bar.value for p in block.panels for bar in p.bars), max(bar.value for p in block.panels for bar in p.bars))  # fmt: skip
    label = max(inches(canvas.cut(bar.name, 34), 9) for panel in block.panels for bar in panel.bars) + 0.15
    wide = min(inner / abreast, 8.0)

    def row_part(row: Sequence[blocks.Panel]) -> Part:
        room = [0.22 * len(panel.bars) + 0.08 for panel in row]
        tall = max(room) + 0.85

        def draw(axes: Axes) -> None:
            for k, panel in enumerate(row):
                left = (k * wide + label) / inner
                place = left, (tall - 0.3 - room[k]) / tall, (wide - label - 0.2) / inner, room[k] / tall
                inside = axes.inset_axes(place)
                panel_on(inside, panel)
                if block.common:
                    pad = 0.05 * (max(limits[1], 0) - min(limits[0], 0) or 1.0)
                    inside.set_xlim(min(limits[0], 0) - pad, max(limits[1], 0) + pad)

        return Part(tall, draw)

    return (*_titled(block.title, inner), *map(row_part, rows)), ()


@draw.register
def swarm(block: blocks.Swarm, inner: float) -> Drawn:
    tall = 0.42 * min(len(block.names), FEATURES) + 1.2
    label = max(inches(canvas.cut(name, 30), 9) for name in block.names) + 0.15

    def put(axes: Axes) -> None:
        frame(axes, "", "score", "")
        swarm_on(axes, block)

    return (_plot(tall, put, inner, left=label),), ()


@draw.register
def scatter(block: blocks.Scatter, inner: float) -> Drawn:
    def put(axes: Axes) -> None:
        frame(axes, "", block.xlabel, block.ylabel)
        names, xs, ys = zip(*block.points, strict=True)
        axes.scatter(xs, ys, s=26, color=palette.length_color(1, 1), edgecolors=INK, linewidths=0.4, zorder=3)
        axes.axhline(0, color=DIM, lw=0.6)
        if block.same:
            axes.axline((0, 0), slope=1, color=DIM, lw=0.8, ls=(0, (4, 3)))
        if len(names) <= 14:
            for name, x, y in block.points:
                axes.annotate(canvas.cut(name, 24) if name else "", (x, y), (5, 3), textcoords="offset points", size=7,
                              color=DIM, parse_math=False)  # fmt: skip

    return (*_titled(block.title, inner), _plot(3.9, put, inner, wide=5.4)), ()


@draw.register
def abreast(block: blocks.Abreast, inner: float) -> Drawn:
    return stacked(block.blocks, inner)


@draw.register
def inset(block: blocks.Inset, inner: float) -> Drawn:
    title = paragraph(block.title, inner, size=11, color=INK, weight="bold")
    return (title, *whole(block.page, inner)), ()


@draw.register
def folds(block: blocks.Folds, inner: float) -> Drawn:
    """The lines as a table; below it the page that is open."""
    rows = tuple((fold.lead.strip(), fold.text, fold.below) for fold in block.folds)
    table, _ = listing(blocks.Listing(("", "", ""), rows), inner)
    page = block.folds[block.opened].page if block.opened >= 0 else None
    return (*table, *(whole(page, inner) if page is not None else ())), ()


@draw.register
def explorer(block: blocks.Explorer, inner: float) -> Drawn:
    return (), ()  # rows to click


@draw.register
def live(block: blocks.Live, inner: float) -> Drawn:
    return stacked(block.otherwise, inner)


@draw.register
def only(block: blocks.Only, inner: float) -> Drawn:
    return draw(block.block, inner) if "figure" in block.media else ((), ())


# ---------------------------------------------------------------- on axes


def frame(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    """Title, labels, grid and frame as all plots have them."""
    axes.set_title(visible(title) if title else "", size=10, color=INK, loc="left", parse_math=False)
    axes.set_xlabel(xlabel, size=9, color=DIM, parse_math=False)
    axes.set_ylabel(ylabel, size=9, color=DIM, parse_math=False)
    axes.tick_params(labelsize=8, color=LINE)
    axes.grid(color=LINE, lw=0.6)
    axes.set_axisbelow(True)
    _spines(axes)


def _spines(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINE)


def chart_on(axes: Axes, chart: blocks.Chart) -> None:
    """One line per series, by colour, marker and dash."""
    frame(axes, chart.title, chart.xlabel, chart.ylabel if chart.ylabel not in chart.title else "")
    for k, (name, points) in enumerate(chart.series.items()):
        xs, ys = [x for x, _ in points], [max(abs(y), LEAST_ERROR) if chart.log else y for _, y in points]
        style: Any = {"color": COLORS[k % 8], "marker": MARKERS[k % 8], "ls": DASHES[(k // 8 + k) % 4]}
        axes.plot(xs, ys, label=visible(name), lw=1.6, ms=4 if len(xs) > 1 else 10, **style)
    if chart.log:
        axes.set(xscale="log", yscale="log")
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}")  # the default one writes mathematics
    if chart.ticks:
        axes.set_xticks([place for place, _ in chart.ticks], labels=[words for _, words in chart.ticks])
    if chart.level is not None:
        axes.axhline(chart.level, color=DIM, lw=1, ls=(0, (1, 2)))
        write(axes, axes.get_xlim()[1], chart.level, chart.level_name, size=8, color=DIM, ha="right", va="bottom")


def key(axes: Axes) -> None:
    """Names of the series, beside the plot."""
    if len(axes.get_lines()):
        legend = axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8)
        for text in legend.get_texts():
            text.set_parse_math(False)


def panel_on(axes: Axes, panel: blocks.Panel) -> None:
    """Bars from top to bottom, with intervals where they are known."""
    frame(axes, panel.title, panel.axis, "")
    values = [bar.value for bar in panel.bars]
    reach = np.array(
        [[0.0 if end is None else abs(end - bar.value) for end in (bar.low, bar.high)] for bar in panel.bars]
    )
    colors = [palette.shade(float(np.sign(value)), 1, signed=panel.signed) for value in values]
    errors = reach.T if reach.any() else None
    axes.barh(range(len(values)), values, xerr=errors, color=colors, ecolor=INK, capsize=2, height=0.72, lw=0)
    canvas.names(axes, "y", [canvas.cut(bar.name, 34) for bar in panel.bars], size=9)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.axvline(0, color=DIM, lw=0.8)
    axes.grid(axis="y", visible=False)


def swarm_on(axes: Axes, block: blocks.Swarm) -> None:
    """Per feature the scores as points, darker where the feature is larger."""
    order = block.strongest(FEATURES)
    for row, feature in enumerate(order):
        x = block.scores[:, feature]
        shades = [palette.length_color(0.15 + 0.85 * r, 1) if r < 1 else "#1f6b52" for r in block.ranks(feature)]
        axes.scatter(x, row + spread(x), s=14, c=shades, edgecolors="#1f6b52", linewidths=0.3, zorder=3)
    canvas.names(axes, "y", [block.names[i] for i in order], size=9)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.axvline(0, color=DIM, lw=0.8)
    words = "pale: small value of the feature · dark: large"
    write(axes, 1, 1.02, words, size=8, color=DIM, ha="right", va="bottom", transform=axes.transAxes)
