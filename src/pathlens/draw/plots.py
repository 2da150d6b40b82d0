"""Plots of many numbers: curves, layers, errors, bars of a corpus, summary and dependence for tables.

Each is a small function that returns a matplotlib `Figure`; pass it to `figure.write` to save it.
Series differ in colour, marker and dash, so a grey print still tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pathlens.draw import canvas, palette, view
from pathlens.draw.canvas import DIM, INK, LINE
from pathlens.errors import InputError
from pathlens.explanation.record import Explanation, VectorExplanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours for categories, which colour-blind readers can tell apart
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
MARKERS = "osD^vPX*"
DASHES = ("-", "--", "-.", ":", "-", "--", "-.", ":")


def curve(
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    bands: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
) -> Figure:
    """One line per series over a common x (faithfulness curves, scores over layers), with optional bands."""
    figure, axes = _axes(title, xlabel, ylabel)
    _series(axes, x, series)
    for k, name in enumerate(series):
        if bands and name in bands:
            low, high = bands[name]
            axes.fill_between(x, low, high, color=COLORS[k % len(COLORS)], alpha=0.15, lw=0)
    _key(axes)
    return figure


def error_against_nodes(
    nodes: Sequence[int], errors: Mapping[str, Sequence[float]], *, tolerance: float | None = None, title: str = ""
) -> Figure:
    """|error| against the number of nodes, both axes logarithmic, one line per rule or method."""
    figure, axes = _axes(title, "nodes", "|error|")
    # a zero error has no place on a logarithmic axis: it sits at the bottom of double precision
    _series(axes, nodes, {name: np.maximum(np.abs(values), 1e-16) for name, values in errors.items()})
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(list(nodes), labels=[str(n) for n in nodes])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}")  # the default one writes mathematics
    if tolerance is not None:
        axes.axhline(tolerance, color=DIM, lw=1, ls=(0, (1, 2)))
        canvas.write(axes, nodes[-1], tolerance, f"tolerance {tolerance:g}", size=8, color=DIM, ha="right", va="bottom")
    _key(axes)
    return figure


def layers(results: Sequence[Explanation | VectorExplanation], names: Sequence[str] | None = None) -> Figure:
    """The same text layer by layer: a small bar chart for each, and the strongest tokens as curves below."""
    if not results or any(result.tokens != results[0].tokens for result in results):
        raise InputError("layers() expects results of the same text, one per layer, with the same tokens")
    labels = list(names or [str(result.meta.get("layer", k)) for k, result in enumerate(results)])
    scores = np.array([_scores(result) for result in results])  # (layers, tokens)
    keep = [i for i in range(scores.shape[1]) if np.any(scores[:, i])]
    wide = min(len(results), 4)
    tall = -(-len(results) // wide)
    figure = canvas.blank(9, 1.6 * tall + 3.8)
    cells = figure.add_gridspec(tall + 1, wide, height_ratios=[1.5] * tall + [2.6], hspace=0.4, wspace=0.12,
                                left=0.08, right=0.82, top=0.93, bottom=0.08)  # fmt: skip
    limit = palette.limit(scores)
    for k, row in enumerate(scores):
        axes = figure.add_subplot(cells[k // wide, k % wide])
        axes.bar(range(len(keep)), row[keep], color=[palette.color(np.sign(v), 1) for v in row[keep]], lw=0)
        axes.axhline(0, color=DIM, lw=0.6)
        axes.set(ylim=(-1.08 * limit, 1.08 * limit), xticks=[])
        axes.tick_params(labelsize=7, labelleft=k % wide == 0, length=2, color=LINE)
        if k + wide >= len(results) and len(keep) <= 14:
            canvas.names(axes, "x", [canvas.cut(results[0].tokens[i], 9) for i in keep], rotation=90, size=7)
        axes.set_title(f"layer {labels[k]}", size=8, color=DIM, pad=3)
        _frame(axes)
    below = figure.add_subplot(cells[tall, :])
    strongest = sorted(sorted(keep, key=lambda i: -np.abs(scores[:, i]).max())[:6])
    tokens = results[0].tokens
    _series(below, range(len(results)), {f"{i} {view.visible(tokens[i])}": scores[:, i] for i in strongest})
    below.set_xticks(range(len(results)), labels=labels)
    below.set_xlabel("layer", size=9, color=DIM)
    _frame(below)
    _key(below)
    title = f"{view.heading(results[0])[0]}, layer by layer (orange raises it, blue lowers it)"
    figure.suptitle(view.visible(title), size=11, color=INK, x=0.08, ha="left", y=0.985, parse_math=False)
    return figure


def _scores(result: Explanation | VectorExplanation) -> np.ndarray:
    return result.norms.sum(0) if isinstance(result, VectorExplanation) else result.scores


def bars(
    named: Mapping[str, float], *, errors: Mapping[str, float] | None = None, title: str = "", xlabel: str = ""
) -> Figure:
    """One signed bar per word, part of speech or slice, in the order given, with optional error bars."""
    figure, axes = _axes(title, xlabel, "", height=max(0.28 * len(named) + 1.1, 2.0))
    given = [errors.get(name, np.nan) for name in named] if errors else None
    bars_on(axes, list(named), list(named.values()), errors=given)
    return figure


def bars_in_panels(panels: Mapping[str, Mapping[str, float]], *, title: str = "") -> Figure:
    """What is explained → signed bars, one panel below the other on a common scale."""
    heights = [0.28 * len(named) + 1.1 for named in panels.values()]
    figure = canvas.blank(7, sum(heights) + 0.7)
    figure.set_layout_engine("constrained")
    colors = f"{palette.RAISES_WORD} raises what is explained, {palette.LOWERS_WORD} lowers it"
    head = f"{canvas.cut(view.visible(title), 70)}\n{colors}"
    figure.suptitle(head, x=0.01, ha="left", size=10, color=INK, parse_math=False)
    every = figure.subplots(len(panels), squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    for axes, (asked, named) in zip(every, panels.items(), strict=True):
        style(axes, canvas.cut(asked, 60), "", "")
        bars_on(axes, list(named), list(named.values()))
        axes.tick_params(labelbottom=True)
    return figure


def bars_on(axes: Axes, labels: Sequence[str], values: Sequence[float], *, errors: object = None) -> None:
    """Signed bars from top to bottom; `errors` one reach per bar, or (2, n): below and above."""
    colors = [palette.color(np.sign(value), 1) for value in values]
    axes.barh(range(len(values)), values, xerr=errors, color=colors, ecolor=INK, capsize=2, height=0.72, lw=0)
    canvas.names(axes, "y", labels, size=9)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.axvline(0, color=DIM, lw=0.8)
    axes.grid(axis="y", visible=False)


def summary(
    values: np.ndarray, scores: np.ndarray, names: Sequence[str], *, title: str = "", xlabel: str = ""
) -> Figure:
    """Every row of a table at once: per feature the scores as points, darker where the feature is larger.

    values, scores: (rows, features). Features are ordered by their mean |score|, the largest on top.
    """
    values, scores = np.asarray(values, float), np.asarray(scores, float)
    if values.shape != scores.shape or values.shape[1] != len(names):
        raise InputError(
            f"expected values, scores of one shape (rows, {len(names)}); got {values.shape}, {scores.shape}"
        )
    order = np.argsort(-np.abs(scores).mean(0), kind="stable")
    figure, axes = _axes(title, xlabel or "score", "", height=max(0.42 * len(names) + 1.2, 2.2))
    for row, feature in enumerate(order):
        x = scores[:, feature]
        rank = np.argsort(np.argsort(values[:, feature], kind="stable")) / max(len(x) - 1, 1)
        shades = [palette.length_color(0.15 + 0.85 * r, 1) if r < 1 else "#1f6b52" for r in rank]
        axes.scatter(x, row + swarm(x), s=14, c=shades, edgecolors="#1f6b52", linewidths=0.3, zorder=3)
    canvas.names(axes, "y", [names[i] for i in order], size=9)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.axvline(0, color=DIM, lw=0.8)
    words = "pale: small value of the feature · dark: large"
    canvas.write(axes, 1, 1.02, words, size=8, color=DIM, ha="right", va="bottom", transform=axes.transAxes)
    return figure


def dependence(
    values: Sequence[float], scores: Sequence[float], name: str, *, other: Sequence[float] | None = None,
    other_name: str = "",
) -> Figure:  # fmt: skip
    """A feature's score against its value, one point per row; darker where another feature is larger."""
    figure, axes = _axes("", view.visible(name), f"score of {view.visible(name)}")
    shades: str | list[str] = COLORS[0]
    if other is not None:
        rank = np.argsort(np.argsort(np.asarray(other), kind="stable")) / max(len(other) - 1, 1)
        shades = [palette.length_color(0.15 + 0.85 * r, 1) for r in rank]
        words = f"pale: small {view.visible(other_name)} · dark: large"
        canvas.write(axes, 1, 1.02, words, size=8, color=DIM, ha="right", va="bottom", transform=axes.transAxes)
    axes.scatter(values, scores, s=18, c=shades, edgecolors=INK, linewidths=0.3, zorder=3)
    axes.axhline(0, color=DIM, lw=0.8)
    return figure


