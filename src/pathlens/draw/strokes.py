"""The parts a terminal picture is made of: running text, bars, curves, heat tables, trees, as rich renderables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from pathlens.draw import blocks, palette
from pathlens.draw.grid import REFERENCE, Continued, Grid
from pathlens.draw.words import Stretch, printable, visible
from pathlens.explanation.record import Phrase

ARM = 24  # longest bar, in columns
CELL = 5  # narrowest column of a table: a token cut shorter than this cannot be read
MOST_ROWS = 40
SOURCES, OUTPUTS = 4, 60  # named for each output token when the table does not fit; lines of those
BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Paper:
    """What is drawn on: how many columns, and on which background."""

    width: int
    dark: bool

    def shade(self, value: float, limit: float, *, signed: bool = True) -> str:
        """Style of a value: none below 2 % of full colour, where a tint would say nothing."""
        if palette.strength(value, limit) < 0.02:
            return ""
        back = palette.shade(value, limit, signed=signed, dark=self.dark)
        return f"{palette.text_color(back)} on {back}"


def ink(value: float, *, signed: bool = True) -> str:
    """Style of a bar: full colour."""
    return palette.shade(float(np.sign(value)), 1.0, signed=signed)


def colored(stretches: Sequence[Stretch], limit: float, paper: Paper) -> Text:
    """Running text on coloured ground."""
    text = Text(overflow="fold")
    for stretch in stretches:
        text.append(printable(stretch.text), paper.shade(stretch.value, limit) if stretch.units else "")
    return text


def bars_table(
    named: Sequence[tuple[str, float]], block: blocks.Bars, paper: Paper, sums: Sequence[tuple[str, str]] = ()
) -> Table:
    """One bar per name on a common axis; `sums` stand below without a bar."""
    names = [visible(name) for name, _ in named]
    longest = max([cell_len(name) for name in [*names, *(name for name, _ in sums)]] + [1])
    label = min(longest, max(paper.width // 2, 12))
    down = max((palette.strength(v, block.limit) for _, v in named if v < 0), default=0.0) if block.signed else 0.0
    up = max((palette.strength(v, block.limit) for _, v in named if v > 0), default=0.0)
    arm = min(max(paper.width - label - 14, 8) / max(down + up, 1e-9), ARM)  # columns per full bar
    left = -(-round(2 * arm * down) // 2)  # whole columns for the longest bar below, drawn in halves
    table = Table.grid(padding=(0, 1))
    table.add_column(width=label, no_wrap=True, justify="right")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    for name, (_, value) in zip(names, named, strict=True):
        bar = _bar(value, arm * palette.strength(value, block.limit), left, ink(value, signed=block.signed))
        table.add_row(Text(fit(name, label)), block.text(value), bar)
    for name, number in sums:
        table.add_row(Text(name, "dim"), Text(number, "dim"), Text(" " * left + "│" if left else "", "dim"))
    return table


def _bar(value: float, columns: float, left: int, style: str) -> Text:
    """Right of the axis in eighths of a column, left of it in halves: there are no finer blocks."""
    text = Text(no_wrap=True)
    if value < 0:
        full, half = divmod(round(2 * columns), 2)
        text.append(" " * (left - full - half))
        return text.append("▐" * half + "█" * full, style).append("│", "dim")
    text.append(" " * left + "│" if left else "", "dim")
    full, eighth = divmod(round(8 * columns), 8)
    return text.append("█" * full + ("▏▎▍▌▋▊▉"[eighth - 1] if eighth else ""), style)


def fit(label: str, width: int) -> str:
    """At most `width` columns, ended by … where cut (wide characters count two)."""
    return label if cell_len(label) <= width else set_cell_size(label, width - 1).rstrip() + "…"


def spark(chart: blocks.Chart, name: str, width: int) -> Text:
    """A curve as a run of blocks, and the numbers at its ends."""
    points = chart.series.get(name, ())
    every = np.array([y for line in chart.series.values() for _, y in line] or [0.0], dtype=float)
    flat = np.array([y for _, y in points], dtype=float)
    if not len(flat):
        return Text("·")
    if chart.log:
        every, values = np.log10(np.maximum(np.abs(every), 1e-16)), np.log10(np.maximum(np.abs(flat), 1e-16))
    else:
        values = flat
    low, high = float(np.nanmin(every)), float(np.nanmax(every))
    steps = len(values) if len(values) <= width else width
    picked = np.interp(np.linspace(0, 1, steps), np.linspace(0, 1, len(values)), values)
    level = np.nan_to_num(np.clip((picked - low) / ((high - low) or 1.0), 0, 1))
    ends = f"{flat[0]:.3g} → {flat[-1]:.3g}" if len(flat) > 1 else f"{flat[0]:.3g} at {points[0][0]:g}"
    return Text("".join(BLOCKS[round(float(v) * 7)] for v in level) + " " + ends)


def makers_table(block: Continued, paper: Paper) -> Table:
    """One line per output token: its change, and its strongest sources."""
    limit, matrix = block.cells.limit, block.cells.values
    digits = palette.decimals(limit)
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    label = min(max(5, *map(len, block.outputs)) + 1, 16)
    table.add_column(Text("token", "dim"), width=label, no_wrap=True, justify="right")
    table.add_column(Text("sum", "dim"), justify="right", no_wrap=True)
    table.add_column(Text("strongest sources", "dim"), overflow="fold")
    for t, output in enumerate(block.outputs[:OUTPUTS]):
        column, sources = matrix[:, t], Text()
        for u in np.argsort(-np.abs(column), kind="stable")[:SOURCES]:
            if column[u]:
                number = palette.number(float(column[u]), digits)
                sources.append(f" {fit(visible(block.cells.rows[u]), 18)} {number} ", paper.shade(column[u], limit))
                sources.append(" ")
        mark = "" if block.settled[t] else "✗ "
        table.add_row(Text(fit(visible(output), label)), mark + palette.number(float(column.sum()), digits), sources)
    return table


# ---------------------------------------------------------------- token × token


@dataclass(frozen=True)
class Numbers:
    """How the numbers of one table are written, and the columns they take with a blank before them."""

    digits: int
    narrow: bool
    wide: int

    def __call__(self, value: float, signed: bool) -> str:
        return palette.number(value, self.digits, sign=signed, narrow=self.narrow) if value else "0"


def heat_table(grid: Grid, paper: Paper) -> tuple[Table, Grid]:
    """A heat table with sums in the margins, and the grid as drawn (folded when it does not fit).

    The reference comes first, set apart by a line; a long token goes over several lines of its header.
    """
    longest = max([cell_len(visible(name)) for name in grid.rows] + [cell_len(grid.corner)])
    label = min(longest, max(paper.width // 5, 11))
    room = paper.width - label - 10 - 2 * grid.edge  # less the row's name, the margin, the reference's line
    style = _numbers(grid, room)
    drawn = grid.fold(MOST_ROWS, max(room // style.wide, 3))
    names = [visible(name) for name in drawn.columns]
    style = replace(style, wide=max(min(max(map(cell_len, names)) + 1, room // len(names), 12), style.wide))
    if style.wide <= cell_len(REFERENCE):
        names[: drawn.edge] = ["(ref.)"] * drawn.edge
    table = Table(box=None, padding=0, pad_edge=False, header_style="")
    table.add_column(Text(grid.corner, "dim"), width=label + 1, no_wrap=True, vertical="bottom")
    for j, name in enumerate(names):
        dim = "dim" if _apart(j, drawn.edge, drawn.rest[1], len(names)) else ""
        table.add_column(Text(name, dim), width=style.wide, justify="right", overflow="fold", vertical="bottom")
        if j + 1 == drawn.edge:
            table.add_column("│", width=2, justify="right", style="dim", header_style="dim", vertical="bottom")
    if drawn.signed:
        table.add_column(Text("sum", "dim"), width=9, justify="right", vertical="bottom")
    for row in _heat_rows(drawn, paper, label, style):
        table.add_row(*row)
    return table, drawn


def _numbers(grid: Grid, room: int) -> Numbers:
    """Three digits where every column fits, else two and no 0 before the point."""
    roomy = Numbers(palette.decimals(grid.limit), False, 0)
    wide = _widest(grid, roomy) + 1
    if wide * len(grid.columns) <= room:
        return replace(roomy, wide=wide)
    tight = Numbers(palette.decimals(grid.limit, 2), True, 0)
    return replace(tight, wide=max(_widest(grid, tight) + 1, CELL))


def _widest(grid: Grid, style: Numbers) -> int:
    known = grid.values[np.isfinite(grid.values)]
    ends = *(float(v) for v in (known.min(initial=0), known.max(initial=0))), grid.limit, -grid.limit
    return max(len(style(value, grid.signed)) for value in ends)


def _heat_rows(grid: Grid, paper: Paper, label: int, style: Numbers) -> Iterator[list[Text]]:
    limit, fine = grid.limit, palette.decimals(grid.limit)
    for i, name in enumerate(grid.rows):
        dim = "dim" if _apart(i, grid.edge, grid.rest[0], len(grid.rows)) else ""
        cells = [
            Text(style(v, grid.signed).rjust(style.wide), paper.shade(v, limit, signed=grid.signed) or "dim")
            for v in map(float, grid.values[i])
        ]
        margin = [Text(palette.number(float(grid.values[i].sum()), fine), "dim")] if grid.signed else []
        yield [Text(fit(visible(name), label), dim), *_with_line(cells, grid.edge), *margin]
        if i + 1 == grid.edge:
            rule = [Text("─" * style.wide, "dim")] * len(cells)
            yield [Text("─" * (label + 1), "dim"), *_with_line(rule, grid.edge, "─┼")]
    if grid.signed and grid.additive:
        sums = [Text(style(float(value), True), "dim") for value in grid.values.sum(0)]
        total = Text(palette.number(float(grid.values.sum()), fine), "bold")
        yield [Text("sum", "dim"), *_with_line(sums, grid.edge), total]


def _with_line(cells: list[Text], edge: int, line: str = "│") -> list[Text]:
    return [*cells[:edge], Text(line, "dim"), *cells[edge:]] if edge else cells


def _apart(index: int, edge: int, rest: int, count: int) -> bool:
    return index < edge or index >= count - rest


# ---------------------------------------------------------------- phrases


def phrase_tree(block: blocks.Phrases, kept: set[int], paper: Paper) -> Tree:
    """Phrases as a tree with a bar for each value."""
    nodes, depth = block.nodes, _depths(block.nodes, kept)
    longest = max(4 * depth[i] + cell_len(_phrase(nodes[i])) for i in kept)
    label = min(longest, max(paper.width - 34, 20))
    arm = max(min(paper.width - label - 12, ARM), 6)

    def line(i: int) -> Text:
        node = nodes[i]
        name = fit(_phrase(node), max(label - 4 * depth[i], 6))
        style = paper.shade(float(np.copysign(node.dividend, node.signed)), block.limit)
        blank = " " * (label - 4 * depth[i] - cell_len(name) + 1)
        sign = "+" if node.signed > 0 else "-" if node.signed < 0 else " "
        bar = "█" * max(round(arm * min(node.value, 1.0)), 1)
        return Text.assemble((name, style), blank, f"{sign} {node.value:.3f} ", (bar, ink(node.signed)), no_wrap=True)

    def grow(branch: Tree, i: int) -> Tree:
        for child in nodes[i].children:
            if child in kept:
                grow(branch.add(line(child)), child)
        return branch

    return grow(Tree(line(0), guide_style="dim"), 0)


def _depths(nodes: Sequence[Phrase], kept: set[int]) -> dict[int, int]:
    depth, stack = {0: 0}, [0]
    while stack:
        i = stack.pop()
        for child in nodes[i].children:
            if child in kept:
                depth[child] = depth[i] + 1
                stack.append(child)
    return depth


def _phrase(node: Phrase) -> str:
    return f"{visible(node.text)}  {node.label}" if node.label else visible(node.text)
