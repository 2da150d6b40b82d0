"""pathlens evaluate: how far the scores can be believed, over a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pathlens.cli import app
from pathlens.cli import common as c
from pathlens.cli.common import (
    Choice,
    HtmlOut,
    JsonOut,
    PngOut,
    give,
    number_or_name,
    parse_options,
    place_to_write,
    warnings_in_a_line,
    watched,
)

EXAMPLES = """
Examples:

  pathlens evaluate sentiment --data reviews.csv --text review --label label --methods ig,sig --limit 50

  pathlens evaluate sentiment --data dev.tsv --text sentence --methods ig,udig --baseline mask,pad --html table.html

  pathlens evaluate ./qa-model --data questions.jsonl --text question --text-b passage --protocol paper --csv table.csv
"""


@app.command(epilog=EXAMPLES)
def evaluate(
    model: Annotated[str, typer.Argument(help="A built-in name (sentiment), a folder, or a hub id.")],
    data: Annotated[str, typer.Option(help="CSV, TSV, JSON lines, Parquet, text file, folder, or hub id.")],
    text: Annotated[str, typer.Option(help="The column with the text.")] = "text",
    text_b: Annotated[str | None, typer.Option(help="The column with the second text.")] = None,
    label: Annotated[str | None, typer.Option(help="The column with the true label: accuracy is noted.")] = None,
    methods: Annotated[
        str, typer.Option(help="ig, sig, dig, udig, gradient-x-input; with commas.")
    ] = "gradient-x-input,ig,sig",
    baseline: Annotated[str | None, typer.Option(help="mask, pad, …; with commas: every method with each.")] = None,
    reference: Annotated[str | None, typer.Option(help="What replaces tokens in log-odds; with commas.")] = None,
    limit: Annotated[int | None, typer.Option(help="A seeded sample of this many rows.")] = None,
    protocol: Annotated[str, typer.Option(help="default, or paper (special tokens deletable).")] = "default",
    extra: Annotated[
        str, typer.Option(help="infidelity, wae, max-sensitivity, stability, randomisation.")
    ] = "infidelity",
    target: Annotated[str | None, typer.Option(help="Label or index; default: what is predicted.")] = None,
    tolerance: Annotated[float, typer.Option(help="How exactly the scores must add up.")] = 1e-3,
    n_steps: Annotated[int | None, typer.Option(help="Fixed number of nodes instead of a tolerance.")] = None,
    truncation: Annotated[bool, typer.Option(help="Cut texts that are too long.")] = False,
    seed: Annotated[int, typer.Option(help="Of the sample, the random control and the intervals.")] = 0,
    encoding: c.Encoding = "utf-8",
    separator: c.Separator = None,
    quoting: c.Quoting = None,
    header: c.Header = True,
    split: c.Split = "train",
    config: c.Config = None,
    option: Choice = None,
    json_out: JsonOut = None,
    html: HtmlOut = None,
    png: PngOut = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write the table, one line per cell.", callback=place_to_write)
    ] = None,
) -> None:
    """Methods × metrics over a data set: log-odds, comprehensiveness, sufficiency, with controls and intervals."""
    from pathlens.corpus.reading import read_sample
    from pathlens.metrics.evaluate import evaluate as verb

    with warnings_in_a_line():
        texts, others, labels = read_sample(
            data,
            text,
            text_b,
            label,
            limit=limit,
            seed=seed,
            encoding=encoding,
            separator="\t" if separator == "\\t" else separator,
            quoting=quoting,
            header=header,
            split=split,
            config=config,
        )
        found = verb(
            model,
            texts,
            others,
            methods=_names(methods),
            baselines=_names(baseline) if baseline else (None,),
            reference=_names(reference) if reference else None,
            protocol=protocol,
            extra=_names(extra),
            labels=labels,
            seed=seed,
            show_progress=watched(),
            target=number_or_name(target),
            tolerance=tolerance,
            n_steps=n_steps,
            truncation=truncation,
            **parse_options(option),
        )
    if csv is not None:
        found.to_csv(csv)
    if csv is None or json_out is not None or html is not None or png is not None:
        give(found, json_out, html, png)


def _names(given: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in given.split(",") if part.strip())
