"""Several outputs of one text, each with its driver: where two ask alike, the same passes answer both.

Each driver decides its own nodes, as it would alone, so the numbers are those of separate calls.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from pathlens.integrand import Batch, Gradient, Integrand, Outputs, Value
from pathlens.integrand.secant import SecantScores
from pathlens.integrate.drive import Ask


@dataclass(frozen=True)
class OfSeveral(Integrand):
    """An integrand of a number, for some of the numbers (B, T, 1) that one forward pass gives: (B, rows, n, 1)."""

    of: Integrand  # Value, Gradient or SecantScores
    which: tuple[int, ...]
    whole: bool = False  # all of them, in their order

    @staticmethod
    def can(integrand: Integrand) -> bool:
        """Can this one be taken of several numbers at once?"""
        return isinstance(integrand, Value | Gradient | SecantScores)

    @property
    def _made(self) -> Integrand:
        if isinstance(self.of, Gradient):
            return Outputs(len(self.which), "reverse")
        return SecantScores(len(self.which)) if isinstance(self.of, SecantScores) else self.of

    def __call__(self, batch: Batch) -> Float[Tensor, "B rows n 1"]:
        if self.whole:
            return self._made(batch)
        some, lean = batch.score, batch.lean
        chosen = replace(
            batch,
            score=lambda points: some(points)[:, list(self.which)],
            lean=None if lean is None else lambda points: lean(points)[:, list(self.which)],
        )
        return self._made(chosen)

    @property
    def heads(self) -> int:  # type: ignore[override]
        return self._made.heads

    @property
    def reverse_rows(self) -> float:  # type: ignore[override]
        return self._made.reverse_rows

    def passes(self, units: int) -> int:
        return self._made.passes(units)

    def rows_alive(self, units: int) -> float:
        return self._made.rows_alive(units)

    def rows_busy(self, units: int) -> float:
        return self._made.rows_busy(units)


def together(drivers: Sequence[Generator[Ask, Tensor, Any]]) -> Generator[Ask, Tensor, list[Any]]:
    """What every driver found, or its error, in their order. Driver k is sent number k of what was asked."""
    outcomes: list[Any] = [None] * len(drivers)
    asks: dict[int, Ask] = {}

    def send(number: int, sums: Float[Tensor, "R ..."] | None) -> None:
        asks.pop(number, None)
        try:
            asks[number] = next(drivers[number]) if sums is None else drivers[number].send(sums)
        except StopIteration as end:
            outcomes[number] = end.value
        except Exception as error:  # of one output alone; the others go on
            outcomes[number] = error

    for number in range(len(drivers)):
        send(number, None)
    while asks:
        question = asks[min(asks)]
        alike = tuple(number for number in sorted(asks) if _same(asks[number], question))
        sums = yield Ask(question.points, OfSeveral(question.integrand, alike, len(alike) == len(drivers)))
        for place, number in enumerate(alike):
            send(number, sums[..., place, 0])
    return outcomes


def _same(one: Ask, other: Ask) -> bool:
    """Equal questions about the same places; routes of one text with one method are equal by construction."""
    a, b = one.points, other.points
    return one.integrand == other.integrand and all(
        np.array_equal(x, y) for x, y in ((a.leg, b.leg), (a.t, b.t), (a.weight, b.weight))
    )
