"""pathlens compare: the same text in several ways."""

from __future__ import annotations

from typing import Annotated

import typer

from pathlens.cli import app
from pathlens.cli.common import (
    Choice,
    HtmlOut,
    JsonOut,
    PngOut,
    give,
    number_or_name,
    parse_options,
    read_text,
    warnings_in_a_line,
    watched,
)

EXAMPLES = """
Examples:

  pathlens compare sentiment "Not really funny, but moving." --method ig --method sig

  pathlens compare sentiment "Not really funny." --baseline mask --baseline pad --baseline zero

  pathlens compare sentiment "Not really funny." --with ./my-model --html compare.html
"""


@app.command(epilog=EXAMPLES)
def compare(
    model: Annotated[str, typer.Argument(help="A built-in name (minilm, sentiment), a folder, or a hub id.")],
    text: Annotated[str, typer.Argument(help="The text; - reads it from standard input.")],
    text_b: Annotated[str | None, typer.Argument(help="A second text.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="A method; repeatable (default: ig and sig).")
    ] = None,
    baseline: Annotated[list[str] | None, typer.Option(help="A baseline; repeatable.")] = None,
    other: Annotated[list[str] | None, typer.Option("--with", help="Another model; repeatable.")] = None,
    target: Annotated[str | None, typer.Option(help="Label or index.")] = None,
    layer: Annotated[int | None, typer.Option(help="0: word embeddings; k: states entering block k.")] = None,
    unit: Annotated[str | None, typer.Option(help="token, word or sentence (two models: word).")] = None,
    score: Annotated[str | None, typer.Option(help="logit, logprob or prob.")] = None,
    tolerance: Annotated[float, typer.Option(help="How exactly the scores must add up.")] = 1e-3,
    n_steps: Annotated[int | None, typer.Option(help="Fixed number of nodes instead of a tolerance.")] = None,
    option: Choice = None,
    json_out: JsonOut = None,
    html: HtmlOut = None,
    png: PngOut = None,
) -> None:
    """Explain one text under several methods, baselines or models, side by side."""
    from pathlens.compare import compare as verb

    with warnings_in_a_line():
        found = verb(
            model,
            read_text(text),
            text_b,
            methods=method,
            baselines=baseline,
            models=other,
            show_progress=watched(),
            target=number_or_name(target),
            layer=layer,
            score=score,
            tolerance=tolerance,
            n_steps=n_steps,
            **({"unit": unit} if unit else {}),
            **parse_options(option),
        )
    give(found, json_out, html, png)
