"""Rows of a table at once, on a page: every score of every feature, and each feature's score against its value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pathlens.draw import palette, view
from pathlens.draw.charts import Axis
from pathlens.draw.markup import Markup, element, level
from pathlens.draw.plots import swarm

FEATURES = 20  # lines of the summary
CURVES = 6  # dependence plots, of the strongest features
LEAST_ROWS = 3  # fewer say nothing about a feature


def _fills(dark: bool) -> str:
    return "".join(f".pathlens .chart .l{k}{{fill:{palette.length_color(k, 24, dark=dark)}}}" for k in range(1, 25))


STYLE = (
    ".pathlens .chart circle.point{stroke:var(--dim);stroke-width:.4}"
    + _fills(False)
    + f"@media (prefers-color-scheme:dark){{{_fills(True)}}}"
)


@dataclass(frozen=True, eq=False)
class Table:
    """values, scores: (rows, features)."""

    names: tuple[str, ...]
    values: np.ndarray
    scores: np.ndarray
    target: str = ""

    @staticmethod
    def of(results: Sequence[object]) -> Table | None:
        """The results' rows, when all are of one table; None otherwise."""
        rows = [r for r in results if getattr(r, "meta", {}).get("features") and hasattr(r, "scores")]
        if len(rows) < LEAST_ROWS or len(rows) < len(results) or len({r.tokens for r in rows}) > 1:
            return None
        values = np.array([r.meta["features"] for r in rows], dtype=float)
        targets = {str(r.target) for r in rows}
        return Table(rows[0].tokens, values, np.array([r.scores for r in rows]), " or ".join(sorted(targets)))

    def strongest(self, most: int) -> list[int]:
        """Features by their mean |score|, the largest first."""
        return np.argsort(-np.abs(self.scores).mean(0), kind="stable")[:most].tolist()


def article(table: Table) -> Markup:
    """Summary and dependence plots as a part of a page."""
    curves = [element("div", None, _dependence(table, feature)) for feature in table.strongest(CURVES)]
    legend = (
        f"one point per row; the score is the feature's share of the change of {view.visible(table.target)}. In the summary "
        "a point has more colour where the feature is larger among the rows; features are in the order of their mean |score|"
    )
    return element(
        "article", {"class": "pathlens"},
        element("header", None, element("h1", None, f"{len(table.scores)} rows, feature by feature")),
        element("section", None, _summary(table)),
        element("section", None, element("h2", None, "score against value"), element("div", {"class": "multiples"}, *curves)),
        element("footer", None, element("p", {"class": "legend"}, legend)),
    )  # fmt: skip


def _summary(table: Table) -> Markup:
    shown = table.strongest(FEATURES)
    left, wide, step, foot = 130.0, 640.0, 34.0, 34.0
    low, high = min(float(table.scores.min()), 0.0), max(float(table.scores.max()), 0.0)
    across = Axis(low, high, left + 8, wide - 12)
    floor = step * len(shown)
    marks = []
    for value in across.ticks():
        x = f"{across.place(value):.1f}"
        marks += [element("line", {"class": "grid", "x1": x, "x2": x, "y1": 0, "y2": floor}),
                  element("text", {"x": x, "y": floor + 15, "text-anchor": "middle"}, f"{value:.3g}")]  # fmt: skip
    for row, feature in enumerate(shown):
        name = view.visible(table.names[feature])
        marks.append(element("text", {"x": left, "y": f"{(row + 0.5) * step + 4:.1f}", "text-anchor": "end"},
                             name if len(name) <= 18 else name[:17] + "…"))  # fmt: skip
        scores, values = table.scores[:, feature], table.values[:, feature]
        order = np.argsort(np.argsort(values, kind="stable"))
        for x, y, place, value in zip(scores, swarm(scores), order, values, strict=True):
            shade = level(0.15 + 0.85 * place / max(len(scores) - 1, 1), 1, signed=False)
            marks.append(_point(across.place(float(x)), (row + 0.5 + y) * step, shade, f"{name} {value:.4g}: {x:+.4g}"))  # fmt: skip
    marks.append(element("text", {"x": wide / 2, "y": floor + foot - 3, "text-anchor": "middle"}, "score of the row"))
    size = {"viewBox": f"0 0 {wide:.0f} {floor + foot:.0f}", "class": "chart", "role": "img"}
    return element("svg", {**size, "aria-label": "scores of every row, feature by feature"}, *marks)


def _dependence(table: Table, feature: int) -> Markup:
    wide, high, edge = 240.0, 180.0, 46.0
    x, y = table.values[:, feature], table.scores[:, feature]
    across = Axis(float(x.min()), float(x.max()), edge + 8, wide - 8)
    up = Axis(min(float(y.min()), 0.0), max(float(y.max()), 0.0), high - edge, 8)
    zero = f"{up.place(0.0):.1f}"
    marks = [element("line", {"class": "grid", "x1": edge, "x2": wide, "y1": zero, "y2": zero})]
    for axis, place in ((across, "x"), (up, "y")):
        for value in (axis.low, axis.high):
            at = (
                {
                    "x": f"{axis.place(value):.0f}",
                    "y": high - edge + 15,
                    "text-anchor": "start" if value == axis.low else "end",
                }
                if place == "x"
                else {"x": edge, "y": f"{axis.place(value) + 4:.0f}", "text-anchor": "end"}
            )
            marks.append(element("text", at, f"{value:.2g}"))
    marks += [
        _point(across.place(float(a)), up.place(float(b)), "l16", f"{a:.4g}: {b:+.4g}") for a, b in zip(x, y, strict=True)
    ]  # fmt: skip
    name = view.visible(table.names[feature])
    marks.append(element("text", {"x": wide / 2, "y": high - 4, "text-anchor": "middle"}, name))
    return element("svg", {"viewBox": f"0 0 {wide:.0f} {high:.0f}", "class": "chart", "role": "img",
                           "aria-label": f"score of {name} against its value"}, *marks)  # fmt: skip


def _point(x: float, y: float, shade: str, tip: str) -> Markup:
    return element("circle", {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": 3.5, "class": f"point {shade}".strip()},
                   element("title", None, tip))  # fmt: skip
