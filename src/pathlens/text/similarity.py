"""What is read from an embedding: the vector itself, its similarity with another, each under its name as a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pathlens.errors import InputError, NumberError, setting
from pathlens.integrand.secant.both import end_of
from pathlens.text.adapter import Case, Request, Scores
from pathlens.text.language import Target
from pathlens.text.options import EncoderOptions

NO_COSINE = f"an embedding has length zero, so the cosine is not defined; use {setting(similarity='dot')}"


@dataclass(frozen=True)
class ReadEmbedding:
    """The embedding as a vector score."""

    norm: str = "outside"

    def __call__(self, output: Float[Tensor, "B k"], cases: Sequence[Case]) -> Float[Tensor, "B 1 k"]:
        vector = torch.nn.functional.normalize(output, dim=-1) if self.norm == "inside" else output
        return vector[:, None]


@dataclass(frozen=True)
class ReadSimilarity:
    """Similarity with a fixed vector, the embedding of the second text."""

    similarity: str

    def __call__(self, output: Float[Tensor, "B k"], cases: Sequence[Case]) -> Float[Tensor, " B"]:
        other = torch.stack([case.target for case in cases]).to(output)
        product = (output * other).sum(-1)
        return product / output.norm(dim=-1) / other.norm(dim=-1) if self.similarity == "cosine" else product


@dataclass(frozen=True)
class ReadAgainst:
    """Similarity with a fixed vector (k,), or with each of T rows (T, k), the text's own length held as it is at the text.

    For secants, which run both ends at once: so it is linear in the embedding, and no run is needed to know the length.
    """

    similarity: str
    reads_both_runs: ClassVar[bool] = True  # the start's number takes the length from the text's run

    def __call__(self, output: Float[Tensor, "B e"], cases: Sequence[Case]) -> Scores:
        rows = torch.stack([case.target for case in cases]).to(end_of(output))
        value: Tensor = (output * rows).sum(-1) if rows.ndim == 2 else (output[:, None] * rows).sum(-1)[..., None]
        if self.similarity == "dot":
            return value
        length = end_of(output).detach().norm(dim=-1)
        if bool((length == 0).any()):
            raise NumberError(NO_COSINE)
        cosine: Tensor = value / length.reshape([-1] + [1] * (value.ndim - 1))
        return cosine


def compared(case: Case, text_b: Any) -> Case:
    """Says what it is compared with, where that is a text: so that it can be asked for again."""
    return replace(case, meta={**case.meta, "compared_with": text_b}) if isinstance(text_b, str) else case


def embedding_target(request: Request, embedding: Float[Tensor, " k"] | None = None) -> Target | None:
    """The vector itself, or its similarity with the second text's; None where neither is asked for.

    `("against", vector)`: the similarity with the vector, both lengths fixed, so that it is linear in the embedding;
    `embedding` is the text's. `("scaled", vector)`: the same with the vector divided already. `("rows", (T, k))`: each row of a
    text's vectors (they are divided by its length already) against the embedding: T numbers.
    """
    if request.vector:
        name = "embedding" if request.norm == "outside" else "normalised embedding"
        return Target(name, ReadEmbedding(request.norm), outputs=("embedding",))
    if isinstance(request.target, tuple) and request.target[0] == "similarity":
        kind = request.options_of(EncoderOptions).similarity
        return Target(f"{kind} similarity with the second text", ReadSimilarity(kind), request.target[1])
    if isinstance(request.target, tuple) and request.target[0] in ("against", "scaled", "rows"):
        kind, vector = request.options_of(EncoderOptions).similarity, request.target[1]
        if request.target[0] == "rows":
            # along a path the length is that at its end, known beforehand
            held = kind if holds_length(request) else "dot"
            rows = vector / _length(embedding) if held != kind and embedding is not None else vector
            names = tuple(map(str, range(len(vector))))
            return Target(f"{kind} similarity with the query's rows", ReadAgainst(held), rows, outputs=names)
        if holds_length(request):
            unit = vector / _length(vector) if kind == "cosine" else vector
            return Target(f"{kind} similarity with the query", ReadAgainst(kind), unit)
        if request.target[0] == "against" and embedding is not None:
            vector = against(vector, embedding, kind)
        return Target(f"{kind} similarity with the query", ReadSimilarity("dot"), vector)
    return None


def holds_length(request: Request) -> bool:
    """Is the text's length read where it is needed, with both ends at hand?"""
    against = isinstance(request.target, tuple) and request.target[0] in ("against", "rows")
    return against and not request.integral


def _length(vector: Float[Tensor, " k"]) -> float:
    length = float(vector.norm())
    if length == 0:
        raise NumberError(NO_COSINE)
    return length


def against(vector: Float[Tensor, " k"], embedding: Float[Tensor, " k"], similarity: str) -> Float[Tensor, " k"]:
    """What the embedding of a text is multiplied by to give its similarity with `vector`, the lengths being fixed."""
    if vector.shape != embedding.shape:
        raise InputError(
            f"the query's vector has {len(vector)} numbers and this text's {len(embedding)}; they must be of one space"
        )
    length = float(vector.norm()) * float(embedding.norm())
    if similarity == "cosine" and length == 0:
        raise NumberError(NO_COSINE)
    return vector / length if similarity == "cosine" else vector


def refuse_cosine_from_zero(request: Request) -> None:
    """With the second text fixed, the path of an exact encoder starts where it has no direction."""
    kind = request.options_of(EncoderOptions).similarity
    if not request.vector and request.target is None and request.block is None and kind == "cosine":
        raise InputError(
            "a shifted embedding has length zero at its reference, so the cosine is not defined where the path starts; use "
            f"{setting(method='ij')} or 'secant' (the norm is taken outside), or {setting(similarity='dot')}"
        )


Reads = ReadEmbedding | ReadSimilarity | ReadAgainst
