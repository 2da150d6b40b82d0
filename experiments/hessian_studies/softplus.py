"""How many nodes each β needs, and what smoothing itself costs, on the textbook ReLU XOR."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

import pathlens as pl
from experiments.hessian_studies.nets import _at
from experiments.hessian_studies.writing import Folder
from pathlens.quadrature import rule

BETAS = (1, 2, 5, 10, 20, 50, 100)
FINEST = 512  # nodes at which Γ₁₂ is read


class TextbookXor(nn.Module):
    """f = r(s) − 2r(s − 1), s = x₁ + x₂."""

    def __init__(self) -> None:
        super().__init__()
        self.anchor = nn.Parameter(torch.zeros((), dtype=torch.float64), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = x.sum(1)
        return torch.relu(s) - 2 * torch.relu(s - 1) + self.anchor


def run(out: Path, *, quick: bool = False) -> None:
    folder = Folder(out, "softplus")
    net, x = TextbookXor(), torch.ones(1, 2, dtype=torch.float64)
    rows = []
    for beta in BETAS[1::2] if quick else BETAS:
        with pl.softplus(beta):
            change = float(net(x) - net(0 * x))
            moved = abs(float(net(x)))
            for n in (16, 32, 64, 128, FINEST):
                rows.append(row(beta, "log-weighted Gauss", n, integral(net, x, *log_rule(n)), change, moved))
            for k in (10, 32, 64):
                rows.append(row(beta, "grid with end points", k * k, grid(net, x, k, True), change, moved))
                rows.append(row(beta, "midpoint grid", k * k, grid(net, x, k, False), change, moved))
    folder.table("errors.csv", rows)
    curve = pl.softplus_curve(TextbookXor(), torch.ones(2, dtype=torch.float64), BETAS, path=folder.path("curve.png"))
    folder.table("curve.csv", [vars(point) for point in curve])
    ten = {(r["rule"], r["points"]): r["quadrature_error"] for r in rows if r["beta"] == 10}
    lines = ["Completeness error at β = 10 (quadrature alone):"]
    lines += [f"  {name}, {points} points: {error:.1e}" for (name, points), error in ten.items()]
    lines.append("β, Γ₁₂, smoothing error |f_β − f| at (1,1), nodes that tolerance 1e-3 took:")
    gamma = {r["beta"]: r["gamma_12"] for r in rows if r["rule"] == "log-weighted Gauss" and r["points"] == FINEST}
    lines += [f"  {p.beta:g}: {gamma.get(p.beta, float('nan')):+.3f}, {p.moved:.1e}, {p.nodes}" for p in curve]
    lines.append(f"limit of Γ₁₂ as β grows: −ln2/2 = {-np.log(2) / 2:.4f}")
    folder.say("\n".join(lines))


def log_rule(n: int) -> tuple[np.ndarray, np.ndarray]:
    nodes = rule("log")(n)
    return nodes.t, nodes.weight


def grid(net: nn.Module, x: torch.Tensor, k: int, end_points: bool) -> np.ndarray:
    side = np.linspace(0, 1, k) if end_points else (np.arange(k) + 0.5) / k
    return integral(net, x, np.outer(side, side).ravel(), np.full(k * k, 1 / k**2))


def integral(net: nn.Module, x: torch.Tensor, u: np.ndarray, weight: np.ndarray) -> np.ndarray:
    many = x.expand(len(u), -1)
    values = _at(net, many, torch.zeros_like(many), torch.from_numpy(u))
    return np.einsum("n,nij->ij", weight, values.numpy())


def row(beta: float, name: str, points: int, matrix: np.ndarray, change: float, moved: float) -> dict[str, object]:
    return {
        "beta": beta,
        "rule": name,
        "points": points,
        "quadrature_error": abs(float(matrix.sum()) - change),
        "smoothing_error": moved,
        "gamma_12": float(matrix[0, 1]),
    }
