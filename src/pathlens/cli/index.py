"""pathlens index build | search | check | repair."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pathlens.cli import app
from pathlens.cli import common as c

EXAMPLES = """
Examples:

  pathlens index build ./documents ./my-index --model minilm

  pathlens index search ./my-index "How do I cook rice?" --top 3 --why 1,2 --html hits.html

  pathlens index check ./my-index
"""

commands = typer.Typer(
    help="An index that explains itself: build it once, search it with reasons.", no_args_is_help=True, epilog=EXAMPLES
)
app.add_typer(commands, name="index")


@commands.command(epilog=EXAMPLES)
def build(
    documents: Annotated[Path, typer.Argument(help="A folder (.txt, .md), or a file with one document a line.")],
    where: Annotated[Path, typer.Argument(help="The folder to write.")],
    model: Annotated[str, typer.Option(help="A sentence encoder: minilm, a folder, or a hub id.")] = "minilm",
    storage: Annotated[str, typer.Option(help="full, or strongest (with --keep).")] = "full",
    keep: Annotated[int, typer.Option(help="Vectors kept per passage with --storage strongest.")] = 8,
    unit: Annotated[str, typer.Option(help="token, word (smaller) or sentence.")] = "token",
    layer: c.Layer = None,
    chunk: c.Chunk = False,
    tolerance: c.Tolerance = 1e-3,
    store: Annotated[str | None, typer.Option(help="A LanceDB address for the embeddings, if elsewhere.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar (into a pipe there is none).")] = False,
) -> None:
    """Embeddings and token vectors of every document, written once."""
    from pathlens.vectors.index import build as verb

    made = verb(
        documents,
        where,
        model,
        storage=storage,
        keep=keep,
        chunk=chunk,
        store=store,
        show_progress=c.watched() and not quiet,
        unit=unit,
        layer=layer,
        tolerance=tolerance,
    )
    typer.echo(
        f"{made['documents']} documents, {made['passages']} passages, {made['bytes'] / 1e6:.2f} MB, "
        f"{made['bytes_per_document'] / 1e3:.1f} kB per document: {where}"
    )


@commands.command(epilog=EXAMPLES)
def search(
    where: Annotated[Path, typer.Argument(help="The index.")],
    query: Annotated[str, typer.Argument(help="The query.")],
    k: Annotated[int, typer.Option("--top", "-k", help="How many hits.", min=1)] = 5,
    one_sided: c.OneSided = False,
    why: c.Why = None,
    model: Annotated[str | None, typer.Option(help="The model, when it is not where it was at the build.")] = None,
    json_out: c.JsonOut = None,
    html: c.HtmlOut = None,
    png: c.PngOut = None,
) -> None:
    """The nearest passages, each with the decomposition of its score."""
    from pathlens.errors import InputError
    from pathlens.vectors.index import Index

    if why is not None and one_sided:
        raise InputError("--why is the difference of two full explanations; leave --one-sided out")
    with c.warnings_in_a_line():
        found = Index.open(where, model).search(query, k, one_sided=one_sided)
    places = c.parse_places(why, len(found))
    c.give(found.with_reason(*places) if places else found, json_out, html, png)


@commands.command(epilog=EXAMPLES)
def check(where: Annotated[Path, typer.Argument(help="The index.")]) -> None:
    """Read every file of an index; exit code 1 and their names when some are damaged."""
    from pathlens.vectors.index import Index

    damaged = Index.open(where).verify()
    for line in damaged or ["everything is whole"]:
        typer.echo(line)
    if damaged:
        raise typer.Exit(1)


@commands.command(epilog=EXAMPLES)
def repair(where: Annotated[Path, typer.Argument(help="The index.")]) -> None:
    """Write the table of embeddings again from the vector files; the model is not needed."""
    from pathlens.vectors.index import Index

    index = Index.open(where)
    index.repair()
    typer.echo(f"the table of {len(index)} embeddings was written again")
