"""A run summed up: strongest words by class, by part of speech, by slice; pairs; what settled and how far off it is.

Parts of speech come from spaCy, where it and a model of it are installed.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pathlens.corpus.folder import finished_run, results
from pathlens.corpus.options import LEAST, MOST
from pathlens.corpus.queries import Questions
from pathlens.corpus.schema import carried
from pathlens.corpus.shard import check_shards
from pathlens.draw import evaluations
from pathlens.draw.blocks import Page
from pathlens.errors import InputError
from pathlens.explanation.reduce import adds_up_in_groups
from pathlens.explanation.view import Viewable
from pathlens.files import writing
from pathlens.report import Report
from pathlens.types import TOLERANCE, brief
from pathlens.units import parse

TAGGED = 20_000  # texts that are tagged at most, evenly over the run
FEW = 12  # a column with at most so many values is a slice without being asked for
SHOWN = 100  # explanations on a page: more make it slow to open
NO_SPEECH = f"no parts of speech: spaCy or a model of it is not installed ({parse.INSTALL})"
MEASURED = ("times", "texts", "mean", "low", "high")


@dataclass(frozen=True)
class SummaryTable:
    """One question's answer."""

    name: str  # of its file
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()
    is_change: bool = False  # the output's mean change, by the values of a column and by class


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Viewable):
    """Tables by name; `show`, `to_html`, `to_png`, `to_csv`, `save` (JSON)."""

    title: str
    tables: Mapping[str, SummaryTable]
    notes: tuple[str, ...] = ()
    tolerance: float = TOLERANCE

    def __repr__(self) -> str:
        return brief(self, repr(self.title), f"tables {', '.join(self.tables)}")

    def __getitem__(self, name: str) -> SummaryTable:
        return self.tables[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values: every table as a list of rows with names."""
        return {
            "title": self.title,
            "notes": list(self.notes),
            "tables": {
                name: [dict(zip(table.columns, map(_finite, row), strict=True)) for row in table.rows]
                for name, table in self.tables.items()
            },
        }

    def to_page(self) -> Page:
        """What is drawn of it."""
        return evaluations.corpus(self)

    def to_csv(self, where: str | Path) -> list[Path]:
        """One file per table."""
        made: list[Path] = []
        with writing(where):
            Path(where).mkdir(parents=True, exist_ok=True)
            for name, table in self.tables.items():
                made.append(Path(where) / f"{_file_name(name, made)}.csv")
                with made[-1].open("w", newline="", encoding="utf-8") as stream:
                    csv.writer(stream).writerows([table.columns, *table.rows])
        return made


def _file_name(name: str, made: Sequence[Path]) -> str:
    """A column may be called anything; a file may not, and no file is written twice."""
    plain = re.sub(r"[^\w .+-]", "_", name)[:100]
    taken = {path.stem.lower() for path in made}
    return next(each for k in range(len(made) + 1) if (each := plain + "_" * k).lower() not in taken)


def _finite(cell: Any) -> Any:
    """NaN and infinity are nothing in JSON, and nothing to show."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def summarise(
    folder: str | Path,
    *,
    by: Sequence[str] | None = None,
    least: int = LEAST,
    most: int = MOST,
    speech: bool = True,
    pipeline: str | None = None,
) -> Summary:
    """Sum a run up.

    by: columns of the data to slice by (default: those with at most 12 values). least: texts a word must be in.
    most: words in each direction. speech: by part of speech too, when spaCy has a model; pipeline names one.
    """
    about, files = finished_run(folder), check_shards(Path(folder))
    if not files:
        raise InputError(f"the run in {str(folder)!r} has not finished its first shard yet; run the same command again")
    choices = about["choices"]
    asked = {"method": "", "context": "full", "unit": "token", **choices}
    by_word = asked["unit"] != "token" or adds_up_in_groups(asked["method"], asked["context"])
    with Questions(files, by_word=by_word) as ask:
        counts = ask.overview()
        tables = [_overview(counts), *_failures_and_gaps(ask, counts), *_strongest(ask, most, least)]
        notes = _notes(counts, about, ask, by_word)
        tables += _slices(ask, by, about, most, least)
        if speech and ask.has_scores and asked["unit"] != "sentence":
            tagger = parse.pipeline(pipeline)
            tables += [] if tagger is None else [_speech(ask, tagger, least)]
            notes += [NO_SPEECH] if tagger is None else []
    title = f"{Path(folder).name}: {choices['method']} of {about['model']} over {counts['rows']} rows"
    answered = {table.name: table for table in tables if table.rows}
    return Summary(title, answered, tuple(notes), choices.get("tolerance", TOLERANCE))


def _notes(counts: Mapping[str, Any], about: Mapping[str, Any], ask: Questions, by_word: bool) -> list[str]:
    notes = []
    if counts["rows"] < about["rows"]:
        notes.append(f"the run is not finished: {counts['rows']} of {about['rows']} rows so far")
    if not by_word:
        notes.append("SIG's scores of tokens do not add up to words; these are tokens (run with --unit word for words)")
    if not ask.has_scores and ask.kind not in (None, "PairExplanation"):
        notes.append(f"a {ask.kind} has no signed score per word, so words are not ranked")
    return notes


