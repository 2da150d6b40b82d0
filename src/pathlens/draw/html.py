"""Pages as HTML: a fragment for notebooks, a self-contained page to send.

No network, no library: style and a few lines of script travel inside. Without the script everything is still
there except the sliders.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from pathlens.draw import page_of, palette
from pathlens.draw.element import Markup, color_rules, element, join
from pathlens.draw.markup import article
from pathlens.explanation.embed import data_element
from pathlens.files import write_text

STYLES = ("page.css", "blocks.css", "continuation.css", "path.css", "report.css")
SCRIPTS = ("page.js", "continuation.js", "path.js", "report.js")
BODY = (
    "body{margin:0;background:Canvas}@media (prefers-color-scheme:dark){body{background:" + palette.DARK + "}}"
    ".pathlens{margin:0 auto}"
)


def fragment(thing: Any, *, unit: str | None = None) -> str:
    """HTML for a notebook cell or another page: style, picture, legend, certificate, script."""
    return f"<style>{style()}</style>{article(page_of(thing, unit))}<script>{script()}</script>"


def page(thing: Any, path: str | Path | None = None, *, unit: str | None = None) -> str:
    """A self-contained page, also written to `path` when given.

    The numbers themselves travel along as JSON (`embed.extract` reads them back), unless they are too large.
    """
    made = page_of(thing, unit)
    data = made.data() if made.data is not None else None
    lost = made.data is not None and data is None
    note = ["too large to travel inside the page; save() keeps the numbers"] if lost else []
    text = document(made.title, [article(made, *note)], data_element(data) if data is not None else "")
    if path is not None:
        write_text(path, text)
    return text


def document(title: str, articles: Sequence[Markup], data: str = "") -> str:
    """Articles as a whole document, with data that travels along."""
    code = script()
    # only our own script may run and nothing may be fetched, even if some text got past the escaping
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    rules = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    head = join(
        [
            Markup('<meta charset="utf-8">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{rules}">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            element("title", None, title),
            Markup(f"<style>{style()}{BODY}</style>"),
        ]
    )
    body = join([*articles, Markup(data), Markup(f"<script>{code}</script>")])
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def style() -> str:
    """The style of every view, without its element."""
    return "".join(map(_read, STYLES)).replace("DARK", palette.DARK) + color_rules()


def script() -> str:
    """The script that wires tips, arrow keys, sliders and choices of articles it has not seen yet."""
    return "".join(map(_read, SCRIPTS))


def _read(name: str) -> str:
    return resources.files("pathlens.draw").joinpath(name).read_text(encoding="utf-8")
