"""Room 11: a result or a study → terminal, page, picture. `Viewable` reaches this room through these four."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

# studies by type, and the module here that draws them; everything else is a result
DRAWERS = {
    "Comparison": "side_by_side",
    "WhatIf": "edits",
    "PathView": "paths",
    "Layers": "layers",
    "NodeStudy": "nodes",
    "Ranking": "ranking",
    "Evaluation": "faithfulness",
    "Summary": "corpus",
}


def _module(thing: object, otherwise: str) -> Any:
    return import_module(f"pathlens.draw.{DRAWERS.get(type(thing).__name__, otherwise)}")


def show(thing: object, **options: Any) -> None:
    """Draw in the terminal."""
    _module(thing, "terminal").show(thing, **options)


def to_html(thing: object, path: str | Path | None = None, **options: Any) -> str:
    """A self-contained page."""
    return _module(thing, "html").page(thing, path, **options)


def to_png(thing: object, path: str | Path, **options: Any) -> Path:
    """A picture."""
    return _module(thing, "figure").save(thing, path, **options)


def fragment(thing: object) -> str:
    """HTML for a notebook cell."""
    if type(thing).__name__ not in DRAWERS:
        return import_module("pathlens.draw.html").fragment(thing)
    return import_module("pathlens.draw.sheet").fragment(_module(thing, ""), thing)


def article(thing: object) -> Any:
    """A part of a page."""
    if type(thing).__name__ not in DRAWERS:
        return import_module("pathlens.draw.sheet").article_of(thing)
    return _module(thing, "").article(thing)
