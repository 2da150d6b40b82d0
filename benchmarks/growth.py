"""How time and memory grow with tokens, nodes, units, texts and layers: the fitted exponent beside the expected one.

Expected: nodes, texts and layers 1 in time (work is a sum over them) and 0 in memory (they go through in batches, or are
freed); tokens what the counted FLOPs of the model give, between 1 and 2; units at most 1 in time (the point itself is
evaluated once for all of them).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.apart import measured
from benchmarks.measure import Row, exponent, row
from benchmarks.memory import spans
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
    memory: float | None  # None: bounded by the budget, whatever the size


def flops(tokens: float) -> float:
    """Of one pass over MiniLM, up to a factor: 12 d² per token and block, and attention's 2·S·d."""
    return tokens * BLOCKS * (12 * WIDTH**2 + 2 * tokens * WIDTH)


def curves(quick: bool) -> list[Curve]:
    model = load("sentiment")
    lengths = (32, 64, 128) if quick else (32, 64, 128, 256, 512)
    texts = [of_length(model, length) for length in lengths]
    lengths = tuple(tokens_in(model, text) for text in texts)
    short = of_length(model, 32)
    nodes = (8, 16, 32) if quick else (8, 16, 32, 64, 128)
    many = (1, 2, 4) if quick else (1, 2, 4, 8, 16)
    units = (2, 4, 8) if quick else (2, 4, 8, 16, 32)
    layers = (0, 3, 5) if quick else (0, 1, 2, 3, 4, 5)
    document = of_length(model, 64)
    grow = exponent(lengths, [flops(length) for length in lengths])
    return [
        Curve("tokens", "sentiment", lengths, tuple(_call(text, n_steps=8) for text in texts), grow, None),
        Curve("nodes", "sentiment", nodes, tuple(_call(short, n_steps=n) for n in nodes), 1.0, 0.0),
        Curve("texts", "sentiment", many, tuple(_call([short] * n, n_steps=8) for n in many), 1.0, 0.0),
        Curve(
            "layers (blocks above the path)",
            "sentiment",
            tuple(BLOCKS - layer for layer in layers),
            tuple(_call(short, n_steps=32, layer=layer) for layer in layers),
            1.0,
            None,
        ),
        Curve(
            "units (forward mode)",
            "minilm",
            units,
            tuple(_call(document, method="vaig", mode="forward", n_steps=2, unit=spans(document, n)) for n in units),
            1.0,
            None,
        ),
    ]  # fmt: skip


def _call(text: Any, **choices: Any) -> dict[str, Any]:
    return {"text": text, "choices": choices, "times": 2}


def growth(quick: bool) -> list[Row]:
    found = curves(quick)
    measures = {}
    for model in ("sentiment", "minilm"):
        own = [curve for curve in found if curve.model == model]
        answers = iter(measured(model, [call for curve in own for call in curve.calls]))
        for curve in own:
            measures[curve.name] = [next(answers) for _ in curve.calls]
    rows = []
    for curve in found:
        spent = [one["seconds"] for one in measures[curve.name]]
        peaks = [max(one["peak"], 2.0**20) for one in measures[curve.name]]
        slope, memory = exponent(curve.sizes, spent), exponent(curve.sizes, peaks)
        expected = "at most the budget" if curve.memory is None else f"{curve.memory:g}"
        rows.append(
            row(
                f"growth with {curve.name}, {min(curve.sizes)} to {max(curve.sizes)}: time ~ size^{slope:.2f}, "
                f"memory ~ size^{memory:.2f}",
                f"expected at most {curve.time:.2f} in time, {expected} in memory",
                goal=curve.time + SLACK,
                ours=spent[-1],
                theirs=None,
                ratio=slope,
                sense="at most",
                curve=curve.name,
                sizes=list(curve.sizes),
                seconds=spent,
                peaks=peaks,
                expected=curve.time,
                memory_exponent=memory,
                expected_memory=curve.memory,
            )
        )
    return rows


def draw(rows: list[Row], file: Path = PICTURE) -> None:
    """Both curves of every row, on logarithmic axes, with the expected slope through the first point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, len(rows), figsize=(3.1 * len(rows), 5.2), squeeze=False)
    for column, one in enumerate(rows):
        sizes = np.array(one["sizes"], dtype=float)
        order = np.argsort(sizes)
        figures = (
            ("seconds", one["seconds"], one["expected"]),
            ("MiB", np.array(one["peaks"]) / 2**20, one["expected_memory"]),
        )
        for line, (unit, values, expected) in enumerate(figures):
            axis, values = axes[line][column], np.array(values)
            axis.loglog(sizes[order], values[order], "o-", label="measured")
            if expected is not None:
                base = values[order][0] * (sizes[order] / sizes[order][0]) ** expected
                axis.loglog(sizes[order], base, "--", color="grey", label=f"size^{expected:.2f}")
            axis.set_xlabel(one["curve"], fontsize=8)
            axis.set_ylabel(unit, fontsize=8)
            axis.tick_params(labelsize=7)
            axis.legend(fontsize=7)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    plt.close(figure)
