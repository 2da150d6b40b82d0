"""Derivatives along many directions at once, in one pass through the network."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from pathlens.integrand import push_rules
from pathlens.integrand.forward_mode import CannotPush, Pushed

__all__ = ["CannotPush", "push", "push_rules"]


def push(function: Callable[[Tensor], Tensor], point: Tensor, directions: Tensor) -> Tensor:
    """d function(point + t·direction)/dt at t = 0 for every direction (U, *point.shape) → (U, *output.shape).

    Limits: CannotPush where an operation cannot be followed (in place, compiled); torch's own forward mode then says
    whether the model is at fault.
    """
    try:
        found = function(Pushed(point, directions))
    except CannotPush:
        raise
    except Exception as error:  # of the model's own code, or of a rule: torch's own mode decides
        raise CannotPush(str(error)) from error
    if not isinstance(found, Pushed):
        raise CannotPush("the output does not depend on the point")
    return found.change
