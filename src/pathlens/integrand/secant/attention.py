"""Fused attention, opened: P = softmax(s·q kᵀ + mask), o = P v, by the rules of products and of softmax.

    Δz = s·(Δq k̄ᵀ + q̄ Δkᵀ)      ΔP = L·(Δz − Σ w·Δz)      Δo = ΔP v̄ + P̄ Δv

The values come from the fused kernel; on the way back the weights of both runs are worked out again, a few queries at a
time, so that long texts never hold a table of tokens × tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pathlens.integrand.forward_mode import add_product, columns, rows
from pathlens.integrand.secant.both import RULES, Both, end_of, moves, start_of
from pathlens.integrand.secant.elementwise import log_mean_below
from pathlens.integrand.secant.segments import several

ROOM = 1 << 20  # numbers of one table of tokens × tokens that are held at once: a few of them fit a processor's cache
# numbers of one layer's tables that wait for the next number of an answer: half a gigabyte with what goes with them
KEPT = 1 << 26
LEAST = 32  # queries at once, however many texts and heads: fewer make thin products


@dataclass(frozen=True)
class _Mask:
    """What some queries may see: a mask of the keys from `first` on; None: all of them."""

    mask: Tensor | None
    first: int = 0

    def scores(self, q: Tensor, k: Tensor, scale: float) -> Tensor:
        scores = (scale * q) @ k.mT
        if self.mask is None:
            return scores
        if self.mask.dtype == torch.bool:
            scores[..., self.first :].masked_fill_(~self.mask, -math.inf)
            return scores
        return scores.add_(self.mask)


def _means(z0: Tensor, z1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P̄, L and the sums of L's rows; a row that may look nowhere is zero, as in torch."""
    l0, l1 = (torch.log_softmax(z, -1) for z in (z0, z1))
    p0, p1 = l0.exp(), l1.exp()
    mean = log_mean_below(torch.maximum(p0, p1), l0.sub_(l1))
    total = mean.sum(-1, keepdim=True)
    return p0.add_(p1).mul_(0.5).nan_to_num_(0.0), mean, torch.where(total == 0, 1.0, total)


def _mask_of(mask: Tensor | None, causal: bool, at: slice, seen: int, like: Tensor) -> _Mask:
    """For the queries `at` on the keys up to `seen`: causal ones see those up to their own place."""
    if causal:
        first = min(at.start, seen)
        return _Mask(torch.ones(at.stop - at.start, seen - first, dtype=torch.bool, device=like.device).tril_(), first)
    return _Mask(mask if mask is None or mask.shape[-2] == 1 else mask[..., at, :])


