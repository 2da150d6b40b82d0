"""From the integral of a list of numbers to a continuation's matrix: a certificate for every output token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pathlens.errors import InputError
from pathlens.explanation.continuation import Continuation
from pathlens.types import Certificate

if TYPE_CHECKING:
    from pathlens.engine.assemble import Order, Part


def continuation(order: Order, parts: Sequence[Part]) -> Continuation:
    """Sources × output tokens. Every column is judged by the same bound, the total by as many of them together."""
    from pathlens.engine.assemble import list_estimates, meta_of, spread

    if len(parts) > 1:
        raise InputError("a continuation of several tokens takes one baseline; a list of baselines is for one token")
    part = parts[0]
    matrix, errors = spread(part)[..., 0], list_estimates(part)
    ends = torch.stack([part.finding.f_end, part.finding.f_start])[..., 0].double()
    certificates = tuple(
        _certificate(part, order, matrix[:, t], errors[:, t], ends[:, t]) for t in range(matrix.shape[1])
    )
    units = part.units
    return Continuation(
        method=order.method.name,
        target=part.case.target_name,
        certificate=_total(part, order, matrix, errors, ends, certificates),
        meta=meta_of(order, parts),
        tokens=units.names,
        offsets=units.offsets,
        outputs=part.case.outputs,
        output_offsets=part.case.target.offsets,
        matrix=matrix.numpy(),
        certificates=certificates,
        special=units.special,
        segments=units.segments,
        path=part.finding.path,
    )


def _certificate(part: Part, order: Order, scores: Tensor, errors: Tensor, ends: Tensor) -> Certificate:
    return _filled(part, order, scores, errors, ends, limit=part.finding.bound)


def _total(
    part: Part, order: Order, matrix: Tensor, errors: Tensor, ends: Tensor, columns: Sequence[Certificate]
) -> Certificate:
    """Settled when every column is: then the total is within as many bounds as there are columns."""
    limit = len(columns) * part.finding.bound
    found = _filled(part, order, matrix.sum(1), errors.sum(1), ends.sum(1), limit=limit)
    return replace(found, converged=all(column.converged for column in columns))


def _filled(part: Part, order: Order, scores: Tensor, errors: Tensor, ends: Tensor, *, limit: float) -> Certificate:
    f_input, f_baseline = (float(end) for end in ends)
    change, total = f_input - f_baseline, float(scores.sum())
    per_unit = part.finding.gaps is not None  # SIG's full reading: no total to compare with
    gap = 0.0 if per_unit else abs(total - change)
    worst = float(errors.max()) if len(errors) else 0.0
    return Certificate(
        f_input=f_input,
        f_baseline=f_baseline,
        total=total,
        gap=gap,
        relative_gap=gap / abs(change) if change else 0.0,
        tolerance=order.settings.tolerance,
        converged=max(gap, worst) <= limit,
        nodes=part.finding.integral.nodes,
        passes=part.passes,
        error_estimate=tuple(errors.tolist()),
        kind="per token" if per_unit else "total",
        rows=tuple(part.finding.gaps.tolist()) if per_unit else (),
        bound=limit,
    )
