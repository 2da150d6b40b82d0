"""The parts a terminal picture is made of: running text, bars, curves, heat tables, trees, as rich renderables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from pathlens.draw import blocks, palette
from pathlens.draw.grid import REFERENCE, Continued, Grid
from pathlens.draw.words import Stretch, fit, printable, visible
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
        back = palette.color(value, limit, signed=signed, dark=self.dark)
        return f"{palette.text_color(back)} on {back}"


def ink(value: float, *, signed: bool = True) -> str:
    """Style of a bar: full colour."""
    return palette.color(float(np.sign(value)), 1.0, signed=signed)


def colored(stretches: Sequence[Stretch], limit: float, paper: Paper) -> Text:
    """Running text on coloured ground."""
    text = Text(overflow="fold")
    for stretch in stretches:
        text.append(printable(stretch.text), paper.shade(stretch.value, limit) if stretch.units else "")
    return text


def bars_table(block: blocks.Bars, room: int, paper: Paper) -> tuple[Table, tuple[str, ...]]:
    """One bar per name on a common axis, at most `room` lines; sums stand below without a bar; notes."""
    named, sums, notes = block.pick(room)
    names = [*(bar.name for bar in named), *(name for name, _ in sums)]
    longest = max([cell_len(visible(name)) for name in names], default=1)
    label = min(longest, max(paper.width // 2, 12))
    down, up = (
        max([palette.strength(bar.value, block.limit) for bar in named if sign * bar.value > 0], default=0.0)
        for sign in (-1, 1)
    )
    arm = min(max(paper.width - label - 14, 8) / max(down + up, 1e-9), ARM)  # columns per full bar
    left = -(-round(2 * arm * down) // 2)  # whole columns for the longest bar below, drawn in halves
    table = Table.grid(padding=(0, 1))
    table.add_column(width=label, no_wrap=True, justify="right")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    for name, value, *_ in named:
        bar = _bar(value, arm * palette.strength(value, block.limit), left, ink(value, signed=block.signed))
        table.add_row(Text(fit(name, label)), block.text(value), bar)
    for name, number in sums:
        table.add_row(Text(name, "dim"), Text(number, "dim"), Text(" " * left + "│" if left else "", "dim"))
    return table, notes


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


def spark(chart: blocks.Chart, name: str, width: int) -> Text:
    """A curve as a run of blocks, and the numbers at its ends."""
    points = chart.series.get(name, ())
    if not points:
        return Text("·")
    flat = np.array([y for _, y in points], dtype=float)
    every = np.array([y for line in chart.series.values() for _, y in line], dtype=float)
    heights, every = (np.log10(np.maximum(np.abs(v), 1e-16)) if chart.log else v for v in (flat, every))
    low, high = float(np.nanmin(every)), float(np.nanmax(every))
    picked = np.interp(np.linspace(0, 1, min(len(flat), width)), np.linspace(0, 1, len(flat)), heights)
    level = np.nan_to_num(np.clip((picked - low) / ((high - low) or 1.0), 0, 1))
    ends = f"{flat[0]:.3g} → {flat[-1]:.3g}" if len(flat) > 1 else f"{flat[0]:.3g} at {points[0][0]:g}"
    return Text("".join(BLOCKS[round(float(v) * 7)] for v in level) + " " + ends)


def makers_table(block: Continued, paper: Paper) -> Table:
    """One line per output token: its change, and its strongest sources."""
    cells = block.cells
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    label = min(max(5, *map(len, cells.columns)) + 1, 16)
    table.add_column(Text("token", "dim"), width=label, no_wrap=True, justify="right")
    table.add_column(Text("sum", "dim"), justify="right", no_wrap=True)
    table.add_column(Text("strongest sources", "dim"), overflow="fold")
    for t, output in enumerate(cells.columns[:OUTPUTS]):
        column, sources = cells.values[:, t], Text()
        for u in np.argsort(-np.abs(column), kind="stable")[:SOURCES]:
            if column[u]:
                shade = paper.shade(column[u], cells.limit)
                sources.append(f" {fit(cells.rows[u], 18)} {cells.text(column[u])} ", shade).append(" ")
        mark = "" if block.facts["settled"][t] else "✗ "
        table.add_row(Text(fit(output, label)), mark + cells.text(column.sum()), sources)
    return table


# ---------------------------------------------------------------- token × token


def heat_table(grid: Grid, paper: Paper) -> tuple[Table, Grid]:
    """A heat table with sums in the margins, and the grid as drawn (folded when it does not fit).

    The reference comes first, set apart by a line; a long token goes over several lines of its header.
    """
    label = min(max(cell_len(visible(name)) for name in (*grid.rows, grid.corner)), max(paper.width // 5, 11))
    room = paper.width - label - 10 - 2 * grid.edge  # less the row's name, the margin, the reference's line
    write, least = _numbers(grid, room)
    drawn = grid.fold(MOST_ROWS, max(room // least, 3))
    names = [visible(name) for name in drawn.columns]
    wide = max(min(max(map(cell_len, names)) + 1, room // len(names), 12), least)
    if wide <= cell_len(REFERENCE):
        names[: drawn.edge] = ["(ref.)"] * drawn.edge
    table = Table(box=None, padding=0, pad_edge=False, header_style="")
    table.add_column(Text(grid.corner, "dim"), width=label + 1, no_wrap=True, vertical="bottom")
    for j, name in enumerate(names):
        dim = "dim" if drawn.role(1, j) else ""
        head = Padding(Text(name, dim, justify="right", overflow="fold"), (0, 0, 0, 1))  # never touches its neighbour
        table.add_column(head, width=wide, justify="right", vertical="bottom")
        if j + 1 == drawn.edge:
            table.add_column("│", width=2, justify="right", style="dim", header_style="dim", vertical="bottom")
    if drawn.signed:
        table.add_column(Text("sum", "dim"), width=9, justify="right", vertical="bottom")
    for row in _heat_rows(drawn, paper, label, wide, write):
        table.add_row(*row)
    return table, drawn


def _numbers(grid: Grid, room: int) -> tuple[Callable[[float], str], int]:
    """How the numbers are written (three digits where every column fits, else two and no 0 before the point), and the
    columns they take with a blank before them.
    """
    known = grid.values[np.isfinite(grid.values)]
    ends = known.min(initial=0), known.max(initial=0), grid.limit, -grid.limit
    roomy, tight = grid.text, partial(grid.text, digits=2, narrow=True)
    wide, narrow = (max(len(write(end)) if end else 1 for end in ends) + 1 for write in (roomy, tight))
    return (roomy, wide) if wide * len(grid.columns) <= room else (tight, max(narrow, CELL))


def _heat_rows(grid: Grid, paper: Paper, label: int, wide: int, write: Callable[[float], str]) -> Iterator[list[Text]]:
    for i, name in enumerate(grid.rows):
        dim = "dim" if grid.role(0, i) else ""
        cells = [
            Text((write(v) if v else "0").rjust(wide), paper.shade(v, grid.limit, signed=grid.signed) or "dim")
            for v in grid.values[i]
        ]
        margin = [Text(grid.text(grid.values[i].sum()), "dim")] if grid.signed else []
        yield [Text(fit(name, label), dim), *_with_line(cells, grid.edge), *margin]
        if i + 1 == grid.edge:
            rule = [Text("─" * wide, "dim")] * len(cells)
            yield [Text("─" * (label + 1), "dim"), *_with_line(rule, grid.edge, "─┼")]
    if grid.signed and grid.additive:
        sums = [Text(write(value) if value else "0", "dim") for value in grid.values.sum(0)]
        yield [Text("sum", "dim"), *_with_line(sums, grid.edge), Text(grid.text(grid.values.sum()), "bold")]


def _with_line(cells: list[Text], edge: int, line: str = "│") -> list[Text]:
    return [*cells[:edge], Text(line, "dim"), *cells[edge:]] if edge else cells


# ---------------------------------------------------------------- phrases


def phrase_tree(block: blocks.Phrases, depth: Mapping[int, int], paper: Paper) -> Tree:
    """Phrases as a tree with a bar for each value."""
    nodes = block.nodes
    longest = max(4 * deep + cell_len(_phrase(nodes[i])) for i, deep in depth.items())
    label = min(longest, max(paper.width - 34, 20))
    arm = max(min(paper.width - label - 12, ARM), 6)

    def line(i: int) -> Text:
        node = nodes[i]
        name = fit(_phrase(node), max(label - 4 * depth[i], 6))
        style = paper.shade(float(np.copysign(node.dividend, node.signed)), block.limit)
        blank = " " * (label - 4 * depth[i] - cell_len(name) + 1)
        sign = "+" if node.signed > 0 else "-" if node.signed < 0 else " "
        bar = "█" * max(round(arm * min(node.value, 1.0)), 1)
        return Text.assemble((name, style), blank, f"{sign}{node.value:.3f} ", (bar, ink(node.signed)), no_wrap=True)

    def grow(branch: Tree, i: int) -> Tree:
        for child in nodes[i].children:
            if child in depth:
                grow(branch.add(line(child)), child)
        return branch

    return grow(Tree(line(0), guide_style="dim"), 0)


def _phrase(node: Phrase) -> str:
    return f"{visible(node.text)}  {node.label}" if node.label else visible(node.text)
