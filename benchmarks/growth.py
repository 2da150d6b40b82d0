"""How time and memory grow with tokens, nodes, units, texts and layers: the fitted exponent beside the expected one.

Expected in time: nodes, texts and layers 1 (work is a sum over them); tokens what the counted FLOPs of the model give,
between 1 and 2; units at most 1 (the point itself is evaluated once for all of them). In memory: nodes and texts 0, they
go through in batches (sizes begin where one batch is full); tokens, layers and units at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Row, exponent, row
from benchmarks.memory import spans
from benchmarks.subprocess_run import measured
from benchmarks.texts import of_length, tokens_in
from pathlens.text.load import load

PICTURE = Path("docs/images/growth.png")
SLACK = 0.15  # what a fit over a factor of eight may be off by
WIDTH, BLOCKS = 384, 6


@dataclass(frozen=True)
class Curve:
    """Calls of growing size, and how their time (and memory) should grow."""

    name: str
    model: str
    sizes: tuple[int, ...]
    calls: tuple[dict[str, Any], ...]
    time: float
    memory: float


def flops(tokens: float) -> float:
    """Of one pass over MiniLM, up to a factor: 12 d² per token and block, and attention's 2·S·d."""
    return tokens * BLOCKS * (12 * WIDTH**2 + 2 * tokens * WIDTH)


def curves(quick: bool) -> list[Curve]:
    model = load("sentiment")
    lengths = (32, 128) if quick else (32, 64, 128, 256, 512)
    texts = [of_length(model, length) for length in lengths]
    lengths = tuple(tokens_in(model, text) for text in texts)
    short = of_length(model, 32)
    nodes = (64, 128) if quick else (64, 128, 256, 512)
    many = (8, 16) if quick else (8, 16, 32, 64)
    units = (2, 8) if quick else (2, 4, 8, 16, 32)
    layers = (0, 5) if quick else (0, 1, 2, 3, 4, 5)
    document = of_length(model, 64)
    grow = exponent(lengths, [flops(length) for length in lengths])
    return [
        Curve("tokens", "sentiment", lengths, tuple(_call(text, n_steps=8) for text in texts), grow, 1.0),
        Curve("nodes", "sentiment", nodes, tuple(_call(short, n_steps=n) for n in nodes), 1.0, 0.0),
        Curve("texts", "sentiment", many, tuple(_call([short] * n, n_steps=8) for n in many), 1.0, 0.0),
        Curve(
            "layers (blocks above the path)",
            "sentiment",
            tuple(BLOCKS - layer for layer in layers),
            tuple(_call(short, n_steps=32, layer=layer) for layer in layers),
            1.0,
            1.0,
        ),
        Curve(
            "units (forward mode)",
            "minilm",
            units,
            tuple(_call(document, method="vaig", mode="forward", n_steps=2, unit=spans(document, n)) for n in units),
            1.0,
            1.0,
        ),
    ]  # fmt: skip


def _call(text: Any, **choices: Any) -> dict[str, Any]:
    return {"text": text, "choices": choices, "times": 2}


def growth(quick: bool) -> list[Row]:
    every = curves(quick)
    once = {"times": 1} if quick else {}
    measures = {}
    for model in ("sentiment", "minilm"):
        points = [curve for curve in every if curve.model == model]
        answers = iter(measured(model, [{**call, **once} for curve in points for call in curve.calls]))
        for curve in points:
            measures[curve.name] = [next(answers) for _ in curve.calls]
    rows = []
    for curve in every:
        points = measures[curve.name]
        figures = (
            ("time", "seconds", [one["seconds"] for one in points], curve.time),
            ("memory", "MiB", [max(one["peak"] / 2**20, 1.0) for one in points], curve.memory),
        )
        for what, unit, values, expected in figures:
            slope = exponent(curve.sizes, values)
            shown = ", ".join(f"{value:.3g}" for value in values)
            rows.append(
                row(
                    f"growth of {what} with {curve.name} {', '.join(map(str, curve.sizes))}: {shown} {unit}",
                    f"expected exponent at most {expected:.2f}",
                    goal=expected + SLACK,
                    ours=points[-1]["seconds"],
                    theirs=None,
                    ratio=slope,
                    sense="at most",
                    curve=curve.name,
                    unit=unit,
                    sizes=list(curve.sizes),
                    values=values,
                    expected=expected,
                )
            )
    return rows


def draw(rows: list[Row], file: Path = PICTURE) -> None:
    """Both curves of every row, on logarithmic axes, with the expected slope through the first point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(one["curve"] for one in rows))
    units = list(dict.fromkeys(one["unit"] for one in rows))
    figure, axes = plt.subplots(len(units), len(names), figsize=(3.1 * len(names), 2.6 * len(units)), squeeze=False)
    for one in rows:
        axis = axes[units.index(one["unit"])][names.index(one["curve"])]
        order = np.argsort(one["sizes"])
        sizes, values = (np.array(one[each], dtype=float)[order] for each in ("sizes", "values"))
        axis.loglog(sizes, values, "o-", label=f"measured: size^{one['ratio']:.2f}")
        expected = values[0] * (sizes / sizes[0]) ** one["expected"]
        axis.loglog(sizes, expected, "--", color="grey", label=f"expected: size^{one['expected']:.2f}")
        axis.set_ylim(min(values.min(), expected.min()) / 1.6, max(values.max(), expected.max()) * 1.6)
        axis.set_xlabel(one["curve"], fontsize=8)
        axis.set_ylabel(one["unit"], fontsize=8)
        axis.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axis.set_yticks([values[0], values[-1]], [f"{value:.3g}" for value in (values[0], values[-1])])
        axis.minorticks_off()
        axis.tick_params(labelsize=7)
        axis.legend(fontsize=7)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    plt.close(figure)
