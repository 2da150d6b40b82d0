"""pathlens answer: a question, the files it is to be answered from, and which part of which made the answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pathlens.cli import options as o
from pathlens.cli.documents import read_sources
from pathlens.cli.explain import read_prompt
from pathlens.explanation.answer import Answer
from pathlens.explanation.results import Results


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
    chat: Annotated[Path | None, typer.Option(help="Messages as JSON in place of a question; - reads stdin.")] = None,
    system: Annotated[str | None, typer.Option(help="A system prompt, through the chat template.")] = None,
    zoom: Annotated[int, typer.Option(help="Open the parts that matter, so many times.", min=0)] = 0,
    chosen: o.OfAnswers,
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
    choices: dict[str, Any] = {**chosen.given(), "baseline": o.baseline(baseline)}
    answers = Results[Answer]()
    with o.at_work():
        for method in o.methods_of(chosen.method):
            named = choices if method is None else {**choices, "method": method}
            result: Answer = verb(model, asked, texts, given_answer, **named)
            for _ in range(zoom):
                typer.echo(
                    f"opening {len(result.strongest())} parts: {result.passes_to_open()} passes", file=sys.stderr
                )
                result = closer(model, result)
            answers.append(result)
    output.give(answers if len(answers) > 1 else answers[0])
