"""The straight line from the baseline to the text: the path of Integrated Gradients."""

from __future__ import annotations

import torch

from pathlens.types import Ends, Route


def line(ends: Ends) -> Route:
    """All tokens move together: `γ(α) = b + α(x − b)`. One leg, two corners.

    Paper: Sundararajan, Taly and Yan, "Axiomatic Attribution for Deep Networks" (2017).
    """
    start = torch.where(ends.held[:, None], ends.end, ends.start)
    return Route.through(torch.stack([start, ends.end]))
