"""The output itself: where an integral telescopes, differences of it are exact and need no gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pathlens.integrand.batch import Batch
from pathlens.integrand.products import kept_products


@dataclass(frozen=True)
class Value:
    """F at the point, (B, 1) for a number, (B, 1, out, k) for a vector. The loop's weights make the differences."""

    def __call__(self, batch: Batch) -> Tensor:
        with torch.no_grad(), kept_products():
            return batch.score(batch.position)[:, None]

    def passes(self, units: int) -> int:
        return 1

    def rows_alive(self, units: int) -> float:
        return 0.5
