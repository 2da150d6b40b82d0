"""pathlens rank, index: order documents by a query, and say why; build an index once, search it with reasons."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import pathlens as pl
from pathlens.cli import COMMANDS
from pathlens.cli import options as o
from pathlens.cli.documents import read_documents
from pathlens.errors import InputError

Query = Annotated[str, typer.Argument(help="The query.")]
Where = Annotated[Path, typer.Argument(help="The index.")]


def rank(
    model: o.Encoder,
    query: Query,
    documents: o.Documents,
    *,
    column: o.Column = "text",
    top: Annotated[int, typer.Option(help="Explain and show this many.", min=1)] = 5,
    why: o.Why = None,
    one_sided: o.OneSided = False,
    chunk: o.Chunk = False,
    unit: o.Unit = "word",
    choices: o.OfPairs,
    output: o.OutputFlags,
) -> None:
    """Examples:

    pathlens rank minilm "How do I cook rice?" recipes.txt

    pathlens rank minilm "How do I cook rice?" ./documents --top 3 --why 1,2 --html rank.html

    pathlens rank minilm "How do I cook rice?" faq.csv --text answer

    cat lines.txt | pathlens rank minilm "a query" - --one-sided --json -
    """
    asked, texts = o.read_text(query), list(read_documents(documents, column).values())
    places = parse_places(why, len(texts))
    shown = max([top, *[place + 1 for place in places]])
    how: dict[str, Any] = {"top": shown, "one_sided": one_sided, "chunk": chunk, "show_progress": o.watched()}
    with o.at_work():
        ranking = pl.rank(model, asked, texts, unit=unit, **how, **choices.given())
    output.give(ranking.with_reason(*places) if places else ranking)


def parse_places(text: str | None, count: int) -> list[int]:
    """What --why says: "1,2" → [0, 1]."""
    if text is None:
        return []
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(p.isascii() and p.isdigit() and 1 <= int(p) <= count for p in parts):
        raise InputError(f"--why takes two places between 1 and {count}, as in 1,2; got {text!r}")
    return [int(part) - 1 for part in parts]


EXAMPLES = """Examples:

  pathlens index build minilm ./documents ./my-index --plain

  pathlens index add ./my-index ./more-documents

  pathlens index search ./my-index "How do I cook rice?" --top 3 --why 1,2 --html hits.html

  pathlens index check ./my-index
"""
index = typer.Typer(help=COMMANDS["index"][1], no_args_is_help=True, add_completion=False, epilog=EXAMPLES)


def _command(function: Callable[..., Any]) -> Callable[..., Any]:
    index.command(function.__name__, help=inspect.getdoc(function), epilog=EXAMPLES)(o.expanded(function))
    return function


@_command
def build(
    model: o.Encoder,
    documents: o.Documents,
    where: Annotated[Path, typer.Argument(help="The folder to write.")],
    *,
    column: o.Column = "text",
    plain: Annotated[
        bool, typer.Option("--plain", help="Embeddings only: hits are explained when they are found.")
    ] = False,
    storage: Annotated[str, typer.Option(help="full, strongest or compact (with --keep; compact: 4 bits).")] = "full",
    keep: Annotated[int | None, typer.Option(help="Vectors kept per passage (strongest: 8, compact: 12).")] = None,
    unit: o.Unit = "token",
    chunk: o.Chunk = False,
    choices: o.OfPairs,
    store: Annotated[str | None, typer.Option(help="A LanceDB address for the embeddings, if elsewhere.")] = None,
    quiet: o.Quiet = False,
) -> None:
    """Embeddings of every document and, unless --plain, vectors that explain them, written once."""
    from pathlens.vectors.index import build as verb

    kept: dict[str, Any] = {"storage": "plain" if plain else storage, "keep": keep, "chunk": chunk, "store": store}
    texts = read_documents(documents, column)
    with o.at_work():
        made = verb(texts, where, model, show_progress=o.watched() and not quiet, unit=unit, **kept, **choices.given())
    typer.echo(
        f"{made['documents']} documents, {made['passages']} passages, {made['bytes'] / 1e6:.2f} MB, "
        f"{made['bytes_per_document'] / 1e3:.1f} kB per document: {where}"
    )


@_command
def search(
    where: Where,
    query: Query,
    *,
    k: Annotated[int, typer.Option("--top", "-k", help="How many hits.", min=1)] = 5,
    one_sided: o.OneSided = False,
    exact: Annotated[bool, typer.Option("--exact", help="Compare every passage, not only near lists.")] = False,
    why: o.Why = None,
    model: Annotated[str | None, typer.Option(help="The model, when it is not where it was at the build.")] = None,
    output: o.OutputFlags,
) -> None:
    """The nearest passages, each with the decomposition of its score."""
    from pathlens.vectors.index import Index

    with o.at_work():
        hits = Index.open(where, model).search(o.read_text(query), k, one_sided=one_sided or None, exact=exact)
    places = parse_places(why, len(hits))
    output.give(hits.with_reason(*places) if places else hits)


@_command
def add(
    where: Where,
    documents: o.Documents,
    *,
    column: o.Column = "text",
    update: Annotated[bool, typer.Option("--update", help="In the place of documents with the same names.")] = False,
    model: Annotated[str | None, typer.Option(help="The model, when it is not where it was at the build.")] = None,
) -> None:
    """Documents more; a document is called by its file's name, or its file's and line."""
    from pathlens.vectors.index import Index

    opened = Index.open(where, model)
    texts = read_documents(documents, column)
    with o.at_work():
        count = (opened.update if update else opened.add)(texts)
    typer.echo(f"{count} documents {'updated' if update else 'added'}, {len(opened)} passages in all: {where}")


@_command
def delete(where: Where, names: Annotated[list[str], typer.Argument(help="What the documents are called.")]) -> None:
    """Documents out of the index."""
    from pathlens.vectors.index import Index

    opened = Index.open(where)
    count = opened.delete(names)
    typer.echo(f"{count} documents deleted, {len(opened)} passages are left: {where}")


@_command
def check(where: Where) -> None:
    """Read every file of an index; exit code 1 and their names when some are damaged."""
    from pathlens.vectors.index import Index

    damaged = Index.open(where).verify()
    for line in damaged or ["everything is whole"]:
        typer.echo(line)
    if damaged:
        raise typer.Exit(1)


@_command
def repair(where: Where) -> None:
    """The table as this index wrote it: back to its version, or anew from the vector files; the model is not needed."""
    from pathlens.vectors.index import Index

    opened = Index.open(where)
    opened.repair()
    typer.echo(f"the table of {len(opened)} embeddings is as this index wrote it")
