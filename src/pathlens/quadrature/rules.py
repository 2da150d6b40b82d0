"""Rules by name: nodes on a leg and their weights, a coarser sum from the same nodes, and nodes shared among legs.

∫₀¹ f ≈ Σ w f(t), the weights summing to 1. Gauss–Legendre for smooth integrands. Sums over equal cells (left, right,
midpoint, trapezoid) to reproduce published figures and for integrands with kinks.

Limits: left and right err like 1/n, midpoint and trapezoid like 1/n² where f is smooth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import Float, Int

from pathlens.errors import InputError
from pathlens.quadrature.orthogonal import gauss_rule, interpolatory_weights, legendre_step, log_moments, log_weight
from pathlens.types import Nodes


def left(n: int) -> Nodes:
    """t = i/n, weight 1/n, i = 0 … n−1."""
    return Nodes(np.arange(n) / n, np.full(n, 1 / n))


def right(n: int) -> Nodes:
    """t = i/n, weight 1/n, i = 1 … n."""
    return Nodes(np.arange(1, n + 1) / n, np.full(n, 1 / n))


def midpoint(n: int) -> Nodes:
    """t = (i + ½)/n, weight 1/n, i = 0 … n−1."""
    return Nodes((np.arange(n) + 0.5) / n, np.full(n, 1 / n))


def trapezoid(n: int) -> Nodes:
    """t = i/(n−1), weight 1/(n−1), half of it at both ends; one node alone is the midpoint.

    n counts nodes, not cells: that is what a run pays for.
    """
    if n == 1:
        return midpoint(1)
    weight = np.full(n, 1 / (n - 1))
    weight[[0, -1]] /= 2
    return Nodes(np.arange(n) / (n - 1), weight)


def gauss(n: int) -> Nodes:
    """Gauss–Legendre: t the zeros of the Legendre polynomial P_n(2t − 1), exact for polynomials to degree 2n − 1.

    Limits: the error falls like ρ^(−2n), ρ set by the nearest singularity of f off the path. With a narrow
    feature (ρ near 1) nothing is gained until the nodes resolve it, and the sum can be right by luck before.
    """
    t, weight = _nodes_and_weights(n)
    return Nodes(t.copy(), weight.copy())


@cache
def _nodes_and_weights(n: int) -> tuple[Float[np.ndarray, "{n}"], Float[np.ndarray, "{n}"]]:
    return gauss_rule(np.full(n, 0.5), legendre_step(n - 1))


def rule(name: str) -> Callable[[int], Nodes]:
    """The rule called `name`: a function from a node count to nodes on [0, 1] whose weights sum to 1."""
    every = (left, right, midpoint, trapezoid, gauss)
    rules = {each.__name__: each for each in every} | {"log": log_weight}
    if name not in rules:
        raise InputError(f"unknown rule {name!r}; choose one of: {', '.join(rules)}")
    return rules[name]


def coarse(nodes: Nodes, name: str) -> Float[np.ndarray, "n"]:
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
        moments = np.eye(1, len(t))[0] if name == "gauss" else log_moments(len(t))  # ∫ p_k dt is 1, 0, 0, …
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


def _odd_widths(n: int) -> Int[np.ndarray, "groups"]:
    """n cells grouped by three (a few by five or seven): an odd group has a node in its middle."""
    if n in (4, 7):
        return np.array([3, 1] if n == 4 else [7])
    fives = (0, 2, 1)[n % 3]  # 3a + 5b reaches every n but 1, 2, 4 and 7
    return np.array([3] * ((n - 5 * fives) // 3) + [5] * fives)


def allocate(n: int, share: Float[np.ndarray, "L"]) -> Int[np.ndarray, "L"]:
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
