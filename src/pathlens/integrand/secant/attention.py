"""Fused attention, opened: P = softmax(s·q kᵀ + mask), o = P v, by the rules of products and of softmax.

    Δz = s·(Δq k̄ᵀ + q̄ Δkᵀ)      ΔP = L·(Δz − Σ w·Δz)      Δo = ΔP v̄ + P̄ Δv

The values come from the fused kernel; on the way back the weights of both runs are worked out again, a few queries at a
time, so that long texts never hold a table of tokens × tokens.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pathlens.integrand.forward_mode import add_product, columns, rows
from pathlens.integrand.secant.both import RULES, Both, end_of, moves, start_of
from pathlens.integrand.secant.elementwise import log_mean

ROOM = 1 << 23  # numbers of one table of tokens × tokens that are held at once


def _scores(q: Tensor, k: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    scores = (scale * q) @ k.mT
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask


def _means(z0: Tensor, z1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P̄, L and w of some rows; a row that may look nowhere is zero, as in torch."""
    l0, l1 = (torch.log_softmax(z, -1) for z in (z0, z1))
    mean = log_mean(l0, l1)
    total = mean.sum(-1, keepdim=True)
    p = (l0.exp() + l1.exp()) / 2
    return torch.nan_to_num_(p, 0.0), mean, mean / torch.where(total == 0, 1.0, total)


def _rows(mask: Tensor | None, causal: bool, at: slice, keys: int, queries: int, like: Tensor) -> Tensor | None:
    """The mask of some queries, and which keys they may see."""
    if causal:
        rows = torch.arange(queries, device=like.device)[at, None]
        return torch.arange(keys, device=like.device) <= rows
    return None if mask is None else mask if mask.shape[-2] == 1 else mask[..., at, :]


class _Attention(torch.autograd.Function):
    """Reverse mode, a few queries at a time."""

    @staticmethod
    def forward(ctx: Any, plan: Any, q1: Tensor, k1: Tensor, v1: Tensor, q0: Tensor, k0: Tensor, v0: Tensor) -> Any:
        ctx.scale, ctx.mask, ctx.causal, out = plan
        ctx.save_for_backward(q0, q1, k0, k1, v0, v1)
        return out

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:
        q0, q1, k0, k1, v0, v1 = ctx.saved_tensors
        q, k, v = (q0 + q1) / 2, (k0 + k1) / 2, (v0 + v1) / 2
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        queries, keys = q.shape[-2], k.shape[-2]
        step = max(1, ROOM // max(1, q.shape[:-2].numel() * keys))
        for first in range(0, queries, step):
            at = slice(first, min(first + step, queries))
            seen = slice(0, at.stop if ctx.causal else keys)  # later keys are never looked at
            mask = _rows(ctx.mask, ctx.causal, at, seen.stop, queries, q)
            z0, z1 = (_scores(a[..., at, :], b[..., seen, :], ctx.scale, mask) for a, b in ((q0, k0), (q1, k1)))
            p, mean, weight = _means(z0, z1)
            g = slope[..., at, :]
            dv[..., seen, :] += p.mT @ g
            dp = (g @ v[..., seen, :].mT).mul_(mean)
            dz = dp.sub_(weight.mul_(dp.sum(-1, keepdim=True))).mul_(ctx.scale)
            dq[..., at, :] = dz @ k[..., seen, :]
            dk[..., seen, :] += dz.mT @ q[..., at, :]
        return None, dq, dk, dv, None, None, None


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if dropout_p > 0 or isinstance(attn_mask, Both):
        return _opened(query, key, value, attn_mask, is_causal, scale, enable_gqa) if dropout_p == 0 else NotImplemented
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    size = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    starts, ends = ([of(x) for x in (query, key, value)] for of in (start_of, end_of))
    same = starts[0].shape[:-2] == starts[1].shape[:-2] == starts[2].shape[:-2]
    change = next(x.change for x in (query, key, value) if moves(x))
    if not same or (change is not None and not all(moves(x) for x in (query, key, value))):
        return _opened(query, key, value, attn_mask, is_causal, size, False)
    if change is not None:
        return _pushed(
            starts, ends, [x.change for x in (query, key, value)], size, _everyone(attn_mask, is_causal, ends)
        )
    more = {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale}
    with torch.no_grad():
        start, end = (functional.scaled_dot_product_attention(*each, **more) for each in (starts, ends))
    with torch.enable_grad():
        return Both(start, _Attention.apply((size, attn_mask, is_causal, end), *ends, *starts))  # type: ignore[no-untyped-call]


def _everyone(mask: Tensor | None, causal: bool, ends: list[Tensor]) -> Tensor | None:
    queries, keys = ends[0].shape[-2], ends[1].shape[-2]
    return _rows(mask, causal, slice(None), keys, queries, ends[0])


def _pushed(starts: list[Tensor], ends: list[Tensor], changes: list[Tensor], scale: float, mask: Tensor | None) -> Both:
    """Forward mode: the changes of all units lie as (…, S_q, U, ·), so that each product is a long one."""
    (q0, k0, v0), (q1, k1, v1), (dq, dk, dv) = starts, ends, changes
    z0, z1 = _scores(q0, k0, scale, mask), _scores(q1, k1, scale, mask)
    p, mean, weight = _means(z0, z1)
    p0, p1 = (torch.nan_to_num_(torch.softmax(z, -1), 0.0) for z in (z0, z1))
    q, k, v, count = (q0 + q1) / 2, (k0 + k1) / 2, (v0 + v1) / 2, len(dq)
    change = (p @ columns(dv)).unflatten(-1, (count, -1))
    scores = ((scale * q) @ rows(dk).mT).unflatten(-1, (count, -1))
    add_product(scores, dq.movedim(0, -2), (scale * k).mT)
    scores.sub_((scores * weight[..., None, :]).sum(-1, keepdim=True)).mul_(mean[..., None, :])
    add_product(change, scores, v)
    return Both(p0 @ v0, p1 @ v1, change.movedim(-2, 0))


def _opened(query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float | None, gqa: bool) -> Any:
    """The same out of its parts: shapes that broadcast, and attention in which not all of the three move."""
    size = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    scores = torch.matmul(query * size, key.mT)
    if causal:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return torch.matmul(torch.softmax(scores, -1), value)


RULES[functional.scaled_dot_product_attention] = attention
