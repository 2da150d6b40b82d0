"""Room 3: nodes and weights. Where along a leg to look, and with what weight."""

from pathlens.quadrature.gauss import gauss
from pathlens.quadrature.log_weight import log_weight
from pathlens.quadrature.nested import COUNTS, FAMILIES, new_nodes, weights
from pathlens.quadrature.riemann import left, midpoint, right, trapezoid
from pathlens.quadrature.rule import allocate, coarse, rule

__all__ = [
    "COUNTS",
    "FAMILIES",
    "allocate",
    "coarse",
    "gauss",
    "left",
    "log_weight",
    "midpoint",
    "new_nodes",
    "right",
    "rule",
    "trapezoid",
    "weights",
]
