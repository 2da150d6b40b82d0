"""Room 3: nodes and weights. Where along a leg to look, and with what weight."""

from .gauss import gauss
from .log_weight import log_weight
from .nested import COUNTS, FAMILIES, new_nodes, weights
from .riemann import left, midpoint, right, trapezoid
from .rule import allocate, coarse, rule

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