class _Attention(torch.autograd.Function):
    """Reverse mode, a few queries at a time."""

    @staticmethod
    def forward(ctx: Any, plan: Any, q1: Tensor, k1: Tensor, v1: Tensor, q0: Tensor, k0: Tensor, v0: Tensor) -> Any:
        ctx.scale, ctx.mask, ctx.causal, out = plan
        ctx.tables = []  # the first few queries', where several numbers come this way
        ctx.save_for_backward(q0, q1, k0, k1, v0, v1)
        return out

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:
        q0, q1, k0, k1, v0, v1 = ctx.saved_tensors
        q, k, v = (q0 + q1) * (ctx.scale / 2), (k0 + k1) * (ctx.scale / 2), (v0 + v1) / 2
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        queries, keys = q.shape[-2], k.shape[-2]
        step = max(LEAST, ROOM // max(1, q.shape[:-2].numel() * keys))
        waiting = KEPT if several() else 0
        for number, first in enumerate(range(0, queries, step)):
            at = slice(first, min(first + step, queries))
            seen = slice(0, min(at.stop, keys) if ctx.causal else keys)  # later keys are never looked at
            if number < len(ctx.tables):
                p, mean, total = ctx.tables[number]
            else:
                mask = _mask_of(ctx.mask, ctx.causal, at, seen.stop, q)
                z0, z1 = (mask.scores(a[..., at, :], b[..., seen, :], ctx.scale) for a, b in ((q0, k0), (q1, k1)))
                p, mean, total = _means(z0, z1)
                if number == len(ctx.tables) and p.numel() <= waiting:
                    ctx.tables.append((p, mean, total))
            waiting -= p.numel()
            g = slope[..., at, :]
            dv[..., seen, :] += p.mT @ g
            dp = (g @ v[..., seen, :].mT).mul_(mean)
            dz = dp.addcmul_(mean, dp.sum(-1, keepdim=True).div_(total), value=-1)
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
    if dropout_p > 0:
        return NotImplemented
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    if isinstance(attn_mask, Both):
        return _opened(query, key, value, attn_mask, is_causal, scale)
    if attn_mask is not None and attn_mask.ndim < 2:
        attn_mask = attn_mask.expand(1, key.shape[-2])
    size = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    starts, ends = ([of(x) for x in (query, key, value)] for of in (start_of, end_of))
    same = starts[0].shape[:-2] == starts[1].shape[:-2] == starts[2].shape[:-2]
    change = next(x.change for x in (query, key, value) if moves(x))
    if not same or (change is not None and not all(moves(x) for x in (query, key, value))):
        return _opened(query, key, value, attn_mask, is_causal, size)
    if change is not None:
        every = slice(0, ends[0].shape[-2])
        mask = _mask_of(attn_mask, is_causal, every, ends[1].shape[-2], ends[0])
        return _of_units(starts, ends, [x.change for x in (query, key, value)], size, mask)
    more = {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale}
    with torch.no_grad():
        start, end = (functional.scaled_dot_product_attention(*each, **more) for each in (starts, ends))
    with torch.enable_grad():
        return Both(start, _Attention.apply((size, attn_mask, is_causal, end), *ends, *starts))  # type: ignore[no-untyped-call]


def _of_units(starts: list[Tensor], ends: list[Tensor], changes: list[Tensor], scale: float, mask: _Mask) -> Both:
    """Forward mode: the changes of all units lie as (…, S_q, U, ·), so that each product is a long one."""
    (q0, k0, v0), (q1, k1, v1), (dq, dk, dv) = starts, ends, changes
    z0, z1 = mask.scores(q0, k0, scale), mask.scores(q1, k1, scale)
    p, mean, total = _means(z0, z1)
    weight = mean / total
    p0, p1 = (torch.nan_to_num_(torch.softmax(z, -1), 0.0) for z in (z0, z1))
    q, k, v, count = (q0 + q1) / 2, (k0 + k1) / 2, (v0 + v1) / 2, len(dq)
    change = (p @ columns(dv)).unflatten(-1, (count, -1))
    scores = ((scale * q) @ rows(dk).mT).unflatten(-1, (count, -1))
    add_product(scores, dq.movedim(0, -2), (scale * k).mT)
    scores.sub_((scores * weight[..., None, :]).sum(-1, keepdim=True)).mul_(mean[..., None, :])
    add_product(change, scores, v)
    return Both(p0 @ v0, p1 @ v1, change.movedim(-2, 0))


def _opened(query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    """The same out of its parts: shapes that broadcast, and attention in which not all of the three move."""
    size = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    scores = torch.matmul(query * size, key.mT)
    if causal:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return torch.matmul(torch.softmax(scores, -1), value)


def multi_head_attention(
    query: Any,
    key: Any,
    value: Any,
    size: int,
    heads: int,
    in_weight: Any,
    in_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero: bool,
    dropout_p: float,
    out_weight: Any,
    out_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:
    """torch's layer out of its parts: linear, attention, linear. (S, B, d), or (S, d)."""
    unusual = (
        (bias_k, bias_v, static_k, static_v) != (None,) * 4 or add_zero or any(map(moves, (in_weight, out_weight)))
    )
    if unusual or (training and dropout_p > 0):
        return NotImplemented
    alone = query.ndim == 2
    if alone:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_weight.chunk(3)
    biases = (None,) * 3 if in_bias is None else in_bias.chunk(3)
    if query is key is value and not use_separate_proj_weight:
        projected = functional.linear(query, in_weight, in_bias).chunk(3, -1)
    else:
        projected = tuple(map(functional.linear, (query, key, value), weights, biases))
    q, k, v = (x.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3) for x in projected)  # (B, heads, S, d / heads)
    # as torch: only then is the mask left to the kernel
    causal = is_causal and key_padding_mask is None and not need_weights
    mask = None if causal else _added(attn_mask, query.dtype)
    if mask is not None and mask.ndim == 3:
        mask = mask.unflatten(0, (-1, heads))
    if key_padding_mask is not None:
        padding = _added(key_padding_mask, query.dtype)
        padding = padding.reshape(-1, 1, 1, padding.shape[-1])
        mask = padding if mask is None else mask + padding
    shares = None
    if need_weights:
        scores = torch.matmul(q * (1 / math.sqrt(q.shape[-1])), k.mT)
        shares = torch.softmax(scores if mask is None else scores + mask, -1)
        made = torch.matmul(shares, v)
        shares = shares.mean(1) if average_attn_weights else shares
    else:
        made = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
    made = functional.linear(made.permute(2, 0, 1, 3).flatten(-2), out_weight, out_bias)
    if alone:
        made, shares = made.squeeze(1), None if shares is None else shares.squeeze(0)
    return made, shares


def _added(mask: Any, dtype: torch.dtype) -> Any:
    """A mask as numbers that are added: in torch's layer True is what may not be looked at."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)


RULES[functional.scaled_dot_product_attention] = attention
RULES[functional.multi_head_attention_forward] = multi_head_attention
