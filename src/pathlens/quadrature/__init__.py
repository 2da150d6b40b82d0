"""Nodes and weights. Where along a leg to look, and with what weight."""

from pathlens.quadrature.orthogonal import log_weight
from pathlens.quadrature.rules import allocate, coarse, gauss, left, midpoint, right, rule, trapezoid

__all__ = ["allocate", "coarse", "gauss", "left", "log_weight", "midpoint", "right", "rule", "trapezoid"]
