"""One page per study of several runs: methods side by side, edits, paths, layers, rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import blocks, palette
from pathlens.draw.palette import LOWERS_WORD, RAISES_WORD
from pathlens.draw.results import COLORS, check_of, classes_of, head_of, sum_of, texts, title_of
from pathlens.draw.words import visible
from pathlens.explanation.base import Result
from pathlens.explanation.record import Explanation, VectorExplanation

if TYPE_CHECKING:
    from pathlens.studies.compare import Comparison
    from pathlens.studies.layers import Layers
    from pathlens.studies.nodes import NodeStudy, SoftplusCurve
    from pathlens.studies.pathview import PathView, Track
    from pathlens.studies.whatif import WhatIf

# kinds of certificates of numbers that have a sum: not of differences by token, nor of lengths
ADDED = ("total", "matrix")
ROWS = 40  # units of a comparison; the strongest of more
STEPS = 3  # places along a path whose words are listed
TOKENS = 30  # of those lists
STRONGEST = 6  # tokens as curves over layers
PATHS = {"ig": "straight line", "dig": "word to word", "udig": "word to word, near the line"}


def comparison(study: Comparison) -> blocks.Page:
    """A column per way, a row per unit, agreement below, and where they disagree in words."""
    limit = palette.limit(study.values)
    order = list(study.shown)
    if len(order) > ROWS:
        size = np.abs(study.values) / np.maximum(np.abs(study.values).max(0), 1e-30)
        order = sorted(sorted(order, key=lambda i: -size[i].max())[:ROWS])
    sums = [
        palette.number(float(total), palette.decimals(limit)) if each.certificate.kind in ADDED else "no common sum"
        for total, each in zip(study.values.sum(0), study.results, strict=True)
    ]
    rows: list[tuple[blocks.Cell, ...]] = [(study.units[i], *map(float, study.values[i])) for i in order]
    left = len(study.shown) - len(order)
    both = list(zip(study.results, study.labels, strict=True))
    shown = [(visible(label), texts(each)) for each, label in both if isinstance(each, Explanation)]
    running = tuple(replace(text, title=title) for title, each in shown for text in each)
    checks = tuple(each for result, label in both for each in check_of(result, label))
    first = study.results[0]
    models = {each.origin.model: None for each in study.results}
    targets = {each.target: None for each in study.results}
    about = [" and ".join(map(str, names)) for names in (models, targets) if all(names)]
    table = blocks.Listing(("", *study.labels), (*rows, ("sum", *sums)), limit=limit, right=True, title="unit by unit")
    title = "rank agreement (1 the same order, 0 none, -1 opposite)"
    agreement = correlations(title, ("Spearman", "Kendall"), _pairs(study))
    legend = f"{_colors(study.results)}; in a running text full colour is that text's largest |value|, in the table the table's."
    return blocks.Page(
        f"{study.varied.replace(' and', 's and')}s side by side: {', '.join(map(visible, study.labels))}",
        " · ".join(part for part in (*map(visible, about), _quoted(first)) if part),
        blocks=(*([blocks.Abreast(inside=running)] if running else []), blocks.Abreast(inside=(table, agreement))),
        notes=(*study.notes, *([f"{left} weaker units are not listed"] if left else [])),
        proof=blocks.Proof(legend, sums=tuple(map(sum_of, study.results, study.labels)), checks=checks),
        data=study.to_dict,
        **(head_of(first) if len(models) == 1 else {"headline": visible(study.headline)}),
    )


def _colors(results: Sequence[Result]) -> str:
    """What the colours mean: a length has no sign, whatever its colour."""
    lengths = [isinstance(each, VectorExplanation) for each in results]
    unsigned = "a length has no sign: the more colour, the longer"
    return unsigned if all(lengths) else f"{COLORS}; {unsigned}" if any(lengths) else COLORS


def _quoted(result: Result) -> str:
    """The text, or both, as a part of a heading."""
    texts_of_it = result.text if isinstance(result.text, tuple) else (result.text,)
    return visible(" · ".join(f"“{text}”" for text in texts_of_it)) if any(texts_of_it) else ""


def _pairs(study: Comparison) -> Iterator[tuple[str, tuple[float, float]]]:
    """Spearman and Kendall for every pair of ways."""
    for a, b in combinations(range(len(study.labels)), 2):
        yield f"{study.labels[a]} ~ {study.labels[b]}", (study.spearman[a, b], study.kendall[a, b])


def correlations(title: str, heads: Sequence[str], rows: Iterable[tuple[str, Iterable[float]]]) -> blocks.Listing:
    """A table of correlations, on the scale from -1 to 1."""
    cells: tuple[tuple[blocks.Cell, ...], ...] = tuple((name, *map(float, values)) for name, values in rows)
    return blocks.Listing(("", *heads), cells, limit=1.0, right=True, title=title)


def what_if(study: WhatIf) -> blocks.Page:
    """Predicted change beside actual change, as a table and as points around the diagonal."""
    edits = study.edits
    every = [value for edit in edits for value in (edit.predicted, edit.actual)]
    names = (f"{e.name} → {e.replacement}" if e.kind == "replace" else f"{e.kind} {e.name}" for e in edits)
    both = list(zip(map(visible, names), edits, strict=True))
    columns = ("edit", "predicted", "actual", "difference", *([""] if any(e.note for e in edits) else []))
    rows = tuple((name, e.predicted, e.actual, e.actual - e.predicted, e.note)[: len(columns)] for name, e in both)
    points = tuple((name, e.predicted, e.actual) for name, e in both)
    title = "predicted against actual, one point per edit"
    table = blocks.Listing(columns, rows, limit=palette.limit(every), title="edit by edit" if len(edits) > 2 else "")
    around = blocks.Scatter(points, "predicted change", "actual change", "as predicted", title=title)
    return blocks.Page(
        f"what if: {title_of(study.explanation)}",
        blocks=(*texts(study.explanation), blocks.Abreast(inside=(*([around] if len(edits) > 2 else []), table))),
        notes=_readings(study),
        **head_of(study.explanation),
    )


def _readings(study: WhatIf) -> tuple[str, ...]:
    notes = [
        f"the output is {study.f_before:.4g} before; a change is the output after the edit minus that "
        f"({RAISES_WORD}: it rises, {LOWERS_WORD}: it falls)",
        f"predicted for masking or deleting: minus the {study.explanation.method} score of the unit; exact where the model "
        "is linear between the baseline and the text",
    ]
    if any(edit.kind == "replace" for edit in study.edits):
        notes.append(
            "predicted for replacing: the mean gradient of ig along the straight line, times (new embedding - old), whatever "
            "the method above; it knows nothing of how the new word acts together with the others, so it is a first guess"
        )
    if not np.isnan(study.agreement):
        notes.insert(0, f"rank agreement of predicted and actual: Spearman {study.agreement:+.2f}")
    return tuple(notes)


def path_view(study: PathView) -> blocks.Page:
    """Curves along each path and a slider; where no script runs, the words at a few steps of it."""
    names = ", ".join(track.method for track in study.tracks)
    legend = (
        "every path leads from the baseline to the text; the curves show what the model says on the way, and the table "
        "which real words each token is nearest to. Scores so far are sums between the points shown, so they end near "
        "the method's scores, not exactly at them."
    )
    steps = tuple(_steps(study, track) for track in study.tracks)
    return blocks.Page(
        f"along the path ({names}) · {visible(study.target)}",
        f"baseline {visible(study.baseline)}" if study.baseline else "",
        (
            *([blocks.Texts((("", study.text),))] if study.text else []),
            blocks.Live("pathview", study.to_dict(), inside=(_curves(study), *steps)),
        ),
        tuple(map(visible, study.notes)),
        blocks.Proof(legend),
        headline=visible(study.headline),
        classes=classes_of(study.probabilities, study.baseline_probabilities),
    )


def _curves(study: PathView) -> blocks.Charts:
    """Output, gradient and distance to the nearest word, along each path."""
    moving = [i for i, held in enumerate(study.held) if not held]
    reads: dict[str, Any] = {
        "output": lambda track: track.output,
        "length of the gradient": lambda track: np.linalg.norm(track.slope, axis=1),
    }
    if not np.isnan(study.tracks[0].far).all():
        reads["distance to the nearest word"] = lambda track: track.far[:, moving].mean(1)
    charts = []
    for name, read in reads.items():
        series = {track.method: list(zip(track.t, map(float, read(track)), strict=True)) for track in study.tracks}
        charts.append(blocks.Chart(series, "along the path: 0 baseline, 1 text", name))
    return blocks.Charts(tuple(charts))


def _steps(study: PathView, track: Track) -> blocks.Listing:
    """The anchor or the nearest word of each token, at a few places."""
    places = np.linspace(0, len(track.t) - 1, STEPS + 2).round().astype(int)[1:-1]  # both ends are known already
    moving = [i for i, held in enumerate(study.held) if not held][:TOKENS]
    rows: tuple[tuple[blocks.Cell, ...], ...] = tuple(
        (study.tokens[i], *(visible(_word(track, int(k), i)) for k in places), float(track.share[-1, i]))
        for i in moving
    )
    what = "its anchors" if track.anchors else "nearest word"
    path = f"{track.method}: {PATHS[track.method]}" if track.method in PATHS else track.method
    columns = ("token", *(f"{100 * track.t[i]:.0f} %" for i in places), "score")
    return blocks.Listing(columns, rows, limit=palette.limit(track.share[-1]), title=f"{path}, {what} on the way")


def _word(track: Track, point: int, token: int) -> str:
    if track.anchors:
        return track.anchors[point][token] or "·"
    return track.nearest[point][token][0][0] if track.nearest[point][token] else "·"


def layers(study: Layers) -> blocks.Page:
    """A small bar chart for each layer, the strongest tokens as curves, and every certificate."""
    tokens = study.results[0].tokens  # type: ignore[attr-defined]
    scores = study.values.T  # (layers, tokens)
    keep = [i for i in range(scores.shape[1]) if np.any(scores[:, i])]
    limit = palette.limit(scores)
    names = [tokens[i] for i in keep]
    small = tuple(
        blocks.Bars(tuple(map(blocks.Bar, names, row[keep].tolist())), title=f"layer {layer}")
        for layer, row in zip(study.names, scores, strict=True)
    )
    rows: tuple[tuple[blocks.Cell, ...], ...] = tuple((tokens[i], *scores[:, i].tolist()) for i in keep)
    strongest = sorted(sorted(keep, key=lambda i: -np.abs(scores[:, i]).max())[:STRONGEST])
    series = {f"{i} {visible(tokens[i])}": list(enumerate(scores[:, i].tolist())) for i in strongest}
    curves = blocks.Chart(series, "layer", "score", ticks=tuple((float(k), name) for k, name in enumerate(study.names)))
    scale = palette.number(limit, palette.decimals(limit), sign=False)
    where = "Layer k: the states that enter block k; 0: the word embeddings."
    legend = f"{_colors(study.results)}; all panels have one scale, up to {scale}. {where}"
    sums = tuple(sum_of(each, f"layer {n}") for n, each in zip(study.names, study.results, strict=True))
    return blocks.Page(
        f"{title_of(study.results[0])}, layer by layer",
        _quoted(study.results[0]),
        blocks=(
            blocks.Listing(("", *(panel.title for panel in small)), rows, limit=limit, where=("terminal",)),
            blocks.Panels(small, common=True),
            blocks.Charts((curves,), title="the strongest tokens from layer to layer"),
        ),
        proof=blocks.Proof(legend, sums=sums),
        data=study.to_dict,
        **head_of(study.results[0]),
    )


def nodes(study: NodeStudy) -> blocks.Page:
    """Error against nodes: a curve per rule, a mark for what the tolerance chose."""
    proof = study.explanation.certificate
    series: dict[str, Any] = {rule: list(zip(study.counts, row, strict=True)) for rule, row in study.errors.items()}
    series["as asked"] = [(proof.nodes, study.adaptive)]
    ticks = tuple((float(n), str(n)) for n in study.counts)
    allowed, name = f"allowed {proof.bound:.1e}", "largest error of a score"
    chart = blocks.Chart(series, "nodes", name, "", True, proof.bound, allowed, ticks)
    rows = tuple((rule, *(f"{error:.1e}" for error in row)) for rule, row in study.errors.items())
    mark = "✓" if study.explanation.settled else "✗"
    return blocks.Page(
        f"error against nodes: {title_of(study.explanation)}",
        _quoted(study.explanation),
        blocks=(
            blocks.Charts((chart,)),
            blocks.Listing(("nodes", *map(str, study.counts)), rows, right=True, where=("terminal", "page")),
        ),
        notes=(
            "the error is the largest |score - reference| over tokens; the reference is a Gauss rule with "
            f"{study.reference} nodes",
            f"{mark} as asked (tolerance {proof.tolerance:g}): {proof.nodes} nodes, error {study.adaptive:.1e}, {allowed}",
        ),
        data=study.explanation.to_dict,
        **head_of(study.explanation),
    )


def softplus_curve(study: SoftplusCurve) -> blocks.Page:
    """Output change and nodes against β, on logarithmic axes: what does not move at all has no place there."""
    series = {
        "|f_β(x) − f(x)|": [(point.beta, point.moved) for point in study if point.moved > 0],
        "nodes / 1000": [(point.beta, point.nodes / 1000) for point in study],
    }
    marked = ((p, "" if p.converged else " ✗") for p in study)
    rows = tuple((f"{p.beta:g}", f"{p.moved:.1e}", str(p.nodes), f"{p.gap:.1e}{mark}") for p, mark in marked)
    columns = ("β", "|f_β(x) − f(x)|", "nodes", "gap")
    listing = blocks.Listing(columns, rows, right=True, where=("terminal", "page"))
    chart = blocks.Chart(series, "β", "", log=True, ticks=tuple((point.beta, f"{point.beta:g}") for point in study))
    return blocks.Page("softplus for ReLU", blocks=(blocks.Charts((chart,)), listing), data=study.to_dict)