def swarm(x: np.ndarray, bins: int = 40, spread: float = 0.36) -> np.ndarray:
    """Vertical offsets that keep points of equal x apart, symmetric around the line."""
    place = np.zeros(len(x))
    edges = np.linspace(x.min(), x.max() + 1e-12, bins + 1) if len(x) else np.zeros(2)
    cell = np.digitize(x, edges)
    fullest = max(np.bincount(cell).max(), 1) if len(x) else 1
    for c in np.unique(cell):
        here = np.flatnonzero(cell == c)
        steps = (np.arange(len(here)) + 1) // 2 * np.where(np.arange(len(here)) % 2, 1, -1)
        place[here] = steps * min(0.09, 2 * spread / fullest)
    return place


def _axes(title: str, xlabel: str, ylabel: str, *, height: float = 4.0) -> tuple[Figure, Axes]:
    figure = canvas.blank(7, height)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    style(axes, title, xlabel, ylabel)
    return figure, axes


def style(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    """Title, labels, grid and frame as all plots have them."""
    axes.set_title(view.visible(title) if title else "", size=11, color=INK, loc="left", parse_math=False)
    axes.set_xlabel(xlabel, size=9, color=DIM, parse_math=False)
    axes.set_ylabel(ylabel, size=9, color=DIM, parse_math=False)
    axes.tick_params(labelsize=8, color=LINE)
    axes.grid(color=LINE, lw=0.6)
    axes.set_axisbelow(True)
    _frame(axes)


def _frame(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINE)


def _series(axes: Axes, x: Sequence[float], series: Mapping[str, Sequence[float]]) -> None:
    for k, (name, values) in enumerate(series.items()):
        axes.plot(list(x), list(values), label=view.visible(name), color=COLORS[k % 8], marker=MARKERS[k % 8],
                  ls=DASHES[k % 8], lw=1.6, ms=4)  # fmt: skip


def _key(axes: Axes) -> None:
    """Names of the series, beside the plot."""
    if len(axes.get_lines()):
        key = axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8)
        for text in key.get_texts():
            text.set_parse_math(False)
