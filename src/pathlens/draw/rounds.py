"""A single result's own way to its tolerance: error against nodes, round by round."""

from __future__ import annotations

from pathlens.draw import charts
from pathlens.draw.markup import Markup, element
from pathlens.explanation.record import PairExplanation, Result


def rounds(result: Result) -> Markup | None:
    """A single result's own way: estimate and gap after each round; nothing where one round was enough."""
    history = [row for row in result.meta.get("history") or () if len(row) == 3]
    if len(history) < 2:
        return None
    series = {"largest error estimate of a unit": [(n, error) for n, _, error in history], "gap of the sum": [(n, gap) for n, gap, _ in history]}  # fmt: skip
    proof = result.certificate
    pair = isinstance(result, PairExplanation)  # its rounds are of the first text's vectors, in other units
    chart = charts.curves(
        series, xlabel="nodes" + (", first text" if pair else ""), ylabel="error", log=True, level=None if pair else proof.bound,
        level_name=f"allowed {proof.bound:.1e}", xticks=[(row[0], str(row[0])) for row in history],
    )  # fmt: skip
    return element("details", {"class": "rounds"}, element("summary", None, "error against nodes"), chart)
