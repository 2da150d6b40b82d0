"""Along the path: the output, the gradient's size, each token's growing share and its nearest words.

>>> from pathlens.studies.pathview import pathview
>>> pathview("sentiment", "Not really funny.", methods=["ig", "dig", "udig"]).to_html("path.html")

The straight line passes through points that are no words; DIG and UDIG walk from word to word. Here one sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any, Unpack

import numpy as np
import torch

from pathlens.engine.explainer import Explainer, loaded
from pathlens.engine.methods import ALONG_ONE_PATH, METHODS, route_of
from pathlens.engine.typed import Options
from pathlens.errors import InputError
from pathlens.explanation.base import in_words, shortened
from pathlens.explanation.view import TableExport, Viewable
from pathlens.path.words.neighbours import NeighbourSearch
from pathlens.path.words.options import WordOptions
from pathlens.text.adapter import Case
from pathlens.types import About, Route, Vocabulary, brief

OF_WORDS = frozenset(each.name for each in fields(WordOptions))  # options the straight line has no use for
MOST_POINTS = 129


@dataclass(frozen=True, eq=False, repr=False)
class Track:
    """One path. n points from the baseline to the text, S tokens."""

    method: str
    t: tuple[float, ...]  # share of the path's length
    output: tuple[float, ...]
    slope: np.ndarray  # (n, S) the gradient's length at each token
    share: np.ndarray  # (n, S) each token's score so far, by the trapezoid rule between points
    nearest: tuple[tuple[tuple[tuple[str, float], ...], ...], ...]  # (n, S, k) words and their distances
    far: np.ndarray  # (n, S) distance to the nearest word; NaN without a vocabulary
    anchors: tuple[tuple[str, ...], ...] = ()  # (n, S) the anchor word nearest on the path, for paths through words

    def __repr__(self) -> str:
        return brief(self, self.method, f"{len(self.t)} points")


@dataclass(frozen=True, eq=False, repr=False)
class PathView(TableExport, Viewable):
    """Several paths between the same ends."""

    tokens: tuple[str, ...]
    held: tuple[bool, ...]
    target: str
    f_input: float
    f_baseline: float
    tracks: tuple[Track, ...]
    text: str = ""
    baseline: str = ""
    notes: tuple[str, ...] = ()
    probabilities: Mapping[str, float] = field(default_factory=dict)  # of every class, at the text
    baseline_probabilities: Mapping[str, float] = field(default_factory=dict)
    about: About | None = None  # what the probabilities are of, where not of the whole text's classes

    def __repr__(self) -> str:
        paths = ", ".join(track.method for track in self.tracks)
        return brief(self, paths, self.target, self.text and repr(shortened(self.text)), self.headline)

    @property
    def headline(self) -> str:
        """What the model says at both ends, in words."""
        number = f"{self.target}: {self.f_input:.4g} (from the baseline alone: {self.f_baseline:.4g})"
        return in_words(self.probabilities, self.baseline_probabilities, self.about) or number

    def rows(self) -> Iterator[dict[str, Any]]:
        """One plain dictionary per path, point and token that moves: where it is, and its score so far."""
        moving = [i for i, held in enumerate(self.held) if not held]
        for track in self.tracks:
            for k, i in product(range(len(track.t)), moving):
                words = track.nearest[k][i]
                yield {
                    "method": track.method, "t": track.t[k], "output": track.output[k], "place": i, "token": self.tokens[i],
                    "nearest": words[0][0] if words else "", "distance": float(track.far[k, i]),
                    "anchor": track.anchors[k][i] if track.anchors else "",
                    "slope": float(track.slope[k, i]), "share": float(track.share[k, i]),
                }  # fmt: skip


def pathview(
    model: Any,
    text: Any,
    text_b: Any = None,
    *,
    methods: Sequence[str] | None = None,
    method: str | None = None,
    points: int = 25,
    words: int = 3,
    **choices: Unpack[Options],
) -> PathView:
    """Walk the paths of `methods` (default: all of ig, dig, udig that this model can walk).

    points: how many to look at, evenly along each path's length. words: nearest words listed per token.
    choices: as in `pl.explain` (target, baseline, score, steps, neighbours, strategy, …).
    """
    if not isinstance(points, int) or not 2 <= points <= MOST_POINTS:
        raise InputError(f"points must be a whole number from 2 to {MOST_POINTS}, got {points!r}")
    if method is not None:  # one alone, as everywhere else
        if methods is not None:
            raise InputError(f"method and methods={list(methods)!r} both name methods; give one of them")
        methods = [method]
    for name in methods or ():
        if name not in ALONG_ONE_PATH:
            raise InputError(f"a path is drawn for {', '.join(ALONG_ONE_PATH)}; got {name!r}")
    one, named = loaded(model, choices)
    line_only = {name: value for name, value in named.items() if name not in OF_WORDS}
    explainer = Explainer(one, method="ig", **line_only).of_one_target("a view of the path")
    with explainer.at_work():
        case = explainer.prepare(text, text_b).cases[0]
        (known,) = explainer.model.says([case])
        spoken: dict[str, Any] = {}
        if known is not None:
            spoken = {"probabilities": known.text, "baseline_probabilities": known.baseline, "about": known.about}
        vocabulary = case.ends.vocabulary
        search = None if vocabulary is None else NeighbourSearch(vocabulary.table)
        tracks, notes = [], list(case.notes)
        for name in methods or ALONG_ONE_PATH:
            walker = Explainer(one, method=name, **(named if METHODS[name].record().through_words else line_only))
            try:
                route = route_of(walker.method_for(text_b), case.ends)
            except InputError as error:
                if methods is not None:
                    raise
                notes.append(f"{name} is left out: {error}")
                continue
            tracks.append(_walk(name, route, case, search, points, words))
    ends = [track.output for track in tracks]
    return PathView(
        case.tokens, tuple(bool(h) for h in case.ends.held), case.target_name, ends[0][-1], ends[0][0], tuple(tracks),
        text if isinstance(text, str) else "", case.baseline, tuple(notes), **spoken,
    )  # fmt: skip


def _walk(name: str, route: Route, case: Case, search: NeighbourSearch | None, count: int, words: int) -> Track:
    position, direction = _points(route, count)
    outputs, slopes, steps = [], [], []
    for low in range(0, count, 8):  # a few at a time: a gradient keeps what its pass needs
        rows = position[low : low + 8].detach().requires_grad_()
        with torch.enable_grad():
            value = case.score(rows, [case] * len(rows))
        if value.ndim != 1 or not value.requires_grad:
            raise InputError("the path viewer follows one number; explain a class, a similarity or a score")
        (slope,) = torch.autograd.grad(value.sum(), rows)
        outputs += value.detach().double().tolist()
        slopes.append(slope.double().norm(dim=-1).cpu())
        steps.append((slope.double() * direction[low : low + 8].double()).sum(-1).cpu())
    rate = torch.cat(steps).numpy()  # dF/dt of each token
    t = np.linspace(0, 1, count)
    share = np.zeros_like(rate)
    share[1:] = np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(t)[:, None], axis=0)
    nearest, far = _nearest(position, case.ends.vocabulary, search, words)
    numbers = torch.cat(slopes).numpy(), share, nearest, far
    return Track(name, tuple(t.tolist()), tuple(outputs), *numbers, _anchors(route, count))


def _points(route: Route, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions (n, S, d) evenly along the length, and the direction per unit of it."""
    length = route.length.double().numpy()
    at = np.r_[0.0, np.cumsum(length)]
    position, direction = [], []
    for t in np.linspace(0, 1, count) * at[-1]:
        leg = int(np.clip(np.searchsorted(at, t, side="right") - 1, 0, len(length) - 1))
        while length[leg] <= 0 and leg + 1 < len(length):
            leg += 1
        left, right = (route.corner(int(i)) for i in route.legs[leg])
        inside = float(np.clip((t - at[leg]) / length[leg], 0, 1)) if length[leg] > 0 else 1.0
        position.append(torch.lerp(left, right, inside))
        direction.append((right - left) / max(float(length[leg]), 1e-12))
    return torch.stack(position), torch.stack(direction)


