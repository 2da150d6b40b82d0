"""What a path through words says of itself: anchor words, their positions, how far it strays from words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from pathlens.path.token_lines import moving_tokens
from pathlens.path.words.choose import NO_WORD
from pathlens.path.words.record import Settings, TokenPath, WordPath
from pathlens.path.words.store import PathCache
from pathlens.types import Ends, Route


def describe(
    ends: Ends,
    settings: Settings,
    anchors: Mapping[int, np.ndarray] | None = None,
    positions: Mapping[int, np.ndarray] | None = None,
) -> WordPath:
    """The record of a route, from anchor ids and positions (m,) per moving token, text's side first."""
    tokens = []
    for t in range(len(ends.end)):
        ends_of = _word(ends, ends.ids, t, "(row)"), _word(ends, ends.start_ids, t, "(baseline)")
        if anchors is None or t not in anchors:
            tokens.append(TokenPath(*ends_of))
            continue
        ids = tuple(int(i) for i in anchors[t][::-1])
        words = tuple("(baseline)" if i == NO_WORD else ends.vocabulary.words(i) for i in ids)
        tokens.append(TokenPath(*ends_of, ids, words, tuple(float(p) for p in positions[t][::-1])))
    return WordPath(settings, tuple(tokens))


def word_approximation_error(
    route: Route, ends: Ends, *, factor: int | None = None, cache: PathCache | None = None
) -> np.ndarray:
    """WAE (S,): mean over the path's points of the distance to the nearest word; NaN where a token rests.

    The points are the corners with midpoints inserted f times, both ends included: 2^f·(corners − 1) + 1.
    Works for any route whose legs follow each other, so that the straight line can be compared.

    Limits: two paths compare only with as many points; the ends, words themselves, pull the mean down.
    """
    cache = PathCache() if cache is None else cache
    if factor is None:
        factor = route.detail.settings.factor if isinstance(route.detail, WordPath) else 0
    moving = moving_tokens(ends).nonzero().flatten().tolist()
    errors = np.full(len(ends.end), np.nan)
    if not moving:
        return errors
    search = cache.search(ends.vocabulary)
    corners = torch.stack([route.corner(i)[moving] for i in range(route.corners)])
    parts = 2**factor
    shares = np.arange(parts) / parts
    for t, way in zip(moving, corners.detach().cpu().double().unbind(1), strict=True):
        way = way.numpy()
        _, square = search.nearest_on_lines(way[:-1], way[1:], shares, 1)
        _, last = search.nearest(way[-1:], 1)
        errors[t] = np.append(np.sqrt(square).ravel(), np.sqrt(last).ravel()).mean()
    return errors


def measured(path: WordPath, errors: np.ndarray) -> WordPath:
    """The record with each token's word approximation error filled in."""
    tokens = (
        replace(token, error=None if np.isnan(error) else float(error))
        for token, error in zip(path.tokens, errors, strict=True)
    )
    return WordPath(path.settings, tuple(tokens))


def _word(ends: Ends, ids: tuple[int, ...] | None, token: int, otherwise: str) -> str:
    return otherwise if ids is None or ends.vocabulary is None else ends.vocabulary.words(ids[token])
