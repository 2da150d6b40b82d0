"""Pages over many texts: an evaluation of methods, a ranking of documents, a corpus summed up, rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import blocks, page_of, palette
from pathlens.draw.studies import correlations
from pathlens.draw.words import cut, in_short, visible
from pathlens.explanation.origin import Origin
from pathlens.explanation.record import Explanation, Interactions
from pathlens.explanation.store import many_to_dict
from pathlens.metrics.record import CONTROLS

if TYPE_CHECKING:
    from pathlens.metrics.record import Column, Evaluation
    from pathlens.vectors.rank import Ranking

ARROWS = {"lower": " ↓", "higher": " ↑", "": ""}
MEETINGS = 4  # pairs of words named per hit
SURE = 10  # texts: fewer redrawn say nothing of a mean, however their intervals lie
LONG = 160  # characters of a document on one line
HIDDEN = ("all_words", "gap_histogram")  # of a corpus: in files alone; the picture has the histogram
CLASSES = 4  # of a corpus drawn at most, the most frequent ones
FEATURES, CURVES = 20, 6  # of a table: lines of the summary, plots of score against value
LEAST_ROWS = 3  # of a table: fewer say nothing about a feature


# ---------------------------------------------------------------- methods × metrics


def evaluation(study: Evaluation) -> blocks.Page:
    """Methods × metrics with intervals, curves over the share of tokens, agreement, randomised layers."""
    name = Origin.of(study.meta).model
    model = f"{visible(name)}: " if name else ""
    agreement = zip(study.contenders, study.agreement, strict=True)
    reading = (
        f"[low, high]: 95 % of {study.draws} bootstrap draws over the texts (seed {study.seed}); ↑ higher is better, ↓ "
        "lower; random and leave-one-out are controls; ★ better than every other row, controls aside: the interval of the paired "
        f"difference leaves zero out (from {SURE} texts on)"
    )
    return blocks.Page(
        f"{model}faithfulness over {study.texts} texts, k = {study.share:.0%} ({study.protocol} protocol)",
        blocks=(
            *(_metrics(study, name, columns) for name, columns in _parts(study)),
            correlations("rank agreement between rows (mean Spearman over texts)", study.contenders, agreement),
            blocks.Charts(tuple(_curve(study, curve) for curve in study.curves), title=f"over k = {_shares(study)}"),
            *_randomised(study),
        ),
        notes=(reading, *map(visible, study.notes)),
        data=study.to_dict,
    )


def _parts(study: Evaluation) -> list[tuple[str, list[Column]]]:
    """The columns in tables that fit a page: at k, over all k, the others."""
    known = [c for c in study.columns if c.curve or np.isfinite(c.values).any()]
    named = {
        f"at k = {study.share:.0%} of the tokens": [c for c in known if c.curve and not c.over_shares],
        f"AOPC: mean over k = {_shares(study)}": [c for c in known if c.curve and c.over_shares],
        "other metrics": [c for c in known if not c.curve],
    }
    return [(name, columns) for name, columns in named.items() if columns]


def _shares(study: Evaluation) -> str:
    shares = study.curves[0].shares
    shown = shares if len(shares) < 5 else (*shares[:2], None, shares[-1])
    return ", ".join("…" if share is None else f"{share:.0%}" for share in shown)


def _metrics(study: Evaluation, name: str, columns: Sequence[Column]) -> blocks.Listing:
    """Rows × metrics as text cells; the best rows of each metric are marked by a star."""
    stars = {column.name: _best(study, column) for column in columns}
    rows = tuple(
        (contender, *(_interval(study, contender, c) + (" ★" if contender in stars[c.name] else "") for c in columns))
        for contender in study.contenders
    )
    heads = ("", *(f"{c.curve or c.name}{ARROWS[c.better]}" for c in columns))
    return blocks.Listing(heads, rows, right=True, title=name)


def _best(study: Evaluation, column: Column) -> frozenset[str]:
    """The best rows of a metric, controls aside, if they are surely better than all others on the same texts.

    Rows that choose the same tokens are equally good.
    """
    cells = {
        contender: study.estimate(contender, column.name) for contender in study.contenders if contender not in CONTROLS
    }
    known = {contender: cell.value for contender, cell in cells.items() if cell.n >= SURE}
    if not column.better or len(known) < 2:
        return frozenset()
    top = (min if column.better == "lower" else max)(known.values())
    best = {contender for contender, value in known.items() if np.isclose(value, top, rtol=1e-6, atol=0.0)}
    gained = [study.difference(min(best), contender, column.name) for contender in known if contender not in best]
    sure = all(each.high < 0 if column.better == "lower" else each.low > 0 for each in gained)
    return frozenset(best) if sure else frozenset()


def _interval(study: Evaluation, contender: str, column: Column) -> str:
    """Value and interval; a dot where the metric is not defined.

    Three decimals are what a few hundred texts can tell; gaps far below them are powers of ten.
    """
    cell = study.estimate(contender, column.name)
    every = (cell.value, cell.low, cell.high)
    largest = max(map(abs, every))
    if 0 < largest < 1e-3:
        value, low, high = (f"{each:.0e}" for each in every)
    else:
        value, low, high = (palette.number(each, 3 if largest < 10 else 1, sign=False) for each in every)
    return f"{value} [{low}, {high}]" if cell.n else "·"


def _curve(study: Evaluation, curve: Any) -> blocks.Chart:
    means = np.nanmean(curve.values, axis=1)
    lines = (list(zip(curve.shares, row.tolist(), strict=True)) for row in means)
    series = dict(zip(study.contenders, lines, strict=True))
    ticks = tuple((share, f"{share:.0%}") for share in curve.shares)
    title = curve.name + ARROWS[curve.better]
    return blocks.Chart(series, "share of the tokens", curve.name, title, level=0.0, ticks=ticks)


def _randomised(study: Evaluation) -> list[blocks.Listing]:
    """Rank correlation as layers are drawn anew."""
    if study.randomised is None:
        return []
    every = zip(study.contenders, study.randomised.values, strict=True)
    means = [(contender, np.nanmean(row, axis=1)) for contender, row in every if np.isfinite(row).any()]
    title = "rank correlation with the true model's scores, layers drawn anew from the top (it must fall)"
    return [correlations(title, [f"… {stage}" for stage in study.randomised.stages], means)]


# ---------------------------------------------------------------- documents in order


def ranking(study: Ranking) -> blocks.Page:
    """Every hit with its score and the words that met, and why one stands above another."""
    last = max((k for k, hit in enumerate(study.hits) if hit.explanation is not None), default=len(study.hits))
    hits, left = study.hits[: last + 1], len(study.hits) - last - 1
    reason = study.reason
    folds = []
    for place, hit in enumerate(hits, 1):
        page = None if hit.explanation is None else page_of(hit.explanation)
        lead = f"{place:3}. {hit.score:+.4f}"
        folds.append(blocks.Fold(lead, cut(hit.text, LONG), (meetings(hit.explanation),), page))
    explained = [hit.explanation for hit in study.hits if hit.explanation is not None]
    why: list[blocks.Block] = []
    if reason is not None:
        page = page_of(reason)
        under = " · ".join(part for part in (page.headline, page.subtitle) if part)
        title = f"{_question(study)}: {reason.certificate.f_input:+.4f}"  # the only heading of what is inside
        why = [blocks.Inset(replace(page, headline="", title="", subtitle=under), title=title)]
    return blocks.Page(
        f"documents by similarity to “{visible(cut(study.query, LONG))}”",
        headline=nearest(study),
        blocks=(blocks.Folds(tuple(folds), 0 if reason is None and folds[:1] and folds[0].page else -1), *why),
        notes=(f"scored and not explained: {left} more",) if left > 0 else (),
        data=lambda: many_to_dict([*explained, *([reason] if reason else [])], query=study.query),
        kind="ranking",
    )


def nearest(study: Ranking) -> str:
    """The winner and by how much it wins."""
    if not study.hits:
        return ""
    first, *others = study.hits
    lead = f" (the next: {others[0].score:.3f})" if others else ""
    return f"nearest: “{visible(cut(first.text, 60))}”, similarity {first.score:.3f}{lead}"


def _question(study: Ranking) -> str:
    """What the reason answers, with places as they are shown and the first words of both."""
    above, how, below = study.order(*(study.places or (0, 0)))
    first, second = (visible(cut(study.hits[place - 1].text, 60)) for place in (above, below))
    return f"why {above}. “{first}” stands {how} {below}. “{second}”"


def meetings(explanation: Any) -> str:
    """The strongest pairs of words (or words, read one-sided), and what is amiss where something is."""
    if explanation is None:
        return "not explained"
    met = [f"{'–'.join(map(visible, names))} {score:+.3f}" for *names, score in explanation.top(MEETINGS) if score]
    amiss = in_short(explanation)
    return ", ".join(met) + (f"   [{amiss}]" if amiss else "")


# ---------------------------------------------------------------- a corpus


def corpus(summary: Any) -> blocks.Page:
    """A corpus summed up: bars with intervals, then the tables they come from."""
    tables = [_table(table) for name, table in summary.tables.items() if name not in HIDDEN]
    return blocks.Page(
        summary.title,
        blocks=(*tables[:1], blocks.Panels(tuple(_panels(summary))), *tables[1:]),
        notes=(*summary.notes, *(note for table in summary.tables.values() for note in table.notes)),
    )


def _table(table: Any) -> blocks.Listing:
    """Means are coloured, counts are not."""
    signed = [k for k, name in enumerate(table.columns) if name in ("mean", "mean_change")]
    sizes = [abs(row[k]) for row in table.rows for k in signed if row[k] is not None]
    rows = tuple(tuple(cell if k in signed else _plain(cell) for k, cell in enumerate(row)) for row in table.rows)
    heads = tuple(name.replace("_", " ") for name in table.columns)
    title = "" if table.name == "overview" else table.title
    full = palette.limit(sizes) if signed else None
    return blocks.Listing(heads, rows, limit=full, title=title, where=("terminal", "page"))


def _plain(cell: Any) -> blocks.Cell:
    if cell is None:
        return None
    if isinstance(cell, float):
        return f"{cell:,.0f}" if cell == round(cell) and abs(cell) >= 1 else f"{cell:.3g}"
    return str(cell)


def _panels(summary: Any) -> list[blocks.Bars]:
    """Words of each class, pairs, parts of speech, slices, and how far sums are off."""
    changes = [
        blocks.Bars(
            tuple(blocks.Bar(f"{value}, {target} ×{count}", *mean) for value, target, count, *mean in table.rows),
            axis="mean change of the output",
            title=table.title,
        )
        for table in summary.tables.values()
        if table.is_change
    ]
    every = [*_by_class(summary, "words"), *_by_class(summary, "pairs"), *_by_class(summary, "speech"), *changes]
    if (table := summary.tables.get("gap_histogram")) is not None:
        bars = tuple(blocks.Bar(str(row[0]), float(row[1])) for row in table.rows)
        every.append(blocks.Bars(bars, signed=False, axis="rows", title="relative gaps (rows by size)"))
    return every


def _by_class(summary: Any, name: str) -> list[blocks.Bars]:
    table = summary.tables.get(name)
    if table is None:
        return []
    classes: dict[str, list[Any]] = {}
    for row in table.rows:
        classes.setdefault(str(row[0]), []).append(row)
    frequent = sorted(classes, key=lambda each: -sum(row[2] for row in classes[each]))[:CLASSES]
    title = "words" if name == "words" else table.title
    shown = [each for each in classes if each in frequent]
    # the name, in how many texts it is, and in columns 4 to 6 its mean with its interval
    bars = {each: tuple(blocks.Bar(f"{row[1]} ×{row[3]}", *row[4:7]) for row in classes[each]) for each in shown}
    return [blocks.Bars(bars[each], axis="mean score", title=f"{title}: {each}") for each in shown]


# ---------------------------------------------------------------- rows of a table


def features(results: Sequence[Any]) -> blocks.Page | None:
    """Results that are rows of one table, feature by feature; None where they are not."""
    rows = [result for result in results if isinstance(result, Explanation | Interactions) and result.origin.features]
    if len(rows) < LEAST_ROWS or len(rows) < len(results) or len({row.tokens for row in rows}) > 1:
        return None
    values = np.array([row.origin.features for row in rows])
    swarm = blocks.Swarm(rows[0].tokens, values, np.array([row.scores for row in rows]))
    columns = zip(values.T.tolist(), swarm.scores.T.tolist(), strict=True)
    points = [tuple(zip(repeat(""), *both)) for both in columns]
    plots = tuple(blocks.Scatter(points[k], visible(swarm.names[k]), "score") for k in swarm.strongest(CURVES))
    target = visible(" or ".join(sorted({str(row.target) for row in rows})))
    legend = (
        f"one point per row; the score is the feature's contribution to the change of {target}. In the summary a point has more "
        "colour where the feature is larger among the rows; features are in the order of their mean |score|"
    )
    both = (swarm, blocks.Abreast(inside=plots, title="score against value", where=("page",)))
    return blocks.Page(f"{len(rows)} rows, feature by feature", blocks=both, proof=blocks.Proof(legend, signed=False))
