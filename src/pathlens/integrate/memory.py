"""How many rows at once: under a memory budget, by an estimate of one row, halved when memory runs out all the same."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from pathlens.integrand import Integrand
from pathlens.integrand.batch import any_derivative
from pathlens.text.adapter import BUSY_TOKENS, WASTE, Case

if TYPE_CHECKING:
    from pathlens.integrate.loop import Rows

DEFAULT_BUDGET = 2 << 30  # bytes; see `Limits.budget`
VALUE_COPIES = 4  # a row's value as it is made, laid out anew, and in float64 for its sum
WEIGHTS_SHARE = 4  # one part in so many of a processor's budget is for weights laid out anew (integrand/products.py)
SMALLEST_SHARE = 1 / 64  # of the budget, for a single row that does not fit; then memory is really gone


@dataclass(frozen=True)
class Limits:
    """`rows` fixes the batch (a user's `internal_batch_size`); otherwise the budget decides."""

    rows: int | None = None
    # bytes a batch and laid-out weights may take (a result's own sums on top); None: 2 GiB, or half of what is free
    budget: int | None = None
    # bytes a row keeps, and the bound up to which they were counted: known from one text of a model to the next
    counted: dict[Any, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)

    def bytes(self, device: torch.device) -> int:
        if self.budget is not None:
            return self.budget
        return min(DEFAULT_BUDGET, free_memory(device) // 2)

    def for_weights(self) -> int:
        """Bytes of it that laid-out weights may hold, on a processor; a batch has the rest."""
        return self.bytes(torch.device("cpu")) // WEIGHTS_SHARE


def free_memory(device: torch.device) -> int:
    """Bytes that can still be had on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2 * DEFAULT_BUDGET


class Planner:
    """Cuts a queue of rows (sorted by length) into batches."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.most: int | None = None  # rows, once memory has run out
        self.share = 1.0  # of the budget, once memory has run out with a single row
        self.budgets: dict[torch.device, int] = {}

    def next_batch(self, queue: Sequence[Rows]) -> tuple[list[Rows], list[Rows]]:
        """The longest run that fits, and what is left; the last job's rows may be split between both."""
        first = queue[0]
        batch: list[Rows] = []
        count = 0
        for number, rows in enumerate(queue):
            length = max(len(rows.job.case), 1)
            if batch and length > WASTE * len(first.job.case):
                return batch, list(queue[number:])
            room = self.rows_that_fit(rows) - count
            if room <= 0:
                return batch, list(queue[number:])
            if len(rows) > room:
                cut = rows.which.start + room
                batch.append(replace(rows, which=range(rows.which.start, cut)))
                return batch, [replace(rows, which=range(cut, rows.which.stop)), *queue[number + 1 :]]
            batch.append(rows)
            count += len(rows)
        return batch, []

    def rows_that_fit(self, rows: Rows) -> int:
        """Rows of this kind that a batch may hold; at least one."""
        if self.limits.rows is not None:
            return max(1, self.limits.rows)
        case, integrand, units = rows.job.case, rows.job.question.integrand, len(rows.job.members)
        values = VALUE_COPIES * 4 * rows.job.output * max(1, units)  # for every unit, a change of the whole output
        most = self.budget(case) / (integrand.rows_alive(units) * self.estimate(case, integrand) + values)
        if case.ends.end.device.type == "cpu":
            most = min(most, BUSY_TOKENS / len(case) / max(1.0, integrand.rows_busy(units)))
        if self.most is not None:
            most = min(most, self.most)
        return max(1, int(most))

    def room(self, batch: Sequence[Rows]) -> tuple[float, Any]:
        """Memory a batch may take, in rows of a plain reverse pass: integrands cut their own work to fit.

        And the score that keeps less for a reverse pass (blocks run twice), where a single row would keep too much.
        """
        longest, integrand = max((rows.job.case for rows in batch), key=len), batch[0].job.question.integrand
        one, budget = self.estimate(longest, integrand), self.budget(longest)
        too_much = self.share < 1 or integrand.reverse_rows * one >= budget
        return self.share * budget / one, getattr(longest.score, "lean", None) if too_much else None

    def halve(self, rows: int) -> bool:
        """Memory ran out with this many rows: never so many again in this run. False: nothing left to halve."""
        if rows > 1:
            self.most = rows // 2
        else:
            self.share /= 2
        return self.share >= SMALLEST_SHARE

    def budget(self, case: Case) -> int:
        """What a batch may take. Read once for a device: what is free changes, the plan must not."""
        device = case.ends.end.device
        if device not in self.budgets:
            self.budgets[device] = self.limits.bytes(device) - (device.type == "cpu") * self.limits.for_weights()
        return self.budgets[device]

    def estimate(self, case: Case, integrand: Integrand) -> int:
        """Bytes one row keeps for a reverse pass, counted in one; per model, reading and length. At most the budget."""
        # by the very length: a plan that hung on which text came first would change the last digits of a run resumed
        key = (case.pack, len(case), integrand.second_order)  # kernels differ in what they keep
        known, most = self.limits.counted, self.budget(case)
        if key not in known or known[key][0] >= known[key][1] < most:  # or there is more room than it was counted up to
            with any_derivative() if integrand.second_order else nullcontext():
                known[key] = _saved_bytes(case, most), most
        return max(1, min(most, known[key][0]))


class _Enough(Exception):
    """The estimate has seen what it came for."""


def _saved_bytes(case: Case, most: int) -> int:
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
