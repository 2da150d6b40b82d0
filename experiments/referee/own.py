"""Our own methods as contenders, with the controls: everyone's default settings, scores summed into words."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pathlens as pl
from experiments.referee.exams import folder_of
from experiments.referee.record import Answer, Item, at_words, words_of
from pathlens.metrics.contenders import GRADIENT, LEAVE_ONE_OUT, RANDOM, Contender, contenders, score_texts
from pathlens.path.words.store import PathCache
from pathlens.text.load import load

TOGETHER = 20  # texts in one call: as people explain lists
GAUSS = {"rule": "gauss", "n_steps": 62, "cache": PathCache()}


@dataclass(frozen=True)
class OurMethod:
    """A method of ours; `solve` gives the answers of texts of one model."""

    name: str
    solve: Callable[[Any, Sequence[Item]], list[Answer]]

    def __call__(self, items: Sequence[Item]) -> list[Answer]:
        models = {item.model for item in items}
        if len(models) != 1:
            raise ValueError("one model at a time")
        name = models.pop()
        model = load("sentiment") if name == "sentiment" else load(str(folder_of(name)))
        return self.solve(model, items)


def scored(contender: Contender) -> Callable[[Any, Sequence[Item]], list[Answer]]:
    def solve(model: Any, items: Sequence[Item]) -> list[Answer]:
        begun = time.process_time()
        texts, failures = score_texts(model, [contender], [(item.text, None) for item in items])
        cpu = (time.process_time() - begun) / len(items)
        if failures:
            raise RuntimeError(f"{contender.label}: {failures}")
        answers = []
        for item, text in zip(items, texts, strict=True):
            scores, certificate = text.scores[0].values, text.scores[0].certificate
            places = [(*text.case.offsets[i], float(value)) for i, value in enumerate(scores)]
            passes = (
                float(certificate.passes)
                if certificate
                else float({LEAVE_ONE_OUT: 1 + len(scores)}.get(contender.method, 1))
            )
            gap = certificate.relative_gap if certificate else None
            answers.append(Answer(item.number, at_words(item.text, places), cpu, passes, gap))
        return answers

    return solve


def hessian_rows(model: Any, items: Sequence[Item]) -> list[Answer]:
    """Integrated Hessians read as a score a word: the sum of its row; the strongest pair of words goes with it."""
    answers = []
    for item in items:
        begun = time.process_time()
        result = pl.explain(model, item.text, method="ih", check=False)
        cpu = time.process_time() - begun
        by_word = np.stack([at_words(item.text, _spread(result.offsets, row)) for row in result.matrix])
        table = np.stack([at_words(item.text, _spread(result.offsets, column)) for column in by_word.T]).T
        apart = np.abs(table + table.T) * (1 - np.eye(len(table)))
        pair = [int(k) for k in np.unravel_index(apart.argmax(), apart.shape)]
        certificate = result.certificate
        answers.append(
            Answer(item.number, table.sum(1), cpu, float(certificate.passes), certificate.relative_gap, {"pair": pair})
        )
    return answers


def _spread(offsets: Sequence[Any], values: np.ndarray) -> list[tuple[int, int, float]]:
    return [(start, end, float(value)) for (start, end), value in zip(offsets, values, strict=True)]


def masked_words(model: Any, items: Sequence[Item]) -> list[Answer]:
    """The judge of a disagreement: each word deleted, by itself; what the class's probability lost."""
    answers = []
    for item in items:
        begun = time.process_time()
        without = [item.text] + [(item.text[:a] + item.text[b:]).strip() or "." for a, b in words_of(item.text)]
        logits = np.array([_logits(model, text) for text in without])
        share = np.exp(logits - logits.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        lost = share[0, item.target] - share[1:, item.target]
        answers.append(Answer(item.number, lost, time.process_time() - begun, float(len(without))))
    return answers


def _logits(model: Any, text: str) -> list[float]:
    import torch

    read = model.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        return model.module(input_ids=read["input_ids"], attention_mask=read["attention_mask"]).logits[0].tolist()


def _methods() -> tuple[OurMethod, ...]:
    rows = contenders((GRADIENT,), ())
    for method in ("ig", "sig", "secant"):
        rows += contenders((method,), ("mask", "pad"))[2:]
    rows += (Contender("sig", "mask", {"context": "prefix"}),)
    for method in ("dig", "udig"):
        rows += contenders((method,), ("mask",), {method: GAUSS})[2:]
    named = [
        OurMethod(row.label + (", prefix" if row.options.get("context") == "prefix" else ""), scored(row))
        for row in rows
    ]
    return (*named, OurMethod("ih, rows", hessian_rows))


OURS = _methods()
JUDGE = OurMethod("deleted words", masked_words)
CONTROLS = (RANDOM, LEAVE_ONE_OUT)
