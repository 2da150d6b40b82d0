"""Slow twins: the papers' formulas, point by point and coordinate by coordinate. Written to be read, not to be fast."""

from __future__ import annotations

import torch
from torch import Tensor


def gradient(score, point: Tensor) -> Tensor:
    point = point.clone().requires_grad_()
    return torch.autograd.grad(score(point), point)[0]


def integrated_gradients(score, start: Tensor, end: Tensor, t, weight) -> Tensor:
    """(x − b) · Σ_k w_k ∇F(b + t_k (x − b)), summed over coordinates: (S,)."""
    total = torch.zeros_like(end)
    for place, share in zip(t, weight, strict=True):
        total += share * gradient(score, start + float(place) * (end - start))
    return ((end - start) * total).sum(-1)


def sequential_ig(score, start: Tensor, end: Tensor, t, weight) -> Tensor:
    """For each token: IG along the line from the text with that token at the baseline; (S, d)."""
    result = torch.zeros_like(end)
    for token in range(len(end)):
        origin = end.clone()
        origin[token] = start[token]
        for place, share in zip(t, weight, strict=True):
            slope = gradient(score, origin + float(place) * (end - origin))
            result[token] += share * slope[token] * (end - origin)[token]
    return result


def sequential_differences(score, start: Tensor, end: Tensor) -> Tensor:
    """F(x) − F(x with one token at the baseline), token by token: what SIG's token scores sum to, (S,)."""
    result = []
    for token in range(len(end)):
        origin = end.clone()
        origin[token] = start[token]
        result.append(score(end) - score(origin))
    return torch.stack(result).detach()


def prefix_differences(score, start: Tensor, end: Tensor) -> Tensor:
    """Tokens go to their value one after another, left to right; each gets the change it makes: (S,)."""
    point = start.clone()
    result = []
    for token in range(len(end)):
        before = score(point)
        point = point.clone()
        point[token] = end[token]
        result.append(score(point) - before)
    return torch.stack(result).detach()


def split_step(score, start: Tensor, end: Tensor, cells: int) -> Tensor:
    """M cells; in each, tokens move one at a time, forward over its first half, backward over its second: (S,)."""
    result = torch.zeros(len(end), dtype=end.dtype)
    point = start.clone()
    for half in range(2 * cells):
        order = range(len(end)) if half % 2 == 0 else reversed(range(len(end)))
        level = (half + 1) / (2 * cells)
        for token in order:
            before = score(point)
            point = point.clone()
            point[token] = start[token] + level * (end[token] - start[token])
            result[token] += (score(point) - before).detach()
    return result


def vector_ig(vector, start: Tensor, end: Tensor, t, weight) -> Tensor:
    """One IG per output coordinate: (out, S, k), where vector(point) is (out, k)."""
    shape = vector(end).shape
    result = torch.zeros(shape[0], len(end), shape[1], dtype=end.dtype)
    for j in range(shape[0]):
        for k in range(shape[1]):
            result[j, :, k] = integrated_gradients(lambda p, j=j, k=k: vector(p)[j, k], start, end, t, weight)
    return result
