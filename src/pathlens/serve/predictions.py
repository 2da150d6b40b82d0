"""What a classifier says of many texts, for a table of them; nothing is explained here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pathlens as pl
from pathlens.errors import InputError
from pathlens.explanation.view import Viewable
from pathlens.serve.words import of_error

if TYPE_CHECKING:
    from pathlens.text.adapter import TextModel


@dataclass(frozen=True, eq=False)
class Predictions(Viewable):
    """One row a text: its prediction and the probability of every class, or why it cannot be read."""

    rows: tuple[dict[str, Any], ...]

    @staticmethod
    def of(model: TextModel, pairs: Sequence[tuple[str, str | None]]) -> Predictions:
        """The model is run as `pl.explain` runs it, so that both say the same; what cannot be read does not stop the rest."""
        explainer = pl.Explainer(model)
        request = explainer.choices.request()
        with explainer.at_work():
            read = model.cases([(text, other, request) for text, other in pairs])
            probabilities = iter(model.says([each for each in read if not isinstance(each, Exception)]))
        rows = tuple(_refused(each) if isinstance(each, Exception) else _row(next(probabilities)) for each in read)
        if len({row.get("error") for row in rows} - {None}) == 1 and all("error" in row for row in rows):
            # it is not the texts' fault
            raise InputError(f"{rows[0]['error']} ({model.name!r} is a {model.kind} model)").plainly(rows[0]["words"])
        return Predictions(rows)


NO_CLASSES = "the model names no class for this text"


def _refused(error: Exception) -> dict[str, Any]:
    trouble = of_error(error)
    return {"error": trouble.detail, "words": trouble.words}


def _row(probabilities: Any) -> dict[str, Any]:
    if probabilities is None:
        return {"error": NO_CLASSES, "words": NO_CLASSES}
    return {
        "prediction": max(probabilities.text, key=lambda name: probabilities.text[name]),
        "probabilities": probabilities.text,
    }
