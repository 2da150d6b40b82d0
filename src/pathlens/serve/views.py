"""Any finished piece of work as JSON, as a part of the page, as a page of its own, as a picture."""

from __future__ import annotations

import base64
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pathlens.draw.markup import Markup, element
from pathlens.draw.sheet import article_of, write_page
from pathlens.errors import InputError
from pathlens.explanation.record import Result
from pathlens.explanation.store import many_to_dict


@dataclass(frozen=True, eq=False)
class Layers:
    """The same text at several layers."""

    results: tuple[Result, ...]

    def to_dict(self) -> dict[str, Any]:
        return many_to_dict(self.results, layers=[result.meta.get("layer") for result in self.results])

    def to_png(self, path: Path) -> Path:
        from pathlens.draw import figure

        return figure.write(figure.layers(self.results), path)  # type: ignore[arg-type]


def article(result: Any) -> Markup:
    """The part of the page that shows a result."""
    kind = type(result).__name__
    if isinstance(result, Result):
        return article_of(result)
    if kind == "Comparison":
        from pathlens.draw import side_by_side

        return side_by_side.article(result)
    if kind == "WhatIf":
        from pathlens.draw import edits

        return edits.article(result)
    if kind == "PathView":
        from pathlens.draw import paths

        return paths.article(result)
    if kind == "Layers":
        return _layers(result)
    if kind == "Ranking":
        return _ranking(result)
    raise InputError(f"a {kind} has no view")


def _layers(result: Layers) -> Markup:
    picture = element("img", {"class": "wide", "alt": "scores at every layer, and the strongest tokens as curves",
                              "src": "data:image/png;base64," + base64.b64encode(png(result)).decode()})  # fmt: skip
    from pathlens.draw.palette import certificate_line

    lines = [
        element("li", None, f"{'✓' if each.certificate.converged else '✗'} layer {each.meta.get('layer')}: "
                f"{certificate_line(each.certificate)}")
        for each in result.results
    ]  # fmt: skip
    return element("article", {"class": "pathlens"}, element("header", None, element("h1", None, "layer by layer")),
                   element("section", None, picture), element("footer", None, element("ul", {"class": "notes"}, *lines)))  # fmt: skip


def _ranking(result: Any) -> Markup:
    parts = []
    for place, hit in enumerate(result.hits, 1):
        inner = article_of(hit.explanation) if hit.explanation is not None else ""
        line = element("summary", None, f"{place}. {hit.score:+.4f}  {hit.text[:200]}")
        parts.append(element("details", {"open": "open" if place == 1 and inner else None}, line, inner))
    head = element("header", None, element("h1", None, f"documents by similarity to “{result.query}”"))
    return element("article", {"class": "pathlens ranking"}, head, *parts)


def style() -> str:
    """Style of all views together."""
    from pathlens.draw import edits, paths, side_by_side
    from pathlens.draw.sheet import views_style

    extra = ".pathlens img.wide{max-width:100%;height:auto}.pathlens.ranking>details{margin:.4rem 0}"
    return views_style() + side_by_side.STYLE + edits.STYLE + paths.style() + extra


def script() -> str:
    """One function that wires whatever has just been put on the page."""
    from pathlens.draw import paths
    from pathlens.draw.sheet import views_script

    return f"window.pathlensWire = () => {{\n{views_script()}\n{paths.script()}\n}};\n"


def page(result: Any) -> str:
    """A self-contained page."""
    if hasattr(result, "to_html"):
        return result.to_html()
    from pathlens.draw import paths

    return write_page("pathlens", [article(result)], style=style(), scripts=[paths.script()])


def png(result: Any) -> bytes:
    """A picture."""
    if not hasattr(result, "to_png"):
        raise InputError("a ranking has no single picture; explain one pair, or export HTML")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "view.png"
        result.to_png(file)
        return file.read_bytes()
