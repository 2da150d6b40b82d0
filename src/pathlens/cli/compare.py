"""pathlens compare: the same text in several ways."""

from __future__ import annotations

from typing import Annotated

import typer

from pathlens.cli import app
from pathlens.cli import common as c

EXAMPLES = """
Examples:

  pathlens compare sentiment "Not really funny, but moving." --method ig --method sig

  pathlens compare sentiment "Not really funny." --baseline mask --baseline pad --baseline zero

  pathlens compare sentiment "Not really funny." --with ./my-model --html compare.html
"""


@app.command(epilog=EXAMPLES)
def compare(
    model: c.Model,
    text: c.Text,
    text_b: c.TextB = None,
    method: Annotated[list[str] | None, typer.Option(help="A method; repeatable (default: ig and sig).")] = None,
    baseline: Annotated[list[str] | None, typer.Option(help="A baseline; repeatable.")] = None,
    other: Annotated[list[str] | None, typer.Option("--with", help="Another model; repeatable.")] = None,
    target: c.Target = None,
    layer: c.Layer = None,
    unit: Annotated[str | None, typer.Option(help="token, word or sentence (two models: word).")] = None,
    score: c.Score = None,
    tolerance: c.Tolerance = 1e-3,
    n_steps: c.Steps = None,
    option: c.Choice = None,
    json_out: c.JsonOut = None,
    html: c.HtmlOut = None,
    png: c.PngOut = None,
) -> None:
    """Explain one text under several methods, baselines or models, side by side."""
    from pathlens.studies.compare import compare as verb

    with c.warnings_in_a_line():
        found = verb(
            model,
            c.read_text(text),
            text_b,
            methods=method,
            baselines=baseline,
            models=other,
            show_progress=c.watched(),
            target=c.number_or_name(target),
            layer=layer,
            score=score,
            tolerance=tolerance,
            n_steps=n_steps,
            **({"unit": unit} if unit else {}),
            **c.parse_options(option),
        )
    c.give(found, json_out, html, png)
