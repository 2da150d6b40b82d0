"""pathlens index build | search | check | repair."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pathlens.cli import app

commands = typer.Typer(
    help="An index that explains itself: build it once, search it with reasons.", no_args_is_help=True
)
app.add_typer(commands, name="index")


@commands.command()
def build(
    documents: Annotated[
        Path, typer.Argument(help="A folder (.txt, .md), or a file with one document a line.")
    ],
    where: Annotated[Path, typer.Argument(help="The folder to write.")],
    model: Annotated[str, typer.Option(help="A sentence encoder: minilm, a folder, or a hub id.")] = "minilm",
    storage: Annotated[str, typer.Option(help="full, or strongest (with --keep).")] = "full",
    keep: Annotated[int, typer.Option(help="Vectors kept per passage with --storage strongest.")] = 8,
    unit: Annotated[str, typer.Option(help="token, word (smaller) or sentence.")] = "token",
    layer: Annotated[int | None, typer.Option(help="0: word embeddings; k: states entering block k.")] = None,
    chunk: Annotated[bool, typer.Option(help="Cut documents that are too long at sentences.")] = False,
    tolerance: Annotated[float, typer.Option(help="How exactly the vectors must add up.")] = 1e-3,
    store: Annotated[
        str | None, typer.Option(help="A LanceDB address for the embeddings, if elsewhere.")
    ] = None,
    quiet: Annotated[bool, typer.Option(help="No progress bar.")] = False,
) -> None:
    """Embeddings and token vectors of every document, written once."""
    from pathlens.index import build as verb

    made = verb(
        documents,
        where,
        model,
        storage=storage,
        keep=keep,
        chunk=chunk,
        store=store,
        show_progress=not quiet,
        unit=unit,
        layer=layer,
        tolerance=tolerance,
    )
    typer.echo(
        f"{made['documents']} documents, {made['passages']} passages, {made['bytes'] / 1e6:.2f} MB, "
        f"{made['bytes_per_passage'] / 1e3:.1f} kB per passage: {where}"
    )


@commands.command()
def search(
    where: Annotated[Path, typer.Argument(help="The index.")],
    query: Annotated[str, typer.Argument(help="The query.")],
    k: Annotated[int, typer.Option("--top", "-k", help="How many hits.")] = 5,
    one_sided: Annotated[bool, typer.Option(help="No integral on the query's side: milliseconds.")] = False,
    why: Annotated[
        str | None, typer.Option(help="Two places, 1,2: why the first stands above the second.")
    ] = None,
    json_out: Annotated[str | None, typer.Option("--json", help="Write JSON to a file; - prints it.")] = None,
) -> None:
    """The nearest passages, each with the decomposition of its score."""
    from pathlens.cli.rank import give_ranking, parse_places
    from pathlens.index import Index

    found = Index.open(where).search(query, k, one_sided=one_sided)
    reason = found.why(*parse_places(why, len(found))) if why else None
    give_ranking(found, k, json_out, reason)


@commands.command()
def check(where: Annotated[Path, typer.Argument(help="The index.")]) -> None:
    """Read every file of an index; exit code 1 and their names when some are damaged."""
    from pathlens.index import Index

    damaged = Index.open(where).verify()
    for line in damaged or ["everything is whole"]:
        typer.echo(line)
    if damaged:
        raise typer.Exit(1)


@commands.command()
def repair(where: Annotated[Path, typer.Argument(help="The index.")]) -> None:
    """Write the table of embeddings again from the vector files; the model is not needed."""
    from pathlens.index import Index

    index = Index.open(where)
    index.repair()
    typer.echo(f"the table of {len(index)} embeddings was written again")
