"""Close to the limit: the share of the machine's own float32 matrix-product rate that the derivative loops reach.

FLOPs are those the derivative needs, counted by torch in a pass whose attention is written out as matrix products:
reverse mode, everything the call runs; forward mode, the point once and one tangent for every unit. The rates are those
of the model's own shapes (2048 tokens by 384 or 1536), the best of them, measured in turns with the loop: of torch's own
product, and of oneDNN's with the weight laid out beforehand, which our loop uses and which is the stricter measure.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import pathlens as pl
from benchmarks.measure import Row, row, seconds
from benchmarks.texts import of_length, tokens_in
from pathlens.integrand import products
from pathlens.text.adapter import Request
from pathlens.text.load import load

SHAPES = ((2048, 384, 384), (2048, 384, 1536), (2048, 1536, 384))
SETTLE = 0.15  # seconds spent on one shape


def product_rates() -> tuple[float, float]:
    """FLOPs per second of the quickest of the shapes: torch's own product, and with the weight laid out beforehand."""
    plain = laid = 0.0
    for shape in SHAPES:
        rows, inner, columns = shape
        left, right, bias = torch.randn(rows, inner), torch.randn(columns, inner), torch.randn(columns)
        plain = max(plain, _rate(shape, lambda l=left, r=right, b=bias: torch.nn.functional.linear(l, r, b)))
        if products.available():
            ready = torch.ops.mkldnn._reorder_linear_weight(right)
            laid = max(laid, _rate(shape, lambda l=left, r=ready, b=bias: products.laid_product(l, r, b)))
    return plain, max(plain, laid)


def _rate(shape: tuple[int, int, int], product: Callable[[], Any]) -> float:
    product()
    count, begun = 0, time.process_time()
    while time.process_time() - begun < SETTLE:
        product()
        count += 1
    return 2.0 * math.prod(shape) * count / (time.process_time() - begun)


def executed(work: Callable[[], Any]) -> float:
    """FLOPs of every matrix product of a call, attention's included; products in torch's own form, which it can count."""
    plain = mock.patch.object(products, "available", lambda: False)
    with plain, sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())


def tangent_flops(model: Any, text: str, units: int, nodes: int) -> float:
    """What `nodes` points of forward mode need: the point, and per unit one tangent (attention has two products more)."""
    case = model.case(text, request=Request(vector=True))
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        case.score(case.ends.end[None], [case])
    counts = {str(operation): flops for operation, flops in counter.get_flop_counts()["Global"].items()}
    attention = sum(flops for operation, flops in counts.items() if "bmm" in operation)
    linear = sum(counts.values()) - attention
    return nodes * (linear + attention + units * (linear + 2 * attention))


def share(name: str, work: Callable[[], Any], flops: float, rounds: int, *, goal: float, why: str) -> list[Row]:
    """The seconds its products alone would take over the seconds of the call."""
    spent, rates = [], []
    work()
    for _ in range(rounds):
        rates.append(product_rates())
        spent.append(seconds(work)[0])
    ours = statistics.median(spent)
    kinds = (
        "torch's own float32 matrix-product rate",
        "the rate of float32 products with weights laid out beforehand, as our loop has them",
    )
    return [
        row(
            name,
            f"{flops / 1e9:.0f} GFLOP at {kind}, {rate / 1e9:.0f} GFLOP/s",
            goal=goal,
            ours=ours,
            theirs=flops / rate,
            why=why,
        )
        for kind, rate in zip(kinds, map(statistics.median, zip(*rates, strict=True)), strict=True)
    ]


def limit(quick: bool) -> list[Row]:
    classifier, encoder = load("sentiment"), load("minilm")
    rows = []
    for tokens in (16, 128):
        text = of_length(classifier, tokens)
        count = tokens_in(classifier, text)
        nodes = max(8, (1024 if quick else 4096) // tokens)
        gradient = pl.Explainer(classifier, method="ig", n_steps=nodes, check=False)
        with classifier.quiet():
            work = lambda gradient=gradient, text=text: gradient(text)  # noqa: E731
            name = f"reverse mode, MiniLM classifier, {count} tokens, {nodes} nodes"
            why = "the rest is attention's softmax, GELU, layer norms and what a call costs besides"
            rows += share(name, work, executed(work), 1 if quick else 5, goal=0.75, why=why)
        nodes = max(1, (8 if tokens == 16 else 1) // (4 if quick else 1))
        product = pl.Explainer(encoder, method="vaig", mode="forward", n_steps=nodes, check=False)
        units = count - 2
        with encoder.quiet():
            work = lambda product=product, text=text: product(text)  # noqa: E731
            name = f"forward mode, MiniLM, {count} tokens, {units} units, {nodes} nodes"
            why = "a tangent's elementwise part (GELU, softmax and layer norm with their derivatives) moves several times "
            why += "the memory of the value's, beside as many products"
            flops = tangent_flops(encoder, text, units, nodes)
            rows += share(name, work, flops, 1 if quick else 5, goal=0.6, why=why)
    return rows
