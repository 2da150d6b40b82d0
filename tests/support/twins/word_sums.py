"""The papers' sums along word paths and along phrases, one gradient call per point. Slow on purpose."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from tests.support.twins.gradients import gradient
from tests.support.twins.word_paths import word_path


def points_of(ends, *, factor: int, **settings) -> Tensor:
    """x⁰ … x^N (N + 1, S, d): each token's own path, midpoints inserted f times, all tokens moving together."""
    table = ends.vocabulary.table.double().numpy()
    columns = []
    for token in range(len(ends.end)):
        start, end = ends.start[token].double().numpy(), ends.end[token].double().numpy()
        if ends.held[token] or (start == end).all():
            columns.append(np.tile(end, (settings["steps"] + 2, 1)))
            continue
        baseline = None if ends.start_ids is None else ends.start_ids[token]
        _, inner = word_path(table, ends.ids[token], baseline, start=start, **settings)
        columns.append(np.concatenate([[start], inner, [end]]))
    points = torch.from_numpy(np.stack(columns, axis=1)).to(ends.end.dtype)
    for _ in range(factor):
        middle = (points[:-1] + points[1:]) / 2
        points = torch.stack([points[:-1], middle], dim=1).flatten(0, 1)
        points = torch.cat([points, ends.end[None]])
    return points


def left_sum(score, points: Tensor) -> Tensor:
    """Σ_k ∂F(x^k)·(x^{k+1} − x^k), per token (S,)."""
    total = torch.zeros(points.shape[1], dtype=torch.float64)
    for here, there in pairwise(points):
        total += (gradient(score, here) * (there - here)).sum(-1).double()
    return total


def directional(score, start: Tensor, end: Tensor, group: Tensor, t, weight) -> float:
    """IDG(G) = ∫ ∇F(b + αδ) · δ_G/‖δ_G‖ dα, an integral of its own."""
    direction = torch.where(group[:, None], end - start, 0.0)
    length = float(direction.norm())
    if length == 0:
        return 0.0
    total = 0.0
    for place, share in zip(t, weight, strict=True):
        slope = gradient(score, start + float(place) * (end - start))
        total += float(share) * float((slope * direction).sum()) / length
    return total
