"""Pages in the terminal, drawn with rich: the blocks, then legend, certificate and notes.

Every sign is also printed as + or -, so nothing is lost without colour. Tokens only ever become `rich.text.Text`,
never markup, so `[bold]` in a text stays those six characters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pathlens.draw import blocks, page_of
from pathlens.draw.grid import Continued, Grid, strongest_phrases
from pathlens.draw.strokes import OUTPUTS, Paper, bars_table, colored, heat_table, ink, makers_table, phrase_tree, spark
from pathlens.draw.words import cut, printable, visible

WIDEST = 120  # columns of all but plain tables: longer lines are hard to read
BARS = 14  # a text of up to this many units gets a bar for each, in order; a longer one for its strongest
PAIRS = 8
LETTERS = 600  # of each plain text; the table and the pairs are what is read there
PROMPT = 3000  # of a prompt; a longer one is shown around its end, where the answer begins
PHRASES = 60
SPARK = 48  # columns of a curve

Drawn = tuple[tuple[RenderableType, ...], tuple[str, ...]]  # what to print, and notes on what was left out


def show(
    thing: Any,
    *,
    console: Console | None = None,
    unit: str | None = None,
    width: int | None = None,
    dark: bool | None = None,
    classes: bool = False,
) -> None:
    """Draw a result, a study or a page in the terminal.

    `unit="word"` draws sums by word; `width` is in columns (default: the terminal's; only plain tables go beyond
    120); `dark` says whether the background is dark (default: what COLORFGBG says, else dark); `classes` adds every class
    with its probability, at the text and at the baseline.
    """
    page = page_of(thing, unit)
    if classes and page.classes:
        every = blocks.Listing(("class", "at the text", "at the baseline"), page.classes, right=True)
        page = replace(page, blocks=(every, *page.blocks))
    console = console or Console(width=width)
    whole = min(width or console.width, console.width)  # a console never prints wider than it is
    paper = Paper(min(width or WIDEST, whole), is_dark() if dark is None else dark)
    for part in parts(page, paper):
        console.print(part, highlight=False, width=whole)


def parts(page: blocks.Page, paper: Paper) -> Iterator[RenderableType]:
    """Everything `show` prints, top to bottom."""
    gap = "   " if page.title else ""
    title = Text.assemble((page.title, "bold"), (f"{gap}{page.subtitle}" if page.subtitle else "", "dim"))
    if page.headline:
        yield Constrain(Text(page.headline, "bold"), paper.width)
    yield Constrain(title, paper.width)
    yield Text()
    inner = replace(paper, width=paper.width - 2)
    notes: tuple[str, ...] = ()
    for block in page.on("terminal"):
        drawn, left_out = draw(block, inner)
        notes = (*notes, *left_out)
        for part in drawn:
            yield Padding(part, (0, 0, 0, 2), expand=False)
            yield Text()
    yield from (_pairs([line], paper) for line in _foot(page, notes))


def _foot(page: blocks.Page, notes: Sequence[str]) -> Iterator[tuple[Text, Text]]:
    proof = page.proof
    if proof.legend:
        swatch = Text.assemble(("█", ink(1)), ("█", ink(-1))) if proof.signed else Text("██", ink(1, signed=False))
        yield swatch, Text(proof.legend)
    for each in proof.diagnostics:
        words = Text(f"diagnostics: {each.line}", "dim") if each.settled else Text(each.line, "bold reverse")
        yield Text(f" {each.mark}", "bold"), words
    for each in proof.checks:
        yield Text(f" {each.mark}", "bold"), Text(each.line, "" if each.settled else "bold reverse")
    for note in [*notes, *page.notes]:
        yield Text(" ·", "dim"), Text(visible(note), "dim")


def _pairs(rows: Iterable[tuple[Text, Text]], paper: Paper) -> RenderableType:
    """A short mark or name before words of any length."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    return Constrain(table, paper.width)


def _titled(title: str, part: RenderableType) -> RenderableType:
    return Group(Text(title, "dim"), part) if title else part


def is_dark() -> bool:
    """COLORFGBG is "foreground;background" in the 16 colours, where 7 and 9 to 15 are light grounds."""
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return not (ground.isdigit() and (int(ground) == 7 or int(ground) > 8))


# ---------------------------------------------------------------- a function per kind of block


@singledispatch
def draw(block: blocks.Block, paper: Paper) -> Drawn:
    """What to print for a block, and notes about what was left out."""
    raise TypeError(f"no way to print a {type(block).__name__}")


@draw.register
def running(block: blocks.Running, paper: Paper) -> Drawn:
    title = [Text(visible(block.title), "dim")] if block.title else []
    every = (Constrain(colored(paragraph, block.limit, paper), paper.width) for paragraph in block.paragraphs)
    return (*title, *every), ()


@draw.register
def texts(block: blocks.Texts, paper: Paper) -> Drawn:
    rows = ((Text(name, "bold"), Text(cut(printable(text), LETTERS))) for name, text in block.named)
    return (_pairs(rows, paper),), ()


