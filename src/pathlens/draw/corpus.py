"""A corpus summed up: tables in the terminal and on a page, bars with intervals in a picture."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import canvas, listing, palette, plots
from pathlens.draw.canvas import DIM, INK
from pathlens.draw.listing import Listing
from pathlens.draw.markup import Markup, element
from pathlens.draw.sheet import write_page
from pathlens.errors import InputError, MissingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HIDDEN = ("all_words", "gap_histogram")  # in files alone; the picture has the histogram
STYLE = listing.STYLE + ".pathlens img.corpus{display:block;max-width:100%;height:auto;background:#fff}"
CLASSES = 4  # drawn at most, the most frequent ones
BAR = 0.21  # inches each


def show(summary: Any, *, console: Any = None, width: int | None = None) -> None:
    """Every table in the terminal."""
    for table in tables(summary):
        listing.show(table, console=console, width=width)


def tables(summary: Any) -> list[Listing]:
    """Tables ready to draw: means are coloured, counts are not."""
    return [_listing(table, summary) for name, table in summary.tables.items() if name not in HIDDEN]


def _listing(table: Any, summary: Any) -> Listing:
    signed = [k for k, name in enumerate(table.columns) if name in ("mean", "mean_change")]
    sizes = [abs(row[k]) for row in table.rows for k in signed if row[k] is not None]
    rows = tuple(tuple(cell if k in signed else _plain(cell) for k, cell in enumerate(row)) for row in table.rows)
    notes = (*table.notes, *(summary.notes if table.name == "overview" else ()))
    title = summary.title if table.name == "overview" else table.title
    return Listing(title, tuple(name.replace("_", " ") for name in table.columns), rows,
                   limit=palette.limit(sizes) if signed else None, notes=notes)  # fmt: skip


def _plain(cell: Any) -> Any:
    if cell is None:
        return None
    if isinstance(cell, float):
        return f"{cell:,.0f}" if cell == round(cell) and abs(cell) >= 1 else f"{cell:.3g}"
    return str(cell)


def articles(summary: Any) -> list[Markup]:
    """The parts of a page: the picture, then the tables."""
    parts = [listing.article(table) for table in tables(summary)]
    try:
        drawn = io.BytesIO()
        whole = picture(summary)
        canvas.finish(whole)
        whole.savefig(drawn, format="png", dpi=110)
    except (MissingError, InputError):  # no matplotlib, or nothing to draw
        return parts
    data = base64.b64encode(drawn.getvalue()).decode()
    image = element(
        "img", {"class": "corpus", "alt": "bars of the tables below", "src": f"data:image/png;base64,{data}"}
    )
    return [*parts[:1], element("article", {"class": "pathlens"}, image), *parts[1:]]


def page(summary: Any, path: str | Path | None = None) -> str:
    """A self-contained page."""
    return write_page(summary.title, articles(summary), path, style=STYLE)


def save(summary: Any, path: str | Path) -> Path:
    """Write the picture; the suffix chooses PNG, SVG or PDF."""
    return canvas.save(picture(summary), path)


def picture(summary: Any) -> Figure:
    """Panels: words of each class, parts of speech, slices, pairs, and how far sums are off."""
    panels = [panel for row in _panels(summary) for panel in row]
    if not panels:
        raise InputError("there is nothing to draw yet: no row was explained")
    rows = _panels(summary)
    heights = [max(len(panel[1]) for panel in row) * BAR + 0.75 for row in rows]
    figure = canvas.blank(11, sum(heights) + 0.6)
    figure.set_layout_engine("constrained")
    figure.suptitle(summary.title, size=12, color=INK, x=0.01, ha="left", parse_math=False)
    for part, row in zip(
        figure.subfigures(len(rows), 1, height_ratios=heights, squeeze=False)[:, 0], rows, strict=True
    ):
        axes = part.subplots(1, max(len(row), 2), squeeze=False)[0]
        for place, panel in zip(axes, row, strict=False):
            _draw(place, *panel)
        for place in axes[len(row) :]:
            place.axis("off")
    return figure


Bars = list[tuple[str, float, float | None, float | None]]  # name, value, low, high
Panel = tuple[str, Bars, str]  # title, bars, what the axis is


def _panels(summary: Any) -> list[list[Panel]]:
    """Rows of panels."""
    rows: list[list[Panel]] = []
    for name, what in (("words", "mean score"), ("pairs", "mean score"), ("speech", "mean score")):
        rows += _two_by_two(_by_class(summary, name, what))
    slices = [_slice(table) for name, table in summary.tables.items() if name.startswith("slice_")]
    rows += _two_by_two([*slices, *_histogram(summary)])
    return rows


def _two_by_two(panels: list[Panel]) -> list[list[Panel]]:
    return [panels[k : k + 2] for k in range(0, len(panels), 2)]


def _by_class(summary: Any, name: str, what: str) -> list[Panel]:
    table = summary.tables.get(name)
    if table is None:
        return []
    classes: dict[str, list[tuple[Any, ...]]] = {}
    for row in table.rows:
        classes.setdefault(str(row[0]), []).append(row)
    frequent = sorted(classes, key=lambda each: -sum(row[2] for row in classes[each]))[:CLASSES]
    return [
        (f"{table.title}: {each}" if name != "words" else f"words: {each}",
         [(f"{row[1]} ×{row[3]}", row[4], row[5], row[6]) for row in classes[each]], what)
        for each in classes if each in frequent
    ]  # fmt: skip


def _slice(table: Any) -> Panel:
    bars = [(f"{row[0]} ×{row[1]}", row[4], row[5], row[6]) for row in table.rows if row[4] is not None]
    return table.title, bars, "mean change of the output"


def _histogram(summary: Any) -> list[Panel]:
    table = summary.tables.get("gap_histogram")
    if table is None:
        return []
    return [("relative gaps (rows by size)", [(str(row[0]), float(row[1]), None, None) for row in table.rows], "rows")]


def _draw(axes: Axes, title: str, bars: Sequence[tuple[str, float, float | None, float | None]], what: str) -> None:
    plots.style(axes, title, what, "")
    values = [value for _, value, _, _ in bars]
    reach = [
        [0.0 if end is None else abs(end - value) for _, value, *ends in bars for end in ends[k : k + 1]]
        for k in (0, 1)
    ]
    plots.bars_on(axes, [canvas.cut(name, 34) for name, *_ in bars], values,
                  errors=np.array(reach) if any(map(any, reach)) else None)  # fmt: skip
    if what == "rows":
        for bar in axes.patches:
            bar.set_color(palette.length_color(1, 1))
    axes.tick_params(axis="y", labelsize=8, labelcolor=INK)
    axes.title.set_color(DIM)
