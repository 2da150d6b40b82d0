"""Rows of points, many texts together, and what every integrand promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

Score = Callable[[Float[Tensor, "B S d"]], Float[Tensor, "B ..."]]  # (B,) numbers, or (B, out, k) vectors


@dataclass(frozen=True, eq=False)
class Batch:
    """B points. `direction` is how each point's leg moves; `members` says which tokens a unit has."""

    score: Score
    position: Float[Tensor, "B S d"]
    direction: Float[Tensor, "B S d"]
    members: Float[Tensor, "B U S"]  # 0/1, zero rows where a text has fewer units
    t: Float[Tensor, "B"]  # how far along the whole route (only meaningful on one leg)
    room: float = float("inf")  # memory the whole batch may take, in rows of a plain reverse pass
    lean: Score | None = None  # the same score keeping less, where a reverse pass keeps too much
    start: Float[Tensor, "B S d"] | None = None  # the corner each point's leg leaves, for what looks at both ends

    @property
    def reverse_score(self) -> Score:
        return self.lean or self.score


def share_of(slope: Float[Tensor, "..."], step: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """slope · step; 0 where nothing moves, whatever the slope there: in padding some models have no finite one."""
    return torch.where(step == 0, 0.0, slope * step)


class Integrand(ABC):
    """Called on a batch, gives one value per row and unit. The rest lets the loop plan, and read the values."""

    by_coordinate: ClassVar[bool] = False  # values per token and coordinate (B, S, d, …), not per unit
    by_pair: ClassVar[bool] = False  # values per pair of units (B, U, U)
    heads: ClassVar[int] = 0  # rows before the units' own: the outputs at both ends, where they come along
    reverse_rows: ClassVar[float] = 1.0  # what one row keeps for the way back, in rows of a plain reverse pass
    second_order: ClassVar[bool] = False  # runs under kernels that have second derivatives; they keep more

    @abstractmethod
    def __call__(self, batch: Batch) -> Float[Tensor, "B U ..."]: ...

    def passes(self, units: int) -> int:
        """Model passes one point costs."""
        return 1

    def rows_alive(self, units: int) -> float:
        """Memory of one point, in units of what one reverse pass keeps for one row."""
        return 1.0

    def passes_for(self, units: int, values: Float[Tensor, "B U ..."]) -> int:
        """Passes one point took, where that is known only once its values show how large the output is."""
        return self.passes(units)

    def rows_busy(self, units: int) -> float:
        """Memory under way at once, which should fit the processor's cache; what waits does not count."""
        return self.rows_alive(units)


def any_derivative() -> AbstractContextManager[None]:
    """Attention kernels that have forward-mode and second derivatives (the fused ones have neither)."""
    return sdpa_kernel(SDPBackend.MATH)


def out_of_memory(error: Exception) -> bool:
    """Has memory run out, on whatever device and in whatever words? Then fewer rows at once may help."""
    words = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and ("out of memory" in words or "can't allocate memory" in words)
    )
