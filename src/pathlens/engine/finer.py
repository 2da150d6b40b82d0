"""After secants: are their two runs the model, and the few texts whose rounding shows once more in float64.

Secants follow a model operation by operation. For the first text of every kind of request the outputs of both runs are
compared with the model's, one plain pass of two rows: whatever was not followed right shows there.

Secants are exact but for rounding. That is of the size of the numbers on the way, so where text and baseline give nearly
the same output it can exceed 1e-5 of the change: on 6 of 1,400 explanations (docs/secants.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from pathlens.engine.belief import Solved
from pathlens.engine.options import Accuracy
from pathlens.engine.prepare import Prepared
from pathlens.engine.solve import Solution, solve
from pathlens.errors import SecantError, setting
from pathlens.integrand.secant.both import Both, values
from pathlens.integrate.memory import Limits
from pathlens.text.adapter import Case, Scores, TextModel

EXACT = 1e-5  # of the change: more of a gap than this is taken away where it can be
# a model in float64 may still norm, turn and weigh in float32 (Llama does)
FLOAT32 = 100 * torch.finfo(torch.float32).eps

_SEEN: WeakKeyDictionary[TextModel, set[Any]] = WeakKeyDictionary()  # kinds of requests that were compared


def compared(model: TextModel, prepared: Sequence[Prepared], solved: Sequence[Solved]) -> list[Solved]:
    """The same solutions; an error in the place of one whose followed outputs are not the model's own, if first of its kind."""
    return [
        each if isinstance(each, Exception) or not text.entry.in_one_pass else _compared(model, text, each)
        for text, each in zip(prepared, solved, strict=True)
    ]


def _compared(model: TextModel, text: Prepared, solutions: tuple[Solution, ...]) -> Solved:
    seen = _SEEN.setdefault(model, set())
    for solution in solutions:
        score: Any = solution.case.score
        read = getattr(score, "read", None)
        about = tuple(getattr(each, "score", "") for each in (score, read))
        where = getattr(score, "layer", 0), getattr(text.method, "block", None)
        shape = len(solution.case.texts), len(solution.case.outputs), solution.vector
        kind = (*where, type(score), type(read), *filter(_is_word, about), *shape)
        if kind in seen:
            continue
        with torch.no_grad():
            plain = [each[0].double().cpu() for each in _plain(score, solution)]
        followed = [solution.f_start.double().cpu(), solution.f_end.double().cpu()]
        if _differ(solution, plain, followed):
            return SecantError(
                f"the model itself gives {_shown(plain[1])} for this text and {_shown(plain[0])} for its baseline, and its operations "
                f"followed one by one {_shown(followed[1])} and {_shown(followed[0])}: one of them is not followed right, and the "
                f"scores would belong to another number. Use {setting(method='ig')}"
            )
        seen.add(kind)
    return solutions


def _is_word(item: Any) -> bool:
    return isinstance(item, str)


def _plain(score: Any, solution: Solution) -> tuple[Scores, Scores]:
    """What one plain pass of each row says; a reading that looks at both runs gets both."""
    case = solution.case
    if getattr(getattr(score, "read", None), "reads_both_runs", False):
        start, end = (score.output(row[None], [case]) for row in _rows(solution))
        return values(score.read(Both(start, end), [case]))
    start, end = (score(row[None], [case]) for row in _rows(solution))
    return start, end


def _rows(solution: Solution) -> tuple[Float[Tensor, "S d"], Float[Tensor, "S d"]]:
    return solution.case.ends.start.clone(), solution.case.ends.end.clone()  # a model may write into its input


def _differ(
    solution: Solution, plain: Sequence[Float[Tensor, "..."]], followed: Sequence[Float[Tensor, "..."]]
) -> bool:
    """Further apart than rounding explains: half of the digits of the larger end, or what half precision is known to move."""
    eps = torch.finfo(solution.case.ends.end.dtype).eps
    size = max(float(each.nan_to_num(0.0, 0.0, 0.0).abs().max()) for each in plain)
    room = max(max(eps**0.5, FLOAT32) * size, 4 * solution.case.meta.get("drift", 0.0)) + 10 * eps
    off = (torch.where(a == b, 0.0, a - b).abs().max() for a, b in zip(plain, followed, strict=True))
    return not all(float(each) <= room for each in off)


def _shown(value: Float[Tensor, "..."]) -> str:
    return f"{value.item():.6g}" if value.numel() == 1 else f"a vector of length {float(value.norm()):.6g}"


def finer(
    model: TextModel, prepared: Sequence[Prepared], solved: Sequence[Solved], accuracy: Accuracy, limits: Limits
) -> list[Solved]:
    """The same solutions, but those that rounding spoilt solved in float64 (where its weights fit into the budget)."""
    better = list(solved)
    for number, (text, solutions) in enumerate(zip(prepared, solved, strict=True)):
        if isinstance(solutions, Exception) or not any(map(_rounded, solutions, text.limits)):
            continue
        device = text.cases[0].ends.end.device
        with model.in_double(most=limits.bytes(device) * 3 // 4) as taken:
            if not taken:
                return better
            room = replace(limits, budget=limits.bytes(device) - taken)
            (again,) = solve([replace(text, cases=tuple(map(_in_double, text.cases)))], accuracy, room)
        if not isinstance(again, Exception):
            better[number] = tuple(map(_better, solutions, again))
    return better


def _better(old: Solution, new: Solution) -> Solution:
    """What float64 gives, where it is the same function: a model may do something else in another precision."""
    if _differ(old, [old.f_start, old.f_end], [new.f_start, new.f_end]):
        return old
    return replace(new, case=old.case, passes=new.passes + old.passes, shared=old.shared)


def _rounded(solution: Solution, limit: float | None) -> bool:
    """Secants of numbers have nothing but rounding in their gaps. Of a continuation each token's counts, and that of all.

    limit: of a part of a pair, which is judged by the matrix it goes into.
    """
    by_secants = solution.integral.nodes == 0 and not solution.vector
    if not by_secants or limit is not None or solution.case.ends.end.dtype != torch.float32:
        return False
    change, value = solution.f_end - solution.f_start, solution.integral.value
    missing = value.flatten(0, value.ndim - change.ndim - 1).sum(0) - change
    numbers = torch.stack([change, missing]).reshape(2, -1)
    changes, gaps = torch.cat([numbers, numbers.sum(1, keepdim=True)], 1).abs()
    return bool(((gaps > EXACT * changes) & (changes > 0)).any())


def _in_double(case: Case) -> Case:
    ends = replace(case.ends, start=case.ends.start.double(), end=case.ends.end.double())
    context = {name: each.double() if each.is_floating_point() else each for name, each in case.context.items()}
    return replace(case, ends=ends, context=context, pack=("float64", case.pack))
