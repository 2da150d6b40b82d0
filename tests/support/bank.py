"""Problems with exact answers: outputs whose share of every token is known in closed form.

F(x) = Σ_k c_k g_k(v_k·x) over numbers x_i, one per token. Along the straight line from b to x every term depends on the
one number s_k = v_k·x, so its share of token i is exact:

    IG_i = Σ_k c_k r_ki (g_k(v_k·x) − g_k(v_k·b)),   r_ki = v_ki δ_i / v_k·δ

Terms of different direction share the tokens differently, so that the shares are no multiple of the total, and terms of
opposite sign let a total look better than its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.integrate import quad
from torch import Tensor

from pathlens.text.adapter import Case, Request, TextModel
from pathlens.types import Ends, Vocabulary

TOKENS = 5
TEXT = "one two three four five"


@dataclass(frozen=True)
class Term:
    """c·g(v·x); `bends` are the s where g has a kink or changes fast."""

    factor: float
    g: Callable[[Tensor], Tensor]
    direction: tuple[float, ...]
    bends: tuple[float, ...] = ()

    def __call__(self, points: Tensor) -> Tensor:
        return self.factor * self.g(points @ torch.tensor(self.direction, dtype=points.dtype))

    def share(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """r_i: which part of the term's change each token has."""
        part = np.array(self.direction) * (end - start)
        return part / part.sum() if part.any() else part

    def at(self, s: float) -> float:
        return self.factor * float(self.g(torch.tensor(s, dtype=torch.float64)))


Problem = tuple[Term, ...]


