"""pathlens: why did the model say that? Path attributions that add up, with a certificate.

>>> import pathlens as pl
>>> pl.explain("sentiment", "Not really funny, but moving.").show()

The door is small; the heavy rooms are entered only when a name is used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_DOOR = {
    "explain": "pathlens.explain",
    "Explainer": "pathlens.explain",
    "encode": "pathlens.encode",
    "rank": "pathlens.rank",
    "compare": "pathlens.compare",
    "evaluate": "pathlens.evaluate",
    "Evaluation": "pathlens.metrics.record",
    "whatif": "pathlens.whatif",
    "pathview": "pathlens.pathview",
    "chat": "pathlens.text.chat",
    "zoom": "pathlens.zoom",
    "load": "pathlens.explanation.store",
    "methods": "pathlens.methods",
    "ToyModel": "pathlens.text.toy",
    "Tabular": "pathlens.text.tabular",
    "SentenceEncoder": "pathlens.text.sentence",
    "Shifted": "pathlens.text.shifted",
    "DualEncoder": "pathlens.text.dual",
    "Vectors": "pathlens.encode",
    "Ranking": "pathlens.rank",
    "Explanation": "pathlens.explanation.record",
    "VectorExplanation": "pathlens.explanation.record",
    "PairExplanation": "pathlens.explanation.record",
    "Interactions": "pathlens.explanation.record",
    "PhraseTree": "pathlens.explanation.record",
    "Continuation": "pathlens.explanation.continuation",
    "Certificate": "pathlens.types",
    "PathlensError": "pathlens.errors",
    "InputError": "pathlens.errors",
    "ModelError": "pathlens.errors",
    "ConvergenceWarning": "pathlens.errors",
    "CurvatureWarning": "pathlens.errors",
    "softplus": "pathlens.smooth",
    "softplus_curve": "pathlens.smooth",
}

__all__ = [*_DOOR, "__version__"]

if TYPE_CHECKING:
    from pathlens.explain import Explainer as Explainer
    from pathlens.explain import explain as explain


def __getattr__(name: str) -> Any:
    if name not in _DOOR:
        raise AttributeError(
            f"module 'pathlens' has no attribute {name!r}; it offers {', '.join(sorted(_DOOR))}"
        )
    value = getattr(import_module(_DOOR[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Door(ModuleType):
    """Importing the room `pathlens.explain` would put the room in place of the verb of the same name: not here."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _DOOR and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Door
