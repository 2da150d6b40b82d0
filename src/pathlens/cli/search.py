"""pathlens rank, index, exact: order documents by a query, and say why; search an index with reasons; make an encoder exact."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import pathlens as pl
from pathlens.cli import COMMANDS
from pathlens.cli import options as o
from pathlens.cli.documents import read_documents
from pathlens.engine.explainer import check_choices
from pathlens.errors import InputError
from pathlens.explanation.base import shortened
from pathlens.explanation.view import Viewable
from pathlens.studies.exact import ExactOptions, read_pairs
from pathlens.text.load import load

Query = Annotated[str, typer.Argument(help="The query.")]
OfExact: Any = o.record_of("OfExact", ExactOptions)
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

    pathlens rank minilm "How do I cook rice?" recipes.txt --method ij,secant --top 2

    cat lines.txt | pathlens rank minilm "a query" - --one-sided --json -
    """
    if os.path.isfile(query) and str(documents) != "-" and not os.path.exists(documents):
        raise InputError(
            f"the query and the documents are swapped: pathlens rank MODEL {json.dumps(str(documents), ensure_ascii=False)} {query}"
        )
    asked, texts = o.read_text(query), list(read_documents(documents, column).values())
    places = parse_places(why, len(texts))
    shown = max([top, *[place + 1 for place in places]])
    how: dict[str, Any] = {"top": shown, "one_sided": one_sided, "chunk": chunk, "show_progress": o.watched()}
    methods, chosen = o.methods_of(choices.method), {"unit": unit, **choices.given()}
    for method in methods:
        check_choices(method, chosen)
    with o.at_work():
        loaded = load(model)
        every = [pl.rank(loaded, asked, texts, method=method, **how, **chosen) for method in methods]
    if places:
        every = [ranking.with_reason(*places) for ranking in every]
    output.give(every[0] if len(every) == 1 else RankedInTurn(tuple(every)))


@dataclass(frozen=True, eq=False)
class RankedInTurn(Viewable):
    """One ranking for each method. The order is the model's, so it is the same; reasons stand side by side, hit by hit."""

    rankings: tuple[pl.Ranking, ...]

    @property
    def reasons(self) -> list[tuple[Any, ...]]:
        """Of every explained hit what each method says, and last why one stands above another, where that was asked."""
        rows = [tuple(hit.explanation for hit in row) for row in zip(*self.rankings, strict=True)]
        return [row for row in (*rows, tuple(each.reason for each in self.rankings)) if None not in row]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `pl.load` of the saved file gives the explanations back as a list."""
        from pathlens.explanation.store import many_to_dict

        every = [each for row in self.reasons for each in row]
        return many_to_dict(every, query=self.rankings[0].query, order=self.rankings[0].rows())

    def to_page(self) -> Any:
        from pathlens.draw import page_of
        from pathlens.draw.blocks import Fold, Folds, Inset, Page
        from pathlens.draw.evaluations import meetings, nearest
        from pathlens.studies.compare import side_by_side

        first, reasons = self.rankings[0], self.reasons
        each = [page_of(side_by_side(row)) for row in reasons]
        why = [Inset(each.pop(), title="why one stands above the other")] if first.places is not None else []
        folds = []
        for k, (hit, row, page) in enumerate(zip(first.hits, reasons, each, strict=False), 1):
            below = (*(f"{one.method}: {meetings(one)}" for one in row), page.notes[0])
            folds.append(Fold(f"{k:3}. {hit.score:+.4f}", shortened(hit.text), below, page))
        title = f"documents by similarity to “{shortened(first.query)}”, the reasons side by side"
        inside = (Folds(tuple(folds), 0), *why)
        return Page(title, headline=nearest(first), blocks=inside, data=self.to_dict, kind="ranking")


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
    from pathlens.vectors.build import MANIFEST
    from pathlens.vectors.index import build as verb

    folders, chosen = o.folders_of(where, o.methods_of(choices.method), MANIFEST, "index"), choices.given()
    for method in folders:
        check_choices(method, chosen)
    kept: dict[str, Any] = {"storage": "plain" if plain else storage, "keep": keep, "chunk": chunk, "store": store}
    texts = read_documents(documents, column)
    for method, folder in folders.items():
        named = chosen if method is None else {**chosen, "method": method}
        with o.at_work():
            made = verb(texts, folder, model, show_progress=o.watched() and not quiet, unit=unit, **kept, **named)
        typer.echo(
            f"{made['documents']} documents, {made['passages']} passages, {made['bytes'] / 1e6:.2f} MB, "
            f"{made['bytes_per_document'] / 1e3:.1f} kB per document: {folder}"
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


def exact(
    model: o.Encoder,
    *,
    data: Annotated[Path, typer.Option(help="Pairs to tune on: a table with two texts and a score a row.")],
    out: Annotated[Path, typer.Option(help="The folder to write; checkpoints stand beside it.")] = Path("exact"),
    test: Annotated[Path | None, typer.Option(help="Pairs to measure on (default: a tenth is held out).")] = None,
    columns: Annotated[
        str, typer.Option(help="Where the two texts and the score stand: numbers from 0, or names of the first line.")
    ] = "0,1,2",
    choices: OfExact,
    quiet: o.Quiet = False,
) -> None:
    """The folder is an ordinary one of sentence-transformers: SentenceTransformer(folder, trust_remote_code=True). The same
    command again goes on where a killed one stopped.

    Examples:

    pathlens exact minilm --data pairs.tsv --out my-encoder

    pathlens exact minilm --data pairs.tsv --linear

    pathlens exact minilm --data sts-train.csv --columns 5,6,4 --test sts-test.csv --epochs 2
    """
    places = [part.strip() for part in columns.split(",")]
    made = pl.exact(
        model,
        read_pairs(data, places),
        out,
        test=None if test is None else read_pairs(test, places),
        **choices.given(),
        show_progress=o.watched() and not quiet,
    )
    typer.echo(str(made))
