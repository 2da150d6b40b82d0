"""Nested rules (Gauss–Patterson): each level keeps the nodes of the level before, so refining throws no evaluation away.

The n + 1 nodes added to n are placed for the highest degree of exactness, (3n + 1)/2 for a rule of n ≥ 3 nodes; all
weights are positive. They crowd towards both ends and leave gaps in the middle 15 % wider than Gauss's.

Limits: |I_n − I_below| is the error of the level below. It tells nothing about a feature both levels miss.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float

from pathlens.errors import InputError

COUNTS: tuple[int, ...] = (1, 3, 7, 15, 31, 63)  # past that, halving an interval wins more than adding nodes


def new_nodes(level: int) -> Float[np.ndarray, "new"]:
    """The t ∈ (0, 1) that first appear at `level`, ascending: 2^(level − 1) pairs, at level 0 the middle."""
    _check(level)
    if level == 0:
        return np.array([0.5])
    x = _numbers(NODES)[2 ** (level - 1) : 2**level]
    return np.concatenate([(1 - x[::-1]) / 2, (1 + x) / 2])


def weights(level: int) -> Float[np.ndarray, "n"]:
    """Weights of the whole rule at `level`, aligned with new_nodes(0), …, new_nodes(level) joined; sum 1."""
    _check(level)
    first = 2**level - 1  # 1 + 2 + 4 + … weights of the levels before
    half = _numbers(WEIGHTS)[first : first + 2**level]
    parts = [half[:1]]
    for l in range(1, level + 1):
        part = half[2 ** (l - 1) : 2**l]
        parts += [part[::-1], part]
    return np.concatenate(parts)


@cache
def _numbers(table: str) -> Float[np.ndarray, "all"]:
    return np.array(table.split(), dtype=np.float64)


def _check(level: int) -> None:
    if not 0 <= level < len(COUNTS):
        raise InputError(f"no nested level {level}: levels 0 to {len(COUNTS) - 1} have {COUNTS} nodes")


# Printed by experiments/patterson_tables.py. NODES: the nodes x ≥ 0 on [−1, 1] in the order of their levels,
# 1, 1, 2, 4, 8, … of them. WEIGHTS: level by level, 1, 2, 4, 8, … of them: the weights on [0, 1] of its nodes x ≥ 0.
NODES = """
0.0
0.7745966692414834
0.43424374934680254 0.9604912687080203
0.2233866864289669 0.6211029467372264 0.888459232872257 0.993831963212755
0.11248894313318662 0.3311353932579768 0.5313197436443756 0.7024962064915271 0.8367259381688688
0.9296548574297401 0.9815311495537401 0.9990981249676676
0.05634431304659279 0.16823525155220748 0.2777498220218243 0.38335932419873037 0.48361802694584105
0.5771957100520458 0.6629096600247806 0.7397560443526947 0.8069405319502176 0.8639079381936905
0.9103711569570043 0.9463428583734029 0.9721828747485818 0.9886847575474295 0.997206259372222 0.9998728881203576
"""
WEIGHTS = """
1.0
0.4444444444444444 0.2777777777777778
0.22545826932923707 0.13424404493416672 0.20069870738798112 0.05232811301323363
0.11275524989910335 0.06720762762189211 0.10031426468849451 0.02580164149853987 0.10957842920079375
0.0857559545681957 0.04646359765756227 0.00850085981497013
0.056377628360384346 0.03360387714799535 0.05015713930589779 0.012903799048088327 0.05478921052796232
0.04287796002499517 0.023231446630878994 0.004217282869660553 0.05597843651047673 0.0528349467901174
0.046813554990632236 0.038439810249501764 0.02848975474706168 0.01797855165356466 0.008223024927193906
0.0012723903957809373
0.028188814180192357 0.016801938574103864 0.02507856965294977 0.006451900050175633 0.027394605263981433
0.021438980012503866 0.011615723319955135 0.0021088152207794273 0.02798921825523816 0.02641747339505826
0.023406777495314005 0.019219905124727765 0.014244877372916775 0.008989275784064134 0.004111503978617965
0.000632578278115034 0.02813884991562715 0.02774070217827968 0.02695274966763303 0.025791626976024228
0.0242821652033366 0.0224572658268161 0.02035775505847216 0.018032216390391285 0.015536775555843983
0.012934839663607374 0.010297116957956355 0.007703375233279749 0.005249123454810661 0.003057753411058623
0.0012895248973428441 0.00018161074092276532
"""
