"""Remove and retrain: which ranking of pairs finds the terms that the labels were made of?

y = Σ c_k g(x_i, x_j) over 20 of 45 pairs. Pairs are ranked per row by a trained net's interactions; the true
terms inside the top k are ablated, nets are trained again on the new labels, and their test error tells how much
was removed: higher is better.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments.hessian_studies.nets import Many, error_of, train
from experiments.hessian_studies.rankings import pairs_of, rankings
from experiments.hessian_studies.writing import Folder, interval

FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "product": lambda a, b: a * b,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "cos of sum": lambda a, b: torch.cos(a + b),
    "tanh of sum": lambda a, b: torch.tanh(a + b),
}
SIZES = (10, 64, 64, 64, 1)
MODES = ("noise", "redraw")
TOP = (5, 10, 15, 20)
HEADER = ["function", "seed", "mode", "ranking", "k", "error", "fit"]


def run(out: Path, *, quick: bool = False, resume: bool = False) -> None:
    """`resume` keeps the sets that rows.csv already holds in whole and runs the missing ones."""
    seeds, rows, functions = (range(1), 1000, list(FUNCTIONS)[:2]) if quick else (range(5), 5000, list(FUNCTIONS))
    folder = Folder(out, "retrain")
    raw = folder.path("rows.csv")
    kept, done = whole_sets(raw) if resume and raw.exists() else ([], set())
    with raw.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(HEADER)
        writer.writerows(kept)
        stream.flush()
        for seed in seeds:
            for name in functions:
                for mode in MODES:
                    if (name, str(seed), mode) in done:
                        continue
                    for row in one_set(name, seed, mode, rows):
                        writer.writerow([name, seed, mode, *row])
                    stream.flush()
                    print(f"retrain: {name}, seed {seed}, {mode} done", flush=True)
    report(folder)


def whole_sets(raw: Path) -> tuple[list[list[str]], set[tuple[str, ...]]]:
    """Rows of the sets whose every ranking and k is there, and the names of these sets."""
    with raw.open(newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    counts = Counter(tuple(row[:3]) for row in rows if len(row) == len(HEADER))
    most = max(counts.values(), default=0)
    done = {key for key, count in counts.items() if count == most}
    return [row for row in rows if len(row) == len(HEADER) and tuple(row[:3]) in done], done


def one_set(name: str, seed: int, mode: str, count: int) -> list[list[object]]:
    """(ranking, k, test error on the ablated labels, test error of the explained net) of one data set."""
    draw = torch.Generator().manual_seed(1000 * seed + list(FUNCTIONS).index(name))
    g, width = FUNCTIONS[name], SIZES[0]
    x = torch.randn(count, width, generator=draw)
    pairs = pairs_of(width)
    true = torch.randperm(len(pairs), generator=draw)[:20]
    drawn = torch.randn(20, generator=draw)
    i, j = torch.tensor(pairs[true]).T
    scale = (g(x[:, i], x[:, j]) @ drawn).std()
    strength = (torch.full_like(drawn, float(drawn.abs().max())) if mode == "noise" else drawn) / scale
    terms = g(x[:, i], x[:, j]) * strength  # (N, 20)
    if mode == "noise":
        other = terms * torch.randn(terms.shape, generator=draw)
    else:
        fresh = torch.randn(2, count, 20, generator=draw)
        other = g(fresh[0], fresh[1]) * strength
    y = terms.sum(1)
    y, shift = y - y.mean(), y.mean()
    cut = int(0.8 * count)
    net = train(Many(SIZES, 1, seed), x[:cut], y[None, :cut], seed=seed)
    fit = float(error_of(net, x[cut:], y[None, cut:])[0])
    orders = rankings(net.one(0), x, x[:cut], seed=seed)
    centred = terms - terms.mean(0)
    oracle = np.full((count, len(pairs)), -1.0)
    oracle[:, true.numpy()] = centred.abs().numpy()
    orders["oracle"] = oracle
    names, labels = [("none", 0)], [y]
    for ranking, values in orders.items():
        place = np.argsort(np.argsort(-values, axis=1, kind="stable"), axis=1)[:, true.numpy()]
        for k in TOP:
            removed = torch.from_numpy(place < k)
            labels.append(torch.where(removed, other, terms).sum(1) - shift)
            names.append((ranking, k))
    stacked = torch.stack(labels)
    many = train(Many(SIZES, len(labels), seed), x[:cut], stacked[:, :cut], seed=seed)
    errors = error_of(many, x[cut:], stacked[:, cut:])
    return [[ranking, k, float(error), fit] for (ranking, k), error in zip(names, errors, strict=True)]


def report(folder: Folder) -> None:
    """Mean over k per set, then over seeds; differences from IH are paired by set."""
    import pandas

    frame = pandas.read_csv(folder.path("rows.csv"))
    kept = frame[frame.ranking != "none"]
    per_set = kept.groupby(["mode", "function", "seed", "ranking"]).error.mean().unstack("ranking")
    table = per_set.groupby(["mode", "function"]).mean().round(3)
    table = table[table.loc["noise"].mean().sort_values(ascending=False).index]
    table.to_csv(folder.path("table.csv"))
    lines = []
    for mode in MODES:
        curve = per_set.loc[mode]
        for other in curve.columns.drop("IH"):
            low, mean, high = interval((curve["IH"] - curve[other]).to_numpy())
            lines.append({"mode": mode, "IH minus": other, "mean": mean, "low": low, "high": high})
    frame = pandas.DataFrame(lines).round(4)
    frame.to_csv(folder.path("paired.csv"), index=False)
    means = {f"{mode}: {name}": float(value) for mode in MODES for name, value in table.loc[mode].mean().items()}
    folder.bars("errors.png", means, "Remove and retrain: test error on ablated labels (higher is better)")
    folder.say(
        "Remove and retrain: mean test error over k and seeds, higher is better.\n"
        f"{table.to_string()}\n\nIH minus each other ranking, paired by data set, 95 % interval:\n{frame.to_string(index=False)}"
    )
