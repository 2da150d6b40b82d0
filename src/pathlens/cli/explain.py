"""pathlens explain: one text or a pair."""

from __future__ import annotations

from pathlib import Path
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
    warnings_in_a_line,
)
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
    model: Annotated[str, typer.Argument(help="A built-in name (minilm, sentiment), a folder, or a hub id.")],
    text: Annotated[
        str | None, typer.Argument(help="The text or prompt; - reads it from standard input.")
    ] = None,
    text_b: Annotated[
        str | None, typer.Argument(help="A second text: a pair, or a question's passage.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="See `pathlens methods`.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Label or index; start, end, span; what a generator says.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="mask, pad, unk, eos, zero, mean, or a text.")] = None,
    layer: Annotated[int | None, typer.Option(help="0: word embeddings; k: states entering block k.")] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="token (default), word, sentence; turn or passage (default with passages)."),
    ] = None,
    score: Annotated[str | None, typer.Option(help="logit, logprob or prob.")] = None,
    tolerance: Annotated[float, typer.Option(help="How exactly the scores must add up.")] = 1e-3,
    n_steps: Annotated[int | None, typer.Option(help="Fixed number of nodes instead of a tolerance.")] = None,
    rule: Annotated[
        str | None, typer.Option(help="adaptive, gauss, midpoint, trapezoid, left, right, split.")
    ] = None,
    truncation: Annotated[bool, typer.Option(help="Cut a text that is too long.")] = False,
    generate: Annotated[
        int | None, typer.Option(help="Generators: explain this many tokens of its own.")
    ] = None,
    contrast: Annotated[str | None, typer.Option(help="Generators: what it could have said instead.")] = None,
    chat: Annotated[
        Path | None, typer.Option(help="Messages as JSON: [{role, content}, …]; - reads standard input.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="A system prompt, through the chat template.")] = None,
    passage: Annotated[
        list[str] | None, typer.Option(help="A retrieved passage, before the question; repeatable.")
    ] = None,
    template: Annotated[str | None, typer.Option(help="The chat template's tokens: held or shown.")] = None,
    option: Choice = None,
    json_out: JsonOut = None,
    html: HtmlOut = None,
    png: PngOut = None,
) -> None:
    """Explain one text, or a pair of texts."""
    from pathlens.explain import explain as verb

    prompt = read_prompt(text, chat, system, passage, template)
    with warnings_in_a_line():
        result = verb(
            model,
            prompt,
            text_b,
            method=method,
            target=number_or_name(target),
            baseline=baseline,
            layer=layer,
            unit=unit or ("passage" if getattr(prompt, "passages", ()) else "token"),
            score=score,
            tolerance=tolerance,
            n_steps=n_steps,
            rule=rule,
            truncation=truncation,
            **{
                name: value
                for name, value in (("generate", generate), ("contrast", contrast))
                if value is not None
            },
            **parse_options(option),
        )
    give(result, json_out, html, png)