@draw.register
def bars(block: blocks.Bars, paper: Paper) -> Drawn:
    table, notes = bars_table(block, BARS if block.signed else 3 * BARS, paper)
    return (table,), notes


@draw.register
def links(block: blocks.Links, paper: Paper) -> Drawn:
    if not block.links:
        return (Text("no pair of tokens contributes anything", "dim"),), ()
    return (_titled("strongest pairs", bars_table(block.strongest(PAIRS), PAIRS, paper)[0]),), ()


@draw.register
def grid(block: Grid, paper: Paper) -> Drawn:
    """The table, unless most of it would be folded away: then only a note, and the strongest pairs speak."""
    table, drawn = heat_table(block, paper)
    if len(drawn.columns) * 2 < len(block.columns) or len(drawn.rows) * 2 < len(block.rows):
        shape = f"{len(block.rows) - block.edge} × {len(block.columns) - block.edge}"
        return (), (*block.notes, f"the table of {shape} does not fit here; to_html() draws it")
    return (table,), drawn.notes


@draw.register
def phrases(block: blocks.Phrases, paper: Paper) -> Drawn:
    kept, notes = strongest_phrases(block.nodes, PHRASES)
    return (phrase_tree(block, kept, paper),), notes


@draw.register
def continued(block: Continued, paper: Paper) -> Drawn:
    """Prompt and output as running text, then the table where it fits, else who made each token."""
    cut_note = "of the prompt's {} characters the last {} are shown"
    prompt = [colored(paragraph, block.bars.limit, paper) for paragraph in block.prompt]
    notes = tuple(cut_note.format(len(text), PROMPT) for text in prompt if len(text) > PROMPT)[-1:]
    rows = [(Text("from", "dim"), text[-PROMPT:] if len(text) > PROMPT else text) for text in prompt]
    rows.append((Text("to", "dim"), colored(block.spoken, block.bars.limit, paper)))
    table, drawn = heat_table(block.grid, paper)
    if drawn.values.shape == block.grid.values.shape:
        return (_pairs(rows, paper), table), (*notes, *drawn.notes)
    shape = f"{len(block.cells.rows)} × {len(block.cells.columns)}"
    notes = (*notes, f"the table of {shape} does not fit here; to_html() draws it")
    if len(block.cells.columns) > OUTPUTS:
        notes = (*notes, f"the first {OUTPUTS} of {len(block.cells.columns)} output tokens are listed")
    return (_pairs(rows, paper), Constrain(makers_table(block, paper), paper.width)), notes


@draw.register
def listing(block: blocks.Listing, paper: Paper) -> Drawn:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    if block.marks:
        table.add_column("", no_wrap=True)
    for k, (name, right) in enumerate(zip(block.columns, block.numeric, strict=True)):
        head, cells = Text(visible(name) if name else "", "dim"), [block.cell(row[k]) for row in block.rows]
        # a number stays whole, a value with its interval may take two lines, the row's name is the last to be broken
        whole = _short(cells, paper) if k == 0 else right and not any(" " in cell for cell in cells)
        table.add_column(head, justify="right" if right else "left", overflow="fold", no_wrap=whole)
    for number, row in enumerate(block.rows):
        mark = [Text(block.marks[number], "bold")] if block.marks else []
        shades = [paper.shade(block.share(value) or 0.0, 1) for value in row]
        table.add_row(*mark, *map(Text, map(block.cell, row), shades))
    return (_titled(block.title, table),), ()


def _short(names: Sequence[str], paper: Paper) -> bool:
    """Do the names of rows leave most of the width to what is said of them?"""
    return max(map(cell_len, names), default=0) <= paper.width // 3


@draw.register
def charts(block: blocks.Charts, paper: Paper) -> Drawn:
    """Each curve as a run of blocks, all curves of a chart on one scale."""
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("", overflow="fold", no_wrap=_short(block.names, paper))
    width = max((paper.width - 22) // len(block.charts) - 24, 8) if len(block.charts) > 1 else SPARK
    for chart in block.charts:
        table.add_column(Text(visible(chart.title or chart.ylabel), "dim"), overflow="fold")  # an end is never cut off
    for name in block.names:
        table.add_row(Text(visible(name)), *(spark(chart, name, min(width, SPARK)) for chart in block.charts))
    return (_titled(block.title, table),), ()


@draw.register
def inset(block: blocks.Inset, paper: Paper) -> Drawn:
    return (Text(block.title, "bold"), *parts(block.page, paper)), ()


@draw.register
def folds(block: blocks.Folds, paper: Paper) -> Drawn:
    """Lines below each other, which read well at any width."""
    rows: list[tuple[Text, Text]] = []
    for fold in block.folds:
        rows.append((Text(fold.lead), Text(visible(fold.text))))
        rows += [(Text(), Text(visible(each), "dim")) for each in fold.below]
    return (_pairs(rows, paper),), ()
