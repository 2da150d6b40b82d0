"""Prints the tables of `pathlens/quadrature/nested.py`: Gauss–Patterson nodes and weights.

From n nodes with node polynomial G, the n + 1 nodes to add are the zeros of the polynomial E of degree n + 1
with ∫ G E t^k = 0 for k = 0 … n (Patterson 1968). G is odd and E even, so E = Σ c_j P_{2j}, and only the odd
Legendre polynomials have to be asked: (n + 1)/2 linear equations, solved with many digits because doubles
do not suffice. The new nodes lie one between each two neighbours of the old ones.

    python experiments/patterson_tables.py [levels]        (mpmath; 6 levels, 63 nodes)
"""

from __future__ import annotations

import sys
from itertools import pairwise

from mpmath import mp, mpf

Number = mpf
DIGITS = 250  # 90 are too few for the step from 255 to 511 nodes
TABLES = '''NODES = """
{nodes}
"""
WEIGHTS = """
{weights}
"""
'''


def legendre_rows(x: Number, count: int) -> list[Number]:
    """P_0(x) … P_{count−1}(x)."""
    rows = [mpf(1), x]
    for k in range(1, count - 1):
        rows.append(((2 * k + 1) * x * rows[k] - k * rows[k - 1]) / (k + 1))
    return rows[:count]


def positive_gauss(n: int) -> list[tuple[Number, Number]]:
    """The positive nodes and the weights of the n-point Gauss–Legendre rule, n even."""
    pairs = []
    for i in range(1, n // 2 + 1):
        x = mp.cos(mp.pi * (i - mpf(1) / 4) / (n + mpf(1) / 2))
        for _ in range(10):  # Newton doubles the digits of a start good to three
            rows = legendre_rows(x, n + 1)
            slope = n * (rows[n - 1] - x * rows[n]) / (1 - x * x)
            x -= rows[n] / slope
        pairs.append((x, 2 / ((1 - x * x) * slope**2)))
    return pairs


def extension(known: list[Number]) -> list[Number]:
    """The positive nodes to add to the rule whose positive nodes are `known` (0 is a node too)."""
    known = sorted(known)
    n = 2 * len(known) + 1
    size = (n + 1) // 2
    matrix = [[mpf(0)] * (size + 1) for _ in range(size)]
    for x, weight in positive_gauss(2 * n + 2):  # exact to degree 4n + 3; the integrands have 3n + 1
        rows = legendre_rows(x, n + 2)
        value = weight * x
        for node in known:
            value *= 4 * (x - node) * (x + node)  # 4: keeps the product of n factors near 1
        for i in range(size):
            scaled = value * rows[2 * i + 1]
            line = matrix[i]
            for j in range(size + 1):
                line[j] += scaled * rows[2 * j]
    left = mp.matrix([line[:size] for line in matrix])
    right = mp.matrix([-line[size] for line in matrix])
    coefficient = [*mp.lu_solve(left, right), mpf(1)]

    def value_at(x: Number) -> Number:
        return mp.fsum(c * p for c, p in zip(coefficient, legendre_rows(x, n + 2)[::2], strict=True))

    ends = [mpf(0), *known, mpf(1)]
    return [root_between(value_at, low, high) for low, high in pairwise(ends)]


def root_between(function, low: Number, high: Number) -> Number:
    """The zero in (low, high), to nearly all digits; an error if the ends have one sign."""
    at_low, at_high = function(low), function(high)
    if at_low * at_high >= 0:
        raise ValueError(f"no sign change between {low} and {high}: more digits needed")
    return mp.findroot(
        function, (low, high), solver="anderson", tol=mpf(10) ** -(DIGITS - 10), verify=False, maxsteps=200
    )


def symmetric_weights(known: list[Number]) -> list[Number]:
    """Weights on [−1, 1] of the interpolatory rule on 0 and ±known, for the nodes 0 and `known`.

    w_i = ∫ G(x)/((x − x_i) G'(x_i)) dx; from both signs of x, 1/(x − x_i) becomes 2x/(x² − x_i²) as G is odd.
    """
    nodes = [mpf(0), *known]

    def product(x: Number, skip: Number | None = None) -> Number:
        """G(x), its zero at `skip` left out."""
        value = mpf(1) if skip == 0 else x
        for node in known:
            value *= 4 * (x + node) * (1 if node == skip else x - node)
        return value

    sampled = [(x, weight * product(x)) for x, weight in positive_gauss(len(nodes) * 2)]
    return [
        mp.fsum(2 * value * x / (x * x - node * node) for x, value in sampled) / product(node, skip=node)
        for node in nodes
    ]


def lines(numbers: list[Number]) -> str:
    text = [repr(float(x)) for x in numbers]
    return "\n".join(" ".join(text[first : first + 4]) for first in range(0, len(text), 4))


def main(levels: int = 6) -> None:
    mp.dps = DIGITS
    known: list[Number] = []
    added = [mpf(0)]
    nodes, weights = [], []
    for level in range(levels):
        if level:
            added = extension(known)
            known += added
        nodes.append(lines(added))
        weights.append(lines([weight / 2 for weight in symmetric_weights(known)]))  # on [0, 1] they sum to 1
    print(TABLES.format(nodes="\n".join(nodes), weights="\n".join(weights)), end="")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
