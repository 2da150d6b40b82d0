"""A result or a study → a page of blocks → terminal, page, picture.

`page_of` finds the function that makes the page by the thing's type; `Viewable` calls the modules that draw it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlens.draw.blocks import Page

# type → module and function here; rooms that come after this one bring a `to_page` of their own
PAGES = {
    "Explanation": "results.explanation",
    "PairExplanation": "results.pair",
    "Interactions": "results.interactions",
    "VectorExplanation": "results.vectors",
    "PhraseTree": "results.phrases",
    "Continuation": "results.continuation",
    "Answer": "answers.answer",
    "Comparison": "studies.comparison",
    "WhatIf": "studies.what_if",
    "PathView": "studies.path_view",
    "Layers": "studies.layers",
    "NodeStudy": "studies.nodes",
    "SoftplusCurve": "studies.softplus_curve",
    "Ranking": "evaluations.ranking",
    "Evaluation": "evaluations.evaluation",
}


def page_of(thing: Any, unit: str | None = None) -> Page:
    """What is to be seen of a thing, at the unit wanted (`None` or "token": as it is; "word": by word)."""
    from pathlens.draw.blocks import Page
    from pathlens.errors import InputError

    if unit not in (None, "token", "word"):
        raise InputError(f"unit is {unit!r} here; expected 'token' or 'word' (other units: explain(..., unit=))")
    if isinstance(thing, Page):
        return thing
    if hasattr(thing, "to_page"):
        return thing.to_page()
    name = next((PAGES[kind.__name__] for kind in type(thing).__mro__ if kind.__name__ in PAGES), "")
    if not name or (unit == "word" and not hasattr(thing, "words")):
        by = " by word" if name else ""
        raise InputError(f"cannot draw a {type(thing).__name__}{by}; expected a result of pathlens.explain")
    module, function = name.split(".")
    make = getattr(import_module(f"pathlens.draw.{module}"), function)
    return make(thing.words() if unit == "word" else thing)
