"""After the integral: every unit named, every sum certified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pathlens.engine.options import Compared
from pathlens.engine.prepare import Prepared
from pathlens.engine.solve import Solution
from pathlens.errors import InputError
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.pair import Side, pair_of
from pathlens.explanation.record import Continuation, Explanation, PairExplanation, Result, VectorExplanation


@dataclass(frozen=True, eq=False)
class Order:
    """What a result is made for: the text as it was read, and what every result of the call says of itself."""

    prepared: Prepared
    tolerance: float
    meta: Mapping[str, Any]


def assemble(order: Order, solutions: Sequence[Solution]) -> Result:
    """The result of one text; one solution per baseline, or per side of a pair."""
    from pathlens.engine.assemble_interactions import interactions
    from pathlens.engine.assemble_phrases import phrases

    makers: dict[str, Callable[[Order, Sequence[Solution]], Result]] = {
        "tokens": tokens,
        "vectors": vectors,
        "pair": pair,
        "interactions": interactions,
        "phrases": phrases,
        "continuation": continuation,
    }
    return makers[order.prepared.entry.assemble](order, solutions)


def certificate(solution: Solution, tolerance: float, scores: Float[Tensor, "U *out"]) -> Certificate:
    """For numbers: outputs, their change, what the scores sum to. For vectors: lengths of the same."""
    vector = solution.f_end.ndim > 0
    f_input, f_baseline, total = (
        float(value.norm() if vector else value.sum()) for value in (solution.f_end, solution.f_start, scores.sum(0))
    )
    return Certificate.judge(
        f_input=f_input,
        f_baseline=f_baseline,
        total=total,
        gap=solution.gap,
        size=float((solution.f_end - solution.f_start).norm()),
        bound=solution.bound,
        errors=solution.estimates().tolist(),
        **{"kind": "vector" if vector else "total", **_facts(solution, tolerance)},
    )


def _facts(solution: Solution, tolerance: float) -> dict[str, Any]:
    """What every certificate of one text has in common; where each unit has its own sum, that is what counts."""
    facts = {"tolerance": tolerance, "nodes": solution.integral.nodes, "passes": solution.passes}
    return facts if solution.gaps is None else {**facts, "kind": "per token", "rows": solution.gaps.tolist()}


def meta_of(order: Order, solutions: Sequence[Solution]) -> dict[str, Any]:
    """What the result says of itself; `chosen` in values that ask for the same again (`pl.zoom` does)."""
    case = solutions[0].case
    chosen = {"target": case.chosen.target, "score": case.chosen.score or None, "baselines": _baselines(solutions)}
    notes = list(dict.fromkeys(note for each in solutions for note in each.case.notes))
    baseline = case.baseline if len(solutions) == 1 else f"{len(solutions)} baselines"
    history = [list(row) for row in solutions[0].integral.history]
    return {
        **order.meta,
        **case.meta,
        "chosen": {**order.meta["chosen"], **{name: value for name, value in chosen.items() if value is not None}},
        "texts": list(case.texts),
        "baseline": baseline,
        "notes": notes,
        "history": history,
    }


def _baselines(solutions: Sequence[Solution]) -> list[Any] | None:
    """One for every baseline or side, by name or text; None where one of them has neither."""
    chosen = [each.case.chosen.baseline for each in solutions]
    return None if None in chosen else chosen


def tokens(order: Order, solutions: Sequence[Solution]) -> Explanation:
    """One score per unit; several solutions are several baselines (expected gradients)."""
    results = [_tokens_of(order, each) for each in solutions]
    return results[0] if len(results) == 1 else _average(order, solutions, results)


def _tokens_of(order: Order, solution: Solution) -> Explanation:
    value = solution.spread()
    scores = value.sum(-1) if solution.by_coordinate else value
    units = solution.units
    return Explanation(
        method=order.prepared.method.name,
        target=solution.case.target_name,
        certificate=certificate(solution, order.tolerance, scores),
        meta=meta_of(order, [solution]),
        tokens=units.names,
        offsets=units.offsets,
        scores=scores.numpy(),
        special=units.special,
        segments=units.segments,
        coordinates=value.numpy() if solution.by_coordinate else None,
        path=solution.path,
    )


def _average(order: Order, solutions: Sequence[Solution], results: Sequence[Explanation]) -> Explanation:
    """Expected gradients: the mean over baselines, with its standard error; errors and gaps are averaged too."""
    scores = np.stack([result.scores for result in results])
    certs = [result.certificate for result in results]
    mean = scores.mean(0)
    f_input, f_baseline = certs[0].f_input, float(np.mean([c.f_baseline for c in certs]))
    joined = Certificate.judge(
        f_input=f_input,
        f_baseline=f_baseline,
        total=float(mean.sum()),
        gap=None if certs[0].kind == "total" else max(c.gap for c in certs),
        tolerance=certs[0].tolerance,
        nodes=sum(c.nodes for c in certs),
        passes=sum(c.passes for c in certs),
        errors=np.mean([c.error_estimate for c in certs], axis=0),
        kind=certs[0].kind,
        rows=np.max([c.rows for c in certs], axis=0),
    )
    first = results[0]
    meta = meta_of(order, solutions)
    if first.path is not None:
        meta["notes"] = [*meta["notes"], "each baseline has a path of its own; none of them is kept in the mean"]
    coordinates = [each.coordinates for each in results if each.coordinates is not None]
    return replace(
        first,
        certificate=joined,
        meta=meta,
        scores=mean,
        coordinates=np.mean(coordinates, axis=0) if coordinates else None,
        standard_error=scores.std(0, ddof=1) / np.sqrt(len(scores)),
        path=None,
    )


def vectors(order: Order, solutions: Sequence[Solution]) -> VectorExplanation:
    """One vector per (output position, unit)."""
    (solution,) = solutions
    value = solution.spread()
    return VectorExplanation(
        method=order.prepared.method.name,
        target=solution.case.target_name,
        certificate=certificate(solution, order.tolerance, value),
        meta=meta_of(order, solutions),
        tokens=solution.units.names,
        offsets=solution.units.offsets,
        vectors=value.transpose(0, 1).numpy(),
        outputs=solution.case.outputs,
        sources=solution.case.sources,
        special=solution.units.special,
        segments=solution.units.segments,
        f_input=solution.f_end.numpy(),
        f_baseline=solution.f_start.numpy(),
        path=solution.path,
    )


def pair(order: Order, solutions: Sequence[Solution]) -> PairExplanation:
    """Two texts' vectors → token × token, with the reference row and column."""
    method = order.prepared.method
    assert isinstance(method, Compared)
    a, b = map(side_of, solutions)
    baseline = " | ".join(dict.fromkeys(each.case.baseline for each in solutions))
    result = pair_of(a, b, method.measure(order.tolerance), {**meta_of(order, solutions), "baseline": baseline})
    return replace(result, method=method.name, path_a=solutions[0].path, path_b=solutions[1].path)


