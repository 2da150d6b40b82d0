"""The curves of an evaluation, on a page and in a picture: one line per row, by colour and dash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import canvas, charts, view
from pathlens.draw.markup import Markup
from pathlens.draw.plots import COLORS, DASHES, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pathlens.metrics.record import Curve, Evaluation

ARROWS = {"lower": " ↓", "higher": " ↑", "": ""}
ABREAST = 2  # curves side by side in a picture


def chart(found: Evaluation, curve: Curve) -> Markup:
    """One metric over the share of tokens, a line per row and a line at zero; every point tells its row and value."""
    means = np.nanmean(curve.values, axis=1)
    series = {
        way: list(zip(curve.shares, own.tolist(), strict=True)) for way, own in zip(found.ways, means, strict=True)
    }
    shares = [(share, f"{share:.0%}") for share in curve.shares]
    return charts.curves(series, xlabel="share of the tokens", ylabel=curve.name, level=0.0, xticks=shares, keyed=False)


def curve_axes(figure: Figure, sheet: Any, above: int, places: Sequence[tuple[float, Any]], found: Evaluation) -> None:
    """The curves' own axes, in the room the sheet left for them; one key for all at the right."""
    height = figure.get_size_inches()[1]
    top = height - sheet.MARGIN - sum(tall for tall, _ in sheet.blocks[:above])
    wide = (sheet.inner - 1.6) / ABREAST  # the key stands beside them
    for tall, curves in places:
        for column, curve in enumerate(curves):
            left = sheet.MARGIN + column * wide + 0.5
            axes = figure.add_axes(
                (left / sheet.width, (top - tall + 0.5) / height, (wide - 0.65) / sheet.width, (tall - 0.85) / height)
            )
            _draw_curve(axes, found, curve)
            if column == len(curves) - 1 and curves is places[0][1]:
                key = axes.legend(loc="upper left", bbox_to_anchor=(1.03, 1.02), frameon=False, fontsize=8)
                for text in key.get_texts():
                    text.set_parse_math(False)
        top -= tall


def _draw_curve(axes: Axes, found: Evaluation, curve: Any) -> None:
    shares = [100 * share for share in curve.shares]
    means = np.nanmean(curve.values, axis=1)
    for k, way in enumerate(found.ways):
        style = {"color": COLORS[k % 8], "marker": MARKERS[k % 8], "ls": DASHES[(k // 8 + k) % 4]}
        axes.plot(shares, means[k], label=view.visible(way), lw=1.3, ms=3.2, **style)
    axes.set_title(f"{curve.name}{ARROWS[curve.better]}", size=9, color=canvas.INK, loc="left", parse_math=False)
    axes.set_xlabel("% of the tokens", size=8, color=canvas.DIM)
    axes.tick_params(labelsize=7, color=canvas.LINE)
    axes.grid(color=canvas.LINE, lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(canvas.LINE)
