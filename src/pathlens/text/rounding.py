"""Half precision: how far rounding alone moves the output, so that nobody trusts a share below it."""

from __future__ import annotations

from dataclasses import replace

import torch

from pathlens.text.adapter import Case

HALF = (torch.float16, torch.bfloat16)


def with_drift(case: Case) -> Case:
    """In half precision: the case with its drift stated. Otherwise the case as it is.

    Drift: the change of the output when every coordinate of the input moves by one unit of rounding, up and down by
    turns. Scores are summed in float64 whatever the model runs in; this is what summing cannot mend.
    """
    end = case.ends.end
    if end.dtype not in HALF:
        return case
    unit = torch.finfo(end.dtype).eps
    turns = 1 - 2 * (torch.arange(end.numel(), device=end.device) % 2).reshape(end.shape)
    moved = (end.double() * (1 + unit * turns)).to(end.dtype)
    with torch.no_grad():
        change = case.score(moved[None], [case]) - case.score(end[None], [case])
    drift = float(change.float().norm())
    name = str(end.dtype).removeprefix("torch.")
    note = f"the model runs in {name}: rounding its input by one unit moves the output by {drift:.2g}"
    return replace(case, notes=(*case.notes, note), meta={**case.meta, "drift": drift})
