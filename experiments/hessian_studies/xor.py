"""XOR: gradients alone cannot tell (1,1) from (0,0); a strong negative interaction can."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

import pathlens as pl
from experiments.hessian_studies.writing import Folder

POINTS = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]], dtype=torch.float64)
LABELS = torch.tensor([0.0, 1, 1, 0], dtype=torch.float64)
SMOOTH = {"tanh": nn.Tanh, "softplus": nn.Softplus, "GELU": nn.GELU}


def trained(act: type[nn.Module], seed: int) -> nn.Module:
    """2–8–1, squared error on the four points."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 8), act(), nn.Linear(8, 1)).double()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(800):
        loss = (net(POINTS)[:, 0] - LABELS).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.requires_grad_(False)


def run(out: Path, *, quick: bool = False) -> None:
    folder = Folder(out, "xor")
    rows = []
    for seed in range(2 if quick else 10):
        for name, act in SMOOTH.items():
            rows.append(one(name, trained(act, seed), seed))
        relu = trained(nn.ReLU, seed)
        rows += [one("ReLU", relu, seed, beta) for beta in (1, 10, 50)]
    folder.table("xor.csv", rows)
    lines = [
        "Γ₁₂ at (1,1), mean over seeds that learnt XOR (every output within 0.1), and the share of them with Γ₁₂ < 0:"
    ]
    means = {}
    for kind in dict.fromkeys(row["net"] for row in rows):
        solved = [row for row in rows if row["net"] == kind and row["solved"]]
        if solved:
            means[kind] = float(np.mean([row["gamma_12"] for row in solved]))
            share = np.mean([row["gamma_12"] < 0 for row in solved])
            sums = max(abs(row["ig_sum"]) for row in solved)
            single = max(abs(row["ig_1"]) for row in solved)
            moved = np.mean([row["moved"] for row in solved])
            lines.append(
                f"{kind}: {means[kind]:+.3f}, negative in {share:.0%} of {len(solved)}; largest |ΣIG| {sums:.3f}, largest |IG₁| "
                f"{single:.2f}; Γ₁₂ at (1,0) at most {max(abs(row['gamma_12_at_10']) for row in solved):.1e}; "
                f"smoothing moved the output by {moved:.3f}"
            )
    folder.bars("xor.png", means, "XOR: interaction of the two inputs at (1,1)")
    folder.say("\n".join(lines))


def one(kind: str, net: nn.Module, seed: int, beta: float | None = None) -> dict[str, object]:
    choice = {} if beta is None else {"softplus": float(beta)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = pl.explain(net, POINTS[3], method="ih", tolerance=1e-4, **choice)
        single = pl.explain(net, POINTS[2], method="ih", tolerance=1e-4, **choice)
    return {
        "net": kind if beta is None else f"{kind}, β = {beta}",
        "seed": seed,
        "solved": bool((net(POINTS)[:, 0] - LABELS).abs().max() < 0.1),
        "gamma_11": both.matrix[0, 0],
        "gamma_12": both.matrix[0, 1],
        "gamma_22": both.matrix[1, 1],
        "ig_1": both.scores[0],
        "ig_sum": both.scores.sum(),
        "gamma_12_at_10": single.matrix[0, 1],
        "moved": both.meta.get("softplus", {}).get("moved", 0.0),
        "gap": both.certificate.gap,
        "nodes": both.certificate.nodes,
    }
