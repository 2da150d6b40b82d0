"""Pages as PNG, SVG or PDF, for papers and slides (needs matplotlib: `pip install "pathlens[plot]"`).

Every kind of block makes parts of a sheet, one below the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pathlens.draw import bidi, blocks, canvas, page_of, palette, plots
from pathlens.draw.canvas import DIM, INK, Part, inches, paragraph, write
from pathlens.draw.grid import Continued, Grid, strongest_phrases
from pathlens.draw.svg import FEATURES
from pathlens.draw.words import Stretch, cut, fit, printable, visible
from pathlens.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST, WIDEST = 8.4, 13.4  # inches of a sheet without its margins
BARS, PAIRS, PHRASES = 24, 8, 36
LETTERS = 300  # of a plain text
SIZE = 9.0  # of letters in a table
GAP, NEIGHBOUR = 0.45, 6.45  # between neighbours, and the widest that a block with one is
SCATTER, LISTED = 5.2, 5.6  # inches of a plot of points, and of a short list of bars
STRETCH = 0.9  # inches that a coloured column takes at most of what is left
LEFT = 4.0  # inches beside a table that a list of bars needs

T = TypeVar("T")
Place = tuple[float, float, float, float]  # left, top, width, height in inches
Drawn = tuple[tuple[Part, ...], tuple[str, ...]]  # parts of a sheet, and notes on what was left out


def draw(thing: Any, *, unit: str | None = None) -> Figure:
    """The figure of a result, a study or a page, not written anywhere."""
    page = page_of(thing, unit)
    inner = _inner(page.on("figure"))
    return canvas.sheet(whole(page, inner), inner)


def _inner(every: Sequence[blocks.Block]) -> float:
    """As wide as the widest block, or as narrow neighbours side by side: better than an empty half."""
    rows = (sum(each for _, each in row) + GAP * (len(row) - 1) for row in _rows(every, WIDEST) if len(row) > 1)
    return max([LEAST, *rows, *(WIDTHS[type(block)](block) for block in every if type(block) in WIDTHS)])


def _rows(every: Sequence[blocks.Block], room: float) -> list[list[tuple[blocks.Block, float]]]:
    """Blocks with their widths; narrow neighbours share a row as far as they fit (texts with texts alone)."""
    rows: list[list[tuple[blocks.Block, float]]] = []
    for block in every:
        wide = _narrow(block)
        last = rows[-1] if rows else []
        alike = last and (isinstance(last[-1][0], blocks.Running) == isinstance(block, blocks.Running))
        if wide and alike and last[-1][1] and sum(each + GAP for _, each in last) + wide <= room + 1e-6:
            last.append((block, wide))
        else:
            rows.append([(block, wide)])
    return rows


def body(every: Sequence[blocks.Block], inner: float) -> Drawn:
    """Rows one below the other; what is alone in its row has the whole width."""
    parts: list[Part] = []
    notes: list[str] = []
    for row in _rows(every, inner):
        spare = max(inner - sum(wide + GAP for _, wide in row) + GAP, 0.0) / len(row)
        widths = [wide + spare for _, wide in row] if len(row) > 1 else [inner]
        drawn = [draw_block(block, wide) for (block, _), wide in zip(row, widths, strict=True)]
        notes += [note for _, left_out in drawn for note in left_out]
        columns = [(wide, each) for wide, (each, _) in zip(widths, drawn, strict=True)]
        parts += [canvas.abreast(columns, GAP)] if len(row) > 1 else columns[0][1]
    return tuple(parts), tuple(notes)


def _narrow(block: blocks.Block) -> float:
    """Inches of a block that may have a neighbour; 0: it takes the whole width."""
    wide = NARROW[type(block)](block) if type(block) in NARROW else 0.0
    return wide if wide <= NEIGHBOUR else 0.0


def save(thing: Any, path: str | Path, *, unit: str | None = None, dark: bool = False) -> Path:
    """Write the picture of a result, a study or a page; the suffix chooses PNG, SVG or PDF."""
    return canvas.save(draw(thing, unit=unit), path, dark=dark)


def whole(page: blocks.Page, inner: float) -> list[Part]:
    """Heading, blocks, legend, certificate, notes."""
    how = " · ".join(part for part in (page.title if page.headline else "", page.subtitle) if part)
    top, after = page.headline or page.title, 0.03 if how else 0.12
    head = [paragraph(top, inner, size=13, color=INK, weight="bold", after=after)] if top else []
    head += [paragraph(how, inner, after=0.12)] if how else []
    drawn, left_out = body(page.on("figure"), inner)
    proof = page.proof
    foot = [Part(0.1), *([_scale(proof)] if proof.full is not None else [])]
    foot += [paragraph(proof.legend, inner, color=INK)] if proof.legend else []
    for each in (*proof.diagnostics, *proof.checks):
        weight = "normal" if each.settled else "bold"
        foot.append(paragraph(f"{each.mark} {each.line}", inner, color=INK, weight=weight))
    return [*head, *drawn, *foot, *(paragraph(f"· {visible(n)}", inner, size=8) for n in (*left_out, *page.notes))]


def _scale(proof: blocks.Proof) -> Part:
    """The colours from one end to the other, with the numbers at the ends."""
    low, high = proof.ends
    start, wide = inches(low, 8) + 0.08, 2.6

    def draw(axes: Axes) -> None:
        write(axes, 0, 0.09, low, size=8, color=DIM, va="center")
        for k, share in enumerate(np.linspace(-1 if proof.signed else 0, 1, 65)):
            shade = palette.color(float(share), 1, signed=proof.signed)
            axes.broken_barh([(start + k * wide / 65, wide / 64)], (0.02, 0.14), color=shade, lw=0)
        write(axes, start + wide + 0.08, 0.09, high, size=8, color=DIM, va="center")

    return Part(0.28, draw)


def _titled(title: str, inner: float) -> list[Part]:
    return [paragraph(title, inner, size=9.5, color=INK, after=0.04)] if title else []


def _plots(tall: float, placed: Iterable[tuple[Place, Callable[[Axes], None]]]) -> Part:
    """A part `tall` inches high with plots on axes of their own."""

    def draw(axes: Axes) -> None:
        for place, on in placed:
            on(canvas.inside(axes, *place))

    return Part(tall, draw)


def _abreast(
    every: Sequence[T],
    tall: Callable[..., float],
    place: Callable[[int, T], Place],
    on: Callable[[T, Axes], None],
    abreast: int = 2,
) -> list[Part]:
    """Rows of so many, each as `tall` as it needs; `on` draws one on axes at its `place` in the row."""
    rows = [every[k : k + abreast] for k in range(0, len(every), abreast)]
    return [_plots(tall(*row), [(place(k, each), partial(on, each)) for k, each in enumerate(row)]) for row in rows]


# ---------------------------------------------------------------- a function per kind of block


@singledispatch
def draw_block(block: blocks.Block, inner: float) -> Drawn:
    """Parts `inner` inches wide, and notes about what was left out."""
    raise TypeError(f"no way to draw a {type(block).__name__}")


@draw_block.register
def running(block: blocks.Running, inner: float) -> Drawn:
    every = (_colored(paragraph, block.limit, inner) for paragraph in block.paragraphs)
    return (*_titled(block.title, inner), *every), ()


def _colored(stretches: Sequence[Stretch], limit: float, inner: float) -> Part:
    """Running text on coloured ground, broken into lines between stretches."""
    size = 13.0
    lines = _lines(stretches, inner, size)
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
    """(x, text, stretch) line by line, as they stand; a stretch longer than a line is cut where the line ends."""
    laid = [printable(stretch.text).replace("\t", "    ") for stretch in stretches]
    base = int(bidi.right_to_left("".join(laid)))
    high, at = bidi.levels("".join(laid), base), 0
    lines: list[list[tuple[str, Sequence[int], Stretch]]] = [[]]
    x = 0.0
    for stretch, text in zip(stretches, laid, strict=True):
        for part in text.splitlines(keepends=True):
            first, at = at, at + len(part)
            start, end = first, first + len(part.rstrip("\n"))
            while start < end:
                word = part[start - first : end - first]
                wide = inches(word, size)
                if x + wide > room and x > 0 and (stretch.units or not word.isspace()):
                    lines, x = [*lines, []], 0.0
                    start += len(word) - len(word.lstrip())
                    continue
                fits = max(next((k for k in range(len(word), 0, -1) if inches(word[:k], size) <= room), 1), 1)
                lines[-1].append((word[:fits], high[start : start + fits], stretch))
                x, start = x + inches(word[:fits], size), start + fits
            if part.endswith("\n"):
                lines, x = [*lines, []], 0.0
    return [_placed(bidi.line(line, base), size, room if base else None) for line in lines if line]


def _placed(line: Sequence[tuple[str, Stretch]], size: float, right: float | None) -> list[tuple[float, str, Stretch]]:
    """(x, text, stretch) from the left edge on, or up to the right one."""
    x = 0.0 if right is None else right - sum(inches(text, size) for text, _ in line)
    placed = []
    for text, stretch in line:
        placed.append((x, text, stretch))
        x += inches(text, size)
    return placed


@draw_block.register
def texts(block: blocks.Texts, inner: float) -> Drawn:
    lines = (f"{name}  {cut(visible(text), LETTERS)}".strip() for name, text in block.named)
    return tuple(paragraph(line, inner, size=11, color=INK) for line in lines), ()


@draw_block.register
def bars(block: blocks.Bars, inner: float) -> Drawn:
    """A bar per unit (the strongest of many), one line for the others, and the sum."""
    shown, sums, notes = block.pick(BARS)
    lines: list[tuple[str, float | None, str]] = [(bar.name, bar.value, block.text(bar.value)) for bar in shown]
    lines += [(name, None, text) for name, text in sums]
    label = min(max([inches(fit(name, 34), 10) for name, *_ in lines], default=0.0), 3.0) + 0.1
    step = 0.235
    down, up = (max([0.0, *(sign * bar.value / block.limit for bar in shown)]) for sign in (-1, 1))
    arm = (inner - label - 0.9) / max(down + up, 1e-9)
    zero = label + 0.85 + arm * down

    def draw(axes: Axes) -> None:
        for k, (name, value, text) in enumerate(lines):
            last = value is None and k == len(lines) - 1
            style = {"color": INK if value is not None or last else DIM, "weight": "bold" if last else "normal"}
            y = (k + 0.5) * step
            write(axes, label - 0.08, y, fit(name, 34), size=10, ha="right", va="center", **style)
            write(axes, label + 0.62, y, text, size=10, ha="right", va="center", **style)
            if value is not None:
                color = palette.color(float(np.sign(value)), 1, signed=block.signed)
                axes.barh(y, arm * value / block.limit, left=zero, height=0.72 * step, color=color, lw=0)
        axes.plot([zero, zero], [0, len(shown) * step], color=DIM, lw=0.8)

    return (Part(len(lines) * step + 0.15, draw),), notes


@draw_block.register
def links(block: blocks.Links, inner: float) -> Drawn:
    if not block.links:
        return (), ()
    drawn, _ = bars(block.strongest(PAIRS), inner)
    return (*_titled(block.title, inner), *drawn), ()


@draw_block.register
def grid(block: Grid, inner: float) -> Drawn:
    """A heat map: numbers in the cells of a small one, tokens beside a medium one, a large one by itself."""
    rows, columns = block.values.shape
    label = _longest(block.rows) if rows <= plots.LABELS else 0.1
    longest = _longest(block.columns) if columns <= plots.LABELS else 0.1
    cell = min((inner - label) / columns, _cell(block))
    upright = columns <= plots.LABELS and (columns > 12 or longest > cell)
    top = longest if upright or columns > plots.LABELS else 0.25
    tall = top + min(rows * (0.28 if rows <= plots.NUMBERS else cell), 8.0)

    place = (label, top, columns * cell, tall - top)
    plot = _plots(tall + 0.15, [(place, partial(plots.heat_on, grid=block, upright=upright))])
    return (*_titled(block.title, inner), plot), block.notes


def _longest(names: Sequence[str]) -> float:
    return max(inches(fit(name, 20), 9) for name in names) + 0.14


@draw_block.register
def continued(block: Continued, inner: float) -> Drawn:
    every = [_colored(part, block.bars.limit, inner) for part in (*block.prompt, block.spoken) if part]
    table, notes = grid(block.grid, inner)
    wide = _grid_width(block.grid)
    left = inner - wide - GAP
    if left >= LEFT:  # the strongest sources stand where nothing would
        strongest = *_titled("strongest sources", left), *bars(block.bars, left)[0]
        table = (canvas.abreast([(wide, table), (left, strongest)], GAP),)
    return (paragraph("the prompt, and what it said", inner, size=8), *every, *table), notes


@draw_block.register
def phrases(block: blocks.Phrases, inner: float) -> Drawn:
    """Each phrase a box over its parts, or an outline with bars where the words do not fit side by side."""
    if plots.leaves_width(block.nodes) <= WIDEST:
        return (plots.phrase_boxes(block, inner),), ()
    depths, notes = strongest_phrases(block.nodes, PHRASES)
    return (plots.phrase_outline(block, depths, inner),), notes


@draw_block.register
def listing(block: blocks.Listing, inner: float) -> Drawn:
    """Columns as wide as they need; where that is too much, the widest gives way."""
    widths = _natural(block)
    while sum(widths) > inner and max(widths) > 0.6:
        widest = widths.index(max(widths))
        widths[widest] = max(widths[widest] * 0.92, 0.6)
    colored = [k for k, end in enumerate(block.numeric, 1) if end and block.limit is not None]
    for k in colored:  # no empty half beside coloured cells
        widths[k] += min(max(inner - sum(_natural(block)), 0.0) / len(colored), STRETCH)
    head = [_table_row(block, ("", *block.columns), (None,) * len(widths), widths, DIM)] if any(block.columns) else []
    marks = block.marks or ("",) * len(block.rows)
    rows = (
        _table_row(block, (mark, *map(block.cell, row)), (None, *row), widths)
        for mark, row in zip(marks, block.rows, strict=True)
    )
    return (*_titled(block.title, inner), *head, *rows, Part(0.12)), ()


def _table_row(
    block: blocks.Listing, words: Sequence[str], values: Sequence[blocks.Cell], widths: Sequence[float], ink: str = INK
) -> Part:
    wrapped = [canvas.wrap(text, max(wide - 0.12, 0.1), SIZE) for text, wide in zip(words, widths, strict=True)]
    step = SIZE * 1.5 / 72

    def draw(axes: Axes) -> None:
        x = 0.0
        for lines, wide, value, end in zip(wrapped, widths, values, (False, *block.numeric), strict=True):
            style = {"size": SIZE, "color": ink, "va": "center", "ha": "right" if end else "left"}
            if (share := block.share(value)) is not None:
                back = palette.color(share, 1)
                axes.broken_barh([(x - 0.04, wide - 0.08)], (0.0, step), color=back, lw=0)
                style["color"] = palette.text_color(back)
            for k, line in enumerate(lines):
                write(axes, x + wide - 0.16 if end else x, (k + 0.5) * step, line.rstrip(), **style)
            x += wide

    return Part(max(map(len, wrapped)) * step + 0.04, draw)


def _natural(block: blocks.Listing) -> list[float]:
    """Inches each column would like: the marks', then the others'."""
    rows = [block.columns, *(map(block.cell, row) for row in block.rows)]
    columns = [block.marks, *zip(*rows, strict=True)]
    return [max(inches(text, SIZE) for text in column) + 0.2 if column else 0.0 for column in columns]


@draw_block.register
def charts(block: blocks.Charts, inner: float) -> Drawn:
    """Two abreast (or all three), with one key at the right of the first row."""
    abreast = 3 if len(block.charts) == 3 else min(len(block.charts), 2)
    names = max([inches(fit(name, 40), 8) for name in block.names], default=0.0)
    wide, tall = (inner - names - 0.7) / abreast, 3.0 if abreast > 1 else 3.6
    above = 0.35 if any(chart.title for chart in block.charts) else 0.1

    def put(chart: blocks.Chart, axes: Axes) -> None:
        plots.chart_on(axes, chart)
        if chart is block.charts[abreast - 1]:
            plots.key(axes)

    def place(k: int, chart: blocks.Chart) -> Place:
        return k * wide + 0.7, above, wide - 0.85, tall - 0.85

    return (*_titled(block.title, inner), *_abreast(block.charts, lambda *row: tall, place, put, abreast)), ()


@draw_block.register
def panels(block: blocks.Panels, inner: float) -> Drawn:
    """Two abreast; `common`: on one scale."""
    if not block.panels:
        raise InputError("there is nothing to draw yet: no row was explained")
    bars = [bar for panel in block.panels for bar in panel.bars]
    low, high = min(0.0, *(bar.value for bar in bars)), max(0.0, *(bar.value for bar in bars))
    pad = 0.05 * (high - low or 1.0)
    label = max(inches(fit(bar.name, 34), 9) for bar in bars) + 0.15
    wide = min(inner / min(len(block.panels), 2), 8.0)

    def tall(*row: blocks.Bars) -> float:
        return 0.22 * max(len(panel.bars) for panel in row) + 0.08

    def put(panel: blocks.Bars, axes: Axes) -> None:
        plots.panel_on(axes, panel)
        if block.common:
            axes.set_xlim(low - pad, high + pad)

    def place(k: int, panel: blocks.Bars) -> Place:
        return k * wide + label, 0.3, wide - label - 0.2, tall(panel)

    return (*_titled(block.title, inner), *_abreast(block.panels, lambda *row: tall(*row) + 0.85, place, put)), ()


@draw_block.register
def swarm(block: blocks.Swarm, inner: float) -> Drawn:
    tall = 0.42 * min(len(block.names), FEATURES) + 1.2
    label = max(inches(fit(name, 30), 9) for name in block.names) + 0.15
    place = (label, 0.35, inner - label - 0.1, tall - 0.85)
    return (_plots(tall, [(place, partial(plots.swarm_on, block=block))]),), ()


@draw_block.register
def scatter(block: blocks.Scatter, inner: float) -> Drawn:
    room = SCATTER - 0.7, 3.05
    names, meaning = plots.point_names(block, *room)
    plot = _plots(3.6, [((0.7, 0.1, *room), partial(plots.scatter_on, block=block, names=names, room=room))])
    under = [paragraph(meaning, min(inner, SCATTER), size=8)] if meaning else []
    return (*_titled(block.title, inner), plot, *under), ()


@draw_block.register
def inset(block: blocks.Inset, inner: float) -> Drawn:
    title = paragraph(block.title, inner, size=11, color=INK, weight="bold")
    return (title, *whole(block.page, inner)), ()


@draw_block.register
def folds(block: blocks.Folds, inner: float) -> Drawn:
    """The lines as a table; below it the page that is open."""
    rows: list[tuple[str, str, str]] = []
    for fold in block.folds:
        first, *others = fold.below or ("",)
        rows += [(fold.lead.strip(), fold.text, first), *(("", "", each) for each in others)]
    table, _ = listing(blocks.Listing(("", "", ""), tuple(rows)), inner)
    page = block.folds[block.opened].page if block.opened >= 0 else None
    return (*table, *(whole(page, inner) if page is not None else ())), ()


def _grid_width(block: Grid) -> float:
    label = _longest(block.rows) if len(block.rows) <= plots.LABELS else 0.1
    return label + len(block.columns) * _cell(block)


def _cell(block: Grid) -> float:
    """Inches of a column: as its longest name where that leaves the table narrow, so that names need not stand upright."""
    longest = _longest(block.columns) if len(block.columns) <= plots.LABELS else 0.1
    roomy = _longest(block.rows) + len(block.columns) * longest <= NEIGHBOUR
    return max(0.62, longest if roomy else min(longest, 0.9))


def _running_width(block: blocks.Running) -> float:
    """Short texts under a title of their own; without one a text is the page's subject."""
    if not block.title:
        return 0.0
    lines = ["".join(stretch.text for stretch in paragraph) for paragraph in block.paragraphs]
    return max([inches(block.title, 9.5), *(inches(printable(line), 13) for line in lines)]) + 0.1


# inches that a block would like where it may have a neighbour
NARROW: dict[type[blocks.Block], Callable[[Any], float]] = {
    blocks.Listing: lambda block: sum(_natural(block)),
    blocks.Running: _running_width,
    blocks.Scatter: lambda block: SCATTER,
    blocks.Links: lambda block: LISTED if block.links else 0.0,
    Grid: _grid_width,
}
# inches that a block would like; the others take what they get
WIDTHS: dict[type[blocks.Block], Callable[[Any], float]] = {
    blocks.Phrases: lambda block: min(plots.leaves_width(block.nodes), WIDEST),
    blocks.Listing: lambda block: min(sum(_natural(block)), 11.0),
    blocks.Charts: lambda block: 10.0 if len(block.charts) > 1 else LEAST,
    blocks.Panels: lambda block: 10.4 if len(block.panels) > 1 else LEAST,
}
