"""Integrated Hessians beside the double-sampling estimator of the paper: same model, same products, same run.

`python benchmarks/hessians.py` (--quick: one sentence; --whole: every point of the grids is timed). Both sides use
the same Hessian–vector products; only where and how often they are taken differs. The published estimator takes a
k × k grid of (α, β), end points included; the midpoint grid is the fairer opponent; k and n are the smallest on
their ladders that reach the error asked for. Error of a matrix: max |Γ̂ − Γ| / max |Γ|. Γ and the grids' sums come
from M(u) = u·H + diag g known at 192 Gauss nodes and interpolated between them; ours is always a real run (the log
rule would integrate the interpolant exactly). The grids' time is measured on 48 of their points, alternating with
ours, and scaled to all of them.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pathlens as pl
from pathlens.explain import Explainer
from pathlens.integrand import Hessian
from pathlens.integrate.drive import Ask
from pathlens.integrate.loop import Job, run
from pathlens.integrate.memory import Limits
from pathlens.methods import moving_of
from pathlens.path.line import line
from pathlens.quadrature import gauss, log_weight
from pathlens.text.adapter import Request
from pathlens.types import Points

ERRORS = (3e-2, 1e-3)  # matrix errors that both sides must reach
OURS = (8, 12, 16, 24, 32, 48, 64, 96, 128)
SIDES = (4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128)
SAMPLE = 192  # Gauss nodes through which M(u) is known everywhere
TIMED = 48  # points of a grid that are timed


class Bench:
    """One sentence, and sums of M(u) over any places u."""

    def __init__(self, model: Any, text: str) -> None:
        self.explainer = Explainer(model)
        self.case = self.explainer.model.case(text, request=Request())
        self.members = moving_of(self.case, self.explainer._units(self.case, "token"))[0]

    def sums(self, u: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float]:
        """(rows of weight, U, U) and the seconds it took."""

        def work() -> Any:
            zeros = np.zeros(len(u), dtype=int)
            return (yield Ask(Points(line(self.case.ends), zeros, u, np.atleast_2d(weight)), Hessian()))

        job = Job(self.case, self.members, work())
        with self.explainer.model.quiet():
            started = time.perf_counter()
            run([job], Limits())
            seconds = time.perf_counter() - started
        if job.error:
            raise job.error
        return job.result.numpy(), seconds


def log_rule(n: int) -> tuple[np.ndarray, np.ndarray]:
    nodes = log_weight(n)
    return nodes.t, nodes.weight


def grid(k: int, *, end_points: bool) -> tuple[np.ndarray, np.ndarray]:
    """u = αβ on the k × k grid, all of equal weight, as published."""
    side = np.linspace(0, 1, k) if end_points else (np.arange(k) + 0.5) / k
    return np.outer(side, side).ravel(), np.full(k * k, 1 / k**2)


def interpolation(u: np.ndarray, nodes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(len(u), len(nodes)): values at Gauss nodes → values at u, by the barycentric formula."""
    x = 2 * nodes - 1
    bary = (-1.0) ** np.arange(len(x)) * np.sqrt((1 - x**2) * weight)
    gap = u[:, None] - nodes[None]
    exact = np.abs(gap) < 1e-14
    share = bary / np.where(exact, 1.0, gap)
    share = np.where(exact.any(1, keepdims=True), exact.astype(float), share)
    return share / share.sum(1, keepdims=True)


def first_below(errors: Callable[[int], float], ladder: tuple[int, ...], goal: float) -> tuple[int, float]:
    for step in ladder:
        if (error := errors(step)) <= goal:
            return step, error
    return step, error


