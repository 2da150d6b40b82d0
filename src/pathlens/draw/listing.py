"""Plain tables in the terminal, on a page and in a picture: what the doctor found, methods, agreement, edits.

A cell is text, or a number with a sign and a colour. `marks` puts a sign before each row (✓, ✗, ·).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathlens.draw import palette, view
from pathlens.draw.markup import Markup, element, level

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | float | None


@dataclass(frozen=True)
class Listing:
    """A titled table; `limit` is the number drawn in full colour (None: numbers have no colour)."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marks: tuple[str, ...] = ()
    limit: float | None = None
    notes: tuple[str, ...] = ()

    def cell(self, value: Cell, *, line: bool = True) -> str:
        """A cell as text: None is a dot."""
        if value is None or value == "":
            return "" if value == "" else "·"
        if isinstance(value, str):
            return view.visible(value) if line else view.printable(value)
        return palette.number(value, palette.decimals(self.limit or abs(value) or 1.0))


def show(listing: Listing, *, console: Any = None, width: int | None = None) -> None:
    """Print the table with rich."""
    from rich.console import Console

    for part in renderables(listing):
        (console or Console(width=width)).print(part, highlight=False)


def renderables(listing: Listing, *, dark: bool = True) -> list[Any]:
    """Title, table and notes as rich renderables."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1))
    if listing.marks:
        table.add_column("", no_wrap=True)
    for k, name in enumerate(listing.columns):
        numbers = any(isinstance(row[k], float) for row in listing.rows)
        table.add_column(Text(view.visible(name) if name else "", "dim"), justify="right" if numbers else "left",
                         overflow="fold", no_wrap=numbers)  # fmt: skip
    for number, row in enumerate(listing.rows):
        cells = [Text(listing.cell(value), _style(value, listing.limit, dark)) for value in row]
        table.add_row(*([Text(listing.marks[number], "bold")] if listing.marks else []), *cells)
    notes = [Text(f"· {note}", "dim") for note in listing.notes]
    return [Text(listing.title, "bold"), Text(), table, Text(), *notes]


def _style(value: Cell, limit: float | None, dark: bool) -> str:
    if not isinstance(value, float) or limit is None or palette.strength(value, limit) < 0.02:
        return ""
    back = palette.color(value, limit, dark=dark)
    return f"{palette.text_color(back)} on {back}"


def article(listing: Listing, *extra: object) -> Markup:
    """The table as a part of a page; `extra` stands above it."""
    numbers = [any(isinstance(row[k], float) for row in listing.rows) for k in range(len(listing.columns))]
    heads = [
        element("th", {"scope": "col", "class": "number" if number else None}, name)
        for name, number in zip(listing.columns, numbers, strict=True)
    ]
    rows = []
    for number, row in enumerate(listing.rows):
        mark = [element("td", {"class": "mark"}, listing.marks[number])] if listing.marks else []
        rows.append(element("tr", None, *mark, *[_cell(listing, value) for value in row]))
    mark = [element("th", None, "")] if listing.marks else []
    table = element("table", {"class": "listing"}, element("thead", None, element("tr", None, *mark, *heads)),
                    element("tbody", None, *rows))  # fmt: skip
    notes = [element("li", None, note) for note in listing.notes]
    return element(
        "article", {"class": "pathlens"},
        element("header", None, element("h1", None, listing.title)),
        *extra,
        element("section", None, element("div", {"class": "scroll", "tabindex": 0, "role": "region",
                                                 "aria-label": "table"}, table)),
        element("ul", {"class": "notes"}, *notes) if notes else "",
    )  # fmt: skip


def _cell(listing: Listing, value: Cell) -> Markup:
    shown = listing.cell(value, line=False)
    if not isinstance(value, float):
        return element("td", {"class": "words", "dir": "auto"}, shown)
    color = level(value, listing.limit) if listing.limit else ""
    return element("td", {"class": f"number {color}".strip()}, shown)


STYLE = (
    ".pathlens .listing{font-size:.9rem}.pathlens .listing th{color:var(--dim);text-align:left;padding:.2rem .8rem .2rem 0;"
    "vertical-align:bottom}.pathlens .listing th.number{text-align:right;padding-left:.5rem}.pathlens .listing td{padding:.25rem .8rem .25rem 0;vertical-align:top;"
    "border-top:1px solid var(--line)}.pathlens .listing td.words{text-align:left;max-width:34rem;overflow-wrap:anywhere;"
    "white-space:pre-wrap}.pathlens .listing td.number{white-space:nowrap;padding-left:.5rem}"
    ".pathlens .listing td.mark{font-weight:650;text-align:center}"
)


def page(listing: Listing, path: str | Path | None = None, *extra: object) -> str:
    """A self-contained page, also written to `path`."""
    from pathlens.draw.sheet import write_page

    return write_page(listing.title, [article(listing, *extra)], path, style=STYLE)


def figure(listing: Listing) -> Figure:
    """The table as a picture."""
    from pathlens.draw import canvas

    sheet = canvas.Sheet(11.0)
    sheet.words(listing.title, size=13, color=canvas.INK, weight="bold", after=0.1)
    table(sheet, listing)
    for note in listing.notes:
        sheet.words("· " + note, size=8)
    return sheet.figure()


def table(sheet: Any, listing: Listing, size: float = 9) -> None:
    """The table on a sheet: columns as wide as they need, the widest wrapped."""
    from pathlens.draw import canvas

    marks = listing.marks or ("",) * len(listing.rows)
    cells = [[mark, *(listing.cell(value) for value in row)] for mark, row in zip(marks, listing.rows, strict=True)]
    widths = _widths([["", *listing.columns], *cells], sheet.inner, size)
    widths[0] = widths[0] if listing.marks else 0.0
    step = size * 1.5 / 72
    heads = [["", *listing.columns]]
    for number, row in enumerate([*heads, *cells]):
        wrapped = [canvas.wrap(text, max(width - 0.12, 0.1), size) for text, width in zip(row, widths, strict=True)]
        values = (None, *listing.rows[number - 1]) if number else (None,) * len(row)

        def draw(axes: Any, wrapped: Any = wrapped, values: Any = values, head: bool = number == 0) -> None:
            x = 0.0
            for lines, width, value in zip(wrapped, widths, values, strict=True):
                ink = canvas.DIM if head else canvas.INK
                if isinstance(value, float) and listing.limit:
                    back = palette.color(value, listing.limit)
                    axes.broken_barh([(x - 0.04, width - 0.08)], (0.0, step), color=back, lw=0)
                    ink = palette.text_color(back)
                for k, line in enumerate(lines):
                    canvas.write(axes, x, (k + 0.5) * step, line, size=size, color=ink, va="center")
                x += width

        sheet.add(max(map(len, wrapped)) * step + 0.04, draw)
    sheet.words(" ", size=4)


def _widths(rows: Sequence[Sequence[str]], inner: float, size: float) -> list[float]:
    from pathlens.draw import canvas

    wanted = [max(canvas.width(text, size) / 72 for text in column) + 0.2 for column in zip(*rows, strict=True)]
    while sum(wanted) > inner:  # the widest gives way
        widest = max(range(len(wanted)), key=wanted.__getitem__)
        wanted[widest] = max(wanted[widest] * 0.92, 0.6)
        if wanted[widest] == 0.6:
            break
    return wanted
