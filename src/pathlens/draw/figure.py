"""Results and curves as PNG or SVG, for papers and slides (needs matplotlib: `pip install "pathlens[plot]"`).

`save` draws any result; the plots return a matplotlib `Figure` that `write` (or the user) saves.
`python -m pathlens.draw.figure` writes every view to pathlens-*.png.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pathlens.draw import canvas, pictures, view
from pathlens.draw.plots import bars, bars_in_panels, curve, dependence, error_against_nodes, layers, summary
from pathlens.explanation.record import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "bars",
    "bars_in_panels",
    "curve",
    "dependence",
    "draw",
    "error_against_nodes",
    "layers",
    "save",
    "summary",
    "write",
]


def draw(result: Result, *, unit: str | None = None) -> Figure:
    """The figure of a result, not written anywhere."""
    return pictures.picture(view.check(result, unit))


def save(result: Result, path: str | Path, *, unit: str | None = None) -> Path:
    """Write the picture of a result; the suffix chooses PNG, SVG or PDF."""
    return canvas.save(draw(result, unit=unit), path)


def write(figure: Figure, path: str | Path) -> Path:
    """Write any figure made here, with fonts that have its characters."""
    return canvas.save(figure, path)


if __name__ == "__main__":
    from pathlens.draw.sample import every

    for sample in every():
        save(sample, f"pathlens-{sample.method}.png")
