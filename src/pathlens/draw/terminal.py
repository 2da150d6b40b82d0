"""Results in the terminal, drawn with rich: the view, then legend, certificate and notes.

Every sign is also printed as + or -, so nothing is lost without colour.
`python -m pathlens.draw.terminal` shows every view.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pathlens.draw import continuation_terminal, palette, strokes, tables, view
from pathlens.draw.strokes import Paper
from pathlens.explanation.continuation import Continuation
from pathlens.explanation.record import (
    Explanation,
    Interactions,
    PairExplanation,
    PhraseTree,
    Result,
    VectorExplanation,
)

BARS = 14  # a text of up to this many units gets a bar for each, in order; a longer one for its strongest
PAIRS = 8
LETTERS = 600  # of each text of a pair; the table and the pairs are what is read there
PHRASES = 60


def show(
    result: Result,
    *,
    console: Console | None = None,
    unit: str | None = None,
    width: int | None = None,
    dark: bool | None = None,
) -> None:
    """Draw a result in the terminal.

    `unit="word"` draws sums by word; `width` is in columns (default: the terminal's, at most 120); `dark`
    says whether the background is dark (default: what COLORFGBG says, else dark).
    """
    console = console or Console(width=width)
    columns = min(width or 120, console.width)  # a console never prints wider than it is
    paper = Paper(columns, _is_dark() if dark is None else dark)
    for part in parts(view.check(result, unit), paper):
        console.print(part, highlight=False, width=paper.width)


def parts(result: Result, paper: Paper) -> Iterator[RenderableType]:
    """Everything `show` prints, top to bottom."""
    title, how = view.heading(result)
    yield Text.assemble((title, "bold"), ("   " + how if how else "", "dim"))
    yield Text()
    said: list[str] = []
    inner = Paper(paper.width - 2, paper.dark)
    for body in _body(result, inner, said):
        yield Padding(body, (0, 0, 0, 2), expand=False)
        yield Text()
    yield from _foot(result, said)


def _body(result: Result, paper: Paper, said: list[str]) -> Iterator[RenderableType]:
    if isinstance(result, PairExplanation):
        return _pair(result, paper, said)
    if isinstance(result, Interactions):
        return _interactions(result, paper, said)
    if isinstance(result, VectorExplanation):
        return _block(result, paper, said)
    if isinstance(result, PhraseTree):
        return _phrases(result, paper, said)
    if isinstance(result, Continuation):
        return continuation_terminal.body(result, paper, said)
    assert isinstance(result, Explanation)
    return _explanation(result, paper, said)


def _foot(result: Result, said: Sequence[str]) -> Iterator[RenderableType]:
    certificate = result.certificate
    if isinstance(result, VectorExplanation):
        swatch = Text("██", strokes.ink(1, signed=False))
    else:
        swatch = Text.assemble(("█", strokes.ink(1)), ("█", strokes.ink(-1)))
    yield _hanging(swatch, Text(view.visible(palette.legend(result))))
    if certificate.converged:
        yield _hanging(Text(" ✓", "bold"), Text(palette.certificate_line(certificate)))
    else:
        yield _hanging(Text(" ✗", "bold"), Text(palette.certificate_line(certificate), "bold reverse"))
    for note in [*said, *view.notes(result)]:
        yield _hanging(Text(" ·", "dim"), Text(note, "dim"))


def _hanging(mark: Text, words: Text) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(mark, words)
    return row


def _explanation(result: Explanation, paper: Paper, said: list[str]) -> Iterator[RenderableType]:
    limit = palette.limit(result.scores)
    for pieces in view.paragraphs(result):
        yield strokes.running(pieces, limit, paper)
    named = view.scored(result)
    additive = result.certificate.kind != "per token"
    yield _bars(named, paper, said, limit=limit, additive=additive)


def _bars(named: Sequence[tuple[str, float]], paper: Paper, said: list[str], *, limit: float, additive: bool) -> Table:
    """All units in order, or the strongest and a line for the others; then the sum: the column adds up."""
    shown, digits = list(named), palette.decimals(limit)
    footer = []
    if len(named) > BARS:
        order = sorted(range(len(named)), key=lambda i: -abs(named[i][1]))[: BARS - 2]
        shown = [named[i] for i in order]
        rest = sum(value for _, value in named) - sum(value for _, value in shown)
        if additive:
            footer.append(f"{len(named) - len(shown)} others\t{palette.number(rest, digits)}")
        said.append(f"the {len(shown)} strongest of {len(named)} units are listed")
    if additive:
        footer.append(f"sum\t{palette.number(sum(value for _, value in named), digits)}")
    return strokes.bars(shown, paper, limit=limit, footer=footer)


def _pair(result: PairExplanation, paper: Paper, said: list[str]) -> Iterator[RenderableType]:
    texts = Table.grid(padding=(0, 1))
    for name, pieces in zip("AB", view.paragraphs(result), strict=True):
        text = view.printable("".join(piece.text for piece in pieces))
        texts.add_row(Text(name, "bold"), Text(text if len(text) <= LETTERS else text[:LETTERS] + " …"))
    yield texts
    yield from _matrix(result, paper, said, corner="A ↓  B →")
    yield _links([(result.tokens_a[i], result.tokens_b[j], v) for i, j, v in tables.pairs(result, PAIRS)], paper, "×")


def _interactions(result: Interactions, paper: Paper, said: list[str]) -> Iterator[RenderableType]:
    limit = palette.limit(result.scores)
    for pieces in view.paragraphs(result):
        yield strokes.running(pieces, limit, paper)
    said.append(f"the running text is coloured by score, the sum of a row; full colour {palette.short(limit)}")
    yield from _matrix(result, paper, said)
    yield _links([(result.tokens[i], result.tokens[j], v) for i, j, v in tables.pairs(result, PAIRS)], paper, "with")


def _matrix(
    result: PairExplanation | Interactions | VectorExplanation, paper: Paper, said: list[str], corner: str = ""
) -> Iterator[Table]:
    """The table, unless most of it would be folded away: then only a note, and the strongest pairs speak."""
    whole = tables.grid(result)
    table, drawn = strokes.matrix(whole, paper, corner=corner)
    shape = f"{len(whole.rows) - whole.edge} × {len(whole.columns) - whole.edge}"
    if len(drawn.columns) * 2 < len(whole.columns) or len(drawn.rows) * 2 < len(whole.rows):
        said += [*whole.notes, f"the table of {shape} does not fit here; to_html() draws it"]
        return
    said += drawn.notes
    yield table


def _links(found: Sequence[tuple[str, str, float]], paper: Paper, word: str, *, signed: bool = True) -> RenderableType:
    if not found:
        return Text("no pair of tokens has a share", "dim")
    named = [(" ".join(filter(None, (view.visible(a), word, view.visible(b)))), value) for a, b, value in found]
    limit = palette.limit(np.array([value for _, value in named]))
    titled = Table.grid()
    titled.add_row(Text("strongest pairs", "dim"))
    titled.add_row(strokes.bars(named, paper, limit=limit, signed=signed))
    return titled


def _block(result: VectorExplanation, paper: Paper, said: list[str]) -> Iterator[RenderableType]:
    grid = tables.grid(result)
    if len(grid.rows) > 1:
        yield from _matrix(result, paper, said, corner="out ↓  in →")
        strongest = sorted(result.top(PAIRS), key=lambda found: -found[2])
        yield _links([(f"{out} ←", token, value) for out, token, value in strongest], paper, "", signed=False)
        return
    named = list(zip(grid.columns, map(float, grid.values[0]), strict=True))
    shown = named if len(named) <= 3 * BARS else sorted(named, key=lambda pair: -pair[1])[: 3 * BARS]
    if len(shown) < len(named):
        said.append(f"the {len(shown)} longest of {len(named)} are listed")
    said += grid.notes
    yield strokes.bars(shown, paper, limit=grid.limit, signed=False)


def _phrases(result: PhraseTree, paper: Paper, said: list[str]) -> Iterator[RenderableType]:
    drawn, left_out = strokes.tree(result.nodes, paper, PHRASES)
    yield drawn
    if left_out:
        said.append(f"{left_out} phrases of smaller value are not shown")
    if result.tree:
        said.append(f"tree: {view.visible(result.tree)}")


def _is_dark() -> bool:
    """COLORFGBG is "foreground;background" in the 16 colours, where 7 and 9 to 15 are light grounds."""
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return not (ground.isdigit() and (int(ground) == 7 or int(ground) > 8))


def _demo() -> None:
    """Every view, from numbers made up here."""
    from pathlens.draw.sample import every

    console = Console()
    for result in every():
        console.rule(style="dim")
        show(result, console=console)


if __name__ == "__main__":
    _demo()
