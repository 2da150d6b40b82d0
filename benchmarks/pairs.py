"""Rows of IJ and IH, as their own files measure them, with the goals of the table; figures it does not ask for have none."""

from __future__ import annotations

from benchmarks import hessians as second_order
from benchmarks import siamese
from benchmarks.measure import Row
from benchmarks.texts import DATA
from pathlens.text.load import load

MIDPOINT = 2.0  # the goal against a midpoint grid, the fairer opponent
GRID = (
    "both sides take the same Hessian–vector products; ours also takes IG, its own check of every row and a certificate"
)
ASKED = ("one pair", "a query and", "token × token")  # how the works begin that the table has a goal for


def _named(method: str, row: Row) -> Row:
    asked = row["work"].startswith(ASKED)
    return {**row, "work": f"{method}, {row['work']}", **({} if asked else {"goal": None})}


def jacobians(quick: bool) -> list[Row]:
    return [_named("IJ", row) for row in (_pairs_alone() if quick else siamese.run())]


def _pairs_alone() -> list[Row]:
    """The two ratios of the table, small; the long document is left out."""
    model = load("minilm")
    return [
        siamese.one_pair(model, n=1, rounds=1, fine=8),
        siamese.a_hundred(model, n=1, count=10, sample=1, rounds=1, fine=8),
    ]


def hessians(quick: bool) -> list[Row]:
    rows = []
    for row in second_order.rows(DATA, quick=quick):
        if row["against"].startswith("midpoint"):
            row = {**row, "goal": MIDPOINT, "why": GRID}
        rows.append(_named("IH", row))
    return rows
