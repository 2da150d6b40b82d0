"""Room 3: ends → route. Which way from the baseline to the text?"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {
    "dig": "words.dig",
    "udig": "words.udig",
    "PathCache": "words.store",
    "NeighbourGraph": "words.graph",
    "PRESETS": "words.settings",
    "STRATEGIES": "words.record",
    "Settings": "words.record",
    "TokenPath": "words.record",
    "WordPath": "words.record",
    "measured": "words.measure",
    "word_approximation_error": "words.measure",
}


def __getattr__(name: str) -> Any:
    """A saved result is drawn with the records of its path, and without waiting for torch: the rest comes when named."""
    if name not in _WHERE:
        raise AttributeError(f"module 'pathlens.path' has no attribute {name!r}")
    return getattr(import_module(f"pathlens.path.{_WHERE[name]}"), name)
