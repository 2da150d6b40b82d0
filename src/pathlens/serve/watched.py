"""Models that are watched while they work: every pass is counted, and every text bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from pathlens.errors import InputError
from pathlens.serve.limits import Limits, Meter
from pathlens.text.adapter import Case, TextModel


@dataclass(frozen=True)
class _Score:
    """A case's score that tells the meter first; equal when score and meter are, so batches are still shared."""

    score: Any
    meter: Meter

    def __call__(self, points: Tensor, cases: Sequence[Case]) -> Tensor:
        self.meter.count(len(points))
        return self.score(points, cases)


class Watched(TextModel):
    """A model with a meter on its every pass and a bound on its texts; everything else is the model's own."""

    def __init__(self, model: TextModel, meter: Meter, limits: Limits) -> None:
        self._model, self._meter, self._limits = model, meter, limits
        for name in ("kind", "name", "default_method", "default_layer", "options", "similarity"):
            setattr(self, name, getattr(model, name))  # the class has these, so they would not be asked of the model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_model"], name)

    def case(self, text: Any, text_b: Any = None, *, request: Any) -> Case:
        self._meter.count(0)
        case = self._model.case(text, text_b, request=request)
        if len(case) > self._limits.units:
            raise InputError(f"the text has {len(case)} tokens; this server takes up to {self._limits.units}")
        return replace(case, score=_Score(case.score, self._meter), pack=(case.pack, id(self._meter)))

    @property
    def dtype_name(self) -> str:
        return self._model.dtype_name

    def quiet(self) -> Any:
        return self._model.quiet()

    def two_texts_are_a_pair(self) -> bool:
        return self._model.two_texts_are_a_pair()

    def sides(self) -> tuple[TextModel, TextModel]:
        one, two = self._model.sides()
        return Watched(one, self._meter, self._limits), Watched(two, self._meter, self._limits)
