"""One attention block, every vector c_{j←i}: a JVP per input token, against one IG per output coordinate (captum)."""

from __future__ import annotations

import numpy as np

import pathlens as pl
from benchmarks.measure import Row, alternate, largest_difference, row
from benchmarks.texts import of_length
from pathlens.text.adapter import Request
from pathlens.text.load import load

BLOCK = "encoder.layer.2.attention"
NODES = 16
SAMPLE = 48  # output coordinates that are timed; every one costs the same


def vaig(quick: bool) -> list[Row]:
    from captum.attr import IntegratedGradients

    model = load("minilm")
    text = of_length(model, 8 if quick else 16)
    sample = 8 if quick else SAMPLE
    explainer = pl.Explainer(model, method="vaig", block=BLOCK, n_steps=NODES, check=False)
    with model.quiet():
        case = model.case(text, request=Request(vector=True, block=BLOCK))
        out, width = explainer(text).vectors.shape[0], explainer(text).vectors.shape[2]
        method = IntegratedGradients(lambda points: case.score(points, [case] * len(points)))
        draw = np.random.default_rng(0)
        chosen = [(int(draw.integers(out)), int(draw.integers(width))) for _ in range(sample)]

        def one_ig_each() -> np.ndarray:
            end, start = case.ends.end[None], case.ends.start[None]
            return np.stack(
                [
                    method.attribute(end, start, target=target, n_steps=NODES).detach().sum(-1)[0].numpy()
                    for target in chosen
                ]
            )

        both = alternate(1 if quick else 3, lambda: explainer(text), one_ig_each)
        best = pl.explain(model, text, method="vaig", block=BLOCK, n_steps=128)

    def coordinates(vectors: np.ndarray) -> np.ndarray:
        return np.stack([vectors[j, :, k] for j, k in chosen])

    exact = coordinates(best.vectors)
    return [
        row(
            f"VAIG, one attention block, {len(both.ours.tokens)} tokens, {out} × {width} outputs, {NODES} nodes",
            f"one IG per output coordinate (captum, {NODES} nodes; {sample} coordinates timed, times {out * width / sample:g})",
            goal=20.0,
            ours=both.ours_seconds,
            theirs=both.theirs_seconds * out * width / sample,
            errors=(largest_difference(coordinates(both.ours.vectors), exact), largest_difference(both.theirs, exact)),
        )
    ]
