"""Secants once more in float64, for the few texts whose output changes so little that float32's rounding shows in the sum.

Secants are exact but for rounding. That is of the size of the numbers on the way, so where text and baseline give nearly
the same output it can exceed 1e-5 of the change: on 6 of 1,400 explanations (docs/secants.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from pathlens.engine.belief import Solved
from pathlens.engine.options import Accuracy
from pathlens.engine.prepare import Prepared
from pathlens.engine.solve import Solution, solve
from pathlens.integrate.memory import Limits
from pathlens.text.adapter import Case, TextModel

EXACT = 1e-5  # of the change: more of a gap than this is taken away where it can be


def finer(
    model: TextModel, prepared: Sequence[Prepared], solved: Sequence[Solved], accuracy: Accuracy, limits: Limits
) -> list[Solved]:
    """The same solutions, but those that rounding spoilt solved in float64 (where its weights fit into the budget)."""
    better = list(solved)
    for number, (text, solutions) in enumerate(zip(prepared, solved, strict=True)):
        if isinstance(solutions, Exception) or not any(map(_rounded, solutions)):
            continue
        device = text.cases[0].ends.end.device
        with model.in_double(most=limits.bytes(device) * 3 // 4) as taken:
            if not taken:
                return better
            room = replace(limits, budget=limits.bytes(device) - taken)
            (again,) = solve([replace(text, cases=tuple(map(_in_double, text.cases)))], accuracy, room)
        if not isinstance(again, Exception):
            both = zip(again, solutions, strict=True)
            better[number] = tuple(replace(new, case=old.case, passes=new.passes + old.passes) for new, old in both)
    return better


def _rounded(solution: Solution) -> bool:
    """Only secants of a number have nothing but rounding in their gap."""
    change = float((solution.f_end - solution.f_start).norm())
    by_secants = solution.integral.nodes == 0 and not solution.vector and solution.f_end.numel() == 1
    return by_secants and solution.case.ends.end.dtype == torch.float32 and solution.gap > EXACT * change > 0


def _in_double(case: Case) -> Case:
    ends = replace(case.ends, start=case.ends.start.double(), end=case.ends.end.double())
    context = {name: each.double() if each.is_floating_point() else each for name, each in case.context.items()}
    return replace(case, ends=ends, context=context, pack=("float64", case.pack))
