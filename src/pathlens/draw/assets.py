"""Style and script of every view, as they travel inside a page or are served to one."""

from __future__ import annotations

from importlib import resources

from pathlens.draw import charts, markup, palette


def style() -> str:
    """The style of every view, without its element."""
    text = _read("page.css") + _read("continuation.css")
    return text.replace("DARK", palette.DARK) + markup.color_rules() + charts.STYLE


def script() -> str:
    """The script that wires tips, arrow keys, sliders and choices of articles it has not seen yet."""
    return _read("page.js") + _read("continuation.js")


def _read(name: str) -> str:
    return resources.files("pathlens.draw").joinpath(name).read_text(encoding="utf-8")
