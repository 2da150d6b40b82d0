"""pathlens doctor: the laws, run on the user's own model."""

from __future__ import annotations

from typing import Annotated

import typer

from pathlens.cli import app
from pathlens.cli.common import HtmlOut, JsonOut, Model, PngOut, Tolerance, give, watched

EXAMPLES = """
Examples:

  pathlens doctor sentiment

  pathlens doctor ./my-model --text "A text my model knows well." --html doctor.html

  pathlens doctor minilm --json -

Exit code 1 when a law does not hold.
"""


@app.command(epilog=EXAMPLES)
def doctor(
    model: Model,
    text: Annotated[str | None, typer.Option(help="A text to examine with (default: a short review).")] = None,
    text_b: Annotated[str | None, typer.Option(help="A second text, for models that take two.")] = None,
    tolerance: Tolerance = 1e-3,
    json_out: JsonOut = None,
    html: HtmlOut = None,
    png: PngOut = None,
) -> None:
    """Run all laws that apply on a model, and say what holds and what to do."""
    from rich.console import Console

    from pathlens.doctor import examine

    if watched():
        with Console(stderr=True).status("loading the model …") as status:
            found = examine(model, text, text_b, tolerance=tolerance,
                            tell=lambda law: status.update(f"law {law} …"))  # fmt: skip
    else:
        found = examine(model, text, text_b, tolerance=tolerance)
    give(found, json_out, html, png)
    if not found.healthy:
        raise typer.Exit(1)