def scores(problem: Problem, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """IG, (S,)."""
    change = lambda term: term.at(float(end @ term.direction)) - term.at(float(start @ term.direction))  # noqa: E731
    return sum(change(term) * term.share(start, end) for term in problem)


def along(problem: Problem, corners: np.ndarray) -> np.ndarray:
    """IG along the straight legs between corners (C, S), (S,)."""
    return sum(scores(problem, *leg) for leg in pairwise(corners))


def interactions(problem: Problem, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Γ, (S, S). With φ(u) = g on the line: ∫ (−ln u) φ′ du = ∫ (φ(u) − φ(0))/u du goes to the diagonal alone."""
    total = np.zeros((len(end), len(end)))
    for term in problem:
        low, high, r = float(start @ term.direction), float(end @ term.direction), term.share(start, end)
        at_start = term.at(low)
        inside = sorted(u for u in ((bend - low) / (high - low) for bend in term.bends) if 0 < u < 1)
        whole = lambda u: (term.at(low + u * (high - low)) - at_start) / u  # noqa: B023, E731
        first = sum(
            quad(whole, a, b, epsabs=1e-13, epsrel=1e-12, limit=400)[0]
            for a, b in zip([0.0, *inside], [*inside, 1.0], strict=True)
        )
        total += np.outer(r, r) * (term.at(high) - at_start - first) + np.diag(r) * first
    return total


@dataclass(frozen=True)
class BankScore:
    problems: tuple[Problem, ...]
    several: bool

    def __call__(self, points: Tensor, cases: Sequence[Case]) -> Tensor:
        values = [sum(term(points[..., 0]) for term in problem) for problem in self.problems]
        return torch.stack(values, dim=-1) if self.several else values[0]


@dataclass(frozen=True)
class Written:
    """Where the numbers of a list stand, as a continuation's output tokens do."""

    offsets: tuple[tuple[int, int], ...]


class BankModel(TextModel):
    """A number, a vector or a list of numbers, each the output of a problem; five tokens, two texts."""

    kind, name = "bank", "bank"
    texts = {TEXT: (0.9, -0.7, 1.1, 0.8, -0.5), "six seven eight nine ten": (-0.6, 1.2, 0.7, -0.9, 1.0)}  # noqa: RUF012

    # for paths through words: the baseline, the texts' own words, and others between and around them
    words = tuple(dict.fromkeys((0.0, *sum(texts.values(), ()), *np.linspace(-1.3, 1.3, 27).tolist())))

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems

    def ends(self, text: str = TEXT, baseline: Any = None) -> tuple[np.ndarray, np.ndarray]:
        start = np.zeros(TOKENS) if baseline is None else np.asarray(baseline, dtype=np.float64).reshape(TOKENS)
        return start, np.array(self.texts[text])

    def two_texts_are_a_pair(self) -> bool:
        return True

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        start, end = (torch.from_numpy(each)[:, None] for each in self.ends(text, request.baseline))
        listed = request.each_output and not request.vector and len(self.problems) > 1
        score = BankScore(self.problems, request.vector or listed)
        shaped = score
        if request.vector:
            shaped = lambda points, cases: score(points, cases)[:, None]  # noqa: E731
        elif listed:
            shaped = lambda points, cases: score(points, cases)[..., None]  # noqa: E731
        words = text.split()
        table = Vocabulary(
            torch.tensor(self.words, dtype=torch.float64)[:, None], lambda row: f"{self.words[row]}", "bank"
        )
        ids = tuple(map(self.words.index, self.texts[text])), (0,) * TOKENS, table
        if request.baseline is not None:
            ids = ()
        places = np.cumsum([0, *(len(word) + 1 for word in words)])
        names = tuple(f"output {k}" for k in range(len(self.problems)))
        return Case(
            ends=Ends(start, end, torch.zeros(len(words), dtype=torch.bool), *ids),
            score=shaped,
            pack=(score, request.vector),
            texts=(text,),
            tokens=tuple(words),
            offsets=tuple((int(low), int(low) + len(word)) for low, word in zip(places, words, strict=False)),
            segments=(0,) * len(words),
            target_name="F",
            outputs=("e",) if request.vector else names if listed else (),
            target=Written(tuple((k, k + 1) for k in range(len(names)))) if listed else None,
            baseline="given" if request.baseline is not None else "zero",
        )


ONE, TWO, THREE = (1.0, 0.6, 0.8, 1.0, -0.4), (0.5, -1.0, 0.4, 1.2, 0.3), (0.7, 0.9, 1.3, -0.2, 0.6)


def relu(s: Tensor) -> Tensor:
    return torch.relu(s)


def at(place: float, g: Callable[[Tensor], Tensor], sharpness: float = 1.0) -> Callable[[Tensor], Tensor]:
    return lambda s: g(sharpness * (s - place))


BANK: dict[str, Problem] = {
    "cubic": (Term(1.0, lambda s: s**3, ONE), Term(-0.5, lambda s: s**2, TWO)),
    "degree nine": (Term(0.1, lambda s: s**9, ONE), Term(0.4, lambda s: s**5, THREE)),
    "exponential": (Term(1.0, torch.exp, ONE), Term(-0.7, lambda s: torch.exp(2 * s), THREE)),
    "sigmoids": (Term(1.0, at(0.5, torch.sigmoid, 6.0), ONE), Term(2.0, at(0.3, torch.sigmoid, 9.0), THREE)),
    "early sigmoid": (Term(1.0, at(0.1, torch.sigmoid, 20.0), ONE), Term(1.0, torch.tanh, THREE)),
    "kink": (Term(1.0, at(0.63, relu), ONE, (0.63,)), Term(0.3, lambda s: s**2, TWO)),
    "two kinks": (Term(1.0, at(0.37, relu), ONE, (0.37,)), Term(-1.0, at(0.21, relu), THREE, (0.21,))),
    "narrow": (Term(1.0, at(0.9, torch.tanh, 60.0), ONE, (0.9,)), Term(0.5, torch.tanh, THREE)),
    "narrow pair": (
        Term(1.0, at(0.71, torch.tanh, 40.0), ONE, (0.71,)),
        Term(-1.0, at(0.42, torch.tanh, 40.0), THREE, (0.42,)),
    ),
    "oscillation": (Term(0.5, lambda s: torch.sin(9 * s), ONE), Term(0.3, lambda s: torch.cos(14 * s), THREE)),
}
