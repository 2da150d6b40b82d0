"""pathlens explain: one text or a pair."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pathlens.cli import app
from pathlens.cli import common as c
from pathlens.cli.prompt import read_prompt

EXAMPLES = """
Examples:

  pathlens explain sentiment "Not really funny, but moving."

  pathlens explain minilm "A man plays a guitar." "Someone makes music."

  pathlens explain ./my-model "Some text" --method sig --unit word --json out.json

  echo "Some text" | pathlens explain sentiment -

  pathlens explain smollm "The capital of France is" --target " Paris" --contrast " London"

  pathlens explain smollm "Who founded Zorb?" --passage "Ann founded Zorb." --passage "Bob founded Grix." --generate 8

  pathlens explain smollm --chat messages.json --unit turn --generate 20
"""


@app.command(epilog=EXAMPLES)
def explain(
    model: c.Model,
    text: Annotated[str | None, typer.Argument(help="The text or prompt; - reads it from standard input.")] = None,
    text_b: c.TextB = None,
    method: Annotated[str | None, typer.Option(help="See `pathlens methods`.")] = None,
    target: c.Target = None,
    baseline: Annotated[str | None, typer.Option(help="mask, pad, unk, eos, zero, mean, or a text.")] = None,
    layer: c.Layer = None,
    unit: Annotated[
        str | None, typer.Option(help="token (default), word, sentence; turn or passage (default with passages).")
    ] = None,
    score: c.Score = None,
    tolerance: c.Tolerance = 1e-3,
    n_steps: c.Steps = None,
    rule: Annotated[str | None, typer.Option(help="adaptive, gauss, midpoint, trapezoid, left, right, split.")] = None,
    truncation: Annotated[bool, typer.Option("--truncation", help="Cut a text that is too long.")] = False,
    generate: Annotated[int | None, typer.Option(help="Generators: explain this many tokens of its own.")] = None,
    contrast: Annotated[str | None, typer.Option(help="Generators: what it could have said instead.")] = None,
    chat: Annotated[
        Path | None, typer.Option(help="Messages as JSON: [{role, content}, …]; - reads standard input.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="A system prompt, through the chat template.")] = None,
    passage: Annotated[
        list[str] | None, typer.Option(help="A retrieved passage, before the question; repeatable.")
    ] = None,
    template: Annotated[str | None, typer.Option(help="The chat template's tokens: held or shown.")] = None,
    option: c.Choice = None,
    json_out: c.JsonOut = None,
    html: c.HtmlOut = None,
    png: c.PngOut = None,
) -> None:
    """Explain one text, or a pair of texts."""
    from pathlens.engine.explainer import explain as verb

    prompt = read_prompt(text, chat, system, passage, template)
    with c.warnings_in_a_line():
        result = verb(
            model,
            prompt,
            text_b,
            method=method,
            target=c.number_or_name(target),
            baseline=baseline,
            layer=layer,
            unit=unit or ("passage" if getattr(prompt, "passages", ()) else "token"),
            score=score,
            tolerance=tolerance,
            n_steps=n_steps,
            rule=rule,
            truncation=truncation,
            show_progress=c.watched(),
            **{name: value for name, value in (("generate", generate), ("contrast", contrast)) if value is not None},
            **c.parse_options(option),
        )
    c.give(result, json_out, html, png)
