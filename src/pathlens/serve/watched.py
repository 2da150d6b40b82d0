"""Models that are watched while they work: every pass is counted, and every text bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from pathlens.errors import InputError
from pathlens.serve.limits import Limits, Meter
from pathlens.text.adapter import Case, Request, TextModel, Wrapped


@dataclass(frozen=True)
class _Score:
    """A case's score that tells the meter first; equal when score and meter are, so batches are still shared."""

    score: Any
    meter: Meter

    def __call__(self, points: Tensor, cases: Sequence[Case]) -> Tensor:
        self.meter.count(len(points))
        return self.score(points, cases)


class Watched(Wrapped):
    """A model with a meter on its every pass and a bound on its texts."""

    def __init__(self, model: TextModel, meter: Meter, limits: Limits) -> None:
        super().__init__(model)
        self._meter, self._limits = meter, limits

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        self._meter.count(0)
        case = super().case(text, text_b, request=request)
        if len(case) > self._limits.units:
            raise InputError(f"the text has {len(case)} tokens; this server takes up to {self._limits.units}")
        return replace(case, score=_Score(case.score, self._meter), pack=(case.pack, id(self._meter)))
