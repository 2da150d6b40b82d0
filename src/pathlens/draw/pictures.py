"""One picture per kind of result, from blocks on a sheet: heading, view, legend, certificate, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pathlens.draw import canvas, continuation, palette, shapes, tables, view
from pathlens.draw.canvas import DIM, INK, Sheet, width, write
from pathlens.explanation.continuation import Continuation
from pathlens.explanation.record import (
    Explanation,
    Interactions,
    PairExplanation,
    PhraseTree,
    Result,
    VectorExplanation,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BARS = 24


def picture(result: Result) -> Figure:
    """The figure of any result."""
    sheet = Sheet(_width(result))
    onto(result, sheet)
    return sheet.figure()


def onto(result: Result, sheet: Sheet) -> None:
    """A result's blocks below what is on the sheet already."""
    title, how = view.heading(result)
    sheet.words(title, size=13, color=INK, weight="bold", after=0.03)
    if how:
        sheet.words(how, size=9, after=0.12)
    said: list[str] = []
    _body(result, sheet, said)
    sheet.add(0.1, lambda axes: None)
    _scale(result, sheet)
    sheet.words(palette.legend(result), color=INK)
    mark = "✓ " if result.certificate.converged else "✗ "
    sheet.words(
        mark + palette.certificate_line(result.certificate), color=INK,
        weight="normal" if result.certificate.converged else "bold",
    )  # fmt: skip
    for note in [*said, *view.notes(result)]:
        sheet.words("· " + note, size=8)


def _width(result: Result) -> float:
    if isinstance(result, PhraseTree):
        return float(np.clip(shapes.leaves_width(result.nodes) + 2 * Sheet.MARGIN, 9, 14))
    return 9.0


def _body(result: Result, sheet: Sheet, said: list[str]) -> None:
    if isinstance(result, PairExplanation):
        for name, pieces in zip("AB", view.paragraphs(result), strict=True):
            text = "".join(piece.text for piece in pieces)
            shown = text if len(text) <= 300 else text[:300] + " …"
            sheet.words(f"{name}  {view.visible(shown)}", size=11, color=INK)
        shapes.matrix(tables.grid(result), sheet, said, "×")
    elif isinstance(result, Interactions):
        _running(result, sheet)
        full = palette.short(palette.limit(result.scores))
        said.append(f"the running text is coloured by score, the sum of a row; full colour there is {full}")
        shapes.matrix(tables.grid(result), sheet, said, "with")
    elif isinstance(result, VectorExplanation):
        _block(result, sheet, said)
    elif isinstance(result, PhraseTree):
        shapes.phrases(result, sheet, said)
    elif isinstance(result, Continuation):
        sheet.words("the prompt, and what it said", size=8)
        _running(result, sheet)
        said += continuation.notes(result)
        shapes.matrix(tables.grid(result), sheet, said, "→")
    elif isinstance(result, Explanation):
        _running(result, sheet)
        named = view.scored(result)
        _bars(named, sheet, said, additive=result.certificate.kind != "per token")


def _running(result: Explanation | Interactions | Continuation, sheet: Sheet, size: float = 13) -> None:
    """Running text on coloured ground, broken into lines between pieces."""
    limit = palette.limit(result.scores)
    for pieces in view.paragraphs(result):
        lines = _lines(pieces, sheet.inner, size)
        if view.right_to_left("".join(piece.text for piece in pieces)):
            lines = [[(sheet.inner - x - shapes.inches(t, size), t, p) for x, t, p in line] for line in lines]
        step = size * 1.9 / 72

        def draw(axes: Axes, lines: list = lines, step: float = step) -> None:
            for k, line in enumerate(lines):
                shown = [part for part in line if part[2].units or not part[1].isspace()]
                backs = [palette.color(piece.value, limit) for *_, piece in shown]
                places = [(x, shapes.inches(text, size)) for x, text, _ in shown]
                axes.broken_barh(places, ((k + 0.06) * step, 0.8 * step), facecolors=backs, lw=0)
                for (x, wide), back, (_, text, _) in zip(places, backs, shown, strict=True):
                    style = {"size": size, "color": palette.text_color(back), "ha": "center", "va": "center_baseline"}
                    write(axes, x + wide / 2, (k + 0.47) * step, text, **style)

        sheet.add(len(lines) * step + 0.12, draw)


