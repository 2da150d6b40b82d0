"""pathlens report: many saved explanations on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pathlens.cli import app
from pathlens.cli.common import HtmlOut, JsonOut, PngOut, give, watched

EXAMPLES = """
Examples:

  pathlens explain sentiment "A fine film." --json a.json

  pathlens report a.json b.json --html report.html

  pathlens report ./explanations --html report.html --png words.png

  pathlens report out/reviews --html reviews.html      (a folder that `pathlens run` wrote: its summary and 100 rows)

The page can be filtered and sorted, and read again: pathlens report report.html
"""


@app.command(epilog=EXAMPLES)
def report(
    files: Annotated[
        list[Path],
        typer.Argument(help="Saved explanations (.json, .html), folders of them, or one folder of `pathlens run`."),
    ],
    title: Annotated[str | None, typer.Option(help="The report's title.")] = None,
    json_out: JsonOut = None,
    html: HtmlOut = None,
    png: PngOut = None,
) -> None:
    """Put many saved explanations on one self-contained page."""
    found = _found(files, title)
    give(found, json_out, html, png)


def _found(files: list[Path], title: str | None) -> Any:
    from pathlens.report import Report

    if len(files) == 1 and files[0].is_dir() and (files[0] / "_manifest.json").exists():
        from pathlens.corpus.summary import report as of_run

        return of_run(files[0], title=title)
    if not watched():
        return Report.of(files, title=title or "report")
    from rich.console import Console

    with Console(stderr=True).status("reading …") as status:
        return Report.of(files, title=title or "report", tell=lambda item: status.update(f"reading {item} …"))
