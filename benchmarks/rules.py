"""Which rule, and how many nodes? Integrated gradients of real sentences on the built-in models, measured.

The gradient along the line is sampled once, densely, for each sentence (Chebyshev points, whose interpolant is
accurate to rounding here); every rule and every setting of the adaptive driver is then tried on it at no cost.

    python benchmarks/rules.py --data ../shared/data [--texts 16] [--model sentiment]
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from pathlens.integrate import adaptive
from pathlens.integrate.drive import Goal
from pathlens.quadrature import gauss, nested, rule
from pathlens.text.adapter import Request
from pathlens.text.load import load
from pathlens.types import Route

POINTS = 256
TOLERANCE = 1e-3


def chebyshev(count: int) -> np.ndarray:
    return 0.5 - 0.5 * np.cos(np.pi * np.arange(count + 1) / count)


def sampled(model, text: str, count: int = POINTS) -> np.ndarray:
    """∂F · δ of every token at the Chebyshev points, (count + 1, S)."""
    case = model.case(text, request=Request(layer=model.default_layer))
    start, delta = case.ends.start, case.ends.delta
    rows = []
    with model.quiet():
        for part in np.array_split(chebyshev(count), count // 32):
            points = torch.stack([start + float(t) * delta for t in part]).requires_grad_()
            (slope,) = torch.autograd.grad(case.score(points, [case] * len(points)).sum(), points)
            rows.append((slope * delta).sum(-1).double().numpy())
    return np.concatenate(rows)


class Profile:
    """∂F · δ of every token as a function of t, and its exact integral."""

    def __init__(self, model, text: str) -> None:
        self._know(sampled(model, text))

    @classmethod
    def known(cls, value: np.ndarray) -> Profile:
        """From what `sampled` gave before."""
        profile = cls.__new__(cls)
        profile._know(value)
        return profile

    def _know(self, value: np.ndarray) -> None:
        self.value = value
        self.t = chebyshev(len(value) - 1)
        self.sign = (-1.0) ** np.arange(len(value))
        self.sign[[0, -1]] *= 0.5
        best = gauss(512)
        self.exact = best.weight @ self(best.t)
        self.change = abs(self.exact.sum())

    def __call__(self, t: np.ndarray) -> np.ndarray:
        """Barycentric interpolation, (n, S)."""
        away = t[:, None] - self.t[None]
        away[away == 0] = 1e-300
        share = self.sign / away
        return share @ self.value / share.sum(1, keepdims=True)

    def by_gauss(self, n: int) -> np.ndarray:
        """The scores that n Gauss nodes give."""
        nodes = gauss(n)
        return nodes.weight @ self(nodes.t)

    def integral(self, low: float, high: float) -> np.ndarray:
        nodes = gauss(200)
        return (high - low) * nodes.weight @ self(low + (high - low) * nodes.t)


def drive(profile: Profile) -> tuple[int, float, float, float]:
    """Nodes of the adaptive driver on one text; its largest true error, its gap and its largest estimate, over the bound."""
    corners = torch.zeros(2, len(profile.exact), 1)
    corners[1] = 1.0
    route = Route.through(corners)
    bound = TOLERANCE * profile.change
    goal = Goal(bound, lambda value: (value.sum() - float(profile.exact.sum())).abs())
    driver = adaptive.adaptive(route, None, goal)
    answer = None
    try:
        while True:
            ask = driver.send(answer)
            if ask.integrand is None:
                answer = torch.from_numpy(ask.points.weight @ profile(ask.points.t))
            else:  # the output itself, at the ends of intervals
                outputs = np.array([profile.integral(0.0, t).sum() for t in ask.points.t])
                answer = torch.from_numpy(ask.points.weight @ outputs)[:, None]
    except StopIteration as end:
        sums = end.value
    errors = np.abs(sums.value.numpy() - profile.exact).max(), goal.gap(sums.value), sums.error.max()
    return sums.nodes, *(float(each) / bound for each in errors)


def line(label: str, nodes: list[int], errors: list[float], gaps: list[float]) -> str:
    return (
        f"{label:34s} nodes {np.mean(nodes):5.1f} (worst {max(nodes):3d})   token error median {np.median(errors):.1e} "
        f"worst {max(errors):.1e}   gap median {np.median(gaps):.1e} worst {max(gaps):.1e}"
    )


def fixed_rules(profiles: list[Profile]) -> list[str]:
    rows = []
    for name in ("midpoint", "trapezoid", "gauss"):
        for n in (9, 17, 25, 33, 50, 65, 100):
            nodes = rule(name)(n)
            rows.append(_row(f"{name} {n}", profiles, nodes.t, nodes.weight))
    for level in (3, 4, 5):
        t = np.concatenate([nested.new_nodes(each) for each in range(level + 1)])
        rows.append(_row(f"patterson {len(t)}", profiles, t, nested.weights(level)))
    return rows


def _row(label: str, profiles: list[Profile], t: np.ndarray, weight: np.ndarray) -> str:
    sums = [weight @ profile(t) for profile in profiles]
    errors = [np.abs(f - p.exact).max() / p.change for f, p in zip(sums, profiles, strict=True)]
    gaps = [abs((f - p.exact).sum()) / p.change for f, p in zip(sums, profiles, strict=True)]
    return line(label, [len(t)] * len(profiles), errors, gaps)


def drivers(profiles: list[Profile]) -> list[str]:
    """The adaptive driver under several first cuts of the line."""
    rows = []
    before = adaptive.CELLS
    cuts = [(0, 1), (0, 0.5, 1), (0, 0.25, 0.5, 0.75, 1), (0, 0.2, 0.4, 1), (0, 0.15, 0.4, 1), (0, 0.15, 0.3, 0.5, 1)]
    try:
        for cells in cuts:
            adaptive.CELLS = tuple(map(float, cells))
            results = [(n, error * TOLERANCE, gap * TOLERANCE) for n, error, gap, _ in map(drive, profiles)]
            shown = " ".join(f"{high - low:.2g}" for low, high in pairwise(cells))
            rows.append(line(f"adaptive, cells {shown}", *map(list, zip(*results, strict=True))))
    finally:
        adaptive.CELLS = before
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--model", default="sentiment")
    choices = parser.parse_args()
    with (choices.data / "sst2-sentences" / "dev.tsv").open(encoding="utf-8") as stream:
        texts = [max(row.rstrip("\n").split("\t"), key=len) for row in stream][1 : choices.texts + 1]
    model = load(choices.model)
    profiles = [Profile(model, text) for text in texts]
    print(f"{len(texts)} SST-2 sentences, {choices.model}, relative to the output's change; tolerance {TOLERANCE:g}")
    for row in [*fixed_rules(profiles), *drivers(profiles)]:
        print(row)


if __name__ == "__main__":
    main()
