"""pathlens answer: a question, the files it is to be answered from, and which part of which made the answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pathlens.cli import options as o
from pathlens.cli.documents import read_sources
from pathlens.cli.explain import read_prompt
from pathlens.explanation.answer import CUTS, THRESHOLD, Answer


def answer(
    model: Annotated[str, typer.Argument(help="A causal language model: smollm, a folder, or a hub id.")],
    question: Annotated[str | None, typer.Argument(help="The question; - reads it from standard input.")] = None,
    *,
    source: Annotated[
        list[Path], typer.Option(help="A file with a source, before the question, or a table of them; repeatable.")
    ],
    column: o.Column = "text",
    given_answer: Annotated[
        str | None, typer.Option("--answer", help="The answer (default: the model writes one).")
    ] = None,
    contrast: Annotated[str | None, typer.Option(help="Another answer: why not that?")] = None,
    chat: Annotated[Path | None, typer.Option(help="Messages as JSON in place of a question; - reads stdin.")] = None,
    system: Annotated[str | None, typer.Option(help="A system prompt, through the chat template.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="secant (default), sig (leave a source out), ig.")] = None,
    unit: Annotated[str, typer.Option(help=f"What sources are cut into: {', '.join(CUTS)}.")] = "sentence",
    zoom: Annotated[int, typer.Option(help="Open the parts that matter, so many times.", min=0)] = 0,
    threshold: Annotated[float, typer.Option(help="Share of what sources add from which one is cited.")] = THRESHOLD,
    generate: Annotated[int, typer.Option(help="At most so many tokens of its own.", min=1)] = 100,
    truncation: Annotated[bool, typer.Option("--truncation", help="Cut sources that do not fit.")] = False,
    redundant: Annotated[
        bool | None, typer.Option(help="Check every two sources for saying the same (default: those alike).")
    ] = None,
    baseline: o.Baseline = None,
    output: o.OutputFlags,
) -> None:
    """Examples:

    pathlens answer smollm "Who built the towers?" --source towers.txt --source bells.txt

    pathlens answer smollm "Who built the towers?" --source towers.txt --answer "Osric." --contrast "Ann." --html why.html

    pathlens answer smollm "Who built the towers?" --source towers.txt --method sig --unit source --zoom 2
    """
    from pathlens.studies.answer import answer as verb
    from pathlens.studies.zoom import zoom as closer

    asked = read_prompt(question, chat, {"system": system})
    texts = read_sources(source, column)
    chosen = o.one(method, "sources are explained once") or "secant"
    choices: dict[str, Any] = {"method": chosen, "unit": unit, "threshold": threshold, "generate": generate}
    choices |= {
        "truncation": truncation,
        "redundant": redundant,
        "baseline": o.baseline(baseline),
        "contrast": contrast,
    }
    with o.at_work():
        result: Answer = verb(model, asked, texts, given_answer, **choices)
        for _ in range(zoom):
            typer.echo(f"opening {len(result.strongest())} parts: {result.passes_to_open()} passes", file=sys.stderr)
            result = closer(model, result)
    output.give(result)
