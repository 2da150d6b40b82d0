"""Plots that only experiments draw: curves with bands, bars with errors, every row of a table, a feature's score against its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pathlens.draw import canvas, palette, plots
from pathlens.draw.blocks import Bar, Bars, Chart, Swarm
from pathlens.draw.canvas import DIM, INK
from pathlens.draw.words import visible
from pathlens.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    plots.panel_on(axes, Bars(every, axis=xlabel, title=title))
    return figure


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
    plots.chart_on(axes, Chart(points, xlabel, ylabel, title))
    for k, name in enumerate(series):
        if bands and name in bands:
            low, high = bands[name]
            axes.fill_between(x, low, high, color=plots.COLORS[k % 8], alpha=0.15, lw=0)
    plots.key(axes)
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
    plots.swarm_on(axes, Swarm(tuple(names), values, scores))
    plots.frame(axes, title, xlabel or "score", "")
    return figure


def dependence(
    values: Sequence[float], scores: Sequence[float], name: str, *, other: Sequence[float] | None = None,
    other_name: str = "",
) -> Figure:  # fmt: skip
    """A feature's score against its value, one point per row; darker where another feature is larger."""
    figure, axes = _axes()
    plots.frame(axes, "", visible(name), f"score of {visible(name)}")
    shades: str | list[str] = plots.COLORS[0]
    if other is not None:
        rank = np.argsort(np.argsort(np.asarray(other), kind="stable")) / max(len(other) - 1, 1)
        shades = [palette.color(0.15 + 0.85 * r, 1, signed=False) for r in rank]
        words = f"pale: small {visible(other_name)} · dark: large"
        canvas.write(axes, 1, 1.02, words, size=8, color=DIM, ha="right", va="bottom", transform=axes.transAxes)
    axes.scatter(values, scores, s=18, c=shades, edgecolors=INK, linewidths=0.3, zorder=3)
    axes.axhline(0, color=DIM, lw=0.8)
    return figure


def logarithmic(axes: Axes, *sides: str) -> None:
    """Logarithmic "x" or "y", labelled in numbers: what comes with such an axis writes mathematics, switched off here."""
    for side in sides:
        axes.set(**{f"{side}scale": "log"})
        axis = getattr(axes, f"{side}axis")
        low, high = sorted(axis.get_view_interval())
        named = "25" if high < 1000 * low else ""  # over few decades, 2 and 5 of each as well
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(lambda x, _, named=named: f"{x:g}" if f"{x:e}"[0] in named else "")


def _axes(height: float = 4.0) -> tuple[Figure, Axes]:
    figure = canvas.blank(7, height)
    figure.set_layout_engine("constrained")
    return figure, figure.add_subplot()
