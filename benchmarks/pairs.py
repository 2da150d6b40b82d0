"""Rows of IJ and IH, as their own files measure them."""

from __future__ import annotations

from benchmarks import hessians as second_order
from benchmarks import siamese
from benchmarks.measure import Row
from benchmarks.texts import DATA


def jacobians(quick: bool) -> list[Row]:
    return siamese.run(quick)


def hessians(quick: bool) -> list[Row]:
    return second_order.rows(DATA, quick=quick)
