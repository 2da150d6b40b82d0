"""Rules by name, a coarser sum from the same nodes, and how nodes are shared among legs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pathlens.errors import InputError
from pathlens.quadrature.gauss import gauss
from pathlens.quadrature.interpolatory import interpolatory_weights, log_moments, uniform_moments
from pathlens.quadrature.log_weight import log_weight
from pathlens.quadrature.riemann import left, midpoint, right, trapezoid
from pathlens.types import Nodes


def rule(name: str) -> Callable[[int], Nodes]:
    """The rule called `name`: a function from a node count to nodes on [0, 1] whose weights sum to 1."""
    rules = {
        "left": left,
        "right": right,
        "midpoint": midpoint,
        "trapezoid": trapezoid,
        "gauss": gauss,
        "log": log_weight,
    }
    if name not in rules:
        raise InputError(f"unknown rule {name!r}; choose one of: {', '.join(rules)}")
    return rules[name]


def coarse(nodes: Nodes, name: str) -> np.ndarray:
    """Weights of a coarser rule on some of the same nodes (0 on the others), for an error estimate.

    |Σ (w − coarse) f| costs no evaluation. gauss, log: every other node, interpolatory. Riemann rules: the
    same rule on cells two (midpoint: three) times as wide. Sum 1; one node tells nothing, so its is 0.

    Limits: this is the error of the *coarser* rule. For gauss on a smooth f it is far above the error of the
    fine sum; where f is not resolved, both can be wrong together.
    """
    rule(name)
    n = len(nodes)
    if n == 1:
        return np.zeros(1)
    weight = np.zeros(n)
    if n == 2 and name in ("midpoint", "trapezoid"):
        weight[0] = 1  # no coarser rule of its kind fits on two nodes; one of them must do
    elif name in ("gauss", "log"):
        used = slice(1, None, 2)
        t = nodes.t[used]
        moments = uniform_moments(len(t)) if name == "gauss" else log_moments(len(t))
        weight[used] = interpolatory_weights(t, moments)
    elif name == "midpoint":
        width = _odd_widths(n)
        weight[np.cumsum(width) - width // 2 - 1] = width / n
    elif name == "trapezoid":
        kept = np.append(np.arange(0, n - 1, 2), n - 1)
        cell = np.diff(kept) / (n - 1)
        weight[kept[:-1]] += cell / 2
        weight[kept[1:]] += cell / 2
    else:
        kept = np.arange(0, n, 2)
        weight[kept] = np.diff(np.append(kept, n)) / n
        if name == "right":
            weight = weight[::-1].copy()
    return weight


def _odd_widths(n: int) -> np.ndarray:
    """n cells grouped by three (a few by five or seven): an odd group has a node in its middle."""
    if n in (4, 7):
        return np.array([3, 1] if n == 4 else [7])
    fives = (0, 2, 1)[n % 3]  # 3a + 5b reaches every n but 1, 2, 4 and 7
    return np.array([3] * ((n - 5 * fives) // 3) + [5] * fives)


def allocate(n: int, share: np.ndarray) -> np.ndarray:
    """Nodes per leg, proportional to `share` (sums to 1), at least 1 each, max(n, legs) in all.

    Legs that would get less than one node get one, the others share the rest in proportion; what rounding
    leaves goes to the largest remainders.
    """
    share = np.asarray(share, dtype=np.float64)
    legs = len(share)
    if not share.any():
        share = np.ones(legs)  # nothing moves: any split will do
    total = max(n, legs)
    order = np.argsort(-share, kind="stable")
    largest_first = share[order]
    many = np.arange(1, legs + 1)
    scale = (total - legs + many) / np.cumsum(largest_first)  # if the `many` longest legs share the rest
    fits = np.flatnonzero(largest_first * scale >= 1)
    wanted = np.ones(legs)
    if len(fits):
        wanted[: fits[-1] + 1] = largest_first[: fits[-1] + 1] * scale[fits[-1]]
    count = np.floor(wanted).astype(np.int64)
    remainder = np.argsort(count - wanted, kind="stable")
    count[remainder[: total - count.sum()]] += 1
    given = np.empty(legs, dtype=np.int64)
    given[order] = count
    return given