def compare(bench: Bench, *, whole: bool = False) -> list[dict[str, Any]]:
    """Ours against both grids, each at the smallest size that reaches the error; times of real runs."""
    nodes = gauss(SAMPLE)
    known, _ = bench.sums(nodes.t, np.eye(SAMPLE))
    u, weight = log_rule(256)
    exact = np.einsum("n,nij->ij", weight @ interpolation(u, nodes.t, nodes.weight), known)
    scale = np.abs(exact).max()

    def error(u: np.ndarray, weight: np.ndarray) -> float:
        share = weight @ interpolation(u, nodes.t, nodes.weight)
        return float(np.abs(np.einsum("n,nij->ij", share, known) - exact).max() / scale)

    def ours(n: int) -> float:
        return float(np.abs(bench.sums(*log_rule(n))[0][0] - exact).max() / scale)

    rows = []
    for goal in ERRORS:
        n, ours_error = first_below(ours, OURS, goal)
        for name, ends in (("double sampling, k × k with end points", True), ("midpoint grid, k × k", False)):
            k, theirs_error = first_below(
                lambda step, ends=ends: error(*grid(step, end_points=ends)), SIDES, goal
            )
            u, weight = grid(k, end_points=ends)
            timed = slice(None) if whole else slice(0, None, max(1, len(u) // TIMED))
            _, seconds = bench.sums(u[timed], weight[timed])
            _, ours_seconds = bench.sums(*log_rule(n))
            rows.append(
                {
                    "work": f"token × token interactions to error {goal:g}, {n} nodes",
                    "against": f"{name}, k = {k}",
                    "ratio": seconds * len(u) / len(u[timed]) / ours_seconds,
                    "goal": 15.0,
                    "ours_seconds": ours_seconds,
                    "theirs_seconds": seconds * len(u) / len(u[timed]),
                    "ours_error": ours_error,
                    "theirs_error": theirs_error,
                }
            )
    return rows


def gaps_at_40(model: Any, texts: list[str]) -> dict[str, Any]:
    """Median relative gap with 40 nodes; the largest asymmetry and the worst row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [pl.explain(model, text, method="ih", n_steps=40) for text in texts]
    gaps = [result.certificate.relative_gap for result in results]
    return {
        "work": f"relative gap at 40 nodes, median of {len(texts)} sentences of 13 tokens",
        "against": "goal 1e-2",
        "ratio": 1e-2 / float(np.median(gaps)),
        "goal": 1.0,
        "ours_seconds": float(np.mean([result.meta["seconds"] for result in results])),
        "theirs_seconds": float("nan"),
        "ours_error": float(np.median(gaps)),
        "theirs_error": 1e-2,
        "worst_total_gap": float(max(result.certificate.gap for result in results)),
        "worst_relative_gap": float(max(gaps)),
        "worst_row_gap": float(max(max(result.certificate.rows) for result in results)),
        "asymmetry": float(max(result.meta["asymmetry"] for result in results)),
    }


def cost_per_node(model: Any, text: str) -> dict[str, Any]:
    """Seconds per node against the number of units: the slope's share of the cost of all units (1: proportional)."""
    bench = Bench(model, text)
    units = len(bench.members)
    u, weight = log_rule(8)

    def seconds(count: int) -> float:
        integrand = Hessian(tuple(range(count)))

        def work() -> Any:
            return (
                yield Ask(Points(line(bench.case.ends), np.zeros(8, dtype=int), u, weight[None]), integrand)
            )

        best = float("inf")
        with bench.explainer.model.quiet():
            for _ in range(3):
                started = time.process_time()
                run([Job(bench.case, bench.members, work())], Limits())
                best = min(best, time.process_time() - started)
        return best / 8

    half, whole = seconds(units // 2), seconds(units)
    return {
        "work": f"cost per node, {units} units",
        "against": f"{units // 2} units",
        "ratio": whole / half,
        "goal": units / (units // 2),
        "ours_seconds": whole,
        "theirs_seconds": half,
        "ours_error": float("nan"),
        "theirs_error": float("nan"),
    }


def memory_128(model: Any, text: str, budget: int = 1 << 30) -> dict[str, Any]:
    """128 tokens, two nodes: how far the process grew, against the budget it was given."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        result = pl.explain(
            model, text, method="ih", n_steps=2, memory_budget=budget, interaction_index=list(range(1, 65))
        )
        seconds = time.perf_counter() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return {
        "work": f"memory, {len(result.tokens)} tokens, 64 directions",
        "against": f"budget of {budget >> 20} MiB",
        "ratio": budget / max(grown, 1),
        "goal": 1.0,
        "ours_seconds": seconds,
        "theirs_seconds": float("nan"),
        "ours_error": float(grown),
        "theirs_error": float(budget),
    }


def sentences(data: Path) -> list[str]:
    lines = (data / "sst2-sentences" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    header = lines[0].split("\t")
    column = header.index("sentence") if "sentence" in header else 0
    return [line.split("\t")[column] for line in lines[1:]]


def rows(
    data: Path = Path("../shared/data"), *, quick: bool = False, whole: bool = False
) -> list[dict[str, Any]]:
    """Every figure of this benchmark."""
    torch.set_num_threads(1)
    model = pl.Explainer("sentiment").model
    found = sentences(data)
    thirteen = [text for text in found if len(model.tokenizer(text)["input_ids"]) == 13][:20]
    measured = [compare(Bench(model, text), whole=whole) for text in thirteen[: 1 if quick else 5]]
    result = []
    for same in zip(*measured, strict=True):
        middle = sorted(same, key=lambda row: row["ratio"])[len(same) // 2]
        result.append({**middle, "work": f"{middle['work']}, median of {len(same)} sentences of 13 tokens"})
    result.append(gaps_at_40(model, thirteen[: 5 if quick else 20]))
    result.append(cost_per_node(model, thirteen[0]))
    if not quick:
        long = " ".join(found[:12]).split()
        while len(model.tokenizer(" ".join(long))["input_ids"]) > 128:
            long = long[:-1]
        result.append(memory_128(model, " ".join(long)))
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    choice = parser.parse_args()
    for row in rows(choice.data, quick=choice.quick, whole=choice.whole):
        print(
            {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()},
            flush=True,
        )
