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
TREE_SENTENCE = "the film is not really funny but moving ."
TREE = (
    "(S (NP (DT the) (NN film)) (VP (VBZ is) (ADJP (ADJP (RB not) (ADJP (RB really) (JJ funny))) "
    "(ADJP (CC but) (JJ moving)))) (. .))"
)


def gradient_at(case: Case, point: torch.Tensor) -> torch.Tensor:
    point = point[None].clone().requires_grad_()
    return torch.autograd.grad(case.score(point, [case])[0], point)[0][0]


def udig_by_definition(case: Case, setting: str) -> np.ndarray:
    """Path by path, point by point: Σ_k ∂F(x^k)·(x^{k+1} − x^k)."""
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
        points = np.concatenate(
            [np.stack([points[:-1], middle], axis=1).reshape(-1, *points.shape[1:]), points[-1:]]
        )
    way = torch.from_numpy(points).to(ends.end.dtype)
    total = torch.zeros(len(ends.end), dtype=torch.float64)
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
        lambda: udig_by_definition(case, setting),
    )
    apart = float(np.abs(result.scores - twin).max() / np.abs(twin).max())
    best = pl.explain(model, SENTENCE, method="udig", preset=setting)
    print(f"  {len(result.tokens)} tokens; scores agree to {apart:.1e} of the largest")
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


def run(rounds: int = 3, model: str = "sentiment") -> list[dict[str, Any]]:
    """Rows of the benchmark table."""
    warnings.simplefilter("ignore", pl.ConvergenceWarning)  # the left sums do not settle; that is the point
    loaded = load(model)
    with loaded.quiet():
        rows = [udig_row(loaded, setting, rounds) for setting in ("udig-maxcount", "udig-greedy")]
        return [*rows, idg_row(loaded, rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", default="sentiment")
    choice = parser.parse_args()
    torch.set_num_threads(choice.threads)
    for row in run(choice.rounds, choice.model):
        print(
            f"{row['work']}\n  against {row['against']}: {row['ratio']:.1f}× (goal {row['goal']:.0f}×), "
            f"{row['ours_seconds']:.2f} s against {row['theirs_seconds']:.2f} s, "
            f"error {row['ours_error']:.1e} against {row['theirs_error']:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
