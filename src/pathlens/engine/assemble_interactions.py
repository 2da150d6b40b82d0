"""From the integral of one text to its token × token interactions, and which rows of them were asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from pathlens.errors import InputError
from pathlens.explanation.record import Interactions
from pathlens.types import Certificate, bound

if TYPE_CHECKING:
    from pathlens.engine.assemble import Order, Part


def chosen_rows(options: Mapping[str, Any], names: Sequence[str]) -> tuple[int, ...] | None:
    """Units whose row is wanted: `interaction_index` (one or several), or enough rows to cover `pairs`.

    A pair needs the row of one of its two units only (the matrix is symmetric): units that are in most of the
    pairs still open are taken first.
    """
    single, pairs = options.get("interaction_index"), options.get("pairs")
    if single is not None and pairs is not None:
        raise InputError("give interaction_index or pairs, not both")
    if single is not None:
        several = isinstance(single, Iterable) and not isinstance(single, str)
        wanted = list(single) if several else [single]
        if not wanted:
            raise InputError("interaction_index is empty; give one unit or several, by index or name")
        return tuple(sorted({_index(each, names) for each in wanted}))
    if pairs is None:
        return None
    open_pairs = {_pair(each, names) for each in pairs} if isinstance(pairs, Iterable) else set()
    if not open_pairs:
        raise InputError(f"pairs must be a list of at least one pair of units, got {pairs!r}")
    rows: set[int] = set()
    while open_pairs:
        members = list(chain.from_iterable(sorted(open_pairs)))
        best = max(sorted(set(members)), key=members.count)
        rows.add(best)
        open_pairs = {pair for pair in open_pairs if best not in pair}
    return tuple(sorted(rows))


def _pair(pair: Any, names: Sequence[str]) -> tuple[int, int]:
    if isinstance(pair, str) or not isinstance(pair, Iterable) or len(ends := tuple(pair)) != 2:
        raise InputError(f"pairs must be a list of two units each, by index or name, got {pair!r}")
    return _index(ends[0], names), _index(ends[1], names)


def _index(unit: Any, names: Sequence[str]) -> int:
    if isinstance(unit, str):
        found = [i for i, name in enumerate(names) if name == unit]
        if len(found) == 1:
            return found[0]
        problem = "is there more than once: give its index" if found else "is not there"
        raise InputError(f"the unit {unit!r} {problem}; units: {', '.join(f'{i} {n!r}' for i, n in enumerate(names))}")
    if not isinstance(unit, int | np.integer) or isinstance(unit, bool) or not -len(names) <= unit < len(names):
        raise InputError(f"a unit is an index from 0 to {len(names) - 1} or a name, got {unit!r}")
    return int(unit) % len(names)


def interactions(order: Order, parts: Sequence[Part]) -> Interactions:
    """One matrix; several parts are several baselines (expected Hessians).

    Each baseline is the same for both integrals, so the rows of the mean are expected gradients.
    """
    from pathlens.engine.assemble import meta_of

    rows = chosen_rows(order.settings.options, parts[0].units.names)
    samples = [_matrix(part, rows) for part in parts]
    scores = np.stack([_spread(part, part.finding.integral.extra.get("ig")) for part in parts])
    matrices = np.stack(samples)
    matrix = matrices.mean(0)
    meta = meta_of(order, parts)
    both = ~np.isnan(matrix) & ~np.isnan(matrix.T)
    if rows is None:
        meta["asymmetry"] = float(np.abs(matrix - matrix.T)[both].max(initial=0.0))
    else:
        meta["rows"] = list(rows)
        meta["notes"] = [*meta["notes"], _partly(rows, parts[0].units.names)]
    count = len(parts)
    units = parts[0].units
    return Interactions(
        method=order.method.name,
        target=parts[0].case.target_name,
        certificate=_certificate(order, parts, matrix, scores.mean(0), rows),
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


def _spread(part: Part, values: Tensor | None) -> np.ndarray:
    """(U,) from the values of the moving units; the others are exactly 0."""
    full = np.zeros(len(part.units))
    if values is not None:
        full[part.finding.moving.cpu().numpy()] = values.numpy()
    return full


def moving_rows(rows: tuple[int, ...] | None, moving: Tensor) -> tuple[int, ...] | None:
    """Chosen units → their places among the moving ones; those that do not move need no work."""
    if rows is None:
        return None
    place = {unit: k for k, unit in enumerate(moving.tolist())}
    return tuple(place[row] for row in rows if row in place)


def _matrix(part: Part, rows: tuple[int, ...] | None) -> np.ndarray:
    """(U, U). Rows not asked for hold their mirrored entries, NaN elsewhere."""
    count, value = len(part.units), part.finding.integral.value
    moving = part.finding.moving.cpu().numpy()
    full = np.zeros((count, count))
    if "ig" not in part.finding.integral.extra:  # nothing moved at all
        return full
    taken = moving if rows is None else moving[list(moving_rows(rows, part.finding.moving))]
    full[np.ix_(taken, moving)] = value.numpy()
    if rows is not None:
        other = np.setdiff1d(np.arange(count), rows)
        full[np.ix_(other, other)] = np.nan
        full[np.ix_(other, rows)] = full[np.ix_(rows, other)].T
    return full


def _certificate(
    order: Order, parts: Sequence[Part], matrix: np.ndarray, scores: np.ndarray, rows: tuple[int, ...] | None
) -> Certificate:
    """Total: ΣΓ against F(x) − F(b). Rows: each row's sum against IG. A restricted result has only the rows."""
    findings = [part.finding for part in parts]
    f_input, f_baseline = float(findings[0].f_end), float(np.mean([float(f.f_start) for f in findings]))
    change = f_input - f_baseline
    taken = np.arange(len(matrix)) if rows is None else np.array(rows, dtype=int)
    own = matrix[taken]
    gaps = np.abs(own.sum(1) - scores[taken])
    total = float(own.sum())
    gap = abs(total - change) if rows is None else float(gaps.max(initial=0.0))
    errors = np.stack([_row_errors(part, rows) for part in parts]).mean(0)
    limit = bound(f_input, f_baseline, order.settings.tolerance)
    settled = max(gap, errors.max(initial=0.0)) <= limit
    return Certificate(
        f_input=f_input,
        f_baseline=f_baseline,
        total=total,
        gap=gap,
        relative_gap=gap / abs(change) if change else 0.0,
        tolerance=order.settings.tolerance,
        converged=bool(settled),
        nodes=sum(f.integral.nodes for f in findings),
        passes=sum(part.passes for part in parts),
        error_estimate=tuple(errors.tolist()),
        kind="total" if rows is None else "per token",
        rows=tuple(gaps.tolist()),
        bound=limit,
    )


def _row_errors(part: Part, rows: tuple[int, ...] | None) -> np.ndarray:
    error, moving = part.finding.integral.error, part.finding.moving.cpu().numpy()
    full = np.zeros(len(part.units))
    if "ig" in part.finding.integral.extra:
        full[moving if rows is None else moving[list(moving_rows(rows, part.finding.moving))]] = error.numpy()
    return full
