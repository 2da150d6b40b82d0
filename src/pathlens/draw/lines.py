"""The curves of an evaluation, on a page (plain SVG) and in a picture: one line per row, by colour and dash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import canvas, palette, view
from pathlens.draw.markup import Markup, element
from pathlens.draw.plots import COLORS, MARKERS
from pathlens.draw.plots import DASHES as MATPLOTLIB_DASHES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pathlens.metrics.record import Curve, Evaluation

WIDE, TALL, EDGE = 420.0, 250.0, 44.0
ARROWS = {"lower": " ↓", "higher": " ↑", "": ""}
ABREAST = 2  # curves side by side in a picture
DASHES = ("", "6 3", "2 3", "8 3 2 3")


def stroke(k: int) -> dict[str, object]:
    """The look of line k: eight colours, and another dash where they come round again."""
    color = COLORS[k % len(COLORS)]
    # black vanishes on a dark page, so it takes the page's own ink
    return {
        "style": f"stroke:{'var(--ink)' if color == '#000000' else color}",
        "stroke-dasharray": DASHES[(k // len(COLORS) + k) % len(DASHES)] or None,
    }


def sample(k: int) -> Markup:
    """A short piece of line k, for the key."""
    line = element("polyline", {"points": "1,6 27,6", "fill": "none", "stroke-width": 2, **stroke(k)})
    return element("svg", {"width": 28, "height": 12, "aria-hidden": "true"}, line)


def chart(found: Evaluation, curve: Curve) -> Markup:
    """One metric over the share of tokens, a line per row; every point tells its row and value."""
    means = np.nanmean(curve.values, axis=1)
    low, high = float(np.nanmin(means)), float(np.nanmax(means))
    low, high = min(low, 0.0), max(high, 0.0)
    span = (high - low) or 1.0
    x = [EDGE + (WIDE - EDGE - 10) * share for share in curve.shares]

    def y(value: float) -> float:
        return 12 + (TALL - EDGE - 12) * (high - value) / span

    digits = palette.decimals(max(abs(low), abs(high)))
    parts: list[Markup] = []
    for level in np.linspace(low, high, 5):
        parts.append(
            element("line", {"x1": EDGE, "x2": WIDE - 10, "y1": f"{y(level):.1f}", "y2": f"{y(level):.1f}"})
        )
        label = palette.number(float(level), min(digits, 2), sign=False)
        parts.append(
            element("text", {"x": EDGE - 6, "y": f"{y(level) + 4:.1f}", "text-anchor": "end"}, label)
        )
    for share, place in zip(curve.shares, x, strict=True):
        at = {"x": f"{place:.1f}", "y": TALL - EDGE + 18, "text-anchor": "middle"}
        parts.append(element("text", at, f"{share:.0%}"))
    for k, way in enumerate(found.ways):
        points = " ".join(f"{place:.1f},{y(value):.1f}" for place, value in zip(x, means[k], strict=True))
        ends = f"{view.visible(way)}: {means[k][0]:.3f} … {means[k][-1]:.3f}"
        parts.append(element("polyline", {"points": points, **stroke(k)}, element("title", None, ends)))
    said = f"{curve.name} over the share of tokens, one line per row of the table"
    box = {"class": "curve", "viewBox": f"0 0 {WIDE:.0f} {TALL - 16:.0f}", "role": "img", "aria-label": said}
    return element("svg", box, *parts)


def curve_axes(
    figure: Figure, sheet: Any, above: int, places: Sequence[tuple[float, Any]], found: Evaluation
) -> None:
    """The curves' own axes, in the room the sheet left for them; one key for all at the right."""
    height = figure.get_size_inches()[1]
    top = height - sheet.MARGIN - sum(tall for tall, _ in sheet.blocks[:above])
    wide = (sheet.inner - 1.6) / ABREAST  # the key stands beside them
    for tall, curves in places:
        for column, curve in enumerate(curves):
            left = sheet.MARGIN + column * wide + 0.5
            axes = figure.add_axes(
                (
                    left / sheet.width,
                    (top - tall + 0.5) / height,
                    (wide - 0.65) / sheet.width,
                    (tall - 0.85) / height,
                )
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
        style = {
            "color": COLORS[k % 8],
            "marker": MARKERS[k % 8],
            "ls": MATPLOTLIB_DASHES[(k // 8 + k) % 4],
        }
        axes.plot(shares, means[k], label=view.visible(way), lw=1.3, ms=3.2, **style)
    axes.set_title(
        f"{curve.name}{ARROWS[curve.better]}", size=9, color=canvas.INK, loc="left", parse_math=False
    )
    axes.set_xlabel("% of the tokens", size=8, color=canvas.DIM)
    axes.tick_params(labelsize=7, color=canvas.LINE)
    axes.grid(color=canvas.LINE, lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(canvas.LINE)
