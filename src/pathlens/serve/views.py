"""Any finished piece of work as JSON, as a part of the page, as a page of its own, as a picture."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pathlens import draw
from pathlens.draw.markup import Markup
from pathlens.errors import InputError
from pathlens.explanation.view import Viewable


def article(result: Any) -> Markup:
    """The part of the page that shows a result."""
    if isinstance(result, Viewable):
        return draw.article(result)
    raise InputError(f"a {type(result).__name__} has no view")


def style() -> str:
    """Style of all views together."""
    from pathlens.draw import edits, paths, ranking, side_by_side
    from pathlens.draw.sheet import views_style

    return views_style() + side_by_side.STYLE + edits.STYLE + paths.style() + ranking.STYLE


def script() -> str:
    """One function that wires whatever has just been put on the page."""
    from pathlens.draw import paths
    from pathlens.draw.sheet import views_script

    return f"window.pathlensWire = () => {{\n{views_script()}\n{paths.script()}\n}};\n"


def page(result: Any) -> str:
    """A self-contained page."""
    return result.to_html()


def png(result: Any) -> bytes:
    """A picture."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "view.png"
        result.to_png(file)
        return file.read_bytes()
