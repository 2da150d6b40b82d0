"""pathlens explain: one text or a pair."""

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
)

EXAMPLES = """
Examples:

  pathlens explain sentiment "Not really funny, but moving."

  pathlens explain minilm "A man plays a guitar." "Someone makes music."

  pathlens explain ./my-model "Some text" --method sig --unit word --json out.json

  echo "Some text" | pathlens explain sentiment -
"""


@app.command(epilog=EXAMPLES)
def explain(
    model: Annotated[str, typer.Argument(help="A built-in name (minilm, sentiment), a folder, or a hub id.")],
    text: Annotated[str, typer.Argument(help="The text; - reads it from standard input.")],
    text_b: Annotated[
        str | None, typer.Argument(help="A second text: a pair, or a question's passage.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="See `pathlens methods`.")] = None,
    target: Annotated[str | None, typer.Option(help="Label or index; start, end, span.")] = None,
    baseline: Annotated[str | None, typer.Option(help="mask, pad, unk, eos, zero, mean, or a text.")] = None,
    layer: Annotated[int | None, typer.Option(help="0: word embeddings; k: states entering block k.")] = None,
    unit: Annotated[str, typer.Option(help="token, word or sentence.")] = "token",
    score: Annotated[str | None, typer.Option(help="logit, logprob or prob.")] = None,
    tolerance: Annotated[float, typer.Option(help="How exactly the scores must add up.")] = 1e-3,
    n_steps: Annotated[int | None, typer.Option(help="Fixed number of nodes instead of a tolerance.")] = None,
    rule: Annotated[
        str | None, typer.Option(help="adaptive, gauss, midpoint, trapezoid, left, right, split.")
    ] = None,
    truncation: Annotated[bool, typer.Option(help="Cut a text that is too long.")] = False,
    option: Choice = None,
    json_out: JsonOut = None,
    html: HtmlOut = None,
    png: PngOut = None,
) -> None:
    """Explain one text, or a pair of texts."""
    from pathlens.explain import explain as verb

    with warnings_in_a_line():
        result = verb(
            model,
            read_text(text),
            text_b,
            method=method,
            target=number_or_name(target),
            baseline=baseline,
            layer=layer,
            unit=unit,
            score=score,
            tolerance=tolerance,
            n_steps=n_steps,
            rule=rule,
            truncation=truncation,
            **parse_options(option),
        )
    give(result, json_out, html, png)
