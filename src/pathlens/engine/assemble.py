"""From a text's integral to its result: every unit named, every sum certified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pathlens.engine.assemble_continuation import continuation
from pathlens.engine.assemble_interactions import interactions
from pathlens.engine.assemble_pair import Measure, pair_of, side_of
from pathlens.engine.assemble_phrases import phrases
from pathlens.engine.methods import Method, Settings
from pathlens.engine.solve import Finding
from pathlens.explanation.record import Explanation, PairExplanation, Result, VectorExplanation
from pathlens.text.adapter import Case
from pathlens.types import Certificate, bound
from pathlens.units.groups import Units
from pathlens.units.trees import Tree


@dataclass(frozen=True, eq=False)
class Part:
    """One case and what was found for it; a result is made of one or several."""

    case: Case
    units: Units
    finding: Finding
    passes: int


@dataclass(frozen=True, eq=False)
class Order:
    """What every result of one call shares."""

    method: Method
    settings: Settings
    meta: Mapping[str, Any]
    tree: Tree | None = None  # the phrases of this text, where the method asks for them


def spread(part: Part) -> Tensor:
    """Values of all units, zeros where nothing moved."""
    finding = part.finding
    value = finding.integral.value
    count = len(part.units) if len(value) == len(finding.moving) else len(value)
    full = torch.zeros((count, *value.shape[1:]), dtype=torch.float64)
    full[finding.moving.cpu()] = value
    return full


def estimates(part: Part) -> tuple[float, ...]:
    """Error estimate of every unit; by coordinate, those of a unit's tokens are added."""
    error, moving = part.finding.integral.error, part.finding.moving.cpu()
    members = torch.as_tensor(part.units.members, dtype=torch.float64)
    if len(error) == members.shape[1] != len(members):
        return tuple((members @ error).tolist())
    full = torch.zeros(len(members), dtype=torch.float64)
    full[moving] = error
    return tuple(full.tolist())


def list_estimates(part: Part) -> Tensor:
    """(U, T) error estimates of a list of numbers."""
    error = part.finding.integral.error
    full = torch.zeros((len(part.units), error.shape[1]), dtype=torch.float64)
    full[part.finding.moving.cpu()] = error
    return full


def certificate(part: Part, settings: Settings, scores: Tensor) -> Certificate:
    """For numbers: outputs, their change, what the scores sum to. For vectors: lengths of the same."""
    finding = part.finding
    f_end, f_start = finding.f_end, finding.f_start
    vector = f_end.ndim > 0
    change = float((f_end - f_start).norm())
    total = scores.sum(0)
    per_unit = finding.gaps is not None
    return Certificate(
        f_input=float(f_end.norm() if vector else f_end),
        f_baseline=float(f_start.norm() if vector else f_start),
        total=float(total.norm() if vector else total.sum()),
        gap=finding.gap,
        relative_gap=finding.gap / change if change > 0 else 0.0,
        tolerance=settings.tolerance,
        converged=finding.settled,
        nodes=finding.integral.nodes,
        passes=part.passes,
        error_estimate=estimates(part),
        kind="per token" if per_unit else "vector" if vector else "total",
        rows=tuple(finding.gaps.tolist()) if per_unit else (),
        bound=finding.bound,
    )


def meta_of(order: Order, parts: Sequence[Part]) -> dict[str, Any]:
    case = parts[0].case
    notes = list(dict.fromkeys(note for part in parts for note in part.case.notes))
    baseline = case.baseline if len(parts) == 1 else f"{len(parts)} baselines"
    history = [list(row) for row in parts[0].finding.integral.history]
    return {
        **order.meta,
        **case.meta,
        "texts": list(case.texts),
        "baseline": baseline,
        "notes": notes,
        "history": history,
    }


def tokens(order: Order, parts: Sequence[Part]) -> Explanation:
    """One score per unit; several parts are several baselines (expected gradients)."""
    results = [_tokens_of(order, part) for part in parts]
    return results[0] if len(results) == 1 else _average(order, parts, results)


