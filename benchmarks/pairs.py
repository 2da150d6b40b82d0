"""Rows of IJ and IH, as their own files measure them, with the goals of the table."""

from __future__ import annotations

from benchmarks import hessians as second_order
from benchmarks import siamese
from benchmarks.measure import Row
from benchmarks.texts import DATA
from pathlens.text.load import load

MIDPOINT = 2.0  # the goal against a midpoint grid, the fairer opponent
GRID = "both sides take the same Hessian–vector products; ours also takes IG, its own check of every row and a certificate"


def jacobians(quick: bool) -> list[Row]:
    rows = _pairs_alone() if quick else siamese.run()
    return [{**row, "work": f"IJ, {row['work']}"} for row in rows]


def _pairs_alone() -> list[Row]:
    """The two ratios of the table, small; the long document and the speed of forward mode are left out."""
    model = load("minilm")
    return [
        siamese.one_pair(model, n=1, rounds=1),
        siamese.a_hundred(model, n=1, count=10, sample=1, rounds=1),
    ]


def hessians(quick: bool) -> list[Row]:
    rows = []
    for row in second_order.rows(DATA, quick=quick):
        row = {"why": GRID, **row, "work": f"IH, {row['work']}"}
        if row["against"].startswith("midpoint"):
            row["goal"] = MIDPOINT
        if "cost per node" in row["work"]:
            row |= {"sense": "at most", "goal": row["goal"] * 1.1}  # proportional, to a tenth
        rows.append(row)
    return rows
