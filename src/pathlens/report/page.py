"""The report's page: controls and a table on top, one folded article per explanation below it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from pathlens.draw import embed, features, palette
from pathlens.draw.markup import Markup, element
from pathlens.draw.sheet import article_of, write_page

COLUMNS = (  # (name, key, is it a number)
    ("", "number", True), ("method", "method", False), ("model", "model", False), ("explains", "target", False),
    ("text", "text", False), ("output", "output", True), ("change", "change", True), ("gap", "gap", True),
    ("nodes", "nodes", True), ("strongest", "top", False),
)  # fmt: skip
CHOICES = ("method", "model", "target")


def page(report: Any, path: str | Path | None = None) -> str:
    """Filter by words, method, model, target and settledness; sort by any column; open any row."""
    rows = report.rows()
    rows_of_a_table = features.Table.of(report.results)
    above = [features.article(rows_of_a_table)] if rows_of_a_table else []
    table = _table(rows, report.results)
    head = element(
        "article", {"class": "pathlens report"},
        element("header", None, element("h1", None, f"{report.title}: {len(rows)} explanations")),
        _controls(rows),
        element("div", {"class": "scroll"}, table),
        element("p", {"class": "legend"}, f"{palette.RAISES_WORD} raises what is explained, {palette.LOWERS_WORD} "
                "lowers it. Click a heading to sort, a row to see its explanation."),
    )  # fmt: skip
    return write_page(
        report.title, [*report.articles, *above, head], path, data=embed.data_element(report.to_dict()),
        style=_read("report.css") + report.style + features.STYLE,
        scripts=[_read("report.js")],
    )  # fmt: skip


def _controls(rows: list[dict[str, Any]]) -> Markup:
    search = element("input", {"type": "search", "class": "filter", "placeholder": "words in the text, method, strongest …",
                               "aria-label": "filter"})  # fmt: skip
    picks = []
    for key in CHOICES:
        values = sorted({row[key] for row in rows})
        if len(values) > 1:
            options = [Markup(f'<option value="">every {key}</option>'), *[element("option", None, v) for v in values]]
            picks.append(element("select", {"data-key": key, "aria-label": key}, *options))
    loose = element("label", None, Markup('<input type="checkbox" class="loose">'), " only what has not settled")
    shown = element("output", {"class": "count"}, f"{len(rows)} of {len(rows)}")
    return element("div", {"class": "choose"}, search, *picks, loose, shown)


def _table(rows: list[dict[str, Any]], results: Any) -> Markup:
    heads = [
        element("th", {"scope": "col", "aria-sort": "none"},
                element("button", {"type": "button", "data-key": key, "data-number": "1" if number else None}, name or "#"))
        for name, key, number in COLUMNS
    ]  # fmt: skip
    bodies = [_body(row, result) for row, result in zip(rows, results, strict=True)]
    return element(
        "table",
        {"class": "rows"},
        element("thead", None, element("tr", None, *heads, element("th", None, "adds up"))),
        *bodies,
    )


def _body(row: dict[str, Any], result: Any) -> Markup:
    data = {f"data-{key}": row[key] for _, key, _ in COLUMNS}
    cells = [element("td", {"class": "number" if number else f"words of-{key}", "dir": "auto"}, _shown(row[key], number))
             for _, key, number in COLUMNS]  # fmt: skip
    mark = element("td", {"class": "mark"}, "✓" if row["converged"] else "✗")
    line = element("tr", {"class": "row", "tabindex": 0, "aria-expanded": "false"}, *cells, mark)
    article = element("tr", {"class": "detail", "hidden": "hidden"},
                      element("td", {"colspan": len(COLUMNS) + 1}, article_of(result)))  # fmt: skip
    return element("tbody", {**data, "data-loose": None if row["converged"] else "1"}, line, article)


def _shown(value: Any, number: bool) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if number or len(text) <= 160 else text[:159] + "…"


def _read(name: str) -> str:
    return resources.files("pathlens.report").joinpath(name).read_text(encoding="utf-8")
