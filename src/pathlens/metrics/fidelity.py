"""Do the scores predict what the model does when tokens are put to the reference? And how near are paths to words?

Paper: Yeh et al., "On the (In)fidelity and Sensitivity of Explanations" (NeurIPS 2019).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from pathlens.metrics.contenders import Way
from pathlens.metrics.variants import Question, Variant, outputs
from pathlens.text.adapter import Case
from pathlens.types import Certificate

SUBSETS = 16
LINE_FACTOR = 6  # 65 points on the straight line, as many as a word path of 30 steps has (63)


def subsets(case: Case, seed: int, number: int, count: int = SUBSETS) -> list[tuple[int, ...]]:
    """Random sets of real tokens, sizes uniform from 1 to all."""
    real = [i for i, flag in enumerate(case.special) if not flag]
    rng = np.random.default_rng([seed, number, 1])
    return [
        tuple(sorted(rng.choice(real, size=rng.integers(1, len(real) + 1), replace=False).tolist()))
        for _ in range(count)
    ]


def infidelity(
    cases: Sequence[Case], row: Tensor, reference: str, scores: Sequence[np.ndarray], seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(lists, texts) twice: E[(Σ_{i∈A} score_i − (F(x) − F(x, A at the reference)))²] over random sets A, plain and
    scaled: with the best factor before the scores, over E[(F(x) − F(…))²], so that 0 is perfect and 1 says nothing.
    """
    drawn = [subsets(case, seed, number) for number, case in enumerate(cases)]
    questions = []
    for case, sets in zip(cases, drawn, strict=True):
        every = tuple(range(len(case)))
        questions.append(Question(case, Variant(every)))
        questions += [Question(case, Variant(every, frozenset(chosen), reference), row) for chosen in sets]
    values = outputs(questions).reshape(len(cases), SUBSETS + 1)
    plain, scaled = (np.full((len(scores[0]), len(cases)), np.nan) for _ in range(2))
    for n, (sets, own) in enumerate(zip(drawn, scores, strict=True)):
        change = values[n, 0] - values[n, 1:]
        for m, each in enumerate(own):
            said = np.array([each[list(chosen)].sum() for chosen in sets])
            plain[m, n] = np.mean((said - change) ** 2)
            size, spread = said @ said, change @ change
            factor = said @ change / size if size > 0 else 0.0
            if spread > 0:
                scaled[m, n] = np.mean((factor * said - change) ** 2) / np.mean(change**2)
    return plain, scaled


def completeness(certificate: Certificate | None) -> tuple[float, float]:
    """|Δ| and |Δ %| of Σ scores = F(x) − F(b); NaN where no such sum is claimed (SIG adds up token by token)."""
    if certificate is None or certificate.kind != "total":
        return float("nan"), float("nan")
    change = certificate.f_input - certificate.f_baseline
    gap = abs(certificate.total - change)
    return gap, 100 * gap / abs(change) if change else float("nan")


def word_approximation_error(way: Way, case: Case, cache: object) -> float:
    """Mean over moving tokens and path points of the distance to the nearest vocabulary row; NaN off the embeddings.

    The straight line is looked at in 65 points, a word path in the authors' own (63 by default).
    """
    import torch

    from pathlens.engine.methods import find_method
    from pathlens.path.words.measure import word_approximation_error as of_route

    if way.method not in ("ig", "dig", "udig") or case.ends.vocabulary is None:
        return float("nan")
    options = {**way.options, "cache": cache}
    route = find_method(way.method).path(case.ends, torch.eye(len(case), dtype=torch.bool), options)
    factor = LINE_FACTOR if way.method == "ig" and not way.options.get("path") else None
    errors = of_route(route, case.ends, factor=factor, cache=cache)
    moving = errors[np.isfinite(errors)]
    return float(moving.mean()) if len(moving) else float("nan")
