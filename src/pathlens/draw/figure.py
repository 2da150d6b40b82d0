"""Pages and plots as PNG, SVG or PDF, for papers and slides (needs matplotlib: `pip install "pathlens[plot]"`).

`save` draws any result or study; the plots of many numbers return a matplotlib `Figure` that `write` saves.
`python -m pathlens.draw.figure` writes every view to pathlens-*.png.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import canvas, page_of, palette, shapes
from pathlens.draw.blocks import Bar, Chart, Panel, Swarm
from pathlens.draw.canvas import DIM, INK
from pathlens.draw.words import visible
from pathlens.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(thing: Any, *, unit: str | None = None) -> Figure:
    """The figure of a result, a study or a page, not written anywhere."""
    page = page_of(thing, unit)
    inner = max([shapes.LEAST, *map(shapes.wants, page.blocks)])
    return canvas.sheet(shapes.whole(page, inner), inner)


def save(thing: Any, path: str | Path, *, unit: str | None = None) -> Path:
    """Write the picture of a result, a study or a page; the suffix chooses PNG, SVG or PDF."""
    return canvas.save(draw(thing, unit=unit), path)


def write(figure: Figure, path: str | Path) -> Path:
    """Write any figure made here, with fonts that have its characters."""
    return canvas.save(figure, path)


# ---------------------------------------------------------------- plots of many numbers


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
    figure, axes = _axes()
    points = {name: list(zip(x, values, strict=True)) for name, values in series.items()}
    shapes.chart_on(axes, Chart(points, xlabel, ylabel, title))
    for k, name in enumerate(series):
        if bands and name in bands:
            low, high = bands[name]
            axes.fill_between(x, low, high, color=shapes.COLORS[k % 8], alpha=0.15, lw=0)
    shapes.key(axes)
    return figure


def error_against_nodes(
    nodes: Sequence[int], errors: Mapping[str, Sequence[float]], *, tolerance: float | None = None, title: str = ""
) -> Figure:
    """|error| against the number of nodes, both axes logarithmic, one line per rule or method."""
    figure, axes = _axes()
    points = {name: list(zip(nodes, values, strict=True)) for name, values in errors.items()}
    ticks = tuple((float(n), str(n)) for n in nodes)
    level = f"tolerance {tolerance:g}" if tolerance is not None else ""
    shapes.chart_on(axes, Chart(points, "nodes", "|error|", title, True, tolerance, level, ticks))
    shapes.key(axes)
    return figure


def bars(
    named: Mapping[str, float], *, errors: Mapping[str, float] | None = None, title: str = "", xlabel: str = ""
) -> Figure:
    """One signed bar per word, part of speech or slice, in the order given, with optional error bars."""
    figure, axes = _axes(height=max(0.28 * len(named) + 1.1, 2.0))
    reach = errors or {}
    every = tuple(
        Bar(name, value, value - reach[name], value + reach[name]) if name in reach else Bar(name, value)
        for name, value in named.items()
    )
    shapes.panel_on(axes, Panel(title, every, xlabel))
    return figure


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
    figure, axes = _axes(height=max(0.42 * len(names) + 1.2, 2.2))
    shapes.frame(axes, title, xlabel or "score", "")
    shapes.swarm_on(axes, Swarm(tuple(names), values, scores))
    return figure


def dependence(
    values: Sequence[float], scores: Sequence[float], name: str, *, other: Sequence[float] | None = None,
    other_name: str = "",
) -> Figure:  # fmt: skip
    """A feature's score against its value, one point per row; darker where another feature is larger."""
    figure, axes = _axes()
    shapes.frame(axes, "", visible(name), f"score of {visible(name)}")
    shades: str | list[str] = shapes.COLORS[0]
    if other is not None:
        rank = np.argsort(np.argsort(np.asarray(other), kind="stable")) / max(len(other) - 1, 1)
        shades = [palette.length_color(0.15 + 0.85 * r, 1) for r in rank]
        words = f"pale: small {visible(other_name)} · dark: large"
        canvas.write(axes, 1, 1.02, words, size=8, color=DIM, ha="right", va="bottom", transform=axes.transAxes)
    axes.scatter(values, scores, s=18, c=shades, edgecolors=INK, linewidths=0.3, zorder=3)
    axes.axhline(0, color=DIM, lw=0.8)
    return figure


def _axes(height: float = 4.0) -> tuple[Figure, Axes]:
    figure = canvas.blank(7, height)
    figure.set_layout_engine("constrained")
    return figure, figure.add_subplot()


if __name__ == "__main__":
    from pathlens.draw.sample import every as samples

    for sample in samples():
        save(sample, f"pathlens-{sample.method}.png")
