"""Any method of the table, asked alike: what it needs besides a model and a text follows from its line."""

from __future__ import annotations

from typing import Any

import numpy as np

import pathlens as pl
from pathlens.engine.methods import METHODS
from tests.support import models

EVERY = tuple(METHODS)
WORDS = {"steps": 3, "neighbours": 10}  # of a path through words: the tests' vocabularies are small
SECOND = "great acting , but the plot was not good"


def needs(name: str) -> dict[str, Any]:
    """Options without which a small model cannot be asked."""
    entry = METHODS[name]
    return dict(WORDS) if "neighbours" in entry.options and "path" not in entry.options else {}


def fixed(name: str, n: int = 6) -> dict[str, Any]:
    """A given number of nodes, so that two runs look at the same places; none where a method has no nodes."""
    return {} if METHODS[name].in_one_pass else {"n_steps": n}


def model_for(name: str, architecture: str = "bert", attention: str = "sdpa") -> Any:
    entry = METHODS[name]
    return models.encoder(architecture, attention) if entry.vector else models.classifier(architecture, attention)


def explain(name: str, model: Any, texts: Any, second: str = SECOND, **options: Any) -> Any:
    """One result, or one for each text; a method of two texts compares with `second`."""
    both: tuple[Any, ...] = (texts,)
    if METHODS[name].sides == 2:
        both = (texts, [second] * len(texts) if isinstance(texts, list) else second)
    return pl.explain(model, *both, method=name, **needs(name), **options)


def numbers(result: Any) -> np.ndarray:
    """What a result attributes, as one array."""
    readers = {
        pl.Explanation: lambda r: r.scores,
        pl.VectorExplanation: lambda r: r.vectors,
        pl.PairExplanation: lambda r: r.full_matrix,
        pl.Interactions: lambda r: r.matrix,
        pl.PhraseTree: lambda r: np.array([node.signed for node in r.nodes]),
    }
    return np.asarray(readers[type(result)](result))


def gap(result: Any) -> float:
    """How far a result is from adding up, worked out anew from its own numbers."""
    cert = result.certificate
    change = cert.f_input - cert.f_baseline
    if isinstance(result, pl.PairExplanation):
        return abs(float(result.full_matrix.sum()) - result.similarity)
    if isinstance(result, pl.VectorExplanation):
        return float(np.linalg.norm(result.vectors.sum(1) - (result.f_input - result.f_baseline), axis=-1).max())
    if isinstance(result, pl.Interactions):
        return abs(float(result.matrix.sum()) - change)
    if cert.kind == "per token":
        return max(cert.rows, default=0.0)
    return abs(float(result.scores.sum()) - change)
