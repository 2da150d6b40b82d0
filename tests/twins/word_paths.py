"""DIG and UDIG paths, loop by loop from their definition. Slow on purpose: nothing shared, nothing clever."""

import numpy as np


def monotone(a, start, upper, steps):
    point = np.empty(len(a))
    for i in range(len(a)):
        kept = min(start[i], upper[i]) <= a[i] <= max(start[i], upper[i])
        point[i] = a[i] if kept else upper[i] - (upper[i] - start[i]) / steps
    return point


def kept_count(a, start, upper):
    return sum(min(s, u) <= x <= max(s, u) for x, s, u in zip(a, start, upper, strict=True))


def cell_count(a, start, end, j, steps):
    count = 0
    for x, s, e in zip(a, start, end, strict=True):
        one, other = s + (j - 0.5) / (steps + 1) * (e - s), s + (j + 0.5) / (steps + 1) * (e - s)
        count += min(one, other) <= x <= max(one, other)
    return count


def nearest(table, point, count):
    """Ids of the `count` nearest rows: float64 distances to all of them, ties by lower id."""
    distance = ((table - point) ** 2).sum(axis=1)
    return np.argsort(distance, kind="stable")[:count]


def word_path(table, token, baseline, *, method, strategy, steps, neighbours, end=None, start=None):
    """(anchor ids, points) from the baseline to the text, ends left out. Rows may stand in for ids."""
    table = np.asarray(table, dtype=np.float64)
    end = table[token] if end is None else end
    start = table[baseline] if start is None else start
    used, anchors, points = {token}, [], []
    anchor, point, arrived = end, end, False
    for t in range(1, steps + 1):
        j = steps + 1 - t
        line_point = start + j / (steps + 1) * (end - start)
        query = anchor if method == "dig" else line_point
        candidates = [i for i in nearest(table, query, neighbours) if i != baseline and i not in used]
        chosen = None
        if not arrived:
            chosen = _best(table, candidates, start, end, anchor, j, steps, strategy)
        if chosen is None:
            arrived = strategy != "grid"
            anchor, name = start, baseline
        else:
            anchor, name = table[chosen], chosen
            used.add(chosen)
        anchors.append(-1 if name is None else int(name))
        if strategy == "grid":
            point = _gridded(anchor, start, end, j, steps)
        else:
            point = monotone(anchor, start, point, steps)
        points.append(point)
    return anchors[::-1], np.array(points[::-1])


def _best(table, candidates, start, end, anchor, j, steps, strategy):
    best, best_score = None, None
    for i in candidates:  # nearest first, and only a strictly better one replaces it
        a = table[i]
        if strategy == "greedy":
            score = ((a - monotone(a, start, anchor, steps)) ** 2).sum()
        elif strategy == "maxcount":
            score = -kept_count(a, start, anchor)
        else:
            score = -cell_count(a, start, end, j, steps)
        if best is None or score < best_score:
            best, best_score = i, score
    return best


def _gridded(a, start, end, j, steps):
    point = np.empty(len(a))
    for i in range(len(a)):
        inside = cell_count(a[i : i + 1], start[i : i + 1], end[i : i + 1], j, steps) == 1
        point[i] = a[i] if inside else start[i] + j / (steps + 1) * (end[i] - start[i])
    return point
