"""A path through words, made as its options ask.

`dig` and `udig` are Integrated Gradients along paths through real words. The same paths serve `ig`, `vaig` and
`ij` by `path="dig"` or `path="udig"`. Not Integrated Hessians: they exist on the straight line only.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pathlens.errors import InputError
from pathlens.path.words.dig import dig
from pathlens.path.words.measure import measured, word_approximation_error
from pathlens.path.words.record import WordPath
from pathlens.path.words.settings import WordOptions
from pathlens.path.words.store import PathCache
from pathlens.path.words.udig import udig
from pathlens.types import Ends, Route

SEARCHES = {"dig": dig, "udig": udig}


def word_route_of(method: str, ends: Ends, options: WordOptions) -> Route:
    """Search the path; with `wae=True` measure how far it strays from words."""
    settings = options.settings(method)
    cache = path_cache(options.cache)
    route = SEARCHES[method](
        ends,
        steps=settings.steps,
        neighbours=settings.neighbours,
        strategy=settings.strategy,
        factor=settings.factor,
        cache=cache,
    )
    if not options.wae:
        return route
    return replace(route, detail=measured(route.detail, word_approximation_error(route, ends, cache=cache)))


def path_cache(cache: Any) -> PathCache:
    """A cache as it is; a folder gives one on disk; None one in memory."""
    if isinstance(cache, PathCache):
        return cache
    if isinstance(cache, str) and (not cache or Path(cache).is_file()):
        raise InputError(f"cache must be a folder (paths are kept there from run to run), got {cache!r}")
    try:
        return PathCache(cache)
    except TypeError:
        raise InputError(f"cache must be a folder (paths are kept there from run to run), got {cache!r}") from None


def nodes_per_leg(route: Route) -> int | None:
    """2^f: how many nodes the papers' left rule has on every leg of a path through words; None elsewhere."""
    return 2**route.detail.settings.factor if isinstance(route.detail, WordPath) else None
