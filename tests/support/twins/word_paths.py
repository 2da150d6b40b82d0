"""DIG and UDIG paths, step by step and candidate by candidate from their definition: nothing shared, nothing clever.

Coordinates are handled by numpy at once, so that the benchmarks, which use this too, have a fair opponent.
"""

import numpy as np


def between(a, one, other):
    return (a >= np.minimum(one, other)) & (a <= np.maximum(one, other))


def monotone(a, start, upper, steps):
    return np.where(between(a, start, upper), a, upper - (upper - start) / steps)


def kept_count(a, start, upper):
    return between(a, start, upper).sum()


def in_cell(a, start, end, j, steps):
    one, other = (start + (j - 0.5) / (steps + 1) * (end - start), start + (j + 0.5) / (steps + 1) * (end - start))
    return between(a, one, other)


def nearest(table, point, count):
    """Ids of the `count` nearest rows: float64 distances to all of them, ties by lower id."""
    distance = ((table - point) ** 2).sum(axis=1)
    return np.argsort(distance, kind="stable")[:count]


def others(table, word, count):
    """The same of a word of the table, which is no neighbour of itself: as in scikit-learn's graph, the authors' own."""
    return [i for i in nearest(table, table[word], count + 1) if i != word][:count]


def word_path(table, token, baseline, *, method, strategy, steps, neighbours, end=None, start=None):
    """(anchor ids, points) from the baseline to the text, ends left out. Rows may stand in for ids."""
    table = np.asarray(table, dtype=np.float64)
    end = table[token] if end is None else end
    start = table[baseline] if start is None else start
    used, anchors, points = {token}, [], []
    anchor, point, arrived, word = end, end, False, token
    for t in range(1, steps + 1):
        j = steps + 1 - t
        line_point = start + j / (steps + 1) * (end - start)
        if method == "dig" and word is not None:
            near = others(table, word, neighbours)
        else:
            near = nearest(table, anchor if method == "dig" else line_point, neighbours)
        candidates = [i for i in near if i != baseline and i not in used]
        chosen = None
        if not arrived:
            chosen = _best(table, candidates, start, end, anchor, j, steps, strategy)
        if chosen is None:
            arrived = strategy != "grid"
            anchor, name = start, baseline
        else:
            anchor, name = table[chosen], chosen
            used.add(chosen)
        word = name
        anchors.append(-1 if name is None else int(name))
        point = _gridded(anchor, start, end, j, steps) if strategy == "grid" else monotone(anchor, start, point, steps)
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
            score = -in_cell(a, start, end, j, steps).sum()
        if best is None or score < best_score:
            best, best_score = i, score
    return best


def _gridded(a, start, end, j, steps):
    return np.where(in_cell(a, start, end, j, steps), a, start + j / (steps + 1) * (end - start))
