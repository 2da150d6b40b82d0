"""The path slot: which way a method goes from the baseline to the text, read from its options.

`dig` and `udig` are Integrated Gradients along paths through real words. The same paths serve `ig`, `vaig` and
`ij` by `path="dig"` or `path="udig"`. Not Integrated Hessians: they exist on the straight line only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from pathlens.errors import InputError
from pathlens.path.line import line
from pathlens.path.words.dig import dig
from pathlens.path.words.measure import measured, word_approximation_error
from pathlens.path.words.record import WordPath
from pathlens.path.words.settings import PRESETS, STRATEGIES, Settings
from pathlens.path.words.store import PathCache
from pathlens.path.words.udig import udig
from pathlens.types import Ends, Route

SEARCHES = {"dig": dig, "udig": udig}
NUMBERS = ("steps", "neighbours", "factor")  # m, K, f
WORD_OPTIONS = (*NUMBERS, "strategy", "preset", "cache", "wae")
PATH_OPTIONS = ("path", *WORD_OPTIONS)  # of methods that may leave the straight line


def through_words(method: str) -> Callable[[Ends, Tensor, Mapping[str, Any]], Route]:
    """The path maker of `dig` or `udig`."""
    return lambda ends, units, options: word_route_of(method, ends, options)


def chosen_way(ends: Ends, units: Tensor, options: Mapping[str, Any]) -> Route:
    """The straight line, or with `path="dig"` or `"udig"` a path through words."""
    path = options.get("path") or "line"
    if path not in ("line", *SEARCHES):
        raise InputError(f'path must be "line", "dig" or "udig", got {path!r}')
    if path != "line":
        return word_route_of(path, ends, options)
    given = [name for name in WORD_OPTIONS if name in options and name != "cache"]
    if given:
        raise InputError(
            f"{', '.join(given)}: settings of a path through words, and this path is the straight line; add path='udig' "
            "or path='dig'"
        )
    return line(ends)


def word_route_of(method: str, ends: Ends, options: Mapping[str, Any]) -> Route:
    """Search the path; with `wae=True` measure how far it strays from words."""
    settings = word_settings(method, options)
    cache = path_cache(options.get("cache"))
    route = SEARCHES[method](
        ends,
        steps=settings.steps,
        neighbours=settings.neighbours,
        strategy=settings.strategy,
        factor=settings.factor,
        cache=cache,
    )
    if not options.get("wae"):
        return route
    return replace(route, detail=measured(route.detail, word_approximation_error(route, ends, cache=cache)))


def word_settings(method: str, options: Mapping[str, Any]) -> Settings:
    """A preset (the authors' settings, by default of the chosen strategy), with what was given by name put over it."""
    preset, strategy = options.get("preset"), options.get("strategy")
    if preset is not None:
        known = [name for name in PRESETS if PRESETS[name].method == method]
        full = preset if str(preset).startswith(f"{method}-") else f"{method}-{preset}"
        if full not in known:
            raise InputError(f"preset={preset!r} is not one of {method}; presets: {', '.join(known)}")
        base = PRESETS[full]
    else:
        base = PRESETS.get(f"{method}-{strategy}", PRESETS[f"{method}-{STRATEGIES[method][0]}"])
    given = {name: options[name] for name in (*NUMBERS, "strategy") if options.get(name) is not None}
    return replace(base, **given)


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
