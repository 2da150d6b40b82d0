"""Layers: a small bar chart for each, the strongest tokens as curves, and every certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import canvas, charts, embed, listing, palette, plots, view
from pathlens.draw.listing import Listing
from pathlens.draw.markup import Markup, element
from pathlens.draw.sheet import write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pathlens.studies.layers import Layers

STRONGEST = 6
NAMED = 14  # tokens whose names still fit below a small chart


def title(found: Layers) -> str:
    """What is explained, layer by layer."""
    return f"{view.heading(found.results[0])[0]}, layer by layer"


def _table(found: Layers) -> tuple[np.ndarray, list[int], tuple[str, ...]]:
    """Scores (layers, tokens), which tokens have any, and their names."""
    scores = np.array([plots._scores(result) for result in found.results])  # type: ignore[arg-type]
    keep = [i for i in range(scores.shape[1]) if np.any(scores[:, i])]
    return scores, keep, found.results[0].tokens  # type: ignore[attr-defined]


def show(found: Layers, *, console: Any = None, width: int | None = None) -> None:
    """A row per token, a column per layer."""
    scores, keep, tokens = _table(found)
    rows = tuple((view.visible(tokens[i]), *map(float, scores[:, i])) for i in keep)
    columns = ("", *(f"layer {name}" for name in found.names))
    notes = tuple(_proofs(found))
    listing.show(Listing(title(found), columns, rows, limit=palette.limit(scores), notes=notes), console=console, width=width)  # fmt: skip


def _proofs(found: Layers) -> list[str]:
    return [
        f"{'✓' if each.certificate.converged else '✗'} layer {name}: {palette.certificate_line(each.certificate)}"
        for name, each in zip(found.names, found.results, strict=True)
    ]


def article(found: Layers) -> Markup:
    """Small multiples and curves as a part of a page."""
    scores, keep, tokens = _table(found)
    limit = palette.limit(scores)
    names = [tokens[i] for i in keep]
    small = [
        charts.small_bars(f"layer {name}", names, row[keep].tolist(), limit, named=len(keep) <= NAMED)
        for name, row in zip(found.names, scores, strict=True)
    ]
    strongest = sorted(sorted(keep, key=lambda i: -np.abs(scores[:, i]).max())[:STRONGEST])
    series = {f"{i} {view.visible(tokens[i])}": list(enumerate(scores[:, i].tolist())) for i in strongest}
    curves = charts.curves(series, xlabel="layer", ylabel="score", xticks=list(enumerate(found.names)))
    scale = palette.number(limit, palette.decimals(limit), sign=False)
    legend = (
        f"{palette.RAISES_WORD} raises what is explained, {palette.LOWERS_WORD} lowers it; every small chart goes from "
        f"-{scale} to +{scale}. Layer k: the states that enter block k; 0: the word embeddings."
    )
    return element(
        "article", {"class": "pathlens"},
        element("header", None, element("h1", None, title(found))),
        element("section", {"class": "multiples"}, *small),
        element("section", None, element("h2", None, "the strongest tokens from layer to layer"), curves),
        element("footer", None, element("p", {"class": "legend"}, legend),
                element("ul", {"class": "notes"}, *[element("li", None, line) for line in _proofs(found)])),
    )  # fmt: skip


def page(found: Layers, path: str | Path | None = None) -> str:
    """A self-contained page; `pl.load` reads the results back."""
    return write_page(title(found), [article(found)], path, data=embed.data_element(found.to_dict()))


def figure(found: Layers) -> Figure:
    """The same as a picture."""
    return plots.layers(found.results, found.names)  # type: ignore[arg-type]


def save(found: Layers, path: str | Path) -> Path:
    """Write the picture."""
    return canvas.save(figure(found), path)
