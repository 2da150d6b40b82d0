"""pathlens explain, compare, methods, answer: one text or a pair; in several ways; what there is; an answer and its sources."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import pathlens as pl
from pathlens.cli import options as o
from pathlens.cli.documents import read_sources
from pathlens.errors import InputError
from pathlens.explanation.answer import Answer
from pathlens.explanation.record import Results
from pathlens.explanation.view import Viewable
from pathlens.text.options import RESTS, TEMPLATES


def explain(
    model: o.Model,
    text: Annotated[str | None, typer.Argument(help="The text or prompt; - reads it from standard input.")] = None,
    text_b: o.TextB = None,
    *,
    method: o.Method = None,
    baseline: o.Baseline = None,
    choices: o.AllExplainFlags,
    of_model: o.OfModels,
    chat: Annotated[
        Path | None, typer.Option(help="Messages as JSON: [{role, content}, …]; - reads standard input.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="A system prompt, through the chat template.")] = None,
    passage: Annotated[
        list[str] | None, typer.Option(help="A retrieved passage, before the question; repeatable.")
    ] = None,
    template: Annotated[str | None, typer.Option(help=f"The chat template's tokens: {' or '.join(TEMPLATES)}.")] = None,
    rest: Annotated[str | None, typer.Option(help=f"What is no passage: {' or '.join(RESTS)}.")] = None,
    classes: Annotated[bool, typer.Option("--classes", help="Show every class with its probability.")] = False,
    output: o.OutputFlags,
) -> None:
    """Examples:

    pathlens explain sentiment "Not really funny, but moving."

    pathlens explain minilm "A man plays a guitar." "Someone makes music."

    pathlens explain ./my-model "Some text" --method udig --steps 20 --unit word --json out.json

    echo "Some text" | pathlens explain sentiment -

    pathlens explain smollm "The capital of France is" --target " Paris" --contrast " London"

    pathlens explain smollm "Who founded Zorb?" --passage "Ann founded Zorb." --passage "Bob founded Grix." --generate 8

    pathlens explain smollm --chat messages.json --unit turn --generate 20
    """
    second = None if text_b is None else o.read_text(text_b)
    prompt = read_prompt(text, chat, {"system": system, "passages": passage, "template": template, "rest": rest})
    given: dict[str, Any] = {"unit": "passage"} if getattr(prompt, "passages", ()) else {}
    given |= choices.given() | of_model.given()
    given |= {"baseline": o.baseline(baseline), "show_progress": o.watched()}
    names = o.several(method)
    explain_any: Any = pl.explain  # which result it is, only the model knows
    with o.at_work():
        if len(names) > 1:  # side by side, as `pathlens compare` puts them
            output.give(pl.compare(model, prompt, second, methods=names, **given))
        else:
            given["method"] = names[0] if names else None
            output.give(explain_any(model, prompt, second, **given), classes=classes)


def read_prompt(text: str | None, file: Path | None, of_chat: dict[str, Any]) -> Any:
    """The text as it is, or a chat when anything of a chat was given."""
    given: dict[str, Any] = {name: value for name, value in of_chat.items() if value}
    if file is not None:
        if text is not None or of_chat["system"]:
            raise InputError(
                "--chat holds the whole conversation; give either it or a text with --system and --passage"
            )
        return pl.chat(**{**_messages(file), **given})
    if text is None:
        alone = "--system and --passage go with a question: give it as the text"
        raise InputError(alone if given else "give a text, or --chat FILE.json with messages")
    return pl.chat(user=o.read_text(text), **given) if given else o.read_text(text)


def _messages(file: Path) -> dict[str, Any]:
    """A list of messages, or the names that `pl.chat` takes: {"messages": […], "passages": […]}."""
    raw = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise InputError(f"{str(file)!r} is not JSON ({error}); give a list of {{role, content}}") from error
    if isinstance(body, list):
        body = {"messages": body}
    known = ("messages", "system", "user", "passages", "template", "rest")
    if not isinstance(body, dict) or set(body) - set(known):
        raise InputError(f"{str(file)!r} must hold a list of messages, or an object with {', '.join(known)}")
    return body


def compare(
    model: o.Model,
    text: o.Text,
    text_b: o.TextB = None,
    *,
    method: o.Method = None,
    baseline: o.Baseline = None,
    other: Annotated[list[str] | None, typer.Option("--with", help="Another model; repeatable (units: words).")] = None,
    choices: o.AllExplainFlags,
    output: o.OutputFlags,
) -> None:
    """Examples:

    pathlens compare sentiment "Not really funny, but moving." --method ig,sig,secant

    pathlens compare sentiment "Not really funny." --baseline mask,pad,zero

    pathlens compare sentiment "Not really funny." --with ./my-model --html compare.html
    """
    several: dict[str, Any] = {"methods": o.several(method) or None, "baselines": o.baselines(baseline) or None}
    several |= {"models": other, "show_progress": o.watched(), **choices.given()}
    second = None if text_b is None else o.read_text(text_b)
    with o.at_work():
        comparison = pl.compare(model, o.read_text(text), second, **several)
    output.give(comparison)


def methods(*, output: o.OutputFlags) -> None:
    """Examples:

    pathlens methods

    pathlens methods --json -
    """
    output.give(MethodTable())


class MethodTable(Viewable):
    """The methods, as they are written and drawn."""

    columns = ("name", "title", "options", "paper")

    def rows(self) -> tuple[tuple[str, ...], ...]:
        from pathlens.engine.methods import METHODS

        return tuple((m.name, m.title, ", ".join(m.options), m.paper) for m in METHODS.values())

    def to_dict(self) -> Any:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows()]

    def to_page(self) -> Any:
        from pathlens.draw.blocks import Listing, Page

        return Page("methods", blocks=(Listing(("name", "method", "own options", "paper"), self.rows()),))


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
                parts, passes = len(result.strongest()), result.passes_to_open()
                typer.echo(f"opening {parts} parts: {passes} passes", file=sys.stderr)
                result = closer(model, result)
            answers.append(result)
    output.give(answers if len(answers) > 1 else answers[0])
