"""pathlens run, summary, report, evaluate: data sets and folders of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import pathlens as pl
from pathlens.cli import options as o
from pathlens.corpus.options import LEAST, MOST
from pathlens.engine.explainer import check_choices
from pathlens.errors import InputError
from pathlens.metrics.contenders import GRADIENT
from pathlens.metrics.deletion import PROTOCOLS
from pathlens.metrics.evaluate import METHODS
from pathlens.metrics.extras import EXTRAS

USUAL = EXTRAS[:1]  # wae is for paths through words, and the others explain every text again


def run(
    model: o.Model,
    data: o.Data,
    *,
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    text: o.Column = "text",
    text_b: o.ColumnB = None,
    id: Annotated[str | None, typer.Option(help="A column that names rows (default: the row number).")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to carry along; repeatable (default: all plain ones).")
    ] = None,
    method: o.Method = None,
    baseline: o.Baseline = None,
    choices: o.AllExplainFlags,
    dry_run: Annotated[bool, typer.Option(help="Say what it will take, from a short probe; write nothing.")] = False,
    how: o.OfRuns,
    reading: o.DataFlags,
    quiet: o.Quiet = False,
) -> None:
    """Examples:

      pathlens run sentiment reviews.csv --text review --out out/reviews --dry-run

      pathlens run sentiment reviews.csv --text review --out out/reviews

      pathlens run sentiment reviews.csv --text review --method ig,sig --out out/both      (out/both/ig and out/both/sig)

      pathlens run minilm pairs.jsonl --text a --text-b b --method ij --out out/pairs --workers 2

      pathlens run ./my-model ./parquet --text body --out out/all --engine ray --address auto --workers 8

    Killed at any moment, the same command goes on. Then: pathlens summary out/reviews
    """
    from pathlens.corpus.execute import run as verb
    from pathlens.corpus.formats import Source
    from pathlens.corpus.job import plan

    source = Source(data, text, text_b, id, tuple(keep) if keep else None, **reading.given())
    given: dict[str, Any] = {"baseline": o.baseline(baseline), **choices.given()}
    folders = o.folders_of(out, o.methods_of(method), "_manifest.json", "run")
    for name in folders:
        check_choices(name, given)  # the last one's too, before the first is run
    given |= {name: parse_shard(value) if name == "shard" else value for name, value in how.given().items()}
    for name, folder in folders.items():
        with o.at_work():
            if dry_run:
                lines = plan(model, source, folder, method=name, **given).lines()
            else:
                bar = o.watched() and not quiet
                done = verb(model, source, folder, show_progress=bar, method=name, **given)
                lines = done.lines()
        for note in () if dry_run else done.notes:
            typer.echo(f"pathlens: {note}", err=True)
        typer.echo("\n".join([f"{name}:", *lines] if dry_run and len(folders) > 1 else lines))


def parse_shard(text: str) -> tuple[int, int]:
    """ "0/4" → (0, 4)."""
    parts = text.split("/")
    if len(parts) != 2 or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise InputError(f"--shard takes i/n, as in 0/4; got {text!r}")
    return int(parts[0]), int(parts[1])


def summary(
    folder: Annotated[Path, typer.Argument(help="The folder `pathlens run` wrote.")],
    *,
    by: Annotated[
        list[str] | None,
        typer.Option(help="A column of the data to slice by; repeatable (default: those with few values)."),
    ] = None,
    least: Annotated[int, typer.Option(help="Texts a word must be in to be listed.", min=1)] = LEAST,
    top: Annotated[int, typer.Option(help="Words in each direction.", min=1)] = MOST,
    speech: Annotated[bool, typer.Option(help="By part of speech too, when spaCy has a model.")] = True,
    tagger: Annotated[str | None, typer.Option(help="The spaCy model (default: an English one).")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write every table into this folder.")] = None,
    output: o.OutputFlags,
) -> None:
    """Examples:

    pathlens summary out/reviews

    pathlens summary out/reviews --by label --csv out/tables --png out/words.png

    pathlens report out/reviews --html out/reviews.html
    """
    from pathlens.corpus.summary import summarise

    with o.working():
        tables = summarise(folder, by=by, least=least, most=top, speech=speech, pipeline=tagger)
    if csv is not None:
        tables.to_csv(csv)
        o.wrote(csv)
    output.give(tables, also=csv is not None)


def report(
    files: Annotated[
        list[Path],
        typer.Argument(help="Saved explanations (.json, .html), folders of them, or one folder of `pathlens run`."),
    ],
    *,
    title: Annotated[str | None, typer.Option(help="The report's title.")] = None,
    output: o.OutputFlags,
) -> None:
    """Examples:

      pathlens explain sentiment "A fine film." --json a.json

      pathlens report a.json b.json --html report.html

      pathlens report ./explanations --html report.html --png words.png

      pathlens report out/reviews --html reviews.html      (a folder that `pathlens run` wrote: its summary and 100 rows)

    The page can be filtered and sorted, and read again: pathlens report report.html
    """
    if len(files) == 1 and files[0].is_dir() and (files[0] / "_manifest.json").exists():
        from pathlens.corpus.summary import report as of_run

        output.give(of_run(files[0], title=title))
        return
    from pathlens.report import Report

    with o.working("reading") as tell:
        page = Report.of(files, title=title or "report", tell=lambda item: tell(f"reading {item}"))
    output.give(page)


def evaluate(
    model: o.Model,
    data: o.Data,
    *,
    text: o.Column = "text",
    text_b: o.ColumnB = None,
    label: Annotated[str | None, typer.Option(help="The column with the true label: accuracy is noted.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Those with a score per token, or {GRADIENT}; repeated or with commas (default: {', '.join(METHODS)})."
        ),
    ] = None,
    baseline: o.Baseline = None,
    reference: Annotated[
        list[str] | None, typer.Option(help="What replaces tokens in log-odds; repeated or with commas.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="A seeded sample of this many rows.")] = None,
    protocol: Annotated[str, typer.Option(help=f"{', or '.join(PROTOCOLS)} (special tokens deletable).")] = "default",
    extra: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(EXTRAS)}; repeated or with commas (default: {', '.join(USUAL)})."),
    ] = None,
    choices: o.ExplainFlags,
    seed: Annotated[int, typer.Option(help="Of the sample, the random control and the intervals.")] = 0,
    reading: o.DataFlags,
    csv: Annotated[
        Path | None, typer.Option(help="Write the table, one line per cell.", callback=o.place_to_write)
    ] = None,
    output: o.OutputFlags,
) -> None:
    """Examples:

    pathlens evaluate sentiment reviews.csv --text review --label label --method ig,sig --limit 50

    pathlens evaluate sentiment dev.tsv --text sentence --method ig,udig --baseline mask,pad --html table.html

    pathlens evaluate ./qa-model questions.jsonl --text question --text-b passage --protocol paper --csv table.csv
    """
    from pathlens.corpus.reading import read_sample

    asked: dict[str, Any] = {"methods": o.several(method)} if method else {}
    asked |= {"baselines": o.baselines(baseline) or (None,), "reference": o.several(reference) or None}
    asked |= {"protocol": protocol, "extra": USUAL if extra is None else o.several(extra)}
    with o.at_work():
        texts, others, labels = read_sample(data, text, text_b, label, limit=limit, seed=seed, **reading.given())
        asked |= {"labels": labels, "seed": seed, "show_progress": o.watched()}
        evaluation = pl.evaluate(model, texts, others, **asked, **choices.given())
    if csv is not None:
        evaluation.to_csv(csv)
        o.wrote(csv)
    output.give(evaluation, also=csv is not None)
