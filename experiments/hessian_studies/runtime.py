"""Run time, and evaluations to 1 % completeness, against the number of features."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from experiments.hessian_studies.nets import Many, _at, table_interactions
from experiments.hessian_studies.writing import Folder

OURS = (4, 6, 8, 12, 16, 24, 32, 48, 64)
SIDES = (2, 4, 6, 8, 12, 16, 24, 32)
GOAL = 0.01


def run(out: Path, *, quick: bool = False) -> None:
    folder = Folder(out, "runtime")
    samples = 20 if quick else 200
    rows = []
    for width in (5, 20) if quick else (5, 20, 50, 100):
        torch.manual_seed(width)
        net = Many((width, 64, 64, 1), 1, seed=width, act=lambda x: functional.softplus(x, beta=10.0)).one(0)
        x, zero = torch.randn(samples, width), torch.zeros(width)
        change = (net(x) - net(zero[None])).double()
        ours = next((n for n in OURS if miss(table_interactions(net, x, zero, nodes=n), change) <= GOAL), None)
        started = time.process_time()
        table_interactions(net, x, zero, nodes=ours or OURS[-1])
        seconds = time.process_time() - started
        row = {"features": width, "nodes": ours, "ms_per_sample": 1000 * seconds / samples}
        for name, ends in (("grid_with_end_points", True), ("midpoint_grid", False)):
            k = next((k for k in SIDES if miss(sampled(net, x, k, ends), change) <= GOAL), None)
            row[name] = k and k * k
        rows.append(row)
        print(row, flush=True)
    folder.table("runtime.csv", rows)
    folder.lines(
        "runtime.png", [r["features"] for r in rows], {"ms per sample": [r["ms_per_sample"] for r in rows]},
        log="xy", title="Integrated Hessians: time to 1 % completeness", xlabel="features", ylabel="ms per sample",
    )  # fmt: skip
    lines = ["Points a sample until the median completeness error is under 1 % (none: more than 1024):"]
    lines += [
        f"  {r['features']} features: log-weighted Gauss {r['nodes']} ({r['ms_per_sample']:.1f} ms per sample), published grid "
        f"{r['grid_with_end_points']}, midpoint grid {r['midpoint_grid']}"
        for r in rows
    ]
    folder.say("\n".join(lines))


def miss(matrix: torch.Tensor, change: torch.Tensor) -> float:
    """Median over samples of |ΣΓ − change| / |change|."""
    return float(((matrix.sum((1, 2)) - change).abs() / change.abs()).median())


def sampled(net: torch.nn.Module, x: torch.Tensor, k: int, end_points: bool) -> torch.Tensor:
    """The k × k grid of (α, β); equal products αβ are evaluated once."""
    side = np.linspace(0, 1, k) if end_points else (np.arange(k) + 0.5) / k
    places, counts = np.unique(np.outer(side, side).round(14), return_counts=True)
    zero = torch.zeros_like(x)
    return sum(int(c) / k**2 * _at(net, x, zero, float(u)) for u, c in zip(places, counts, strict=True))
