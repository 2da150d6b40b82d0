"""An evaluation: methods × metrics with intervals, curves over the share of tokens, agreement, randomised layers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import canvas, charts, embed, listing, palette, view
from pathlens.draw.lines import ABREAST, ARROWS, chart, curve_axes
from pathlens.draw.listing import Listing
from pathlens.draw.markup import Markup, element, level
from pathlens.draw.sheet import write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pathlens.metrics.record import Column, Evaluation

STYLE = listing.STYLE + (
    ".pathlens .curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem 2rem}"
    ".pathlens .curves figure{margin:0}.pathlens .curves h3{font-size:.95rem;margin:0}.pathlens .listing td.best{font-weight:650}"
)


def title(found: Evaluation) -> str:
    """What was evaluated, on how many texts, and how."""
    model = found.meta.get("model", "")
    on = f"{view.visible(str(model))}: " if model else ""
    return f"{on}faithfulness over {found.texts} texts, k = {found.share:.0%} ({found.protocol} protocol)"


def notes(found: Evaluation) -> list[str]:
    """What the numbers are, and what must stand beside them."""
    said = [
        f"[low, high]: 95 % of {found.draws} bootstrap draws over the texts (seed {found.seed}); ↑ higher is better, ↓ lower; "
        "random and leave-one-out are controls; ★ best, controls aside"
    ]
    return [*said, *found.notes]


def best(found: Evaluation, column: Column) -> frozenset[str]:
    """The best rows of a metric, controls aside; rows that choose the same tokens are equally good."""
    rows = [way for way in found.ways if way not in ("random", "leave-one-out")]
    known = [(found.estimate(way, column.name).value, way) for way in rows]
    known = [(value, way) for value, way in known if np.isfinite(value)]
    if not column.better or len(known) < 2:
        return frozenset()
    top = (min if column.better == "lower" else max)(value for value, _ in known)
    return frozenset(way for value, way in known if np.isclose(value, top, rtol=1e-6, atol=0.0))


def cell(found: Evaluation, way: str, column: Column) -> str:
    """Value and interval; a dot where the metric is not defined."""
    value = found.estimate(way, column.name)
    if value.n == 0:
        return "·"
    every = (value.value, value.low, value.high)
    shown = [_number(each, max(map(abs, every))) for each in every]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"


def _number(value: float, largest: float) -> str:
    """Three decimals are what a few hundred texts can tell; gaps far below them are powers of ten."""
    if 0 < largest < 1e-3:
        return f"{value:.0e}"
    return palette.number(value, 3 if largest < 10 else 1, sign=False)


def parts(found: Evaluation) -> list[tuple[str, list[Column]]]:
    """The columns in tables that fit a page: at k, over all k, the others."""
    at = [c for c in found.columns if any(c.name == curve.name for curve in found.curves)]
    over = [c for c in found.columns if c.name.startswith("AOPC")]
    rest = [c for c in found.columns if c not in at and c not in over and np.isfinite(c.values).any()]
    named = [
        (f"at k = {found.share:.0%} of the tokens", at),
        (f"AOPC: mean over k = {_shares(found)}", over),
        ("other metrics", rest),
    ]
    return [(name, columns) for name, columns in named if columns]


def _shares(found: Evaluation) -> str:
    shares = found.curves[0].shares
    shown = shares if len(shares) < 5 else (*shares[:2], None, shares[-1])
    return ", ".join("…" if share is None else f"{share:.0%}" for share in shown)


def table(found: Evaluation, name: str, columns: Sequence[Column]) -> Listing:
    """Rows × metrics as text cells; the best rows of each metric are marked by a star."""
    stars = {column.name: best(found, column) for column in columns}
    rows = tuple(
        (way, *(cell(found, way, c) + (" ★" if way in stars[c.name] else "") for c in columns)) for way in found.ways
    )
    heads = ("", *(f"{c.name.removeprefix('AOPC ')}{ARROWS[c.better]}" for c in columns))
    return Listing(name, heads, rows)


def agreement(found: Evaluation) -> Listing:
    """Mean rank agreement between rows."""
    rows = tuple(
        (way, *(None if np.isnan(value) else float(value) for value in found.agreement[number]))
        for number, way in enumerate(found.ways)
    )
    return Listing("rank agreement between rows (mean Spearman over texts)", ("", *found.ways), rows, limit=1.0)


def randomised(found: Evaluation) -> Listing | None:
    """Rank correlation as layers are drawn anew."""
    if found.randomised is None:
        return None
    rows = []
    for number, way in enumerate(found.ways):
        own = found.randomised.values[number]
        if np.isfinite(own).any():
            rows.append((way, *(float(v) for v in np.nanmean(own, axis=1))))
    heads = ("", *(f"… {stage}" for stage in found.randomised.stages))
    return Listing(
        "rank correlation with the true model's scores, layers drawn anew from the top (it must fall)",
        heads,
        tuple(rows),
        limit=1.0,
    )


def _listings(found: Evaluation) -> list[Listing]:
    shown = [table(found, name, columns) for name, columns in parts(found)]
    extra = randomised(found)
    return [*shown, agreement(found), *([extra] if extra is not None else [])]


def show(found: Evaluation, *, console: Any = None, width: int | None = None) -> None:
    """Draw in the terminal: the tables, a small curve per row, the notes."""
    from rich.console import Console
    from rich.text import Text

    console = console or Console(width=width)
    console.print(Text(title(found), "bold"))
    for shown in _listings(found):
        for part in listing.renderables(shown):
            console.print(part, highlight=False)
    for part in listing.renderables(_small_curves(found))[:-1]:
        console.print(part, highlight=False)
    for note in notes(found):
        console.print(Text(f"· {view.visible(note)}", "dim"))


BARS = "▁▂▃▄▅▆▇█"


def _small_curves(found: Evaluation) -> Listing:
    """Each curve as a run of blocks, all rows of a metric on one scale."""
    rows: list[tuple[str, ...]] = [(way,) for way in found.ways]
    for curve in found.curves:
        means = np.nanmean(curve.values, axis=1)
        low, high = float(means.min()), float(means.max())
        for number, own in enumerate(means):
            steps = (own - low) / (high - low) * (len(BARS) - 1) if high > low else np.zeros(len(own))
            drawn = "".join(BARS[round(float(step))] for step in steps)
            rows[number] = (*rows[number], f"{drawn} {own[0]:.2f} → {own[-1]:.2f}")
    heads = ("", *(f"{curve.name}{ARROWS[curve.better]}" for curve in found.curves))
    return Listing(f"curves over k = {_shares(found)}", heads, tuple(rows))


def article(found: Evaluation) -> Markup:
    """The evaluation as a part of a page."""
    drawn = [
        element("section", None, element("h3", None, curve.name + ARROWS[curve.better]), chart(found, curve))
        for curve in found.curves
    ]  # fmt: skip
    tables = [
        element("section", None, element("h2", None, shown.title), _table(shown)) for shown in _listings(found)
    ]  # fmt: skip
    return element(
        "article", {"class": "pathlens"},
        element("header", None, element("h1", None, title(found))),
        *tables[: len(parts(found))],
        element("section", None, element("h2", None, "over the share of tokens"), charts.key(found.ways),
                element("div", {"class": "curves"}, *drawn)),
        *tables[len(parts(found)) :],
        element("footer", None, element("ul", {"class": "notes"}, *[element("li", None, note) for note in notes(found)])),
    )  # fmt: skip


def _table(shown: Listing) -> Markup:
    heads = element("tr", None, *[element("th", {"scope": "col"}, name) for name in shown.columns])
    body = []
    for row in shown.rows:
        cells = [element("th", {"scope": "row"}, view.visible(str(row[0])))]
        for value in row[1:]:
            if isinstance(value, float):
                cells.append(
                    element("td", {"class": f"number {level(value, shown.limit or 1.0)}".strip()}, shown.cell(value))
                )
            else:
                text = shown.cell(value)
                kind = "number best" if text.endswith("★") else "number"
                cells.append(element("td", {"class": kind}, text))
        body.append(element("tr", None, *cells))
    inner = element("table", {"class": "listing"}, element("thead", None, heads), element("tbody", None, *body))
    return element("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": shown.title}, inner)


def page(found: Evaluation, path: str | Path | None = None) -> str:
    """A self-contained page; its numbers travel along as JSON."""
    return write_page(title(found), [article(found)], path, data=embed.data_element(found.to_dict()), style=STYLE)


def figure(found: Evaluation) -> Figure:
    """Tables and curves as one picture."""
    sheet = canvas.Sheet(11.5)
    sheet.words(title(found), size=13, color=canvas.INK, weight="bold", after=0.12)
    for name, columns in parts(found):
        shown = table(found, name, columns)
        sheet.words(shown.title, size=9.5, color=canvas.INK)
        listing.table(sheet, shown, 8.5)
    shown = agreement(found)
    sheet.words(shown.title, size=9.5, color=canvas.INK)
    listing.table(sheet, shown, 7.5)
    extra = randomised(found)
    if extra is not None:
        sheet.words(extra.title, size=9.5, color=canvas.INK)
        listing.table(sheet, extra, 8)
    places: list[tuple[float, Any]] = []
    tall = 3.1
    count = -(-len(found.curves) // ABREAST)
    for row in range(count):
        places.append((tall, found.curves[row * ABREAST : (row + 1) * ABREAST]))
        sheet.add(tall, lambda axes: None)
    above = len(sheet.blocks) - count
    for note in notes(found):
        sheet.words("· " + view.visible(note), size=8)
    drawn = sheet.figure()
    curve_axes(drawn, sheet, above, places, found)
    return drawn


def save(found: Evaluation, path: str | Path) -> Path:
    """Write the picture; the suffix chooses PNG, SVG or PDF."""
    return canvas.save(figure(found), path)
