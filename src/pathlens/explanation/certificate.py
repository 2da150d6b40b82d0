"""What adds up, how far, and at what cost: on every result, judged in one place; and what to do where it does not."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from pathlens.errors import ConvergenceWarning, setting
from pathlens.explanation.origin import Origin
from pathlens.path.words.options import WordPath
from pathlens.types import brief

if TYPE_CHECKING:
    from pathlens.explanation.base import Result


@dataclass(frozen=True, repr=False)
class Certificate:
    """What adds up, how far, and at what cost. On every result.

    `converged` means: gap ≤ max(tolerance·|f_input − f_baseline|, 1e-5·max(1, |f_input|)), **and** the
    largest entry of `error_estimate` is under the same bound (a small total gap alone can hide errors that
    cancel). For vectors, |·| are lengths; for a pair, the bound is relative to max(|similarity|, 0.1). `kind` says
    what the gap is of: "total", "per token" (SIG: the worst token), "matrix", "vector" (norms of vectors).

    Its own numbers have the last word, whoever makes it: with a gap, a miss or an estimate above `bound`, or one that is not a
    number, `converged` is False, whatever was said.
    """

    f_input: float
    f_baseline: float
    total: float
    gap: float
    relative_gap: float
    tolerance: float
    converged: bool
    nodes: int
    passes: int
    error_estimate: tuple[float, ...] = ()
    kind: str = "total"
    rows: tuple[float, ...] = ()  # gaps of single rows or tokens, where each has its own sum
    bound: float = 0.0  # the largest gap, and the largest estimate, that count as settled

    def __post_init__(self) -> None:
        known = (self.gap, self.missed or 0.0, *self.error_estimate)
        allowed = self.bound + 1e-9 * (abs(self.f_input) + abs(self.f_baseline))  # `missed` is a difference of these
        object.__setattr__(self, "converged", bool(self.converged) and all(each <= allowed for each in known))

    @property
    def meant(self) -> float | None:
        """What the sum should be, where the certificate says it: the output's change, of a matrix the output."""
        return {"total": self.f_input - self.f_baseline, "matrix": self.f_input}.get(self.kind)

    @property
    def missed(self) -> float | None:
        """How far the sum is from it."""
        return None if self.meant is None else abs(self.total - self.meant)

    def joined(self, members: Float[np.ndarray, "G U"]) -> Certificate:
        """Of units put together, `members` of 0 and 1: estimates add up, and so do the bounds of the largest group's units.

        Gaps of single rows have signs that nobody kept, so they are left out.
        """
        if not self.error_estimate:  # one for each unit, or none
            return replace(self, rows=())
        errors = members @ np.array(self.error_estimate)
        most = float(members.sum(1).max(initial=1.0))
        return replace(self, error_estimate=tuple(errors.tolist()), bound=self.bound * most, rows=())

    def less(
        self, other: Certificate, *, total: float, errors: Iterable[float] | None = None, **facts: float
    ) -> Certificate:
        """Of this one's numbers less the other's, which sum to `total`: settled where both are, and errors add up.

        errors: where the numbers do not stand at the same places. facts: outputs, gap and size, where they are not the
        differences and what they miss (vectors have lengths).
        """
        kind = "per token" if "per token" in (self.kind, other.kind) else self.kind
        ends: dict[str, Any] = {name: getattr(self, name) - getattr(other, name) for name in ("f_input", "f_baseline")}
        ends |= facts
        if kind == "per token":  # no common sum to miss: each unit's own
            ends.setdefault("gap", self.gap + other.gap)
        if kind == "matrix":  # the baseline's cell is in the sum
            ends = {"size": abs(ends["f_input"]), **ends, "gap": abs(total - ends["f_input"])}
        return Certificate.judge(
            **ends,
            total=total,
            tolerance=max(self.tolerance, other.tolerance),
            nodes=self.nodes + other.nodes,
            passes=self.passes + other.passes,
            errors=np.add(self.error_estimate, other.error_estimate) if errors is None else errors,
            bound=self.bound + other.bound,
            parts=(self, other),
            kind=kind,
        )

    def __repr__(self) -> str:
        alone = self.kind == "per token"
        change = self.f_input if self.kind == "matrix" else self.f_input - self.f_baseline
        sums = "each unit by itself" if alone else f"{self.total:.6g} of {change:.6g}"
        if self.kind == "vector":  # its numbers are lengths, whose difference is not the change's
            sums = f"vectors that sum to length {self.total:.6g}"
        verdict = "settled" if self.converged else "NOT settled"
        cost = f"{self.nodes} nodes, {self.passes} passes" if self.nodes else f"{self.passes} passes"
        return brief(self, verdict, sums, f"gap {self.gap:.1g}, {self.bound:.1g} allowed", cost)

    @staticmethod
    def judge(
        *,
        f_input: float,
        f_baseline: float,
        total: float,
        tolerance: float,
        nodes: int,
        passes: int,
        errors: Iterable[float] = (),
        bound: float | None = None,
        gap: float | None = None,
        size: float | None = None,
        also: Iterable[float] = (),
        parts: Iterable[Certificate] = (),
        kind: str = "total",
        rows: Iterable[float] = (),
    ) -> Certificate:
        """The certificate of these numbers; what is not given follows from `f_input`, `f_baseline` and `total`.

        gap: how far the sum is off (|total − change|). size: what the gap is relative to (|change|).
        also: further errors that must be under the bound. parts: certificates that must have converged too.
        """
        change = f_input - f_baseline
        gap = abs(total - change) if gap is None else gap
        size = abs(change) if size is None else size
        limit = bound_of(f_input, f_baseline, tolerance) if bound is None else bound
        estimates = tuple(float(error) for error in errors)
        settled = all(each <= limit for each in also)  # its own numbers it sees to itself
        return Certificate(
            f_input=f_input,
            f_baseline=f_baseline,
            total=total,
            gap=gap,
            relative_gap=gap / size if size > 0 else 0.0,
            tolerance=tolerance,
            converged=bool(settled and all(part.converged for part in parts)),
            nodes=nodes,
            passes=passes,
            error_estimate=estimates,
            kind=kind,
            rows=tuple(float(row) for row in rows),
            bound=limit,
        )


