"""pathlens exact: a sentence encoder whose pairs of words alone add up to the similarity."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import pathlens as pl
from pathlens.cli import options as o

COLUMNS = "0,1,2"


def exact(
    model: o.Encoder,
    *,
    data: Annotated[Path, typer.Option(help="Pairs to tune on: a table with two texts and a score a row.")],
    out: Annotated[Path, typer.Option(help="The folder to write; checkpoints stand beside it.")] = Path("exact"),
    test: Annotated[Path | None, typer.Option(help="Pairs to measure on (default: a tenth is held out).")] = None,
    columns: Annotated[
        str, typer.Option(help="Where the two texts and the score stand: numbers from 0, or names of the first line.")
    ] = COLUMNS,
    epochs: Annotated[int, typer.Option(help="Times through the pairs.", min=1)] = 1,
    steps: Annotated[
        int | None, typer.Option(help="In place of epochs: so many steps; 0: the shift alone.", min=0)
    ] = None,
    rank: Annotated[int, typer.Option(help="Of the LoRA on every linear layer; 0 tunes all weights.", min=0)] = 16,
    linear: Annotated[bool, typer.Option("--linear", help="One matrix after the shift, the encoder as it is.")] = False,
    rate: Annotated[float | None, typer.Option(help="Of AdamW (default: 5e-4, for all weights 2e-5).")] = None,
    batch_size: Annotated[int, typer.Option(help="Pairs in a step.", min=1)] = 16,
    reference: Annotated[
        str, typer.Option(help="The token that says nothing: pad, mask, unk, or one as written.")
    ] = "pad",
    seed: Annotated[int, typer.Option(help="Of the order of pairs and every draw.")] = 0,
    quiet: o.Quiet = False,
) -> None:
    """The folder is an ordinary one of sentence-transformers: SentenceTransformer(folder, trust_remote_code=True). The same
    command again goes on where a killed one stopped.

    Examples:

    pathlens exact minilm --data pairs.tsv --out my-encoder

    pathlens exact minilm --data pairs.tsv --linear

    pathlens exact minilm --data sts-train.csv --columns 5,6,4 --test sts-test.csv --epochs 2
    """
    from pathlens.studies.exact import read_pairs

    places = [part.strip() for part in columns.split(",")]
    made = pl.exact(
        model,
        read_pairs(data, places),
        out,
        test=None if test is None else read_pairs(test, places),
        epochs=epochs,
        steps=steps,
        rank=rank,
        linear=linear,
        rate=rate,
        batch_size=batch_size,
        reference=reference,
        seed=seed,
        show_progress=o.watched() and not quiet,
    )
    typer.echo(str(made))
