"""From ends to a route through real words: DIG and UDIG, and what they share.

A path through words is fixed by one anchor word per step and token. The two methods differ in where they look for
anchors; anchors become monotone points (choose.py), and points a route on which all tokens move together. Such a route
serves Integrated Gradients (`dig`, `udig`), and `ig`, `vaig` and `ij` by `path="dig"` or `path="udig"`. Not Integrated
Hessians: they exist on the straight line only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pathlens.errors import InputError, setting
from pathlens.path.staircase import moving_tokens
from pathlens.path.words.choose import NO_WORD, Journeys, choose, walk
from pathlens.path.words.options import Settings, TokenPath, WordOptions, WordPath
from pathlens.path.words.store import PathCache, path_cache, row_key
from pathlens.types import Ends, Route, Vocabulary

NUMBERS_AT_ONCE = 2**22  # numbers of candidate rows scored at once

Finder = Callable[[Journeys, Vocabulary, PathCache], np.ndarray]  # -> anchor ids (n, m), from the text's side


def word_route(method: str, ends: Ends, options: WordOptions) -> Route:
    """The path of `dig` or `udig` as its options ask; with `wae=True`, how far it strays from words is measured."""
    cache = path_cache(options.cache)
    route = {"dig": dig, "udig": udig}[method](ends, options.settings(method), cache)
    if not options.wae:
        return route
    return replace(route, detail=measured(route.detail, word_approximation_error(route, ends, cache=cache)))


def dig(ends: Ends, settings: Settings, cache: PathCache | None = None) -> Route:
    """Anchor a^t is chosen among the K nearest words of a^{t−1}, with a⁰ = w; `c^t = mono(a^t; w′, c^{t−1})`.

    *greedy*: the smallest ‖a − mono(a; w′, a^{t−1})‖₂. *maxcount*: the most coordinates kept by mono.
    A word is none of its own K neighbours, as in the graph the authors use; a row that is no word has the K nearest words.

    Paper: Sanyal and Ren, "Discretized Integrated Gradients for Explaining Language Models" (2021).

    Limits: progress along the path is uneven, so the paper's left rule (2^f nodes per leg) misses
    completeness; a rule of higher order on each leg does not.
    """

    def find(journeys: Journeys, vocabulary: Vocabulary, cache: PathCache) -> np.ndarray:
        search, graph = cache.search(vocabulary), cache.graph(vocabulary, settings.neighbours)

        def candidates(step: int, ids: np.ndarray, rows: np.ndarray) -> np.ndarray:
            near = np.empty((len(ids), settings.neighbours), dtype=np.int64)
            word = ids != NO_WORD
            if word.any():
                near[word] = graph.rows(ids[word])
            if not word.all():  # rows that are no words have no place in the graph
                near[~word] = search.nearest(rows[~word], settings.neighbours)[0]
            return near

        return choose(journeys, settings, search, candidates, shared=True)

    return _route(ends, settings, cache, find)


def udig(ends: Ends, settings: Settings, cache: PathCache | None = None) -> Route:
    """Anchor j is chosen among the K nearest words of `p_j = w′ + j/(m + 1)·(w − w′)`, j = m … 1.

    *greedy* and *maxcount* score a candidate against (w′, the anchor before), as DIG does, and points follow
    by `mono`. *grid* keeps a coordinate only inside its own cell, half a step around p_j, and takes p_j's
    elsewhere; the word with most coordinates kept is the anchor. Its points are monotone and truly uniform.

    Paper: Roy and Kundu, "Uniform Discretized Integrated Gradients" (2024); `grid` is a variant of ours.

    Limits: after `mono` progress is not uniform (one leg may carry a third of the length): the paper's left
    rule then misses completeness by 12 to 25 %; a rule of higher order on each leg closes it.
    """
    shares = np.arange(settings.steps, 0, -1) / (settings.steps + 1)

    def find(journeys: Journeys, vocabulary: Vocabulary, cache: PathCache) -> np.ndarray:
        search = cache.search(vocabulary)
        near, _ = search.nearest_on_lines(journeys.start, journeys.end, shares, settings.neighbours)
        return choose(journeys, settings, search, lambda step, ids, rows: near[:, step])

    return _route(ends, settings, cache, find)


def nodes_per_leg(route: Route) -> int | None:
    """2^f: how many nodes the papers' left rule has on every leg of a path through words; None elsewhere."""
    return 2**route.detail.settings.factor if isinstance(route.detail, WordPath) else None


