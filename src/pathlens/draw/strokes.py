"""The parts a terminal picture is made of: running text, bars, tables, trees. Each returns a rich renderable.

Tokens only ever become `rich.text.Text`, never markup, so `[bold]` in a text stays those six characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from pathlens.draw import palette, tables, view
from pathlens.explanation.record import Phrase

ARM = 24  # longest bar, in columns
CELL = 5  # narrowest column of a table: a token cut shorter than this cannot be read
MOST_ROWS = 40


@dataclass(frozen=True)
class Paper:
    """What is drawn on: how many columns, and on which background."""

    width: int
    dark: bool

    def shade(self, value: float, limit: float, *, signed: bool = True) -> str:
        """Style of a value: none below 2 % of full colour, where a tint would say nothing."""
        if palette.strength(value, limit) < 0.02:
            return ""
        pick = palette.color if signed else palette.length_color
        back = pick(value, limit, dark=self.dark)
        return f"{palette.text_color(back)} on {back}"


def ink(value: float, *, signed: bool = True) -> str:
    """Style of a bar: full colour."""
    return palette.color(float(np.sign(value)), 1.0) if signed else palette.length_color(1.0, 1.0)


def running(pieces: Sequence[view.Piece], limit: float, paper: Paper) -> Text:
    """Running text on coloured ground."""
    text = Text(overflow="fold")
    for piece in pieces:
        text.append(view.printable(piece.text), paper.shade(piece.value, limit) if piece.units else "")
    return text


def bars(
    named: Sequence[tuple[str, float]], paper: Paper, *, limit: float, signed: bool = True, footer: Sequence[str] = ()
) -> Table:
    """One bar per name on a common axis; `footer` rows name sums: "label<TAB>number" without a bar."""
    digits = palette.decimals(limit)
    names = [view.visible(name) for name, _ in named]
    longest = max([cell_len(name) for name in names] + [cell_len(line.split("\t")[0]) for line in footer] + [1])
    label = min(longest, max(paper.width // 2, 12))
    down, up = _reach(named, limit, signed)
    arm = min(max(paper.width - label - 14, 8) / max(down + up, 1e-9), ARM)  # columns per full bar
    left = -(-round(2 * arm * down) // 2)  # whole columns for the longest bar below, drawn in halves
    table = Table.grid(padding=(0, 1))
    table.add_column(width=label, no_wrap=True, justify="right")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    for name, (_, value) in zip(names, named, strict=True):
        bar = _bar(value, limit, arm, left, signed)
        table.add_row(Text(fit(name, label)), palette.number(value, digits, sign=signed), bar)
    for line in footer:
        name, value = line.split("\t")
        table.add_row(Text(name, "dim"), Text(value, "dim"), Text(" " * left + "│" if left else "", "dim"))
    return table


def _reach(named: Sequence[tuple[str, float]], limit: float, signed: bool) -> tuple[float, float]:
    """How far bars go below and above the axis, in full bars."""
    down = max((palette.strength(v, limit) for _, v in named if v < 0), default=0.0) if signed else 0.0
    return down, max((palette.strength(v, limit) for _, v in named if v > 0), default=0.0)


def _bar(value: float, limit: float, arm: float, left: int, signed: bool) -> Text:
    """Right of the axis in eighths of a column, left of it in halves: there are no finer blocks."""
    text = Text(no_wrap=True)
    columns = arm * palette.strength(value, limit)
    style = ink(value, signed=signed)
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


def matrix(grid: tables.Grid, paper: Paper, *, corner: str = "") -> tuple[Table, tables.Grid]:
    """A heat table with sums in the margins, and the grid as drawn (folded when it does not fit).

    The reference comes first, set apart by a line; a long token goes over several lines of its header.
    """
    longest = max([cell_len(view.visible(name)) for name in grid.rows] + [cell_len(corner)])
    label = min(longest, max(paper.width // 5, 11))
    room = paper.width - label - 10 - 2 * grid.edge  # less the row's name, the margin, the reference's line
    style = _numbers(grid, room)
    drawn = tables.fold(grid, MOST_ROWS, max(room // style.wide, 3))
    names = [view.visible(name) for name in drawn.columns]
    style = replace(style, wide=max(min(max(map(cell_len, names)) + 1, room // len(names), 12), style.wide))
    if style.wide <= cell_len(tables.REFERENCE):
        names[: drawn.edge] = ["(ref.)"] * drawn.edge
    table = Table(box=None, padding=0, pad_edge=False, header_style="")
    table.add_column(Text(corner, "dim"), width=label + 1, no_wrap=True, vertical="bottom")
    for j, name in enumerate(names):
        dim = "dim" if _apart(j, drawn.edge, drawn.rest[1], len(names)) else ""
        table.add_column(Text(name, dim), width=style.wide, justify="right", overflow="fold", vertical="bottom")
        if j + 1 == drawn.edge:
            table.add_column("│", width=2, justify="right", style="dim", header_style="dim", vertical="bottom")
    if drawn.signed:
        table.add_column(Text("sum", "dim"), width=9, justify="right", vertical="bottom")
    _matrix_rows(table, drawn, paper, label, style)
    return table, drawn


@dataclass(frozen=True)
class Numbers:
    """How the numbers of one table are written, and the columns they take with a blank before them."""

    digits: int
    narrow: bool
    wide: int

    def __call__(self, value: float, signed: bool) -> str:
        return palette.number(value, self.digits, sign=signed, narrow=self.narrow) if value else "0"


def _numbers(grid: tables.Grid, room: int) -> Numbers:
    """Three digits where every column fits, else two and no 0 before the point."""
    roomy = Numbers(palette.decimals(grid.limit), False, 0)
    wide = _widest(grid, roomy) + 1
    if wide * len(grid.columns) <= room:
        return replace(roomy, wide=wide)
    tight = Numbers(palette.decimals(grid.limit, 2), True, 0)
    return replace(tight, wide=max(_widest(grid, tight) + 1, CELL))


def _widest(grid: tables.Grid, style: Numbers) -> int:
    known = grid.values[np.isfinite(grid.values)]
    ends = *(float(v) for v in (known.min(initial=0), known.max(initial=0))), grid.limit, -grid.limit
    return max(len(style(value, grid.signed)) for value in ends)


def _matrix_rows(table: Table, grid: tables.Grid, paper: Paper, label: int, style: Numbers) -> None:
    limit, fine = grid.limit, palette.decimals(grid.limit)
    for i, name in enumerate(grid.rows):
        dim = "dim" if _apart(i, grid.edge, grid.rest[0], len(grid.rows)) else ""
        cells = [_cell(float(value), limit, style, paper, grid.signed) for value in grid.values[i]]
        margin = [Text(palette.number(float(grid.values[i].sum()), fine), "dim")] if grid.signed else []
        table.add_row(Text(fit(view.visible(name), label), dim), *_with_line(cells, grid.edge), *margin)
        if i + 1 == grid.edge:
            line = _with_line(["─" * style.wide] * len(cells), grid.edge, "─┼")
            table.add_row(Text("─" * (label + 1)), *line, style="dim")
    if grid.signed and grid.additive:
        sums = [Text(style(float(value), True), "dim") for value in grid.values.sum(0)]
        total = Text(palette.number(float(grid.values.sum()), fine), "bold")
        table.add_row(Text("sum", "dim"), *_with_line(sums, grid.edge), total)


def _with_line(cells: list, edge: int, line: str = "│") -> list:
    return [*cells[:edge], line, *cells[edge:]] if edge else cells


def _apart(index: int, edge: int, rest: int, count: int) -> bool:
    return index < edge or index >= count - rest


def _cell(value: float, limit: float, style: Numbers, paper: Paper, signed: bool) -> Text:
    shown = style(value, signed)
    return Text(shown.rjust(style.wide), paper.shade(value, limit, signed=signed) or "dim")


def tree(nodes: Sequence[Phrase], paper: Paper, most: int = 60) -> tuple[Tree, int]:
    """Phrases as a tree with a bar for each value, and how many were left out (the smallest values)."""
    kept = tables.strongest(nodes, most)
    limit = palette.limit(np.array([node.dividend for node in nodes]))
    depth = _depths(nodes, kept)
    longest = max(4 * depth[i] + cell_len(_phrase(nodes[i])) for i in kept)
    label = min(longest, max(paper.width - 34, 20))
    arm = max(min(paper.width - label - 12, ARM), 6)

    def line(i: int) -> Text:
        node = nodes[i]
        name = fit(_phrase(node), max(label - 4 * depth[i], 6))
        style = paper.shade(float(np.copysign(node.dividend, node.signed)), limit)
        blank = " " * (label - 4 * depth[i] - cell_len(name) + 1)
        sign = "+" if node.signed > 0 else "-" if node.signed < 0 else " "
        bar = "█" * max(round(arm * min(node.value, 1.0)), 1)
        return Text.assemble((name, style), blank, f"{sign} {node.value:.3f} ", (bar, ink(node.signed)), no_wrap=True)

    def grow(branch: Tree, i: int) -> Tree:
        for child in nodes[i].children:
            if child in kept:
                grow(branch.add(line(child)), child)
        return branch

    return grow(Tree(line(0), guide_style="dim"), 0), len(nodes) - len(kept)


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
    return f"{view.visible(node.text)}  {node.label}" if node.label else view.visible(node.text)
