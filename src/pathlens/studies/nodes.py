"""How many nodes it takes: under each rule on this text, and for a model with ReLU against the β of its softplus.

>>> from pathlens.studies.nodes import nodes
>>> nodes("sentiment", "Not really funny, but moving.").to_html("nodes.html")
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np

from pathlens.engine.explainer import Explainer, loaded
from pathlens.engine.methods import ALONG_ONE_PATH
from pathlens.engine.options import build
from pathlens.engine.typed import StudyOptions
from pathlens.errors import InputError
from pathlens.explanation.record import Explanation
from pathlens.explanation.view import Listed, TableExport, Viewable
from pathlens.text.softplus import check_beta
from pathlens.types import FIXED_RULES, MAX_NODES, brief

COUNTS = (4, 8, 16, 32, 64)
RULES = tuple(rule for rule in FIXED_RULES if rule != "right")  # it errs as left does, the other way
BETAS = (1, 2, 5, 10, 20, 50, 100)
MOST = MAX_NODES  # of a single rule


@dataclass(frozen=True, eq=False, repr=False)
class NodeStudy(TableExport, Viewable):
    """`errors[rule][k]`: the largest |score − reference| over tokens with counts[k] nodes."""

    explanation: Explanation  # as asked: nodes chosen to meet the tolerance
    counts: tuple[int, ...]
    errors: dict[str, tuple[float, ...]]
    adaptive: float  # the largest |score − reference| of `explanation`
    reference: int  # nodes of the Gauss rule everything is measured against

    def __repr__(self) -> str:
        one = self.explanation
        asked = f"as asked {one.certificate.nodes} nodes, error {self.adaptive:.1g}"
        return brief(self, one.method, *one.about, f"rules {', '.join(self.errors)}", asked)

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary per rule and number of nodes, the last for what the tolerance chose."""
        every = [(rule, *point) for rule, row in self.errors.items() for point in zip(self.counts, row, strict=True)]
        every.append(("as asked", self.explanation.certificate.nodes, self.adaptive))
        return [{"rule": rule, "nodes": count, "error": error} for rule, count, error in every]


def nodes(
    model: Any,
    text: Any,
    text_b: Any = None,
    *,
    counts: Sequence[int] = COUNTS,
    rules: Sequence[str] = RULES,
    **choices: Unpack[StudyOptions],
) -> NodeStudy:
    """Explain a text with fixed numbers of nodes under several rules, and once as asked.

    The reference is a Gauss rule with twice the largest count (at least 128 nodes). Where the output has kinks no
    rule is fast, and the reference itself is only as good as its nodes. Choices as in `pl.explain`; methods that
    integrate along one path: ig, dig, udig.
    """
    if not counts or any(not isinstance(n, int) or not 1 <= n <= MOST // 2 for n in counts):
        raise InputError(f"counts are whole numbers from 1 to {MOST // 2}, got {list(counts)!r}")
    named: dict[str, Any] = {name: value for name, value in choices.items() if name not in ("n_steps", "rule")}
    method = build(named.setdefault("method", "ig")).name
    if method not in ALONG_ONE_PATH:
        able = ", ".join(ALONG_ONE_PATH)
        raise InputError(f"error against nodes is drawn for {able}; {method} has another integral or none").plainly(
            f"{method} takes no nodes along a path. Choose one of {able}.", "method"
        )
    one, named = loaded(model, named)
    reference = max(2 * max(counts), 128)

    def scores(rule: str, count: int) -> np.ndarray:
        with warnings.catch_warnings():  # few nodes do not settle: that is what is drawn
            warnings.simplefilter("ignore")
            return Explainer(one, n_steps=count, rule=rule, **{**named, "check": False})(text, text_b).scores

    asked = Explainer(one, **named).of_one_target("error against nodes")(text, text_b)
    exact = scores("gauss", reference)
    errors = {rule: tuple(_largest(scores(rule, n), exact) for n in counts) for rule in rules}
    return NodeStudy(asked, tuple(counts), errors, _largest(asked.scores, exact), reference)


def _largest(scores: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(scores - exact).max())


@dataclass(frozen=True)
class CurvePoint:
    """One β: how far the output moved, and what it took to integrate."""

    beta: float
    moved: float  # |f_β(x) − f(x)|
    nodes: int  # of the matrix, to the tolerance
    gap: float
    converged: bool


@dataclass(frozen=True, eq=False, repr=False)
class SoftplusCurve(Listed[CurvePoint], TableExport, Viewable):
    """Output change and nodes needed, one point per β."""

    listed: ClassVar[str] = "points"
    points: tuple[CurvePoint, ...]

    def __repr__(self) -> str:
        return brief(self, f"β {', '.join(f'{point.beta:g}' for point in self)}")

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary per β."""
        return [asdict(point) for point in self]


def softplus_curve(
    model: Any,
    text: Any,
    betas: Iterable[float] = BETAS,
    *,
    path: str | Path | None = None,
    **choices: Any,  # `path` is a file here
) -> SoftplusCurve:
    """Output change and nodes needed against β; with `path`, also drawn there (PNG or SVG).

    The first falls like 1/β, the second grows with β: choose the smallest β whose output change you can accept.
    """
    if choices.pop("method", "ih") != "ih":
        raise InputError("method: softplus is for second derivatives, so the curve is of ih; leave method out")
    points = []
    one, named = loaded(model, choices)
    for beta in betas:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            smooth = Explainer(one, method="ih", **{**named, "softplus": check_beta(beta)})
            result = smooth.of_one_target("a curve of softplus")(text)
        proof, count = result.certificate, int(result.origin.history[-1][0])
        moved = result.origin.moved
        assert moved is not None, "with softplus= a result says what it moved"
        points.append(CurvePoint(float(beta), moved, count, proof.gap, proof.converged))
    curve = SoftplusCurve(tuple(points))
    if path is not None:
        curve.to_png(path)
    return curve
