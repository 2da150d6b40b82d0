"""A model kind whose output is linear in its rows: every method's answer is known, along any path and by any rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pathlens.text.adapter import Case, Request, TextModel
from pathlens.types import Ends, Vocabulary


@dataclass(frozen=True)
class LinearScore:
    """F = Σ_i a·x_i, or the vector e = Σ_i W x_i."""

    weight: Tensor  # (d,) or (k, d)

    def __call__(self, points: Tensor, cases: Sequence[Case]) -> Tensor:
        present = torch.zeros(points.shape[:2], dtype=points.dtype)
        for row, case in enumerate(cases):
            present[row, : len(case)] = 1
        whole = (points * present[..., None]).sum(1)
        return whole @ self.weight if self.weight.ndim == 1 else (whole @ self.weight.T)[:, None]


class LinearModel(TextModel):
    """Words are rows of a random table; the baseline is the row of the word "nothing"."""

    kind, name = "linear", "linear"
    words = "nothing one two three four five six seven eight nine ten eleven".split()

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(3)
        self.table = torch.randn(len(self.words), 4, generator=draw, dtype=torch.float64)
        self.a = LinearScore(torch.randn(4, generator=draw, dtype=torch.float64))
        self.w = LinearScore(torch.randn(3, 4, generator=draw, dtype=torch.float64))

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        words = text.split()
        ids = tuple(self.words.index(word) for word in words)
        end, start = self.table[list(ids)], self.table[[0] * len(ids)]
        held = torch.zeros(len(ids), dtype=torch.bool)
        score = self.w if request.vector else self.a
        places = np.cumsum([0, *(len(word) + 1 for word in words)])
        return Case(
            ends=Ends(start, end, held, ids, (0,) * len(ids), Vocabulary(self.table, self.words.__getitem__, "linear")),
            score=score,
            pack=score,
            texts=(text,),
            tokens=tuple(words),
            offsets=tuple((int(low), int(low) + len(word)) for low, word in zip(places, words, strict=False)),
            segments=(0,) * len(ids),
            target_name="F",
            outputs=("e",) if request.vector else (),
            baseline="nothing",
        )

    def two_texts_are_a_pair(self) -> bool:
        return True

    def shares(self, text: str) -> np.ndarray:
        """a·δ_i, (S,)."""
        return ((self.case(text, request=Request()).ends.delta) @ self.a.weight).numpy()

    def vectors(self, text: str) -> np.ndarray:
        """The reference's own vector, then W δ_i: (S + 1, k)."""
        ends = self.case(text, request=Request()).ends
        rows = torch.cat([ends.start.sum(0, keepdim=True), ends.delta])
        return (rows @ self.w.weight.T).numpy()
