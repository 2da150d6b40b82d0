"""How far softplus moves a ReLU model's output, and what integrating it takes, against β."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pathlens.engine.explainer import explain
from pathlens.text.softplus import check_beta


@dataclass(frozen=True)
class CurvePoint:
    """One β: how far the output moved, and what it took to integrate."""

    beta: float
    moved: float  # |f_β(x) − f(x)|
    nodes: int  # of the matrix, to the tolerance
    gap: float
    converged: bool


def softplus_curve(
    model: Any, text: Any, betas: Iterable[float] = (1, 2, 5, 10, 20, 50, 100), *, path: Any = None, **choices: Any
) -> list[CurvePoint]:
    """Output change and nodes needed against β; with `path`, also drawn there (PNG or SVG).

    The first falls like 1/β, the second grows with β: choose the smallest β whose output change you can accept.
    """
    curve = []
    for beta in betas:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = explain(model, text, method="ih", softplus=check_beta(beta), **choices)
        proof = result.certificate
        nodes = result.meta["history"][-1][0]
        curve.append(CurvePoint(float(beta), result.meta["softplus"]["moved"], int(nodes), proof.gap, proof.converged))
    if path is not None:
        from pathlens.draw import figure

        betas = [point.beta for point in curve]
        series = {"|f_β(x) − f(x)|": [p.moved for p in curve], "nodes / 1000": [p.nodes / 1000 for p in curve]}
        drawn = figure.curve(betas, series, title="Softplus for ReLU", xlabel="β")
        drawn.axes[0].set(xscale="log", yscale="log")
        figure.write(drawn, path)
    return curve
