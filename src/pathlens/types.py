"""The records that pass between the rooms: text → path → loop → integrand → explanation.

Each room sees only the record made for it: `path` never meets a tokenizer, `integrand` gets points and a
plain score, `draw` works on a saved result from another machine.

Shapes are named in annotations: S tokens, d coordinates of a token, U units, L legs, n nodes, k outputs. The tests
check them at every call (tests/support/shapes.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:  # a saved result is drawn, and a page served, without waiting for torch
    from jaxtyping import Bool, Float, Int
    from torch import Tensor

Span = tuple[int, int]

# names and defaults that Python, the command line and the page offer: each is written here, or in a record of options
FIXED_RULES = ("gauss", "midpoint", "trapezoid", "left", "right")  # the nodes of a leg follow from their number
RULES = ("adaptive", *FIXED_RULES, "split")  # split-step moves units one at a time: a path of its own
TEXT_UNITS = ("token", "word", "sentence")
PROMPT_UNITS = ("turn", "passage")  # of a prompt that says what its parts are
TOKENS_FOR_NOTHING = ("mask", "pad", "unk", "eos")  # baselines that are a token, where a tokenizer has it
ROWS_FOR_NOTHING = ("zero", "mean")  # one row for every token, which every model has
BASELINES = (*TOKENS_FOR_NOTHING, *ROWS_FOR_NOTHING, "quiet")  # by name; a text or a tensor may stand there too
SCORES = ("logit", "logprob", "prob")
TOLERANCE = 1e-3  # how exactly scores must add up, relative to the output's change
MAX_NODES = 512
SIMILARITIES = ("cosine", "dot")  # ways to compare two embeddings; the first by default
NORMS = ("outside", "inside")  # embeddings are normalised after the integral (the paper), or inside it


class About(NamedTuple):
    """What probabilities are of, where not of the classes of a whole text: a tag, a word in a gap, a span."""

    place: str = ""  # "token 'Ann'", "in the gap"
    words: bool = False  # names are words of the text or of a vocabulary, and only the likeliest of very many are there
    asked: str = ""  # of such words the one that is explained
    end: int | None = (
        None  # of a token: so many characters of the text lead to its end, and an edit of them may move it
    )


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A model's word-embedding table, for paths that walk through real words."""

    table: Float[Tensor, "V d"]  # the rows a token id is turned into (scaling included)
    words: Callable[[int], str]  # id -> readable word
    fingerprint: str  # identifies the table; the key of every cache of paths
    special: frozenset[int] = frozenset()  # ids of special tokens


@dataclass(frozen=True, eq=False)
class Ends:
    """Both ends of every path of one text (text → path)."""

    start: Float[Tensor, "S d"]  # the baseline
    end: Float[Tensor, "S d"]  # the text
    held: Bool[Tensor, "S"]  # tokens that never move; start == end there
    ids: tuple[int, ...] | None = None  # token ids of `end`, when its rows are vocabulary rows
    start_ids: tuple[int, ...] | None = None  # token ids of `start`, when its rows are vocabulary rows
    vocabulary: Vocabulary | None = None  # None away from the word embeddings

    @property
    def delta(self) -> Float[Tensor, "S d"]:
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Route:
    """Straight legs between corners (path → loop). A rule is applied on each leg.

    `owner[l]` is the unit that moves on leg l, or -1 where all of them may.
    `corner(i)` makes corner i on demand: a staircase of 100 000 corners is never held in memory.
    """

    corners: int
    corner: Callable[[int], Float[Tensor, "S d"]]
    legs: Int[Tensor, "L 2"]  # corner the leg leaves, corner it reaches
    owner: Int[Tensor, "L"]
    length: Float[Tensor, "L"]  # share of the route's length: longer legs get more nodes
    complete: bool = True  # do the legs lead from the baseline to the text?
    detail: Any = None  # what the path has to say about itself (anchor words and so on)

    def place(self, leg: int, t: float) -> int | tuple[int, float]:
        """One name for every point of the route: the number of a corner, which two legs may share, or (leg, t)."""
        return int(self.legs[leg, int(t)]) if t in (0.0, 1.0) else (leg, t)

    def also_from(self, start: Float[Tensor, "S d"]) -> Route:
        """The same and one leg more, nobody's, from `start` to where the last leg leads: for the output there."""
        import torch

        more = torch.tensor([[self.corners, int(self.legs[-1, 1])]])
        corner = lambda index: start if index == self.corners else self.corner(index)  # noqa: E731
        owner = torch.cat([self.owner, -torch.ones_like(more[0, :1])])
        length = torch.cat([self.length, self.length[:1] * 0])
        return Route(self.corners + 1, corner, torch.cat([self.legs, more]), owner, length, self.complete, self.detail)

    @staticmethod
    def through(corners: Float[Tensor, "C S d"], detail: Any = None) -> Route:
        """The polyline through `corners`; every unit may move on every leg."""
        import torch

        count = corners.shape[0]
        step = (corners[1:] - corners[:-1]).double().flatten(1).norm(dim=1)
        total = step.sum()
        share = step / total if total > 0 else torch.full_like(step, 1 / max(count - 1, 1))
        legs = torch.stack([torch.arange(count - 1), torch.arange(1, count)], dim=1)
        return Route(count, corners.__getitem__, legs, torch.full((count - 1,), -1), share, detail=detail)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Where on a leg to look, 0 ≤ t ≤ 1, and with what weight (rule → loop)."""

    t: Float[np.ndarray, "n"]
    weight: Float[np.ndarray, "n"]

    def __len__(self) -> int:
        return len(self.t)


@dataclass(frozen=True, eq=False)
class Points:
    """Nodes placed on a route, and how their values are to be summed (loop → integrand).

    `weight` has one row per sum wanted: a rule and its coarser sister are two rows over the same points.
    """

    route: Route
    leg: Int[np.ndarray, "n"]
    t: Float[np.ndarray, "n"]
    weight: Float[np.ndarray, "sums n"]

    def __len__(self) -> int:
        return len(self.t)


def brief(thing: object, *parts: str) -> str:
    """A short repr, "<Kind · part · part>"; empty parts are left out."""
    return f"<{' · '.join((type(thing).__name__, *filter(None, parts)))}>"
