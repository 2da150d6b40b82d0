"""A public test double: a tiny "language model" whose attributions are known in closed form.

F(x) = Σ_i a·x_i + ½ Σ_ij x_iᵀ C_ij x_j over the rows x_i of a text, with C_ij = c(|i − j|)·M, M symmetric. F is
quadratic, so along the straight line from b to x, with H its constant Hessian and δ = x − b:

    IG_i = δ_i · (a + H (x + b) / 2)_i        Γ_ij = δ_iᵀ H_ij δ_j / 4 (i ≠ j)

Use it to test an extension of your own: `pl.explain(pl.ToyModel(), "a few words")`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import regex
import torch
from jaxtyping import Float
from torch import Tensor

from pathlens.errors import InputError
from pathlens.text.adapter import Case, Chosen, Request, TextModel, within
from pathlens.types import Ends


@dataclass(frozen=True)
class ToyScore:
    """F, or the vector of the linear part, the quadratic part, and F."""

    model: ToyModel
    vector: bool = False

    def __call__(
        self, points: Float[Tensor, "B S d"], cases: Sequence[Case]
    ) -> Float[Tensor, " B"] | Float[Tensor, "B 1 3"]:
        points = points * within(cases, points)[..., None].to(points)
        linear = (points @ self.model.a.to(points)).sum(-1)
        reach = self.model.coupling(points.shape[1]).to(points)
        quadratic = 0.5 * torch.einsum("bid,ij,de,bje->b", points, reach, self.model.m.to(points), points)
        total = linear + quadratic
        return torch.stack([linear, quadratic, total], dim=-1)[:, None] if self.vector else total


class ToyModel(TextModel):
    """Words become rows of d numbers drawn from the word itself; the baseline is zero, or a given tensor or text."""

    kind = "toy"
    name = "toy"
    d = 4

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.a = torch.randn(self.d, generator=generator, dtype=torch.float64)
        m = torch.randn(self.d, self.d, generator=generator, dtype=torch.float64)
        self.m = (m + m.T) / 4

    def coupling(self, length: int) -> Float[Tensor, "S S"]:
        """c(|i − j|) = 1 / (1 + |i − j|)."""
        place = torch.arange(length, dtype=torch.float64)
        return 1 / (1 + (place[:, None] - place[None]).abs())

    def row(self, word: str) -> Float[Tensor, " d"]:
        """A word's embedding: always the same for the same word."""
        generator = torch.Generator().manual_seed(zlib.crc32(word.lower().encode()))
        return torch.randn(self.d, generator=generator, dtype=torch.float64)

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        if not isinstance(text, str):
            raise InputError(f"text must be a string, got {type(text).__name__}: {text!r}")
        spans = [match.span() for match in regex.finditer(r"\w+|[^\w\s]", text)]
        if not spans:
            raise InputError(f"nothing to explain in {text!r}: give a text with words")
        words = tuple(text[start:end] for start, end in spans)
        end = torch.stack([self.row(word) for word in words])
        start, name = self._baseline(request.baseline, end)
        given = request.baseline if isinstance(request.baseline, str) else None
        score = ToyScore(self, request.vector)
        return Case(
            ends=Ends(start, end, torch.zeros(len(words), dtype=torch.bool)),
            score=score,
            pack=score,
            texts=(text,),
            tokens=words,
            offsets=tuple(spans),
            segments=(0,) * len(words),
            target_name="F",
            outputs=("parts",) if request.vector else (),
            baseline=name,
            chosen=Chosen(baseline="zero" if request.baseline is None else given),
        )

    def _baseline(self, choice: Any, end: Float[Tensor, "S d"]) -> tuple[Float[Tensor, "S d"], str]:
        if choice is None or (isinstance(choice, str) and choice == "zero"):
            return torch.zeros_like(end), "zero"
        if isinstance(choice, str):
            words = regex.findall(r"\w+|[^\w\s]", choice)
            rows = [self.row(word) for word in words[: len(end)]]
            rows += [torch.zeros(self.d, dtype=end.dtype)] * (len(end) - len(rows))
            return torch.stack(rows), f"text: {choice}"
        start = torch.as_tensor(choice).to(end)
        if start.shape not in (end.shape, end.shape[1:]):
            raise InputError(f"the baseline has shape {tuple(start.shape)}; this text needs {tuple(end.shape)}")
        return start.expand_as(end), "tensor"

    def hessian(self, length: int) -> Float[Tensor, "S d S d"]:
        """H, the same everywhere."""
        return torch.einsum("ij,de->idje", self.coupling(length), self.m)

    def ig(self, start: Float[Tensor, "S d"], end: Float[Tensor, "S d"]) -> Float[Tensor, " S"]:
        """Closed form."""
        slope = self.a + torch.einsum("idje,je->id", self.hessian(len(end)), (start + end) / 2)
        return ((end - start) * slope).sum(-1)
