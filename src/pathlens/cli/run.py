"""pathlens run: a whole corpus, on one machine or many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pathlens.cli import app
from pathlens.cli import common as c
from pathlens.cli.common import Choice, number_or_name, parse_options, warnings_in_a_line, watched

EXAMPLES = """
Examples:

  pathlens run --model sentiment --data reviews.csv --text review --out out/reviews --dry-run

  pathlens run --model sentiment --data reviews.csv --text review --out out/reviews

  pathlens run --model minilm --data pairs.jsonl --text a --text-b b --method ij --out out/pairs --workers 2

  pathlens run --model ./my-model --data ./parquet --text body --out out/all --engine ray --address auto --workers 8

Killed at any moment, the same command goes on. Then: pathlens summary out/reviews
"""


@app.command(epilog=EXAMPLES)
def run(
    model: Annotated[str, typer.Option(help="A built-in name (minilm, sentiment), a folder, or a hub id.")],
    data: Annotated[str, typer.Option(help="CSV, TSV, JSON lines, Parquet, text; a folder of them; a hub id.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    text: Annotated[str, typer.Option(help="The column to explain.")] = "text",
    text_b: Annotated[str | None, typer.Option(help="The column of second texts.")] = None,
    id: Annotated[str | None, typer.Option(help="A column that names rows (default: the row number).")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to carry along; repeatable (default: all plain ones).")
    ] = None,
    method: Annotated[str | None, typer.Option(help="See `pathlens methods`.")] = None,
    target: Annotated[str | None, typer.Option(help="Label or index; start, end, span.")] = None,
    baseline: Annotated[str | None, typer.Option(help="mask, pad, unk, eos, zero, mean, or a text.")] = None,
    layer: Annotated[int | None, typer.Option(help="0: word embeddings; k: states entering block k.")] = None,
    unit: Annotated[str, typer.Option(help="token, word or sentence.")] = "token",
    score: Annotated[str | None, typer.Option(help="logit, logprob or prob.")] = None,
    tolerance: Annotated[float, typer.Option(help="How exactly the scores must add up.")] = 1e-3,
    n_steps: Annotated[int | None, typer.Option(help="Fixed number of nodes instead of a tolerance.")] = None,
    rule: Annotated[str | None, typer.Option(help="adaptive, gauss, midpoint, trapezoid, left, right, split.")] = None,
    truncation: Annotated[bool, typer.Option(help="Cut texts that are too long.")] = False,
    option: Choice = None,
    limit: Annotated[int | None, typer.Option(help="The first so many rows; may be raised later.")] = None,
    shard: Annotated[str, typer.Option(help="i/n: every n-th shard from the i-th, for n machines.")] = "0/1",
    overwrite: Annotated[bool, typer.Option(help="Begin anew in a folder that holds a run.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Say what it will take, from a short probe; write nothing.")] = False,
    workers: Annotated[int, typer.Option(help="Worker processes, one thread each (1: this process).")] = 1,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="A Ray cluster (auto, host:port); none: one is started here.")
    ] = None,
    gpus: Annotated[float, typer.Option(help="GPUs of each Ray worker.")] = 0.0,
    batch_size: Annotated[int, typer.Option(help="Texts worked on together.")] = 64,
    rows_per_shard: Annotated[int, typer.Option(help="Rows of each Parquet file.")] = 256,
    encoding: c.Encoding = "utf-8",
    separator: c.Separator = None,
    quoting: c.Quoting = None,
    header: c.Header = True,
    split: c.Split = "train",
    config: c.Config = None,
    quiet: Annotated[bool, typer.Option(help="No progress bar.")] = False,
) -> None:
    """Explain every row of a data set; Parquet files that pandas, polars and DuckDB open."""
    from pathlens.corpus.formats import Source

    source = Source(data, text, text_b, id, tuple(keep) if keep else None, encoding,
                    "\t" if separator == "\\t" else separator, quoting, header, split, config)  # fmt: skip
    choices: dict[str, Any] = {
        "method": method, "target": number_or_name(target), "baseline": baseline, "layer": layer, "unit": unit,
        "score": score, "tolerance": tolerance, "n_steps": n_steps, "rule": rule, "truncation": truncation,
        **parse_options(option),
    }  # fmt: skip
    choices |= {"limit": limit, "shard": parse_shard(shard), "batch_size": batch_size, "rows_per_shard": rows_per_shard}
    if dry_run:
        from pathlens.corpus.job import plan

        with warnings_in_a_line():
            found = plan(model, source, out, overwrite=overwrite, engine=engine, workers=workers, address=address, gpus=gpus,
                         **choices)  # fmt: skip
        for line in found.lines():
            typer.echo(line)
        return
    from pathlens.corpus.execute import run as verb

    with warnings_in_a_line():
        done = verb(model, source, out, overwrite=overwrite, engine=engine, workers=workers, address=address, gpus=gpus,
                    show_progress=watched() and not quiet, **choices)  # fmt: skip
    for note in done.notes:
        typer.echo(f"pathlens: {note}", err=True)
    for line in done.lines():
        typer.echo(line)


def parse_shard(text: str) -> tuple[int, int]:
    """ "0/4" → (0, 4)."""
    from pathlens.errors import InputError

    parts = text.split("/")
    if len(parts) != 2 or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise InputError(f"--shard takes i/n, as in 0/4; got {text!r}")
    return int(parts[0]), int(parts[1])
