"""Close to the limit: the share of the machine's own float32 matrix-product rate that the derivative loops reach.

FLOPs are those the derivative needs, counted by torch in a pass whose attention is written out as matrix products:
reverse mode, everything the call runs; forward mode, the point once and one tangent for every unit. The rate is that of
the model's own shapes (2048 tokens by 384 or 1536), the best of them, measured in turns with the loop.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import pathlens as pl
from benchmarks.measure import Row, row, seconds
from benchmarks.texts import of_length, tokens_in
from pathlens.text.adapter import Request
from pathlens.text.load import load

SHAPES = ((2048, 384, 384), (2048, 384, 1536), (2048, 1536, 384))
SETTLE = 0.15  # seconds spent on one shape


def product_rate() -> float:
    """FLOPs per second of the quickest of the shapes."""
    best = 0.0
    for rows, inner, columns in SHAPES:
        left, right = torch.randn(rows, inner), torch.randn(columns, inner)
        bias, count = torch.randn(columns), 0
        begun = time.process_time()
        while time.process_time() - begun < SETTLE:
            torch.nn.functional.linear(left, right, bias)
            count += 1
        best = max(best, 2.0 * rows * inner * columns * count / (time.process_time() - begun))
    return best


def executed(work: Callable[[], Any]) -> float:
    """FLOPs of every matrix product of a call, attention's included."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
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


def share(work: Callable[[], Any], flops: float, rounds: int) -> tuple[float, float]:
    """Seconds of the call, and the seconds its products alone would take."""
    spent, rates = [], []
    work()
    for _ in range(rounds):
        rates.append(product_rate())
        spent.append(seconds(work)[0])
    return statistics.median(spent), flops / statistics.median(rates)


def limit(quick: bool) -> list[Row]:
    classifier, encoder = load("sentiment"), load("minilm")
    rows = []
    for tokens in (16, 128):
        text = of_length(classifier, tokens)
        count = tokens_in(classifier, text)
        nodes = max(8, (1024 if quick else 4096) // tokens)
        gradient = pl.Explainer(classifier, n_steps=nodes)
        with classifier.quiet():
            flops = executed(lambda gradient=gradient, text=text: gradient(text))
            spent, ideal = share(
                lambda gradient=gradient, text=text: gradient(text), flops, 1 if quick else 5
            )
        rows.append(
            row(
                f"reverse mode, MiniLM classifier, {count} tokens, {nodes} nodes",
                f"{flops / 1e9:.0f} GFLOP at the float32 matrix-product rate ({flops / ideal / 1e9:.0f} GFLOP/s)",
                goal=0.75,
                ours=spent,
                theirs=ideal,
                why="the rest is attention's softmax, GELU, layer norms and what a call costs besides",
            )
        )
        nodes = max(1, (8 if tokens == 16 else 1) // (4 if quick else 1))
        product = pl.Explainer(encoder, method="vaig", mode="forward", n_steps=nodes)
        units = count - 2
        with encoder.quiet():
            flops = tangent_flops(encoder, text, units, nodes)
            spent, ideal = share(lambda product=product, text=text: product(text), flops, 1 if quick else 3)
        rows.append(
            row(
                f"forward mode, MiniLM, {count} tokens, {units} units, {nodes} nodes",
                f"{flops / 1e9:.0f} GFLOP at the float32 matrix-product rate ({flops / ideal / 1e9:.0f} GFLOP/s)",
                goal=0.6,
                ours=spent,
                theirs=ideal,
                why="a tangent's elementwise part (GELU, softmax and layer norm with their derivatives) moves several "
                "times the memory of the value's, beside as many products",
            )
        )
    return rows
