"""A comparison: a column per way, a row per unit, agreement below, and where they disagree in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import canvas, embed, html, listing, markup, palette, view
from pathlens.draw.listing import Listing
from pathlens.draw.markup import Markup, element
from pathlens.draw.sheet import write_page
from pathlens.explanation.record import Explanation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pathlens.studies.compare import Comparison

ROWS = 40  # units in the table; the strongest of more
STYLE = listing.STYLE + (
    ".pathlens .ways{display:grid;grid-template-columns:repeat(auto-fit,minmax(18rem,1fr));gap:1rem 2rem}"
    ".pathlens .ways h2{color:var(--ink)}.pathlens .agree td{text-align:center;min-width:4.5em}"
)


def table(found: Comparison) -> tuple[Listing, int]:
    """Units × ways, each column in shares of its own largest |value| for colour; and how many were left out."""
    order = list(found.shown)
    if len(order) > ROWS:
        size = np.abs(found.values) / np.maximum(np.abs(found.values).max(0), 1e-30)
        order = sorted(sorted(order, key=lambda i: -size[i].max())[:ROWS])
    rows = tuple((found.units[i], *map(float, found.values[i])) for i in order)
    limit = palette.limit(found.values)
    left = len(found.shown) - len(order)
    names = ("", *found.labels)
    digits = palette.decimals(limit)
    sums = [
        palette.number(float(total), digits) if result.certificate.kind == "total" else "no common sum"
        for total, result in zip(found.values.sum(0), found.results, strict=True)
    ]
    return Listing("", names, (*rows, ("sum", *sums)), limit=limit), left


def agreement(found: Comparison) -> Listing:
    """Spearman and Kendall for every pair of ways."""
    rows = []
    for a in range(len(found.labels)):
        for b in range(a + 1, len(found.labels)):
            values = (float(found.spearman[a, b]), float(found.kendall[a, b]))
            rows.append((f"{found.labels[a]} ~ {found.labels[b]}", *(None if np.isnan(v) else v for v in values)))
    return Listing(
        "rank agreement (1 the same order, 0 none, -1 opposite)", ("", "Spearman", "Kendall"), tuple(rows), limit=1.0
    )


def title(found: Comparison) -> str:
    """What is compared."""
    return f"{found.varied} side by side: {', '.join(found.labels)}"


def show(found: Comparison, *, console: Any = None, width: int | None = None) -> None:
    """Draw in the terminal."""
    from rich.console import Console
    from rich.text import Text

    console = console or Console(width=width)
    rows, left = table(found)
    console.print(Text(title(found), "bold"))
    for part in listing.renderables(rows)[2:] + listing.renderables(agreement(found)):
        console.print(part, highlight=False)
    notes = [*found.notes, *([f"{left} weaker units are not listed"] if left else [])]
    for label, result in zip(found.labels, found.results, strict=True):
        mark = "✓" if result.certificate.converged else "✗"
        notes.append(f"{mark} {label}: {palette.certificate_line(result.certificate)}")
    for note in notes:
        console.print(Text(f"· {view.visible(note)}", "dim"))


def article(found: Comparison) -> Markup:
    """The comparison as a part of a page: running texts, table, agreement, words, certificates."""
    ways = []
    for label, result in zip(found.labels, found.results, strict=True):
        if isinstance(result, Explanation):
            ways.append(element("div", None, element("h2", None, label), *html._texts(result)))
    rows, left = table(found)
    notes = [*found.notes, *([f"{left} weaker units are not listed"] if left else [])]
    proofs = [
        element("p", {"class": "certificate" + ("" if result.certificate.converged else " rough")},
                element("strong", None, ("✓ " if result.certificate.converged else "✗ ") + label + ": "),
                palette.certificate_line(result.certificate))
        for label, result in zip(found.labels, found.results, strict=True)
    ]  # fmt: skip
    legend = (
        f"{palette.RAISES_WORD} raises what is explained, {palette.LOWERS_WORD} lowers it; in a running text full colour "
        "is that text's largest |value|, in the table the table's."
    )
    return element(
        "article", {"class": "pathlens"},
        element("header", None, element("h1", None, title(found))),
        element("section", {"class": "ways"}, *ways) if ways else "",
        element("section", None, element("h2", None, "unit by unit"), _plain_table(rows)),
        element("section", None, element("h2", None, agreement(found).title), _plain_table(agreement(found), "agree")),
        element("section", None, element("h2", None, "where they disagree"),
                element("ul", {"class": "notes disagreements"}, *[element("li", None, note) for note in notes])),
        element("footer", None, element("p", {"class": "legend"}, legend), *proofs),
    )  # fmt: skip


def _plain_table(rows: Listing, extra: str = "") -> Markup:
    heads = element("tr", None, *[element("th", {"scope": "col", "class": "number" if k else None}, name)
                                  for k, name in enumerate(rows.columns)])  # fmt: skip
    body = []
    for row in rows.rows:
        first = element("th", {"scope": "row", "dir": "auto"}, view.visible(str(row[0])))
        cells = [element("td", {"class": f"number {_level(v, rows.limit)}".strip()}, rows.cell(v)) for v in row[1:]]
        body.append(element("tr", None, first, *cells))
    inner = element(
        "table", {"class": f"listing {extra}".strip()}, element("thead", None, heads), element("tbody", None, *body)
    )
    return element("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": "table"}, inner)


def _level(value: object, limit: float | None) -> str:
    return markup.level(value, limit or 1.0) if isinstance(value, float) else ""


def page(found: Comparison, path: str | Path | None = None) -> str:
    """A self-contained page; `pl.load` reads the results back."""
    return write_page(title(found), [article(found)], path, data=embed.data_element(found.to_dict()), style=STYLE)


def figure(found: Comparison) -> Figure:
    """The table and the agreement as a picture."""
    sheet = canvas.Sheet(max(6.5, min(12.0, 3.0 + 1.4 * len(found.labels))))
    sheet.words(title(found), size=13, color=canvas.INK, weight="bold", after=0.12)
    rows, left = table(found)
    listing.table(sheet, rows, 10)
    sheet.words(agreement(found).title, size=9)
    listing.table(sheet, agreement(found), 9)
    colors = f"{palette.RAISES_WORD} raises what is explained, {palette.LOWERS_WORD} lowers it"
    for note in [colors, *found.notes, *([f"{left} weaker units are not drawn"] if left else [])]:
        sheet.words("· " + view.visible(note), size=8)
    for label, result in zip(found.labels, found.results, strict=True):
        mark = "✓" if result.certificate.converged else "✗"
        sheet.words(f"{mark} {view.visible(label)}: {palette.certificate_line(result.certificate)}", size=8)
    return sheet.figure()


def save(found: Comparison, path: str | Path) -> Path:
    """Write the picture."""
    return canvas.save(figure(found), path)
