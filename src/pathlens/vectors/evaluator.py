"""A hook for training with sentence-transformers: the same pairs explained at every evaluation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from pathlens.engine.typed import VectorOptions
from pathlens.errors import InputError
from pathlens.files import make_folder, write_text
from pathlens.vectors.encode import OF_MANY, encode


class PairsEvaluator:
    """`trainer(evaluator=PairsEvaluator(pairs))`: which words make these pairs similar, as training goes on.

    Gives mean |rest| (what the reference adds: how far the pairs of words are from the similarity), the mean similarity and
    the worst gap; where there is a folder, `pairs-EPOCH-STEPS.jsonl` in it holds every pair's strongest words. Beside an
    evaluator of quality, in a `SequentialEvaluator`: it does not say how good a model is. The reference is the model's own at
    that moment and is searched for anew (seconds), unless `baseline` is given. choices: as in `pl.encode`.
    """

    greater_is_better = False

    def __init__(
        self, pairs: Sequence[tuple[str, str]], *, name: str = "", top: int = 8, **choices: Unpack[VectorOptions]
    ) -> None:
        self.pairs, self.name, self.top = [(str(a), str(b)) for a, b in pairs], name, top
        if not self.pairs:
            raise InputError("the list of pairs is empty; give at least one")
        self.choices: dict[str, Any] = {"method": OF_MANY, "unit": "word", "truncation": True, **choices}
        self.primary_metric = self._named("mean_rest")

    def _named(self, metric: str) -> str:
        return f"{self.name}_{metric}" if self.name else metric

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        texts = list(dict.fromkeys(text for pair in self.pairs for text in pair))
        vectors, place = encode(model, texts, **self.choices), {text: n for n, text in enumerate(texts)}
        results = [vectors.pair(place[a], place[b]) for a, b in self.pairs]
        if output_path is not None:
            make_folder(Path(output_path))
            lines = [
                {"texts": pair, "similarity": each.similarity, "rest": each.rest, "top": each.top(self.top)}
                for pair, each in zip(self.pairs, results, strict=True)
            ]
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            write_text(Path(output_path) / f"{self._named('pairs')}-{epoch}-{steps}.jsonl", text)
        metrics = {
            "mean_rest": float(np.mean([abs(each.rest) for each in results])),
            "mean_similarity": float(np.mean([each.similarity for each in results])),
            "worst_gap": max(each.certificate.gap for each in results),
        }
        return {self._named(metric): value for metric, value in metrics.items()}
