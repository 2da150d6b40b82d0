"""pathlens report: many saved explanations on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pathlens.cli import app
from pathlens.cli.common import HtmlOut, JsonOut, PngOut, give, watched

EXAMPLES = """
Examples:

  pathlens explain sentiment "A fine film." --json a.json

  pathlens report a.json b.json --html report.html

  pathlens report ./explanations --html report.html --png words.png

The page can be filtered and sorted, and read again: pathlens report report.html
"""


@app.command(epilog=EXAMPLES)
def report(
    files: Annotated[
        list[Path], typer.Argument(help="Saved explanations (.json, .html), or folders of them.")
    ],
    title: Annotated[str, typer.Option(help="The report's title.")] = "report",
    json_out: JsonOut = None,
    html: HtmlOut = None,
    png: PngOut = None,
) -> None:
    """Put many saved explanations on one self-contained page."""
    from pathlens.report import Report

    if watched():
        from rich.console import Console

        with Console(stderr=True).status("reading …") as status:
            found = Report.of(files, title=title, tell=lambda item: status.update(f"reading {item} …"))
    else:
        found = Report.of(files, title=title)
    give(found, json_out, html, png)
