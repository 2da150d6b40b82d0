"""The same text at several depths of the model: where on the way a word comes to matter.

>>> from pathlens.studies.layers import layers
>>> layers("sentiment", "Not really funny, but moving.").to_html("layers.html")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from pathlens.engine.explainer import Explainer, loaded
from pathlens.engine.typed import StudyOptions
from pathlens.errors import InputError
from pathlens.explanation.base import Result
from pathlens.explanation.record import Explanation, VectorExplanation
from pathlens.explanation.store import many_to_dict
from pathlens.explanation.view import TableExport, Viewable
from pathlens.studies.compare import by_unit, values_of
from pathlens.types import brief


@dataclass(frozen=True, eq=False, repr=False)
class Layers(TableExport, Viewable):
    """One result per layer, of the same text and with the same tokens."""

    results: tuple[Result, ...]

    def __repr__(self) -> str:
        return brief(self, self.results[0].method, *self.results[0].about, f"layers {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The layers, as numbers."""
        layers = enumerate(result.origin.layer for result in self.results)
        return tuple(str(k if layer is None else layer) for k, layer in layers)

    @property
    def values(self) -> np.ndarray:
        """(units, layers), signed (lengths for vector results)."""
        return np.stack([values_of(result)[1] for result in self.results], axis=1)

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary per unit: its name, and its value at every layer."""
        units = values_of(self.results[0])[0]
        return by_unit(units, [f"layer {name}" for name in self.names], self.values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `pl.load` of the saved file gives the results back as a list."""
        return many_to_dict(self.results, layers=[result.origin.layer for result in self.results])


def layers(
    model: Any, text: Any, text_b: Any = None, *, layers: Sequence[int] | None = None, **choices: Unpack[StudyOptions]
) -> Layers:
    """Explain a text at each of `layers` (default: all of the model's). Choices as in `pl.explain`."""
    one, named = loaded(model, choices)
    wanted = list(layers) if layers is not None else list(range(one.depth)) or [0]
    if one.two_texts_are_a_pair():  # one value per token is needed, not a matrix
        named.setdefault("method", "ig")
    each = [Explainer(one, layer=layer, **named).of_one_target("a view of layers") for layer in wanted]
    results = tuple(explainer(text, text_b) for explainer in each)
    if not all(isinstance(result, Explanation | VectorExplanation) for result in results):
        raise InputError(
            f"layers are drawn for one value per token (secant, ig, sig, vaig); {results[0].method} gives something else"
        ).plainly("Layers are drawn for methods that give one number for each word. Choose another method.", "method")
    return Layers(results)
