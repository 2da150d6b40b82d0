"""pathlens: why did the model say that? Path attributions that add up, with a certificate.

>>> import pathlens as pl
>>> pl.explain("sentiment", "Not really funny, but moving.").show()

The door is small; the heavy rooms are entered only when a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_DOOR = {
    "explain": "pathlens.engine.explainer",
    "Explainer": "pathlens.engine.explainer",
    "encode": "pathlens.vectors.encode",
    "rank": "pathlens.vectors.rank",
    "compare": "pathlens.studies.compare",
    "evaluate": "pathlens.metrics.evaluate",
    "Evaluation": "pathlens.metrics.record",
    "whatif": "pathlens.studies.whatif",
    "pathview": "pathlens.studies.pathview",
    "chat": "pathlens.text.chat",
    "zoom": "pathlens.studies.zoom",
    "load": "pathlens.explanation.store",
    "methods": "pathlens.engine.methods",
    "ToyModel": "pathlens.text.toy",
    "Tabular": "pathlens.text.tabular",
    "SentenceEncoder": "pathlens.text.sentence",
    "Shifted": "pathlens.text.sentence",
    "DualEncoder": "pathlens.text.dual",
    "Vectors": "pathlens.vectors.encode",
    "Ranking": "pathlens.vectors.rank",
    "Explanation": "pathlens.explanation.record",
    "VectorExplanation": "pathlens.explanation.record",
    "PairExplanation": "pathlens.explanation.record",
    "Interactions": "pathlens.explanation.record",
    "PhraseTree": "pathlens.explanation.record",
    "Continuation": "pathlens.explanation.continuation",
    "Certificate": "pathlens.explanation.certificate",
    "PathlensError": "pathlens.errors",
    "InputError": "pathlens.errors",
    "ModelError": "pathlens.errors",
    "ConvergenceWarning": "pathlens.errors",
    "CurvatureWarning": "pathlens.errors",
    "softplus": "pathlens.text.softplus",
    "softplus_curve": "pathlens.studies.softplus_curve",
}

__all__ = [*_DOOR, "__version__"]

if TYPE_CHECKING:
    from pathlens.engine.explainer import Explainer as Explainer
    from pathlens.engine.explainer import explain as explain


def __getattr__(name: str) -> Any:
    if name not in _DOOR:
        raise AttributeError(f"module 'pathlens' has no attribute {name!r}; it offers {', '.join(sorted(_DOOR))}")
    value = getattr(import_module(_DOOR[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
