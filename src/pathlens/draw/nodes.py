"""Error against nodes: a curve per rule, a mark for what the tolerance chose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathlens.draw import canvas, charts, embed, listing, plots, view
from pathlens.draw.listing import Listing
from pathlens.draw.markup import Markup, element
from pathlens.draw.sheet import write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pathlens.studies.nodes import NodeStudy


def title(found: NodeStudy) -> str:
    """What is measured."""
    return f"error against nodes: {view.heading(found.explanation)[0]}"


def notes(found: NodeStudy) -> list[str]:
    """How to read it."""
    proof = found.explanation.certificate
    mark = "✓" if proof.converged else "✗"
    return [
        f"the error is the largest |score - reference| over tokens; the reference is a Gauss rule with {found.reference} nodes",
        f"{mark} as asked (tolerance {proof.tolerance:g}): {proof.nodes} nodes, error {found.adaptive:.1e}, "
        f"allowed {proof.bound:.1e}",
    ]


def show(found: NodeStudy, *, console: Any = None, width: int | None = None) -> None:
    """A row per rule, a column per number of nodes."""
    rows = tuple((rule, *(f"{error:.1e}" for error in row)) for rule, row in found.errors.items())
    columns = ("nodes", *map(str, found.counts))
    listing.show(Listing(title(found), columns, rows, notes=tuple(notes(found))), console=console, width=width)


def article(found: NodeStudy) -> Markup:
    """Curves as a part of a page."""
    proof = found.explanation.certificate
    series = {rule: list(zip(found.counts, row, strict=True)) for rule, row in found.errors.items()}
    series["as asked"] = [(proof.nodes, found.adaptive)]
    chart = charts.curves(
        series, xlabel="nodes", ylabel="largest error of a score", log=True, level=proof.bound,
        level_name=f"allowed {proof.bound:.1e}", xticks=[(n, str(n)) for n in found.counts],
    )  # fmt: skip
    return element(
        "article", {"class": "pathlens"},
        element("header", None, element("h1", None, title(found))),
        element("section", None, chart),
        element("footer", None, element("ul", {"class": "notes"}, *[element("li", None, note) for note in notes(found)])),
    )  # fmt: skip


def page(found: NodeStudy, path: str | Path | None = None) -> str:
    """A self-contained page; `pl.load` reads the explanation back."""
    data = embed.data_element(found.explanation.to_dict())
    return write_page(title(found), [article(found)], path, data=data)


def figure(found: NodeStudy) -> Figure:
    """The same as a picture."""
    drawn = plots.error_against_nodes(found.counts, found.errors, tolerance=found.explanation.certificate.bound, title=title(found))  # fmt: skip
    drawn.get_axes()[0].plot([found.explanation.certificate.nodes], [max(found.adaptive, charts.LEAST)], "k*", ms=11, label="as asked")  # fmt: skip
    plots._key(drawn.get_axes()[0])
    return drawn


def save(found: NodeStudy, path: str | Path) -> Path:
    """Write the picture."""
    return canvas.save(figure(found), path)
