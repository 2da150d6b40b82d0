"""What-if: predicted change beside actual change, as a table, as bars, and as points around the diagonal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import canvas, html, listing, palette, view
from pathlens.draw.listing import Listing
from pathlens.draw.markup import Markup, element
from pathlens.draw.sheet import write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pathlens.studies.whatif import Edit, WhatIf

STYLE = listing.STYLE + (
    ".pathlens svg.scatter{display:block;max-width:100%;height:auto}.pathlens .scatter text{font:12px system-ui,sans-serif;"
    "fill:var(--dim)}.pathlens .scatter line{stroke:var(--line)}.pathlens .scatter line.same{stroke:var(--dim);"
    "stroke-dasharray:4 3}.pathlens .scatter circle{fill:var(--len);stroke:var(--ink);stroke-width:.5}"
)
SIDE, EDGE = 320.0, 40.0


def table(found: WhatIf) -> Listing:
    """One row per edit: predicted, actual, and by how much they differ."""
    rows = tuple(
        (view.visible(said(edit)), edit.predicted, edit.actual, edit.actual - edit.predicted, edit.note)
        for edit in found.edits
    )
    every = [value for edit in found.edits for value in (edit.predicted, edit.actual)]
    method = found.explanation.method
    notes = [
        f"the output is {found.f_before:.4g} before; a change is the output after the edit minus that "
        f"({palette.RAISES_WORD}: it rises, {palette.LOWERS_WORD}: it falls)",
        f"predicted by masking or deleting: minus the {method} score of the unit (a score is a share of the way from the "
        "baseline); exact where the model is linear on that way",
    ]
    if any(edit.kind == "replace" for edit in found.edits):
        notes.append(
            "predicted by replacing: the mean gradient of ig along the straight line, times (new embedding - old), whatever "
            "the method above; it knows nothing of how the new word acts together with the others, so it is a first guess"
        )
    if not np.isnan(found.agreement):
        notes.insert(0, f"rank agreement of predicted and actual: Spearman {found.agreement:+.2f}")
    columns = ("edit", "predicted", "actual", "difference", "")
    return Listing(title(found), columns, rows, limit=palette.limit(every), notes=tuple(notes))


def title(found: WhatIf) -> str:
    """What was edited, and what is explained."""
    result = found.explanation
    return f"what if: {result.method} · {view.visible(str(result.target))}"


def said(edit: Edit) -> str:
    """An edit in words."""
    if edit.kind == "replace":
        return f"{edit.name} → {edit.replacement}"
    return f"{edit.kind} {edit.name}"


def show(found: WhatIf, *, console: Any = None, width: int | None = None) -> None:
    """Draw in the terminal."""
    listing.show(table(found), console=console, width=width)


def article(found: WhatIf) -> Markup:
    """Running text, table and points as a part of a page."""
    parts = [element("section", None, *html._texts(found.explanation))]
    if len(found.edits) > 2:
        parts.append(element("section", None, element("h2", None, "predicted against actual, one point per edit"),
                             _scatter(found)))  # fmt: skip
    return listing.article(table(found), *parts)


def _tick(value: float) -> str:
    return f"{value:.3g}"


def _scatter(found: WhatIf) -> Markup:
    every = [value for edit in found.edits for value in (edit.predicted, edit.actual)]
    low, high = min(*every, 0.0), max(*every, 0.0)
    span = (high - low) or 1.0

    def place(value: float) -> float:
        return EDGE + (value - low) / span * SIDE

    whole = SIDE + 2 * EDGE
    marks: list[Markup] = [
        element("line", {"x1": place(low), "y1": whole - place(low), "x2": place(high), "y2": whole - place(high), "class": "same"}),
        element("line", {"x1": place(0), "y1": EDGE, "x2": place(0), "y2": whole - EDGE}),
        element("line", {"x1": EDGE, "y1": whole - place(0), "x2": whole - EDGE, "y2": whole - place(0)}),
        element("text", {"x": whole / 2, "y": whole - 8, "text-anchor": "middle"}, "predicted change"),
        element("text", {"x": 14, "y": whole / 2, "text-anchor": "middle", "transform": f"rotate(-90 14 {whole / 2})"},
                "actual change"),
        element("text", {"x": EDGE, "y": whole - EDGE + 16}, _tick(low)),
        element("text", {"x": whole - EDGE, "y": whole - EDGE + 16, "text-anchor": "end"}, _tick(high)),
        element("text", {"x": EDGE - 4, "y": whole - EDGE, "text-anchor": "end"}, _tick(low)),
        element("text", {"x": EDGE - 4, "y": EDGE + 8, "text-anchor": "end"}, _tick(high)),
        element("text", {"x": place(high) - 14, "y": whole - place(high) + 6, "text-anchor": "end"}, "as predicted"),
    ]  # fmt: skip
    for edit in found.edits:
        tip = f"{said(edit)}: predicted {edit.predicted:+.4g}, actual {edit.actual:+.4g}"
        marks.append(element("circle", {"cx": f"{place(edit.predicted):.1f}", "cy": f"{whole - place(edit.actual):.1f}", "r": 5},
                             element("title", None, tip)))  # fmt: skip
    size = {"viewBox": f"0 0 {whole:.0f} {whole:.0f}", "width": f"{whole:.0f}", "class": "scatter", "role": "img"}
    return element("svg", {**size, "aria-label": "predicted against actual change"}, *marks)


def page(found: WhatIf, path: str | Path | None = None) -> str:
    """A self-contained page."""
    return write_page(title(found), [article(found)], path, style=STYLE)


def figure(found: WhatIf) -> Figure:
    """The table as a picture."""
    return listing.figure(table(found))


def save(found: WhatIf, path: str | Path) -> Path:
    """Write the picture."""
    return canvas.save(figure(found), path)
