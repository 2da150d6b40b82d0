"""Rows of points, many texts together, and what every integrand promises."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclass(frozen=True, eq=False)
class Batch:
    """B points. `direction` is how each point's leg moves; `members` says which tokens a unit has."""

    score: Callable[[Tensor], Tensor]  # (B, S, d) -> (B,) or (B, out, k)
    position: Tensor  # (B, S, d)
    direction: Tensor  # (B, S, d)
    members: Tensor  # (B, U, S) 0/1, zero rows where a text has fewer units
    t: Tensor  # (B,) how far along the whole route (only meaningful on one leg)
    room: float = float("inf")  # memory the whole batch may take, in rows of a plain reverse pass
    lean: Callable[[Tensor], Tensor] | None = None  # the same score keeping less, where a reverse pass keeps too much

    @property
    def reverse_score(self) -> Callable[[Tensor], Tensor]:
        return self.lean or self.score


class Integrand(Protocol):
    """Called on a batch, gives (B, U, …). The other two let the loop plan."""

    def __call__(self, batch: Batch) -> Tensor: ...

    def passes(self, units: int) -> int:
        """Model passes one point costs."""

    def rows_alive(self, units: int) -> float:
        """Memory of one point, in units of what one reverse pass keeps for one row."""


def any_derivative() -> AbstractContextManager[None]:
    """Attention kernels that have forward-mode and second derivatives (the fused ones have neither)."""
    return sdpa_kernel(SDPBackend.MATH)