def _overview(counts: Mapping[str, Any]) -> SummaryTable:
    low, high = wilson(counts["converged"], counts["explained"])
    share = counts["converged"] / counts["explained"] if counts["explained"] else math.nan
    believed = counts["agreed"] / counts["checked"] if counts["checked"] else math.nan
    least, most = wilson(counts["agreed"], counts["checked"])
    rows = {
        "rows": counts["rows"],
        "explained": counts["explained"],
        "failed": counts["failed"],
        "settled within the tolerance": counts["converged"],
        "share settled": share,
        "  95 % interval, from": low,
        "  to": high,
        "checked against the model": counts["checked"] or math.nan,
        "share where it does what the scores predict": believed,
        "  95 % interval of it, from": least,
        "  to ": most,
        "tokens": counts["tokens"],
        "model passes": counts["passes"],
    }
    kept = tuple((what, float(value)) for what, value in rows.items() if math.isfinite(value))  # no share of nothing
    return SummaryTable("overview", "the run", ("what", "count"), kept)


def wilson(successes: int, count: int) -> tuple[float, float]:
    """Wilson's interval of a share: also right for 0 and for all of few."""
    if count == 0:
        return math.nan, math.nan
    z, share = 1.959964, successes / count  # 95 %
    middle = share + z * z / (2 * count)
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return max((middle - reach) / scale, 0.0), min((middle + reach) / scale, 1.0)


def _failures_and_gaps(ask: Questions, counts: Mapping[str, Any]) -> list[SummaryTable]:
    columns = ("quantile", "gap", "relative_gap", "nodes", "passes")
    gaps = ask.gaps() if counts["explained"] else ()
    spread = tuple((f"{100 * q:g} %", *map(_finite, rest)) for q, *rest in gaps)
    bins = tuple((f"1e{k} to 1e{k + 1}" if k > -9 else "below 1e-8", n) for k, n in ask.gap_histogram())
    return [
        SummaryTable("errors", "rows that failed", ("error", "times", "first_row"), tuple(ask.errors())),
        SummaryTable("gaps", "how far sums are off, and what it took", columns, spread),
        SummaryTable("gap_histogram", "relative gaps by size", ("size", "rows"), bins),
    ]


def _strongest(ask: Questions, most: int, least: int) -> list[SummaryTable]:
    columns, pair_columns = (("class", what, *MEASURED) for what in ("word", "pair"))
    chosen = f"words in at least {least} texts; means over texts with 95 % intervals, the surest first to be chosen"
    alike = f"pairs of words in at least {least} texts; a pair counts alike in both orders"
    words, pairs = (tuple(ask.strongest(source, most, least)) for source in ("unit", "pair"))
    return [
        SummaryTable("words", "strongest words by class", columns, words, (chosen,)),
        SummaryTable("all_words", "every word by class", columns, tuple(ask.summed("unit", least))),
        SummaryTable("pairs", "strongest pairs of words", pair_columns, pairs, (alike,)),
    ]


def _slices(
    ask: Questions, by: Sequence[str] | None, about: Mapping[str, Any], most: int, least: int
) -> list[SummaryTable]:
    known = carried(about["kept"])
    here = {name: name for name in known} | dict(zip(about["kept"], known, strict=True))  # as the data has it, too
    for name in by or ():
        if name not in here:
            raise InputError(f"the run carries no column {name!r} along; it has {', '.join(known) or 'none'}")
    few = [name for name in known if 1 < ask.values(name) <= FEW] if by is None else []
    chosen = few if by is None else list(dict.fromkeys(here[name] for name in by))
    tables = []
    for name in chosen:
        columns = _beside(name, "rows", "failed", "settled")
        tables.append(SummaryTable(f"slice_{name}", f"by {name}", columns, tuple(ask.slices(name))))
        columns = _beside(name, "class", "rows", "mean_change", "low", "high")
        changes = tuple(ask.changes_by_slice(name, 1 if ask.values("target") <= FEW else least))
        title = f"change of the output by {name} and class"
        tables.append(SummaryTable(f"change_by_{name}", title, columns, changes, is_change=True))
        words = tuple(ask.words_by_slice(name, min(most, 5), least))
        columns = _beside(name, "class", "word", *MEASURED)
        tables.append(SummaryTable(f"words_by_{name}", f"strongest words by {name} and class", columns, words))
    return tables


def _beside(name: str, *ours: str) -> tuple[str, ...]:
    """The column's own name before ours; one that is ours already gets `data_` before it."""
    return (f"data_{name}" if name in ours else name, *ours)


def _speech(ask: Questions, pipeline: Any, least: int) -> SummaryTable:
    texts = ask.texts(TAGGED)
    measured = ask.speech(tag(pipeline, texts), [row for row, *_ in texts], least)
    note = (f"{len(texts)} texts tagged by spaCy, {pipeline.meta.get('name', '')}",)
    columns = ("class", "part_of_speech", *MEASURED)
    return SummaryTable("speech", "by part of speech", columns, tuple(measured), note)


def tag(pipeline: Any, texts: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, int, int, int, str]]:
    """(row, segment, first character, last, universal part of speech) of every word."""
    pieces = ((body, (row, segment)) for row, *both in texts for segment, body in enumerate(both) if body is not None)
    for document, (row, segment) in pipeline.pipe(pieces, as_tuples=True, batch_size=128):
        for token in document:
            yield row, segment, token.idx, token.idx + len(token.text), token.pos_


def report(folder: str | Path, *, title: str | None = None, most: int = SHOWN, **choices: Any) -> Report:
    """A run as one page: its summary on top, and its first explanations below, each drawn."""
    from pathlens.draw import page_of
    from pathlens.draw.blocks import Inset

    summary = summarise(folder, **choices)
    some = tuple(islice(results(folder), most))
    if not some:
        raise InputError(f"no row of {str(folder)!r} was explained; `pathlens summary {folder}` says why")
    names = tuple(f"row {result.origin.row}" for result in some)
    return Report(some, names, title or summary.title, (Inset(page_of(summary)),))
