"""From ends to a route through real words: what DIG and UDIG share.

A path through words is fixed by one anchor word per step and token. Finding anchors is the business of
`anchors` (DIG) and `uniform` (UDIG); here anchors become monotone points, and points become a route on which
all tokens move together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from pathlens.errors import InputError
from pathlens.path.token_lines import moving_tokens
from pathlens.path.words.choose import NO_WORD, Journeys, walk
from pathlens.path.words.measure import describe
from pathlens.path.words.record import Settings
from pathlens.path.words.store import PathCache, row_key
from pathlens.types import Ends, Route

NUMBERS_AT_ONCE = 2**22  # numbers of candidate rows scored at once

Finder = Callable[[Journeys], np.ndarray]  # -> anchor ids (n, m), from the text's side


def word_route(ends: Ends, settings: Settings, cache: PathCache, find: Finder) -> Route:
    """The route through the anchors' monotone points: corners `(m + 2, S, d)` from the baseline to the text.

    Tokens that are held, or equal to their baseline, never move.
    """
    tokens = moving_tokens(ends).nonzero().flatten().tolist()
    corners = torch.stack([ends.start, *[ends.end] * (settings.steps + 1)])
    corners[0, ends.held] = ends.end[ends.held]
    if not tokens:
        return Route.through(corners, describe(ends, settings))
    journeys, which = _journeys(ends, tokens)
    anchors = _anchors(journeys, ends.vocabulary.fingerprint, settings, cache, find)
    points = walk(journeys, anchors, settings, cache.search(ends.vocabulary))
    inner = torch.from_numpy(points[which]).to(corners)  # (moving, m, d), from the text's side
    corners[1:-1, tokens] = inner.flip(1).transpose(0, 1)
    along = progress(journeys, points)
    token_anchors = {t: anchors[k] for t, k in zip(tokens, which, strict=True)}
    token_shares = {t: along[k] for t, k in zip(tokens, which, strict=True)}
    return Route.through(corners, describe(ends, settings, token_anchors, token_shares))


def progress(journeys: Journeys, points: np.ndarray) -> np.ndarray:
    """How far along the straight line each point is (n, m): `(c − w′)·(w − w′)/‖w − w′‖²`."""
    way = journeys.end - journeys.start
    return np.einsum("nmd,nd->nm", points - journeys.start[:, None], way) / np.square(way).sum(axis=1)[:, None]


def check_ends(ends: Ends, settings: Settings) -> None:
    """Raise an error that says what is missing for a path through words."""
    if ends.vocabulary is None:
        raise InputError(
            f"{settings.method} walks through the words of an embedding table, so it lives at the word "
            "embeddings, and there is no table here. Use layer=0 and a model that has one, or method='ig', "
            "which works at any layer"
        )
    size, width = ends.vocabulary.table.shape
    if settings.neighbours > size:
        raise InputError(
            f"{settings.method} was asked for neighbours={settings.neighbours}, but the vocabulary has only "
            f"{size} words; use neighbours={size} or fewer"
        )
    if width != ends.end.shape[1]:
        raise InputError(f"the table's rows have {width} numbers, the text's rows {ends.end.shape[1]}")
    for name, ids in (("token", ends.ids), ("baseline", ends.start_ids)):
        for i in ids or ():
            if not 0 <= i < size:
                raise InputError(f"{name} id {i} is not in the vocabulary of {size} words (0 to {size - 1})")


def _journeys(ends: Ends, tokens: list[int]) -> tuple[Journeys, np.ndarray]:
    """The different journeys of the moving tokens, and which of them each token makes."""
    end, end_ids, end_keys = _side(ends, ends.end, ends.ids, tokens)
    start, start_ids, start_keys = _side(ends, ends.start, ends.start_ids, tokens)
    pairs = list(zip(end_keys, start_keys, strict=True))
    index = {pair: k for k, pair in enumerate(dict.fromkeys(pairs))}
    first = [pairs.index(pair) for pair in index]
    journeys = Journeys(end[first], start[first], end_ids[first], start_ids[first], tuple(index))
    return journeys, np.array([index[pair] for pair in pairs])


def _side(
    ends: Ends, given: torch.Tensor, ids: tuple[int, ...] | None, tokens: list[int]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Rows in float64, word ids and cache keys of one side of the moving tokens."""
    if ids is None:  # rows that are no words, say a zero baseline: points like any other
        rows = given[tokens].detach().cpu().double().numpy()
        return rows, np.full(len(tokens), NO_WORD), [row_key(row) for row in rows]
    chosen = [ids[t] for t in tokens]
    # the table's own rows, so that a path is a function of its cache key
    rows = ends.vocabulary.table[chosen].detach().cpu().double().numpy()
    return rows, np.array(chosen, dtype=np.int64), [str(i) for i in chosen]


def _anchors(journeys: Journeys, fingerprint: str, settings: Settings, cache: PathCache, find: Finder) -> np.ndarray:
    """Anchor ids (n, m): those the cache knows, and the others, found together and remembered."""
    groups = {baseline: (fingerprint, settings.key, baseline) for _, baseline in journeys.keys}
    known: dict[tuple[str, str], np.ndarray] = {}
    for baseline, group in groups.items():
        tokens = [token for token, other in journeys.keys if other == baseline]
        found = cache.get(group, tokens, settings.steps)
        known.update({(token, baseline): path for token, path in found.items()})

    missing = [k for k, key in enumerate(journeys.keys) if key not in known]
    at_once = max(1, NUMBERS_AT_ONCE // (settings.neighbours * journeys.end.shape[1]))
    new = {}
    for low in range(0, len(missing), at_once):
        some = missing[low : low + at_once]
        paths = find(journeys.some(some))
        new.update({journeys.keys[k]: path for k, path in zip(some, paths, strict=True)})
    for baseline, group in groups.items():
        cache.put(group, {token: path for (token, other), path in new.items() if other == baseline})
    return np.stack([new[key] if key in new else known[key] for key in journeys.keys])
