"""A continuation in the terminal: the prompt coloured by all of it, the table where it fits, else who made each token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pathlens.draw import continuation, palette, strokes, tables, view
from pathlens.draw.strokes import Paper
from pathlens.explanation.continuation import Continuation

SOURCES = 4  # named for each output token when the table does not fit
OUTPUTS = 60  # lines of those
LETTERS = 3000  # of a prompt; a longer one is shown around its end, where the answer begins


def body(result: Continuation, paper: Paper, said: list[str]) -> Iterator[RenderableType]:
    """Prompt and output as running text, then the table or the lines."""
    limit = palette.limit(result.scores)
    texts = Table.grid(padding=(0, 1))
    for paragraph in continuation.pieces(result):
        text = strokes.running(paragraph, limit, paper)
        if len(text) > LETTERS:
            said.append(f"of the prompt's {len(text)} characters the last {LETTERS} are shown")
            text = text[len(text) - LETTERS :]
        texts.add_row(Text("from", "dim"), text)
    texts.add_row(Text("to", "dim"), _spoken(result, limit, paper))
    yield texts
    said += continuation.notes(result)
    whole = tables.grid(result)
    table, drawn = strokes.matrix(whole, paper, corner="from ↓  to →")
    if len(drawn.rows) == len(whole.rows) and len(drawn.columns) == len(whole.columns):
        said += drawn.notes
        yield table
    else:
        yield _lines(result, paper, said)


def _spoken(result: Continuation, limit: float, paper: Paper) -> Text:
    """The output, its tokens coloured as sources of later ones."""
    sources, text = continuation.own_source(result), Text(overflow="fold")
    for piece in continuation.output_pieces(result):
        found = [sources[t] for t in piece.units if sources[t] >= 0]
        value = float(sum(result.scores[u] for u in found))
        text.append(view.printable(piece.text), paper.shade(value, limit) if found else "")
    return text


def _lines(result: Continuation, paper: Paper, said: list[str]) -> Table:
    """One line per output token: its change, and its strongest sources."""
    limit = palette.limit(result.matrix)
    digits = palette.decimals(limit)
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    label = min(max(5, *map(len, result.outputs)) + 1, 16)
    table.add_column(Text("token", "dim"), width=label, no_wrap=True, justify="right")
    table.add_column(Text("sum", "dim"), justify="right", no_wrap=True)
    table.add_column(Text("strongest sources", "dim"), overflow="fold")
    shown = range(min(len(result.outputs), OUTPUTS))
    for t in shown:
        column = result.matrix[:, t]
        sources = Text()
        for u in np.argsort(-np.abs(column), kind="stable")[:SOURCES]:
            if column[u]:
                name = f" {strokes.fit(view.visible(result.tokens[u]), 18)} {palette.number(float(column[u]), digits)} "
                sources.append(name, paper.shade(float(column[u]), limit)).append(" ")
        total = palette.number(float(column.sum()), digits)
        mark = "" if result.certificates[t].converged else "✗ "
        table.add_row(Text(strokes.fit(view.visible(result.outputs[t]), label)), mark + total, sources)
    if len(result.outputs) > OUTPUTS:
        said.append(f"the first {OUTPUTS} of {len(result.outputs)} output tokens are listed")
    said.append(f"the table of {len(result.tokens)} × {len(result.outputs)} does not fit here; to_html() draws it")
    return table