def word_approximation_error(
    route: Route, ends: Ends, *, factor: int | None = None, cache: PathCache | None = None
) -> Float[np.ndarray, "S"]:
    """WAE: mean over the path's points of the distance to the nearest word; NaN where a token rests.

    The points are the corners with midpoints inserted f times, both ends included: 2^f·(corners − 1) + 1.
    Works for any route whose legs follow each other, so that the straight line can be compared.

    Limits: two paths compare only with as many points; the ends, words themselves, pull the mean down.
    """
    cache = PathCache() if cache is None else cache
    moving = moving_tokens(ends).nonzero().flatten().tolist()
    errors = np.full(len(ends.end), np.nan)
    if not moving:
        return errors
    if ends.vocabulary is None:
        raise InputError(
            f"the distance to the nearest word needs an embedding table; use {setting(layer=0)} of a model that has one"
        )
    search = cache.search(ends.vocabulary)
    corners = torch.stack([route.corner(i)[moving] for i in range(route.corners)])
    parts = nodes_per_leg(route) or 1 if factor is None else 2**factor
    shares = np.arange(parts) / parts
    for t, column in zip(moving, corners.detach().cpu().double().unbind(1), strict=True):
        points = column.numpy()
        _, square = search.nearest_on_lines(points[:-1], points[1:], shares, 1)
        _, last = search.nearest(points[-1:], 1)
        errors[t] = np.append(np.sqrt(square).ravel(), np.sqrt(last).ravel()).mean()
    return errors


def measured(path: WordPath, errors: Float[np.ndarray, "S"]) -> WordPath:
    """The record with each token's word approximation error filled in."""
    tokens = (
        replace(token, error=None if np.isnan(error) else float(error))
        for token, error in zip(path.tokens, errors, strict=True)
    )
    return WordPath(path.settings, tuple(tokens))


def checked_vocabulary(ends: Ends, settings: Settings) -> Vocabulary:
    """The vocabulary to walk through; raises an error that says what is missing for it."""
    if ends.vocabulary is None:
        raise InputError(
            f"{settings.method} walks through the words of an embedding table, so it lives at the word "
            f"embeddings, and there is no table here. Use {setting(layer=0)} and a model that has one, or {setting(method='ig')}, "
            "which works at any layer"
        )
    size, width = ends.vocabulary.table.shape
    most = size - (settings.method == "dig")  # a word is no neighbour of itself
    if settings.neighbours > most:
        raise InputError(
            f"{settings.method} was asked for {setting(neighbours=settings.neighbours)}, but the vocabulary has only "
            f"{size} words; use {setting(neighbours=most)} or fewer"
        )
    if width != ends.end.shape[1]:
        raise InputError(f"the table's rows have {width} numbers, the text's rows {ends.end.shape[1]}")
    for name, ids in (("token", ends.ids), ("baseline", ends.start_ids)):
        for i in ids or ():
            if not 0 <= i < size:
                raise InputError(f"{name} id {i} is not in the vocabulary of {size} words (0 to {size - 1})")
    return ends.vocabulary


def _route(ends: Ends, settings: Settings, cache: PathCache | None, find: Finder) -> Route:
    """The route through the anchors' monotone points: corners `(m + 2, S, d)` from the baseline to the text.

    Tokens that are held, or equal to their baseline, never move.
    """
    vocabulary = checked_vocabulary(ends, settings)
    cache = PathCache() if cache is None else cache
    tokens = moving_tokens(ends).nonzero().flatten().tolist()
    corners = torch.stack([ends.start, *[ends.end] * (settings.steps + 1)])
    corners[0, ends.held] = ends.end[ends.held]
    if not tokens:
        return Route.through(corners, _describe(ends, settings, {}))
    journeys, which = _journeys(ends, vocabulary, tokens)
    anchors = _anchors(journeys, vocabulary, settings, cache, find)
    points = walk(journeys, anchors, settings, cache.search(vocabulary))
    inner = torch.from_numpy(points[which]).to(corners)  # (moving, m, d), from the text's side
    corners[1:-1, tokens] = inner.flip(1).transpose(0, 1)
    delta = journeys.end - journeys.start  # how far along the straight line each point is: (c − w′)·(w − w′)/‖w − w′‖²
    along = np.einsum("nmd,nd->nm", points - journeys.start[:, None], delta) / np.square(delta).sum(axis=1)[:, None]
    by_token = {t: (anchors[k], along[k]) for t, k in zip(tokens, which, strict=True)}
    return Route.through(corners, _describe(ends, settings, by_token))