def _tokens_of(order: Order, part: Part) -> Explanation:
    by_coordinate = bool(order.settings.options.get("coordinates"))
    value = spread(part)
    coordinates = value.numpy() if by_coordinate else None
    members = torch.as_tensor(part.units.members, dtype=torch.float64)
    scores = members @ value.sum(-1) if by_coordinate else value
    units = part.units
    return Explanation(
        method=order.method.name,
        target=part.case.target_name,
        certificate=certificate(part, order.settings, scores),
        meta=meta_of(order, [part]),
        tokens=units.names,
        offsets=units.offsets,
        scores=scores.numpy(),
        special=units.special,
        segments=units.segments,
        coordinates=coordinates,
        path=part.finding.path,
    )


def _average(order: Order, parts: Sequence[Part], results: Sequence[Explanation]) -> Explanation:
    """Expected gradients: the mean over baselines, with its standard error; errors and gaps are averaged too."""
    scores = np.stack([result.scores for result in results])
    certs = [result.certificate for result in results]
    mean = scores.mean(0)
    f_input, f_baseline = certs[0].f_input, float(np.mean([c.f_baseline for c in certs]))
    gap = float(abs(mean.sum() - (f_input - f_baseline))) if certs[0].kind == "total" else max(c.gap for c in certs)
    change = abs(f_input - f_baseline)
    limit = bound(f_input, f_baseline, certs[0].tolerance)
    error = np.mean([c.error_estimate for c in certs], axis=0)
    joined = Certificate(
        f_input=f_input,
        f_baseline=f_baseline,
        total=float(mean.sum()),
        gap=gap,
        relative_gap=gap / change if change > 0 else 0.0,
        tolerance=certs[0].tolerance,
        converged=max(gap, float(error.max(initial=0.0))) <= limit,
        nodes=sum(c.nodes for c in certs),
        passes=sum(c.passes for c in certs),
        error_estimate=tuple(error.tolist()),
        kind=certs[0].kind,
        rows=tuple(np.max([c.rows for c in certs], axis=0).tolist()),
        bound=limit,
    )
    first = results[0]
    meta = meta_of(order, parts)
    if first.path is not None:
        meta["notes"] = [*meta["notes"], "each baseline has a path of its own; none of them is kept in the mean"]
    coordinates = None if first.coordinates is None else np.mean([r.coordinates for r in results], axis=0)
    return Explanation(
        method=first.method,
        target=first.target,
        certificate=joined,
        meta=meta,
        tokens=first.tokens,
        offsets=first.offsets,
        scores=mean,
        special=first.special,
        segments=first.segments,
        coordinates=coordinates,
        standard_error=scores.std(0, ddof=1) / np.sqrt(len(scores)),
    )


def vectors(order: Order, parts: Sequence[Part]) -> VectorExplanation:
    """One vector per (output position, unit)."""
    part = parts[0]
    value = spread(part)
    return VectorExplanation(
        method=order.method.name,
        target=part.case.target_name,
        certificate=certificate(part, order.settings, value),
        meta=meta_of(order, parts),
        tokens=part.units.names,
        offsets=part.units.offsets,
        vectors=value.transpose(0, 1).numpy(),
        outputs=part.case.outputs,
        sources=part.case.sources,
        special=part.units.special,
        segments=part.units.segments,
        f_input=part.finding.f_end.numpy(),
        f_baseline=part.finding.f_start.numpy(),
        path=part.finding.path,
    )


def pair(order: Order, parts: Sequence[Part]) -> PairExplanation:
    """Two texts' vectors → token × token, with the reference row and column."""
    a, b = (side_of(part, spread(part), estimates(part)) for part in parts)
    measure = Measure.of(order.settings.options, order.settings.tolerance)
    result = pair_of(
        a,
        b,
        measure,
        {**meta_of(order, parts), "baseline": " | ".join(dict.fromkeys(part.case.baseline for part in parts))},
    )
    return replace(result, path_a=parts[0].finding.path, path_b=parts[1].finding.path)


def finish(order: Order, parts: Sequence[Part]) -> Result:
    makers = {
        "tokens": tokens,
        "vectors": vectors,
        "pair": pair,
        "interactions": interactions,
        "phrases": phrases,
        "continuation": continuation,
    }
    return makers[order.method.finish](order, parts)
