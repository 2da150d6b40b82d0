"""pathlens explain: one text or a pair."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from pathlens.cli import app

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
    option: Annotated[
        list[str] | None, typer.Option(help="A method's own option, NAME=VALUE; repeatable.")
    ] = None,
    json_out: Annotated[str | None, typer.Option("--json", help="Write JSON to a file; - prints it.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a picture (.png or .svg).")] = None,
) -> None:
    """Explain one text, or a pair of texts."""
    from pathlens.explain import explain as verb

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = verb(
            model,
            sys.stdin.read().strip() if text == "-" else text,
            text_b,
            method=method,
            target=int(target) if target is not None and target.lstrip("-").isdigit() else target,
            baseline=baseline,
            layer=layer,
            unit=unit,
            score=score,
            tolerance=tolerance,
            n_steps=n_steps,
            rule=rule,
            truncation=truncation,
            **parse_options(option or []),
        )
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            typer.echo(f"pathlens: {warning.message}", err=True)
    give(result, json_out, html, png)


def give(result: Any, json_out: str | None, html: Path | None, png: Path | None) -> None:
    """Write what was asked for; draw in the terminal when nothing else was."""
    if json_out == "-":
        typer.echo(json.dumps(result.to_dict(), ensure_ascii=False))
    elif json_out is not None:
        result.save(json_out)
    if html is not None:
        result.to_html(html)
    if png is not None:
        result.to_png(png)
    if json_out is None and html is None and png is None:
        result.show()


def parse_options(pairs: list[str]) -> dict[str, Any]:
    """NAME=VALUE, values read as JSON where they are JSON."""
    from pathlens.errors import InputError

    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--option takes NAME=VALUE, got {pair!r}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
