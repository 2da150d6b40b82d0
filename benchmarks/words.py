"""A whole UDIG explanation against the definition, and every phrase's IDG against an integral of its own.

Same model, same points, same run, alternating, medians of the rounds.

    python benchmarks/words.py [--rounds 3] [--threads 1]

UDIG: the definition searches each token's path step by step over the whole table and takes one gradient call per
point of the left sum (the literal path search of benchmarks/word_paths.py); ours is `rule="left"` with a fresh
cache, so both have the same points. IDG: the definition takes one integral per group, node by node, with the nodes
that one run of ours needed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pathlens as pl
from benchmarks.word_paths import literal
from pathlens.path import PRESETS
from pathlens.quadrature import gauss
from pathlens.text.adapter import Case, Request
from pathlens.text.load import load
from pathlens.units.trees import read_tree, tree_groups

SENTENCE = "A gorgeous, witty and seductive movie, not really funny but moving."
TREE_SENTENCE = "the film is not really very funny but it moves me ."
TREE = (
    "(S (NP (DT the) (NN film)) (VP (VBZ is) (ADJP (RB not) (ADJP (RB really) (ADJP (RB very) (JJ funny))))) "
    "(CC but) (S (NP it) (VP (VBZ moves) (PRP me))) (. .))"
)


def gradient_at(case: Case, point: torch.Tensor) -> torch.Tensor:
    point = point[None].clone().requires_grad_()
    return torch.autograd.grad(case.score(point, [case])[0], point)[0][0]


def points_by_definition(case: Case, setting: str) -> torch.Tensor:
    """Path by path, then midpoints inserted f times: (N + 1, S, d)."""
    settings, ends = PRESETS[setting], case.ends
    table = ends.vocabulary.table.double().numpy()
    columns = []
    for token in range(len(ends.end)):
        end, start = ends.end[token].double().numpy(), ends.start[token].double().numpy()
        if ends.held[token]:
            columns.append(np.tile(end, (settings.steps + 2, 1)))
            continue
        _, inner = literal(table, ends.ids[token], ends.start_ids[token], settings)
        columns.append(np.concatenate([[start], inner, [end]]))
    points = np.stack(columns, axis=1)
    for _ in range(settings.factor):
        middle = (points[:-1] + points[1:]) / 2
        inserted = np.stack([points[:-1], middle], axis=1).reshape(-1, *points.shape[1:])
        points = np.concatenate([inserted, points[-1:]])
    return torch.from_numpy(points).to(ends.end.dtype)


def left_sum(case: Case, way: torch.Tensor) -> np.ndarray:
    """Point by point: Σ_k ∂F(x^k)·(x^{k+1} − x^k)."""
    total = torch.zeros(way.shape[1], dtype=torch.float64)
    for k in range(len(way) - 1):
        total += (gradient_at(case, way[k]) * (way[k + 1] - way[k])).sum(-1).double()
    return total.numpy()


def idg_by_definition(case: Case, members: np.ndarray, nodes: int) -> np.ndarray:
    """∫ ∇F·δ_G/‖δ_G‖ for every group, each with its own passes."""
    rule = gauss(nodes)
    start, end = case.ends.start, case.ends.end
    found = []
    for group in torch.from_numpy(members):
        direction = torch.where(group[:, None], end - start, 0.0)
        direction = direction / direction.norm()
        total = 0.0
        for t, weight in zip(rule.t, rule.weight, strict=True):
            slope = gradient_at(case, start + float(t) * (end - start))
            total += float(weight) * float((slope * direction).sum())
        found.append(total)
    return np.array(found)


def alternate(
    rounds: int, ours: Callable[[], Any], theirs: Callable[[], Any]
) -> tuple[float, float, Any, Any]:
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    results = {}
    for _ in range(rounds):
        for name, work in (("ours", ours), ("theirs", theirs)):
            begun = time.perf_counter()
            results[name] = work()
            times[name].append(time.perf_counter() - begun)
    return (
        statistics.median(times["ours"]),
        statistics.median(times["theirs"]),
        results["ours"],
        results["theirs"],
    )


def udig_row(model: Any, setting: str, rounds: int) -> dict[str, Any]:
    case = model.case(SENTENCE, request=Request())
    case.ends.vocabulary.table  # both find the table read  # noqa: B018
    fast, slow, result, twin = alternate(
        rounds,
        lambda: pl.explain(model, SENTENCE, method="udig", preset=setting, rule="left"),
        lambda: left_sum(case, points_by_definition(case, setting)),
    )
    apart = float(np.abs(result.scores - twin).max() / np.abs(twin).max())
    best = pl.explain(model, SENTENCE, method="udig", preset=setting)
    print(f"  {setting}: scores agree to {apart:.1e} of the largest", flush=True)
    return {
        "work": f"{setting}, left rule, {result.certificate.nodes} points, {len(result.tokens)} tokens",
        "against": "the definition, one gradient call per point",
        "ratio": slow / fast,
        "goal": 5.0,
        "ours_seconds": fast,
        "theirs_seconds": slow,
        "ours_error": float(np.abs(result.scores - best.scores).max()),
        "theirs_error": float(np.abs(twin - best.scores).max()),
    }


def sum_row(model: Any, setting: str, rounds: int) -> dict[str, Any]:
    """The sum alone, paths known to both: what batching wins."""
    case = model.case(SENTENCE, request=Request())
    explainer = pl.Explainer(model, method="udig", preset=setting, rule="left")
    explainer(SENTENCE)
    way = points_by_definition(case, setting)
    fast, slow, result, twin = alternate(rounds, lambda: explainer(SENTENCE), lambda: left_sum(case, way))
    best = pl.explain(model, SENTENCE, method="udig", preset=setting)
    return {
        "work": f"{setting}, left rule, {result.certificate.nodes} points, paths known",
        "against": "one gradient call per point, points given",
        "ratio": slow / fast,
        "goal": 1.0,
        "ours_seconds": fast,
        "theirs_seconds": slow,
        "ours_error": float(np.abs(result.scores - best.scores).max()),
        "theirs_error": float(np.abs(twin - best.scores).max()),
    }


def idg_row(model: Any, rounds: int) -> dict[str, Any]:
    case = model.case(TREE_SENTENCE, request=Request())
    groups = tree_groups(read_tree(TREE, TREE_SENTENCE), case.offsets, case.special)
    nodes = pl.explain(model, TREE_SENTENCE, method="idg", tree=TREE).certificate.nodes
    fast, slow, tree, twin = alternate(
        rounds,
        lambda: pl.explain(model, TREE_SENTENCE, method="idg", tree=TREE),
        lambda: idg_by_definition(case, groups.members, nodes),
    )
    best = pl.explain(model, TREE_SENTENCE, method="idg", tree=TREE, rule="gauss", n_steps=256)
    exact = np.array([node.signed for node in best.nodes])
    return {
        "work": f"idg, a tree of {len(tree.nodes)} nodes ({len(groups.members)} groups), {nodes} nodes on the line",
        "against": "one integral per group",
        "ratio": slow / fast,
        "goal": 10.0,
        "ours_seconds": fast,
        "theirs_seconds": slow,
        "ours_error": float(np.abs([node.signed for node in tree.nodes] - exact).max()),
        "theirs_error": float(np.abs(twin[list(groups.group)] - exact).max()),
    }


def run(rounds: int = 3, model: str = "sentiment", only: str | None = None) -> list[dict[str, Any]]:
    """Rows of the benchmark table."""
    warnings.simplefilter("ignore", pl.ConvergenceWarning)  # the left sums do not settle; that is the point
    loaded = load(model)
    rows = {
        "maxcount": lambda: udig_row(loaded, "udig-maxcount", rounds),
        "greedy": lambda: udig_row(loaded, "udig-greedy", rounds),
        "sum": lambda: sum_row(loaded, "udig-maxcount", rounds),
        "idg": lambda: idg_row(loaded, rounds),
    }
    with loaded.quiet():
        return [make() for name, make in rows.items() if only in (None, name)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", default="sentiment")
    parser.add_argument("--only", choices=("maxcount", "greedy", "sum", "idg"))
    choice = parser.parse_args()
    torch.set_num_threads(choice.threads)
    for row in run(choice.rounds, choice.model, choice.only):
        print(
            f"{row['work']}\n  against {row['against']}: {row['ratio']:.1f}× (goal {row['goal']:.0f}×), "
            f"{row['ours_seconds']:.2f} s against {row['theirs_seconds']:.2f} s, "
            f"error {row['ours_error']:.1e} against {row['theirs_error']:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