def _describe(ends: Ends, settings: Settings, by_token: Mapping[int, tuple[np.ndarray, np.ndarray]]) -> WordPath:
    """The record of a route, from anchor ids and positions (m,) per moving token, text's side first."""

    def word(ids: tuple[int, ...] | None, token: int, otherwise: str) -> str:
        return otherwise if ids is None or ends.vocabulary is None else ends.vocabulary.words(ids[token])

    tokens = []
    for t in range(len(ends.end)):
        both = word(ends.ids, t, "(row)"), word(ends.start_ids, t, "(baseline)")
        ids, positions = (tuple(each[::-1].tolist()) for each in by_token.get(t, (np.empty(0), np.empty(0))))
        words = tuple("(baseline)" if i == NO_WORD else word((i,), 0, "") for i in ids)
        tokens.append(TokenPath(*both, ids, words, positions))
    return WordPath(settings, tuple(tokens))


def _journeys(ends: Ends, vocabulary: Vocabulary, tokens: list[int]) -> tuple[Journeys, Int[np.ndarray, "moving"]]:
    """The different journeys of the moving tokens, and which of them each token makes."""
    end, end_ids, end_keys = _side(vocabulary, ends.end, ends.ids, tokens)
    start, start_ids, start_keys = _side(vocabulary, ends.start, ends.start_ids, tokens)
    pairs = list(zip(end_keys, start_keys, strict=True))
    index = {pair: k for k, pair in enumerate(dict.fromkeys(pairs))}
    first = [pairs.index(pair) for pair in index]
    journeys = Journeys(end[first], start[first], end_ids[first], start_ids[first], tuple(index))
    return journeys, np.array([index[pair] for pair in pairs])


def _side(
    vocabulary: Vocabulary, given: Float[Tensor, "S d"], ids: tuple[int, ...] | None, tokens: list[int]
) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "n"], list[str]]:
    """Rows in float64, word ids and cache keys of one side of the moving tokens."""
    if ids is None:  # rows that are no words, say a zero baseline: points like any other
        rows = given[tokens].detach().cpu().double().numpy()
        return rows, np.full(len(tokens), NO_WORD), [row_key(row) for row in rows]
    chosen = [ids[t] for t in tokens]
    # the table's own rows, so that a path is a function of its cache key
    rows = vocabulary.table[chosen].detach().cpu().double().numpy()
    return rows, np.array(chosen, dtype=np.int64), [str(i) for i in chosen]


def _anchors(
    journeys: Journeys, vocabulary: Vocabulary, settings: Settings, cache: PathCache, find: Finder
) -> Int[np.ndarray, "n m"]:
    """Anchor ids: those the cache knows, and the others, found together and remembered."""
    groups = {baseline: (vocabulary.fingerprint, settings.key, baseline) for _, baseline in journeys.keys}
    known: dict[tuple[str, str], np.ndarray] = {}
    for baseline, group in groups.items():
        tokens = [token for token, other in journeys.keys if other == baseline]
        stored = cache.get(group, tokens, settings.steps)
        known.update({(token, baseline): path for token, path in stored.items()})

    missing = [k for k, key in enumerate(journeys.keys) if key not in known]
    at_once = max(1, NUMBERS_AT_ONCE // (settings.neighbours * journeys.end.shape[1]))
    new = {}
    for low in range(0, len(missing), at_once):
        some = missing[low : low + at_once]
        paths = find(journeys.some(some), vocabulary, cache)
        new.update({journeys.keys[k]: path for k, path in zip(some, paths, strict=True)})
    for baseline, group in groups.items():
        cache.put(group, {token: path for (token, other), path in new.items() if other == baseline})
    return np.stack([new[key] if key in new else known[key] for key in journeys.keys])