def _anchors(route: Route, count: int) -> tuple[tuple[str, ...], ...]:
    """The word whose corner is nearest along the path, per point and token; nothing for a straight line."""
    tokens = getattr(route.detail, "tokens", None)
    if not tokens:
        return ()
    at = np.r_[0.0, np.cumsum(route.length.double().numpy())]
    corners = [int(np.abs(at - t).argmin()) for t in np.linspace(0, 1, count) * at[-1]]
    words = [(token.baseline, *token.words, token.word) if token.words else ("",) * len(at) for token in tokens]
    return tuple(tuple(line[corner] for line in words) for corner in corners)


def _nearest(
    position: torch.Tensor, vocabulary: Vocabulary | None, search: NeighbourSearch | None, words: int
) -> tuple[Any, np.ndarray]:
    """Nearest words of every token at every point with their distances, and the distance to the nearest."""
    count, tokens = position.shape[:2]
    if vocabulary is None or search is None or words < 1:
        return (((),) * tokens,) * count, np.full((count, tokens), np.nan)
    points = position.flatten(0, 1).double().cpu().numpy()
    ids, square = search.nearest(points, min(words, len(search)))
    far = np.sqrt(square)
    named = [
        tuple((vocabulary.words(int(i)), round(float(d), 5)) for i, d in zip(*both, strict=True))
        for both in zip(ids, far, strict=True)
    ]
    rows = tuple(tuple(named[n * tokens : (n + 1) * tokens]) for n in range(count))
    return rows, far[:, 0].reshape(count, tokens)
