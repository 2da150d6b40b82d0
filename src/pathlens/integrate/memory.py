"""How many rows at once: under a memory budget found by a probe, halved when memory runs out all the same."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch

DEFAULT_BUDGET = 2 << 30  # bytes; see `Limits.budget`
BUSY_TOKENS = 2048  # more tokens at once win nothing on a CPU: the working set leaves the cache
VALUE_COPIES = 4  # a row's value as it is made, laid out anew, and in float64 for its sum
WASTE = 1.25  # a batch may hold at most this much padding
SMALLEST_SHARE = 1 / 64  # of the budget, for a single row that does not fit; then memory is really gone


@dataclass(frozen=True)
class Limits:
    """`rows` fixes the batch (a user's `internal_batch_size`); otherwise the budget decides."""

    rows: int | None = None
    budget: int | None = (
        None  # bytes a batch may take (the result's own sums come on top); None: 2 GiB, or half of what is free if that is less
    )

    def bytes(self, device: torch.device) -> int:
        if self.budget is not None:
            return self.budget
        return min(DEFAULT_BUDGET, free_memory(device) // 2)


def free_memory(device: torch.device) -> int:
    """Bytes that can still be had on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2 * DEFAULT_BUDGET


class Planner:
    """Cuts a queue of pieces (sorted by length) into batches."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.most: int | None = None  # rows, once memory has run out
        self.share = 1.0  # of the budget, once memory has run out with a single row
        self.bytes_per_row: dict[Any, int] = {}
        self.budgets: dict[torch.device, int] = {}

    def next_batch(self, queue: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The longest run of pieces that fits; a piece may be split."""
        first = queue[0]
        pieces, rows = [], 0
        for number, piece in enumerate(queue):
            length = max(len(piece.job.case), 1)
            if pieces and length > WASTE * len(first.job.case):
                return pieces, list(queue[number:])
            room = self.rows_that_fit(piece) - rows
            if room <= 0:
                return pieces, list(queue[number:])
            if len(piece.rows) > room:
                cut = piece.rows.start + room
                pieces.append(type(piece)(piece.job, range(piece.rows.start, cut)))
                rest = type(piece)(piece.job, range(cut, piece.rows.stop))
                return pieces, [rest, *queue[number + 1 :]]
            pieces.append(piece)
            rows += len(piece.rows)
        return pieces, []

    def rows_that_fit(self, piece: Any) -> int:
        """Rows of this piece's kind that a batch may hold; at least one."""
        if self.limits.rows is not None:
            return max(1, self.limits.rows)
        case, integrand = piece.job.case, piece.job.ask.integrand
        alive = integrand.rows_alive(len(piece.job.members))
        values = VALUE_COPIES * piece.job.value_bytes()
        by_budget = self._budget(case) / (alive * self._probe(case, integrand) + values)
        rows = by_budget
        if case.ends.end.device.type == "cpu":
            busy = getattr(integrand, "rows_busy", integrand.rows_alive)(len(piece.job.members))
            rows = min(rows, BUSY_TOKENS / len(case) / max(1.0, busy))
        if self.most is not None:
            rows = min(rows, self.most)
        return max(1, int(rows))

    def room(self, pieces: Sequence[Any]) -> float:
        """Memory a batch may take, in rows of a plain reverse pass: integrands cut their own work to fit."""
        longest = max((piece.job.case for piece in pieces), key=len)
        return self.share * self._budget(longest) / self._probe(longest, pieces[0].job.ask.integrand)

    def lean(self, pieces: Sequence[Any]) -> Any:
        """The score that keeps less for a reverse pass (blocks run twice), where a single row would keep too much."""
        longest = max((piece.job.case for piece in pieces), key=len)
        too_much = self.share < 1 or self._probe(longest, pieces[0].job.ask.integrand) >= self._budget(longest)
        return getattr(longest.score, "lean", None) if too_much else None

    def halve(self, rows: int) -> bool:
        """Memory ran out with this many rows: never so many again in this run. False: nothing left to halve."""
        if rows > 1:
            self.most = rows // 2
        else:
            self.share /= 2
        return self.share >= SMALLEST_SHARE

    def _budget(self, case: Any) -> int:
        """Read once for a device: what is free changes, the plan must not."""
        device = case.ends.end.device
        if device not in self.budgets:
            self.budgets[device] = self.limits.bytes(device)
        return self.budgets[device]

    def _probe(self, case: Any, integrand: Any) -> int:
        """Bytes one row keeps for a reverse pass, counted in one; per model, reading and length. At most the budget."""
        bucket = 1 << (len(case) - 1).bit_length()
        attention = getattr(integrand, "attention", nullcontext)  # kernels differ in what they keep
        key = (case.pack, bucket, attention)
        if key not in self.bytes_per_row:
            most = self._budget(case)
            with attention():
                counted = _saved_bytes(case, most) * bucket // len(case)
            self.bytes_per_row[key] = max(1, min(most, counted))
        return self.bytes_per_row[key]


class _Enough(Exception):
    """A probe has seen what it came for."""


def _saved_bytes(case: Any, most: int) -> int:
    """Counted up to `most`: a row that keeps more than the budget is not kept to find out how much."""
    seen: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        owner = tensor if tensor._base is None else tensor._base
        if not isinstance(owner, torch.nn.Parameter):  # weights are there once, however many rows
            storage = tensor.untyped_storage()
            seen[storage.data_ptr()] = storage.nbytes()
            if sum(seen.values()) > most:
                raise _Enough
        return tensor.detach()  # a tensor that its own graph keeps would never be freed

    position = case.ends.end[None].detach().requires_grad_()
    hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor)
    with suppress(_Enough), torch.enable_grad(), hooks:
        case.score(position, [case])
    return sum(seen.values())
