"""Ends → route. Which way from the baseline to the text?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlens.path.words.store import PathCache

__all__ = ["PathCache"]


def __getattr__(name: str) -> Any:
    """A saved result is drawn with the records of its path, and without waiting for torch: the cache comes when named."""
    if name == "PathCache":
        from pathlens.path.words.store import PathCache

        return PathCache
    raise AttributeError(f"module 'pathlens.path' has no attribute {name!r}")