def side_of(solution: Solution) -> Side:
    """What one text's integral found, for any pair it may be in."""
    value, units = solution.spread(), solution.units
    coordinates = value[:, :, 0] if solution.by_coordinate else None  # (U, d, k)
    return Side(
        text=solution.case.texts[0] if solution.case.texts else "",
        tokens=units.names,
        offsets=units.offsets,
        special=units.special,
        vectors=(value[:, 0] if coordinates is None else coordinates.sum(1)).numpy(),
        reference=solution.f_start[0].numpy(),
        embedding=solution.f_end[0].numpy(),
        error=solution.estimates().numpy(),
        gap=solution.gap,
        nodes=solution.integral.nodes,
        passes=solution.passes,
        notes=solution.case.notes,
        baseline=solution.case.chosen.baseline,
        coordinates=None if coordinates is None else coordinates.numpy(),
    )


def continuation(order: Order, solutions: Sequence[Solution]) -> Continuation:
    """Sources × output tokens. Every column is judged by the same bound, the total by as many of them together."""
    if len(solutions) > 1:
        raise InputError("a continuation of several tokens takes one baseline; a list of baselines is for one token")
    (solution,) = solutions
    matrix, errors = solution.spread()[..., 0], solution.estimates()
    ends = torch.stack([solution.f_end, solution.f_start])[..., 0].double()
    columns = tuple(
        _column(order, solution, matrix[:, t], errors[:, t], ends[:, t], solution.bound) for t in range(matrix.shape[1])
    )
    limit = len(columns) * solution.bound  # settled when every column is: then the total is within this
    total = _column(order, solution, matrix.sum(1), errors.sum(1), ends.sum(1), limit, columns)
    units = solution.units
    return Continuation(
        method=order.prepared.method.name,
        target=solution.case.target_name,
        certificate=total,
        meta=meta_of(order, solutions),
        tokens=units.names,
        offsets=units.offsets,
        outputs=solution.case.outputs,
        output_offsets=solution.case.target.offsets,
        matrix=matrix.numpy(),
        certificates=columns,
        special=units.special,
        segments=units.segments,
        path=solution.path,
    )


def _column(
    order: Order,
    solution: Solution,
    scores: Float[Tensor, "U"],
    errors: Float[Tensor, "U"],
    ends: Float[Tensor, "2"],
    limit: float,
    parts: Sequence[Certificate] = (),
) -> Certificate:
    f_input, f_baseline = (float(end) for end in ends)
    return Certificate.judge(
        f_input=f_input,
        f_baseline=f_baseline,
        total=float(scores.sum()),
        gap=None if solution.gaps is None else 0.0,  # SIG's full reading: no total to compare with
        bound=limit,
        errors=errors.tolist(),
        parts=parts,
        **_facts(solution, order.tolerance),
    )
