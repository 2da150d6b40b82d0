"""One made-up result of each kind, for `python -m pathlens.draw.terminal` and its sisters."""

from __future__ import annotations

import numpy as np

from pathlens.explanation.certificate import Certificate
from pathlens.explanation.continuation import Continuation
from pathlens.explanation.record import (
    Explanation,
    Interactions,
    PairExplanation,
    Phrase,
    PhraseTree,
    Result,
    VectorExplanation,
)
from pathlens.types import Span

TEXT = "Not really funny, but moving."
TOKENS = ("Not", "really", "funny", ",", "but", "moving", ".")
OFFSETS: tuple[Span, ...] = ((0, 3), (4, 10), (11, 16), (16, 17), (18, 21), (22, 28), (28, 29))
META = {"texts": [TEXT], "model": "made up", "baseline": "mask"}


def every() -> tuple[Result, ...]:
    """One of each."""
    return explanation(), pair(), interactions(), block(), phrases(), continuation()


def explanation() -> Explanation:
    scores = np.array([-1.42, 0.11, -0.63, 0.02, 0.88, 2.31, 0.05])
    return Explanation(
        method="ig", target="positive", certificate=_settled(scores.sum()), meta=META, tokens=TOKENS,
        offsets=OFFSETS, scores=scores,
    )  # fmt: skip


def pair() -> PairExplanation:
    full = np.full((5, 4), -0.012)
    full[0], full[:, 0], full[0, 0] = -0.09, -0.07, 0.66
    full[2, 1], full[3, 2], full[4, 3] = 0.17, 0.21, 0.34
    total = float(full.sum())
    return PairExplanation(
        method="ij", target="cosine similarity", similarity=total, full_matrix=full,
        certificate=_settled(total, baseline=0.0, kind="matrix"), tokens_a=("A", "man", "plays", "guitar"),
        tokens_b=("Someone", "makes", "music"), offsets_a=((0, 1), (2, 5), (6, 11), (12, 18)),
        offsets_b=((0, 7), (8, 13), (14, 19)),
        meta={"texts": ["A man plays guitar", "Someone makes music"], "model": "made up"},
    )  # fmt: skip


def interactions() -> Interactions:
    matrix = np.diag([0.4, 0.2, 1.1, 0.0, 0.3, 2.0, 0.0])
    matrix[0, 2] = matrix[2, 0] = -0.92
    matrix[4, 5] = matrix[5, 4] = 0.35
    return Interactions(
        method="ih", target="positive", certificate=_settled(matrix.sum()), meta=META, tokens=TOKENS,
        offsets=OFFSETS, matrix=matrix, scores=matrix.sum(1),
    )  # fmt: skip


def block() -> VectorExplanation:
    near = np.exp(-np.abs(np.subtract.outer(np.arange(7), np.arange(7))) / 1.5)
    vectors = near[..., None] * np.cos(np.arange(8))
    return VectorExplanation(
        method="vaig", target="layer.2.attention", tokens=TOKENS, offsets=OFFSETS, vectors=vectors,
        outputs=TOKENS, certificate=_settled(float(np.linalg.norm(vectors.sum(1))), kind="vector"), meta=META,
    )  # fmt: skip


def phrases() -> PhraseTree:
    nodes = (
        Phrase((0, 29), TEXT, 1.0, 0.12, 1.2, (1, 2), "S"),
        Phrase((0, 16), "Not really funny", 0.41, 0.13, -1.3, (3, 4)),
        Phrase((18, 28), "but moving", 0.47, 0.16, 1.6, (5, 6)),
        Phrase((0, 3), "Not", 0.19, 0.19, -1.9),
        Phrase((4, 16), "really funny", 0.09, 0.09, 0.9),
        Phrase((18, 21), "but", 0.07, 0.07, 0.7),
        Phrase((22, 28), "moving", 0.24, 0.24, 2.4),
    )
    return PhraseTree(
        method="idg", target="positive", certificate=_settled(1.32), meta=META, nodes=nodes, tokens=TOKENS,
        offsets=OFFSETS, scores=explanation().scores, tree="made up",
    )  # fmt: skip


def continuation() -> Continuation:
    prompt, answer = "The capital of France is", " Paris."
    matrix = np.array([[0.1, 0.05], [2.6, 0.1], [0.4, 0.02], [5.3, -0.2], [0.6, 0.3], [0, 1.4]])
    columns = tuple(_settled(total, baseline=-9.1) for total in matrix.sum(0))
    return Continuation(
        method="ig", target=answer, certificate=_settled(float(matrix.sum()), baseline=-14.0), certificates=columns,
        tokens=("The", "capital", "of", "France", "is", "Paris"), outputs=("Paris", "."), matrix=matrix,
        offsets=((0, 3), (4, 11), (12, 14), (15, 21), (22, 24), (1, 6)), output_offsets=((1, 6), (6, 7)),
        segments=(0, 0, 0, 0, 0, 1), special=(False,) * 6,
        meta={"texts": [prompt, answer], "model": "made up", "baseline": "mean", "score": "logprob"},
    )  # fmt: skip


def _settled(total: float, *, baseline: float = -0.2, kind: str = "total") -> Certificate:
    gap = 4e-5
    return Certificate(
        f_input=baseline + float(total) + gap, f_baseline=baseline, total=float(total), gap=gap,
        relative_gap=gap / abs(float(total)), tolerance=1e-3, converged=True, nodes=31, passes=33, kind=kind,
    )  # fmt: skip
