"""pathlens: why did the model say that? Path attributions that add up, with a certificate.

>>> import pathlens as pl
>>> pl.explain("sentiment", "Not really funny, but moving.").show()

What `dir(pl)` shows:

- verbs: `explain`, or `Explainer` for many calls; `answer`, `encode`, `rank`, `why`, `compare`, `evaluate`, `zoom`; `chat` makes
  a prompt, `load` reads a saved result, `methods` lists the methods;
- what they give: `Explanation`, `PairExplanation`, `Vectors`, … with a `Certificate`, several as `Results`; `Report` puts them on a page;
- methods as records of their options: `IG`, `SIG`, …; errors and warnings;
- rooms: `models` (model kinds, for those who bring their own; `examine`), `studies` (whatever looks at a model in another
  way: `whatif`, `layers`, `exact`, …), `corpus` (a whole data set).

Whatever `pl.models` and `pl.studies` have can be written `pl.name` too. The heavy rooms are entered when a name is used.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pathlens.explanation.view import renderers as _renderers

__version__ = "0.1.0"

# what an editor and a type checker see; `_DOOR` and `_ROOMS` say the same to Python, and a test holds them together
if TYPE_CHECKING:
    from pathlens.models import *  # noqa: F403
    from pathlens.studies import *  # noqa: F403

    # isort: split
    from pathlens import corpus as corpus
    from pathlens import models as models
    from pathlens import studies as studies
    from pathlens.engine.explain import explain as explain
    from pathlens.engine.explainer import Explainer as Explainer
    from pathlens.engine.methods import methods as methods
    from pathlens.engine.options import DIG as DIG
    from pathlens.engine.options import IDG as IDG
    from pathlens.engine.options import IG as IG
    from pathlens.engine.options import IH as IH
    from pathlens.engine.options import IJ as IJ
    from pathlens.engine.options import SECANT as SECANT
    from pathlens.engine.options import SIG as SIG
    from pathlens.engine.options import UDIG as UDIG
    from pathlens.engine.options import VAIG as VAIG
    from pathlens.errors import ConvergenceWarning as ConvergenceWarning
    from pathlens.errors import CurvatureWarning as CurvatureWarning
    from pathlens.errors import InputError as InputError
    from pathlens.errors import ModelError as ModelError
    from pathlens.errors import PathlensError as PathlensError
    from pathlens.errors import StoreError as StoreError
    from pathlens.explanation.answer import Answer as Answer
    from pathlens.explanation.certificate import Certificate as Certificate
    from pathlens.explanation.record import Continuation as Continuation
    from pathlens.explanation.record import Explanation as Explanation
    from pathlens.explanation.record import Interactions as Interactions
    from pathlens.explanation.record import PairExplanation as PairExplanation
    from pathlens.explanation.record import PhraseTree as PhraseTree
    from pathlens.explanation.record import Results as Results
    from pathlens.explanation.record import VectorExplanation as VectorExplanation
    from pathlens.explanation.store import load as load
    from pathlens.metrics.evaluate import evaluate as evaluate
    from pathlens.metrics.record import Evaluation as Evaluation
    from pathlens.report import Report as Report
    from pathlens.studies.answer import answer as answer
    from pathlens.studies.compare import Comparison as Comparison
    from pathlens.studies.compare import compare as compare
    from pathlens.studies.zoom import zoom as zoom
    from pathlens.text.chat import chat as chat
    from pathlens.vectors.encode import Vectors as Vectors
    from pathlens.vectors.encode import encode as encode
    from pathlens.vectors.rank import Ranking as Ranking
    from pathlens.vectors.rank import rank as rank
    from pathlens.vectors.why import why as why

_DOOR = {  # module → the names it gives
    "engine.explain": "explain",
    "engine.explainer": "Explainer",
    "engine.methods": "methods",
    "engine.options": "DIG IDG IG IH IJ SECANT SIG UDIG VAIG",
    "errors": "ConvergenceWarning CurvatureWarning InputError ModelError PathlensError StoreError",
    "explanation.answer": "Answer",
    "explanation.certificate": "Certificate",
    "explanation.record": "Continuation Explanation Interactions PairExplanation PhraseTree Results VectorExplanation",
    "explanation.store": "load",
    "metrics.evaluate": "evaluate",
    "metrics.record": "Evaluation",
    "report": "Report",
    "studies.answer": "answer",
    "studies.compare": "Comparison compare",
    "studies.zoom": "zoom",
    "text.chat": "chat",
    "vectors.encode": "Vectors encode",
    "vectors.rank": "Ranking rank",
    "vectors.why": "why",
}
_WHERE = {name: module for module, names in _DOOR.items() for name in names.split()}
_ROOMS = ("models", "studies")  # their names are also given here
_WHOLE = ("corpus",)  # a room with a door of its own: pl.corpus.run

_RENDERERS = {  # what results draw themselves with, imported when it is first used
    "show": "draw.terminal",
    "document": "draw.markup",
    "fragment": "draw.markup",
    "save": "draw.figure",
    "Report": "report",
}

__all__ = [*sorted(_WHERE), *_ROOMS, *_WHOLE, "__version__"]


def _later(module: str, name: str) -> Any:
    return getattr(import_module(f"pathlens.{module}"), name)


_renderers.update({name: partial(_later, module, name) for name, module in _RENDERERS.items()})


if not TYPE_CHECKING:  # a checker that saw this would take any misspelt name for a name of the door

    def __getattr__(name: str) -> Any:
        if name in (*_ROOMS, *_WHOLE):
            return import_module(f"pathlens.{name}")
        if name.startswith("_"):
            raise AttributeError(f"module 'pathlens' has no attribute {name!r}")
        rooms = [import_module(f"pathlens.{_WHERE[name]}")] if name in _WHERE else map(__getattr__, _ROOMS)
        for room in rooms:
            if name in _WHERE or name in room.__all__:
                globals()[name] = value = getattr(room, name)
                return value
        from pathlens.checks import did_you_mean

        behind = [each for room in _ROOMS for each in __getattr__(room).__all__]
        hint = did_you_mean(name, [*__all__, *behind]) or f"; it offers {', '.join(__all__)}"
        raise AttributeError(f"module 'pathlens' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    """What is at the door, and the studies that people look for there; the rooms show the rest."""
    return sorted([*__all__, "layers", "nodes", "pathview", "whatif"])
