"""The shifted encoder: e(x) = (e'(x) − e'(r)) / c, around any sentence encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pathlens.errors import InputError
from pathlens.text.adapter import Case, Request, Scores, Wrapped
from pathlens.text.language import Score
from pathlens.text.options import EncoderOptions
from pathlens.text.sentence import SentenceEncoder
from pathlens.text.similarity import ReadEmbedding, Reads, against, refuse_cosine_from_zero


@dataclass(frozen=True)
class ReadShifted:
    """The shifted embedding, then what is read from it; `target` of a case: (its shift, what else)."""

    read: Reads
    scale: float

    @property
    def reads_both_runs(self) -> bool:
        return getattr(self.read, "reads_both_runs", False)

    def __call__(self, output: Float[Tensor, "B k"], cases: Sequence[Case]) -> Scores:
        shift = torch.stack([case.target[0] for case in cases]).to(output)
        plain = isinstance(self.read, ReadEmbedding)
        inner = cases if plain else [replace(case, target=case.target[1]) for case in cases]
        return self.read((output - shift) / self.scale, inner)


class Shifted(Wrapped):
    """The exact model of the paper: the same encoder with the embedding of the text's own reference subtracted.

        e(x) = (e'(x) − e'(r)) / c

    is zero at r, so the reference row and column of `ij` are zero and the token × token matrix alone sums to the
    prediction (Moeller, Nikolaev, Padó: An Attribution Method for Siamese Encoders, EMNLP 2023).

    Limits: the wrapper changes what the model predicts. Around an untuned encoder the similarities are worse
    (STS-B Spearman .79 for MiniLM instead of .82); tune with the shift in place, experiments/train_exact_encoder.py.

    reference: a baseline by name or text; "pad" is the paper's: [CLS] [PAD] … [SEP] of the text's length, attended.
    scale: c, a fixed number every embedding is divided by (for dot products).
    """

    inner: SentenceEncoder

    def __init__(self, encoder: SentenceEncoder, *, reference: str = "pad", scale: float = 1.0) -> None:
        if not isinstance(encoder, SentenceEncoder):
            raise InputError(
                f"Shifted wraps a sentence encoder, got {type(encoder).__name__}; pass pl.SentenceEncoder(model, tokenizer)"
            )
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < float("inf"):
            raise InputError(f"scale must be a positive number, got {scale!r}")
        super().__init__(encoder)
        self.reference, self.scale = reference, float(scale)
        self.name = f"{encoder.name} shifted"
        self.similarity = None  # the encoder's own word on it is of other vectors

    def settings(self) -> tuple[str | int | float, ...]:
        return (*super().settings(), str(self.reference), self.scale)

    def shift(self, text: Any, request: Request) -> Float[Tensor, " k"]:
        """e'(r): it depends on the text's length, its special tokens and prompt alone."""
        plain = replace(request, target=None, vector=True, layer=None, baseline=self.reference, block=None)
        case = self.inner.case(text, request=plain)
        with torch.no_grad():
            vector: Tensor = self.inner.forward(case.ends.start[None], [case], 0)[0]
        return vector

    def embed(self, text: Any, request: Request) -> Float[Tensor, " k"]:
        """e(text)."""
        return (self.inner.embed(text, request) - self.shift(text, request)) / self.scale

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        baseline = self.reference if request.baseline is None else request.baseline
        request = replace(request, baseline=baseline)
        if text_b is not None and not request.vector and request.target is None:
            refuse_cosine_from_zero(request)
            request = replace(request, target=("similarity", self.embed(text_b, request)))
        if isinstance(request.target, tuple) and request.target[0] == "against" and request.integral:
            kind = request.options_of(EncoderOptions).similarity
            embedding = self.embed(text, replace(request, target=None))
            request = replace(request, target=("scaled", against(request.target[1], embedding, kind)))
        case = self.inner.case(text, request=request)
        if request.block is not None:
            return case
        if not isinstance(case.score, Score) or not isinstance(case.score.read, Reads):
            raise InputError(
                "a shifted encoder explains similarities (text_b) or its embedding; for a function of your own wrap the model"
            )
        score = Score(self.inner, case.score.layer, ReadShifted(case.score.read, self.scale))
        pack = (score, case.pack[1:] if isinstance(case.pack, tuple) else case.pack)
        return replace(case, score=score, pack=pack, target=(self.shift(text, request), case.target))
