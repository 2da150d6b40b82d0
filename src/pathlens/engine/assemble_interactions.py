"""From the integral of one text to its token × token interactions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from pathlens.engine.assemble import Order, meta_of
from pathlens.engine.solve import Solution
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.record import Interactions


def interactions(order: Order, solutions: Sequence[Solution]) -> Interactions:
    """One matrix; several solutions are several baselines (expected Hessians).

    Each baseline is the same for both integrals, so the rows of the mean are expected gradients.
    """
    rows = order.prepared.rows
    samples = [_matrix(solution, rows) for solution in solutions]
    scores = np.stack([_spread(solution, solution.integral.extra.get("ig")) for solution in solutions])
    matrices = np.stack(samples)
    matrix = matrices.mean(0)
    meta = meta_of(order, solutions)
    both = ~np.isnan(matrix) & ~np.isnan(matrix.T)
    if rows is None:
        meta["asymmetry"] = float(np.abs(matrix - matrix.T)[both].max(initial=0.0))
    else:
        meta["rows"] = list(rows)
        meta["notes"] = [*meta["notes"], _partly(rows, solutions[0].units.names)]
    count = len(solutions)
    units = solutions[0].units
    return Interactions(
        method=order.prepared.method.name,
        target=solutions[0].case.target_name,
        certificate=_certificate(order, solutions, matrix, scores.mean(0), rows),
        meta=meta,
        tokens=units.names,
        offsets=units.offsets,
        matrix=matrix,
        scores=scores.mean(0),
        special=units.special,
        segments=units.segments,
        standard_error=matrices.std(0, ddof=1) / np.sqrt(count) if count > 1 else None,
    )


def _partly(rows: Sequence[int], names: Sequence[str]) -> str:
    shown = ", ".join(repr(names[row]) for row in rows[:8]) + (" …" if len(rows) > 8 else "")
    return f"only the interactions of {shown} were asked for; the others are not a number (NaN)"


def _spread(solution: Solution, values: Float[Tensor, "M"] | None) -> Float[np.ndarray, "U"]:
    """From the values of the moving units; the others are exactly 0."""
    full = np.zeros(len(solution.units))
    if values is not None:
        full[solution.moving.cpu().numpy()] = values.numpy()
    return full


def _matrix(solution: Solution, rows: tuple[int, ...] | None) -> Float[np.ndarray, "U U"]:
    """Rows not asked for hold their mirrored entries, NaN elsewhere."""
    count, value = len(solution.units), solution.integral.value
    moving = solution.moving.cpu().numpy()
    full = np.zeros((count, count))
    if "ig" not in solution.integral.extra:  # nothing moved at all
        return full
    full[np.ix_(_integrated(solution, rows), moving)] = value.numpy()
    if rows is not None:
        asked, other = np.array(rows), np.setdiff1d(np.arange(count), rows)
        full[np.ix_(other, other)] = np.nan
        full[np.ix_(other, asked)] = full[np.ix_(asked, other)].T
    return full


def _integrated(solution: Solution, rows: tuple[int, ...] | None) -> Int[np.ndarray, "R"]:
    """Units whose rows were integrated: those asked for that move at all, in the order of the integral's rows."""
    moving = solution.moving.cpu().numpy()
    return moving if rows is None else moving[np.isin(moving, rows)]


def _certificate(
    order: Order,
    solutions: Sequence[Solution],
    matrix: Float[np.ndarray, "U U"],
    scores: Float[np.ndarray, "U"],
    rows: tuple[int, ...] | None,
) -> Certificate:
    """Total: ΣΓ against F(x) − F(b). Rows: each row's sum against IG. A restricted result has only the rows."""
    f_input, f_baseline = float(solutions[0].f_end), float(np.mean([float(solution.f_start) for solution in solutions]))
    taken = np.arange(len(matrix)) if rows is None else np.array(rows, dtype=int)
    gaps = np.abs(matrix[taken].sum(1) - scores[taken])
    return Certificate.judge(
        f_input=f_input,
        f_baseline=f_baseline,
        total=float(matrix[taken].sum()),
        gap=None if rows is None else float(gaps.max(initial=0.0)),
        tolerance=order.tolerance,
        nodes=sum(solution.integral.nodes for solution in solutions),
        passes=sum(solution.passes for solution in solutions),
        errors=np.stack([_row_errors(solution, rows) for solution in solutions]).mean(0),
        kind="total" if rows is None else "per token",
        rows=gaps,
    )


def _row_errors(solution: Solution, rows: tuple[int, ...] | None) -> Float[np.ndarray, "U"]:
    full = np.zeros(len(solution.units))
    if "ig" in solution.integral.extra:
        full[_integrated(solution, rows)] = solution.integral.error.numpy()
    return full
