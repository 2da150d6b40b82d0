"""Pages made of several articles: one style, our scripts by their hash and no others, data that travels along."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pathlens.draw import assets, html, markup, palette
from pathlens.draw.markup import Markup, element
from pathlens.errors import StoreError


def write_page(
    title: str,
    articles: Sequence[Markup],
    path: str | Path | None = None,
    *,
    data: str = "",
    style: str = "",
    scripts: Sequence[str] = (),
) -> str:
    """A self-contained page; also written to `path` when given. Nothing may be fetched, only our scripts run."""
    own = [views_script(), *scripts]
    digests = " ".join(f"'sha256-{_digest(script)}'" for script in own)
    rules = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {digests}"
    head = markup.join(
        [
            Markup('<meta charset="utf-8">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{rules}">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            element("title", None, title),
            Markup(f"<style>{views_style()}{style}{BODY}</style>"),
        ]
    )
    body = markup.join([*articles, Markup(data), *[Markup(f"<script>{script}</script>") for script in own]])
    text = f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'
    if path is not None:
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise StoreError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    return text


BODY = (
    "body{margin:0;background:Canvas}@media (prefers-color-scheme:dark){body{background:" + palette.DARK + "}}"
    ".pathlens{margin:0 auto}"
)


def views_style() -> str:
    """The style of every view, without its element."""
    return assets.style()


def views_script() -> str:
    """The script that wires tips, arrow keys and sliders of articles it has not seen yet."""
    return assets.script()


def fragment(drawer: Any, found: object) -> str:
    """HTML for a notebook cell: the drawer's article, with the style and script it needs."""
    own = drawer.style() if hasattr(drawer, "style") else getattr(drawer, "STYLE", "")
    script = views_script() + (drawer.script() if hasattr(drawer, "script") else "")
    return f"<style>{views_style()}{own}</style>{drawer.article(found)}<script>{script}</script>"


def article_of(result: object) -> Markup:
    """A result's own article."""
    return html._article(result)  # type: ignore[arg-type]


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
