"""pathlens methods: the table."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from pathlens.cli import app
from pathlens.cli.common import HtmlOut, JsonOut, PngOut

EXAMPLES = """
Examples:

  pathlens methods

  pathlens methods --json -
"""


@app.command(epilog=EXAMPLES)
def methods(json_out: JsonOut = None, html: HtmlOut = None, png: PngOut = None) -> None:
    """List the methods: what each one is, its own options, and the paper."""
    from pathlens import draw
    from pathlens.draw.blocks import Listing, Page
    from pathlens.engine.methods import METHODS

    rows = tuple((m.name, m.title, ", ".join(m.options), m.paper) for m in METHODS.values())
    page = Page("methods", blocks=(Listing(("name", "method", "own options", "paper"), rows),))
    if json_out is not None:
        names = ("name", "title", "options", "paper")
        text = json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False)
        if json_out == "-":
            typer.echo(text)
        else:
            Path(json_out).write_text(text, encoding="utf-8")
    if html is not None:
        draw.to_html(page, html)
    if png is not None:
        draw.to_png(page, png)
    if json_out is None and html is None and png is None:
        draw.show(page)
