"""Heat maps and phrase trees, as blocks on a sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pathlens.draw import canvas, palette, tables, view
from pathlens.draw.canvas import DIM, INK, LINE, Sheet, write
from pathlens.explanation.record import Phrase, PhraseTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUMBERS = 18  # up to this many rows and columns the cells carry their numbers
LABELS = 60  # up to this many, their tokens
PHRASES = 36
WIDEST = 13.4  # inches of leaves side by side; longer texts get an outline


def inches(text: str, size: float) -> float:
    """Width of a text as the fonts set it, blanks included."""
    return canvas.width(text, size) / 72


def matrix(grid: tables.Grid, sheet: Sheet, said: list[str], word: str) -> None:
    """A heat map: numbers in the cells of a small one, tokens beside a medium one, a large one by itself."""
    said += grid.notes
    rows, columns = grid.values.shape
    label = _longest(grid.rows) if rows <= LABELS else 0.1
    longest = _longest(grid.columns) if columns <= LABELS else 0.1
    cell = min((sheet.inner - label) / columns, max(0.62, min(longest, 0.9)))
    upright = columns <= LABELS and (columns > 12 or longest > cell)
    top = longest if upright or columns > LABELS else 0.25
    wide = columns * cell
    tall = top + min(rows * (0.28 if rows <= NUMBERS else cell), 8.0)

    def draw(axes: Axes) -> None:
        place = label / sheet.inner, 0.15 / (tall + 0.15), wide / sheet.inner, (tall - top) / (tall + 0.15)
        _heat(axes.inset_axes(place), grid, upright)

    sheet.add(tall + 0.15, draw)
    if max(rows, columns) > LABELS:
        said.append("strongest: " + ", ".join(_strongest(grid, word)))


def _longest(names: Sequence[str]) -> float:
    return max(inches(canvas.cut(name, 20), 9) for name in names) + 0.14


def _strongest(grid: tables.Grid, word: str, count: int = 5) -> list[str]:
    core, digits = grid.values[grid.edge :, grid.edge :], palette.decimals(grid.limit)
    found = []
    for flat in np.argsort(-np.nan_to_num(np.abs(core)), axis=None, kind="stable")[:count]:
        i, j = divmod(int(flat), core.shape[1])
        names = view.visible(grid.rows[i + grid.edge]), view.visible(grid.columns[j + grid.edge])
        found.append(f"{names[0]} {word} {names[1]} {palette.number(float(core[i, j]), digits, sign=grid.signed)}")
    return found


def _heat(axes: Axes, grid: tables.Grid, upright: bool) -> None:
    pick = palette.color if grid.signed else palette.length_color
    shades = {float(v): pick(float(v), grid.limit) for v in np.unique(_steps(grid))}
    stepped = _steps(grid)
    image = np.array([[_rgb(shades[float(v)]) for v in row] for row in stepped])
    axes.imshow(image, aspect="auto", interpolation="nearest")
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False, labelsize=9)
    axes.set(xticks=[], yticks=[])
    if len(grid.rows) <= LABELS:
        canvas.names(axes, "y", [canvas.cut(name, 20) for name in grid.rows])
    if len(grid.columns) <= LABELS:
        canvas.names(axes, "x", [canvas.cut(name, 20) for name in grid.columns], rotation=90 if upright else 0)
    for spine in axes.spines.values():
        spine.set_color(LINE)
    if grid.edge:
        axes.axhline(0.5, color=INK, lw=1.2)
        axes.axvline(0.5, color=INK, lw=1.2)
    if max(grid.values.shape) <= NUMBERS:
        digits = palette.decimals(grid.limit, 3 if len(grid.columns) <= 12 else 2)
        for (i, j), value in np.ndenumerate(grid.values):
            ink = palette.text_color(shades[float(stepped[i, j])])
            text = palette.number(float(value), digits, sign=grid.signed, narrow=True)
            write(axes, j, i, text, size=8, ha="center", va="center", color=ink)


def _steps(grid: tables.Grid) -> np.ndarray:
    """Values rounded to 1/200 of full colour, so that large maps need few colours."""
    return np.rint(np.clip(np.nan_to_num(grid.values) / grid.limit, -1, 1) * 200) / 200 * grid.limit


def _rgb(color: str) -> tuple[float, ...]:
    return tuple(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))


def phrases(result: PhraseTree, sheet: Sheet, said: list[str]) -> None:
    """Each phrase a box over its parts, or an outline with bars where the words do not fit side by side."""
    nodes = result.nodes
    if leaves_width(nodes) <= WIDEST:
        _boxes(nodes, sheet)
    else:
        left_out = _outline(nodes, sheet)
        said += [f"{left_out} phrases of smaller value are not drawn"] if left_out else []
    if result.tree:
        said.append(f"tree: {result.tree}")


def leaves_width(nodes: Sequence[Phrase]) -> float:
    """Inches that the leaves take side by side."""
    return sum(_leaf(node) for node in nodes if not node.children)


def _leaf(node: Phrase) -> float:
    return max(inches(view.visible(node.text), 10), inches("0.000", 8)) + 0.16


def _boxes(nodes: Sequence[Phrase], sheet: Sheet) -> None:
    place: dict[int, tuple[float, float, int]] = {}  # left, width, depth
    stretch = max(min(sheet.inner / leaves_width(nodes), 1.6), 1.0)

    def put(i: int, x: float, depth: int) -> float:
        inside = nodes[i].children
        wide = sum(put(c, x + sum(place[d][1] for d in inside[:k]), depth + 1) for k, c in enumerate(inside))
        place[i] = (x, wide or _leaf(nodes[i]) * stretch, depth)
        return place[i][1]

    put(0, 0.0, 0)
    step = 0.5
    limit = palette.limit([node.dividend for node in nodes])

    def draw(axes: Axes) -> None:
        for i, (x, wide, depth) in place.items():
            node = nodes[i]
            back = palette.color(float(np.copysign(node.dividend, node.signed)), limit)
            ink, y = palette.text_color(back), depth * step
            axes.broken_barh([(x + 0.02, wide - 0.04)], (y, step - 0.05), facecolor=back, edgecolor=LINE, lw=0.8)
            room = max(int((wide - 0.1) * 72 / (10 * 0.5)), 2)
            shown = view.visible(node.text)
            shown = shown if inches(shown, 10) <= wide - 0.08 else canvas.cut(shown, room)
            sign = "+" if node.signed > 0 else "-" if node.signed < 0 else ""
            write(axes, x + wide / 2, y + 0.15, shown, size=10, ha="center", va="center", color=ink)
            write(axes, x + wide / 2, y + 0.33, f"{sign}{node.value:.3f}", size=8, ha="center", va="center", color=ink)

    sheet.add((max(depth for *_, depth in place.values()) + 1) * step + 0.1, draw)


def _outline(nodes: Sequence[Phrase], sheet: Sheet) -> int:
    kept = tables.strongest(nodes, PHRASES)
    limit = palette.limit([node.dividend for node in nodes])
    lines: list[tuple[int, int]] = []
    waiting = [(0, 0)]
    while waiting:
        i, depth = waiting.pop()
        lines.append((i, depth))
        waiting += [(child, depth + 1) for child in reversed(nodes[i].children) if child in kept]
    step, bar = 0.25, 2.0
    right = sheet.inner - bar - 0.7

    def draw(axes: Axes) -> None:
        for k, (i, depth) in enumerate(lines):
            node, x, y = nodes[i], min(0.2 * depth, right / 2), (k + 0.5) * step
            back = palette.color(float(np.copysign(node.dividend, node.signed)), limit)
            shown = canvas.cut(node.text, max(int((right - x) * 72 / (9 * 0.62)), 4))
            axes.broken_barh([(x - 0.03, inches(shown, 9) + 0.06)], (y - 0.1, 0.2), color=back, lw=0)
            write(axes, x, y, shown, size=9, va="center", color=palette.text_color(back))
            sign = "+" if node.signed > 0 else "-" if node.signed < 0 else ""
            write(axes, right + 0.6, y, f"{sign}{node.value:.3f}", size=9, va="center", ha="right", color=DIM)
            color = palette.color(float(np.sign(node.signed)), 1)
            axes.barh(y, bar * min(node.value, 1), left=right + 0.7, height=0.6 * step, color=color, lw=0)

    sheet.add(len(lines) * step + 0.1, draw)
    return len(nodes) - len(kept)