def _lines(pieces: Sequence[view.Piece], inches: float, size: float) -> list[list[tuple[float, str, view.Piece]]]:
    """(x, text, piece) line by line; a piece longer than a line is cut where the line ends."""
    lines: list[list[tuple[float, str, view.Piece]]] = [[]]
    x = 0.0
    for piece in pieces:
        for part in view.printable(piece.text).replace("\t", "    ").splitlines(keepends=True) or [""]:
            word = part.rstrip("\n") if piece.units else part.strip("\n")
            while word:
                wide = shapes.inches(word, size)
                if x + wide > inches and x > 0 and (piece.units or not word.isspace()):
                    lines, x = [*lines, []], 0.0
                    word = word.lstrip()
                    continue
                room = max(next((k for k in range(len(word), 0, -1) if shapes.inches(word[:k], size) <= inches), 1), 1)
                lines[-1].append((x, word[:room], piece))
                x, word = x + shapes.inches(word[:room], size), word[room:]
            if part.endswith("\n"):
                lines, x = [*lines, []], 0.0
    return [line for line in lines if line]


def _bars(
    named: Sequence[tuple[str, float]], sheet: Sheet, said: list[str], *, additive: bool = True, signed: bool = True
) -> None:
    """A bar per unit (the strongest of many), one line for the others, and the sum."""
    limit = palette.limit(np.array([value for _, value in named]))
    digits = palette.decimals(limit)
    shown = sorted(named, key=lambda pair: -abs(pair[1]))[: BARS - 2] if len(named) > BARS else list(named)
    lines = [(name, value, palette.number(value, digits, sign=signed)) for name, value in shown]
    if len(shown) < len(named) and additive:
        rest = sum(v for _, v in named) - sum(v for _, v in shown)
        lines.append((f"{len(named) - len(shown)} others", None, palette.number(rest, digits)))
    elif len(shown) < len(named):
        said.append(f"the {len(shown)} strongest of {len(named)} are drawn")
    if additive:
        lines.append(("sum", None, palette.number(sum(v for _, v in named), digits)))
    label = min(max(shapes.inches(canvas.cut(name, 34), 10) for name, *_ in lines), 3.0) + 0.1
    step = 0.235
    down = max((-value / limit for _, value in shown if value < 0), default=0.0) if signed else 0.0
    up = max((value / limit for _, value in shown if value > 0), default=0.0)
    room = min(sheet.inner - label - 0.85, 5.0)
    zero, arm = label + 0.85 + room * down / max(down + up, 1e-9), room / max(down + up, 1e-9)

    def draw(axes: Axes) -> None:
        for k, (name, value, text) in enumerate(lines):
            ink, weight = (
                (INK, "bold") if name == "sum" and value is None else (DIM if value is None else INK, "normal")
            )
            y = (k + 0.5) * step
            write(
                axes, label - 0.08, y, canvas.cut(name, 34), size=10, ha="right", va="center", color=ink, weight=weight
            )
            write(axes, label + 0.62, y, text, size=10, ha="right", va="center", color=ink, weight=weight)
            if value is not None:
                color = palette.color(np.sign(value), 1) if signed else palette.length_color(1, 1)
                axes.barh(y, arm * value / limit, left=zero, height=0.72 * step, color=color, lw=0)
        axes.plot([zero, zero], [0, len(shown) * step], color=DIM, lw=0.8)

    sheet.add(len(lines) * step + 0.15, draw)


def _block(result: VectorExplanation, sheet: Sheet, said: list[str]) -> None:
    grid = tables.grid(result)
    if len(grid.rows) > 1:
        shapes.matrix(grid, sheet, said, "←")
        return
    said += grid.notes
    _bars(list(zip(grid.columns, map(float, grid.values[0]), strict=True)), sheet, said, additive=False, signed=False)


def _scale(result: Result, sheet: Sheet) -> None:
    """The colours from one end to the other, with the numbers at the ends."""
    full = palette.full(result)
    signed = not isinstance(result, VectorExplanation)
    digits = palette.decimals(full)
    shares = np.linspace(-1 if signed else 0, 1, 65)
    low = palette.number(-full, digits) if signed else "0"
    start, wide = width(low, 8) / 72 + 0.08, 2.6

    def draw(axes: Axes) -> None:
        pick = palette.color if signed else palette.length_color
        write(axes, 0, 0.09, low, size=8, color=DIM, va="center")
        for k, share in enumerate(shares):
            axes.broken_barh([(start + k * wide / 65, wide / 64)], (0.02, 0.14), color=pick(float(share), 1), lw=0)
        write(
            axes, start + wide + 0.08, 0.09, palette.number(full, digits, sign=signed), size=8, color=DIM, va="center"
        )

    sheet.add(0.28, draw)
