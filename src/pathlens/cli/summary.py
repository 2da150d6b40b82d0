"""pathlens summary: what a run found, summed up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pathlens.cli import app
from pathlens.cli.common import HtmlOut, JsonOut, PngOut, give

EXAMPLES = """
Examples:

  pathlens summary out/reviews

  pathlens summary out/reviews --by label --csv out/tables --png out/words.png

  pathlens report out/reviews --html out/reviews.html
"""


@app.command(epilog=EXAMPLES)
def summary(
    folder: Annotated[Path, typer.Argument(help="The folder `pathlens run` wrote.")],
    by: Annotated[
        list[str] | None,
        typer.Option(help="A column of the data to slice by; repeatable (default: those with few values)."),
    ] = None,
    least: Annotated[int, typer.Option(help="Texts a word must be in to be listed.", min=1)] = 5,
    top: Annotated[int, typer.Option(help="Words in each direction.", min=1)] = 10,
    speech: Annotated[bool, typer.Option(help="By part of speech too, when spaCy has a model.")] = True,
    tagger: Annotated[str | None, typer.Option(help="The spaCy model (default: an English one).")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write every table into this folder.")] = None,
    json_out: JsonOut = None,
    html: HtmlOut = None,
    png: PngOut = None,
) -> None:
    """Strongest words by class, part of speech and slice, with counts and intervals; what settled."""
    from pathlens.corpus.summary import summarise

    found = summarise(folder, by=by, least=least, most=top, speech=speech, pipeline=tagger)
    if csv is not None:
        found.to_csv(csv)
    if csv is None or json_out or html or png:
        give(found, json_out, html, png)