def bound_of(f_input: float, f_baseline: float, tolerance: float) -> float:
    """The largest gap that still counts as converged; the floor keeps float32 rounding from failing it."""
    return max(tolerance * abs(f_input - f_baseline), 1e-5 * max(1.0, abs(f_input)))


def warn_unsettled(results: Sequence[Result], *, depth: int) -> None:
    """One warning for the results that did not meet their tolerance: how far the worst is off, and the ways out.

    depth: of the model, in blocks; a deeper layer is advised where there is one.
    """
    loose = [result for result in results if not result.certificate.converged]
    if not loose:
        return
    worst = max(loose, key=lambda result: result.certificate.relative_gap)
    cert = worst.certificate
    many = f"{len(loose)} of {len(results)} results have" if len(results) > 1 else "the result has"
    largest = max(cert.error_estimate, default=0.0)
    warnings.warn(
        f"{many} not settled within tolerance {cert.tolerance:g} (gap {cert.gap:.2g}, largest error estimate {largest:.2g}, "
        f"{cert.nodes} nodes). Ways out: {_ways_out(worst, depth)}.{_precision(worst)}",
        ConvergenceWarning,
        stacklevel=4,  # the line that called `pl.explain`
    )


def _ways_out(result: Result, depth: int) -> str:
    """What to do, in one line; secants have no nodes, and what is missing of their sum is rounding."""
    if result.certificate.nodes == 0:
        return f"the model in float64 ({setting('dtype=torch.float64')}), another baseline, a looser tolerance, or {setting(method='ig')}"
    return f"raise max_nodes or n_steps, {_of_integral(result, depth)}"


def _of_integral(result: Result, depth: int) -> str:
    origin, layer = result.origin, result.origin.layer or 0
    deeper = f"a deeper layer ({setting(layer=layer + 1)}), " if layer < depth else ""
    score = (origin.chosen or {}).get("score")  # none of a vector, a similarity, a caller's function
    takes_logprob = score not in (None, "", "logprob") and origin.kind != "multiple choice"
    logprob = f"{setting(score='logprob')}, " if takes_logprob else ""
    if result.method == "ih":  # it has the straight line alone, and nodes of its own
        return (
            "leave n_steps out (nodes are then placed where they are needed), another baseline, "
            f"{logprob}{deeper}a looser tolerance, or, for a model with ReLU, {setting(softplus=10)}"
        )
    if isinstance(getattr(result, "path", None), WordPath):  # it lives at the embeddings, and has its own way
        return "leave rule and n_steps out (nodes are then placed where they are needed), another baseline, or a looser tolerance"
    if origin.score and origin.outputs:
        return _generator_remedies(origin, depth)
    return f"another baseline ({setting(baseline='pad')} or 'mean'), {logprob}{deeper}a looser tolerance, or {setting(rule='split')}"


def _generator_remedies(origin: Origin, depth: int) -> str:
    """What helps on a decoder and was not done yet (docs/generation.md); `sig` always does, it has no integral."""
    here = origin.layer or 0
    deeper = next((layer for layer in (1, 2, 4) if layer > here), here + 1)
    remedies = [setting(layer=deeper)] if deeper <= depth else []
    if origin.score != "logprob":
        remedies.append(setting(score="logprob"))
    if not origin.sink and origin.kind == "causal language model":
        remedies.append(f"a held first token (leave {setting(sink=None)} out)")
    if origin.baseline != "mean":
        remedies.append(setting(baseline="mean"))
    return ", ".join([*remedies, f"a looser tolerance, or {setting(method='sig')} (differences of outputs, exact)"])


def _precision(result: Result) -> str:
    dtype = result.origin.dtype
    half = f" The model runs in {dtype}, whose rounding alone can exceed the tolerance: load it with {setting('dtype=torch.float32')}."
    return half if dtype in ("float16", "bfloat16") else ""
