"""The path viewer: curves along each path and a slider; in the terminal a few steps of it."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathlens.draw import canvas, palette, plots, view
from pathlens.draw.markup import Markup, element
from pathlens.draw.sheet import write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pathlens.studies.pathview import PathView, Track

BLOCKS = "▁▂▃▄▅▆▇█"
STEPS = 5  # places along the path whose words the terminal lists
TOKENS = 30
WORDS = {"ig": "straight line", "dig": "word to word", "udig": "word to word, near the line"}


def title(found: PathView) -> str:
    """Which paths, to what."""
    names = ", ".join(track.method for track in found.tracks)
    return f"along the path ({names}) · {view.visible(found.target)}"


def spark(values: Any, low: float, high: float, width: int = 48) -> str:
    """A curve as a line of blocks."""
    picked = np.interp(np.linspace(0, 1, width), np.linspace(0, 1, len(values)), values)
    level = np.clip((picked - low) / ((high - low) or 1.0), 0, 1)
    return "".join(BLOCKS[round(float(v) * 7)] for v in level)


def show(found: PathView, *, console: Any = None, width: int | None = None) -> None:
    """Draw in the terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console(width=width)
    console.print(Text(title(found), "bold"))
    outputs = np.array([track.output for track in found.tracks])
    lengths = np.array([np.linalg.norm(track.slope, axis=1) for track in found.tracks])
    curves = Table.grid(padding=(0, 1))
    for k, track in enumerate(found.tracks):
        first, last = (palette.short(track.output[i]) for i in (0, -1))
        curves.add_row(
            Text(track.method, "bold"), "output", spark(outputs[k], outputs.min(), outputs.max()), f"{first} → {last}"
        )
        top = palette.short(float(lengths[k].max()))
        curves.add_row("", "gradient", spark(lengths[k], 0.0, float(lengths.max())), f"up to {top}")
    console.print(curves)
    for track in found.tracks:
        console.print(
            Text(
                f"\n{track.method}: {WORDS.get(track.method, '')}, {'its anchors' if track.anchors else 'nearest word'} on the way",
                "dim",
            )
        )
        console.print(_steps(found, track), highlight=False)
    for note in found.notes:
        console.print(Text(f"· {view.visible(note)}", "dim"))


def _steps(found: PathView, track: Track) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    places = np.linspace(0, len(track.t) - 1, STEPS).round().astype(int)
    for name in ("token", *(f"{100 * track.t[i]:.0f} %" for i in places)):
        table.add_column(Text(name, "dim"), overflow="fold")
    table.add_column(Text("score", "dim"), justify="right")
    moving = [i for i, held in enumerate(found.held) if not held][:TOKENS]
    for i in moving:
        near = [_word(track, int(k), i) for k in places]
        score = palette.number(float(track.share[-1, i]), palette.decimals(palette.limit(track.share[-1])))
        table.add_row(*[Text(view.visible(word)) for word in (found.tokens[i], *near)], score)
    return table


def _word(track: Track, point: int, token: int) -> str:
    """The anchor walked by, or the nearest word."""
    if track.anchors:
        return track.anchors[point][token] or "·"
    return track.nearest[point][token][0][0] if track.nearest[point][token] else "·"


def article(found: PathView) -> Markup:
    """A part of a page; `script()` wires its slider."""
    data = json.dumps(found.to_dict(), ensure_ascii=False, separators=(",", ":"))
    lead = element("p", {"class": "text plain", "dir": "auto"}, found.text) if found.text else ""
    notes = [element("li", None, note) for note in found.notes]
    legend = (
        "every path leads from the baseline to the text; the curves show what the model says on the way, and the table "
        "which real words each token is nearest to. Scores so far are sums between the points shown, so they end near "
        "the method's scores, not exactly at them."
    )
    return element(
        "article", {"class": "pathlens"},
        element("header", None, element("h1", None, title(found)), element("p", None, f"baseline {view.visible(found.baseline)}")),
        lead,
        element("section", {"class": "pathview", "data-view": data}),
        element("footer", None, element("p", {"class": "legend"}, legend), element("ul", {"class": "notes"}, *notes) if notes else ""),
    )  # fmt: skip


def style() -> str:
    """The viewer's style."""
    return resources.files("pathlens.draw").joinpath("path.css").read_text(encoding="utf-8")


def script() -> str:
    """The viewer's script."""
    return resources.files("pathlens.draw").joinpath("path.js").read_text(encoding="utf-8")


def page(found: PathView, path: str | Path | None = None) -> str:
    """A self-contained page."""
    return write_page(title(found), [article(found)], path, style=style(), scripts=[script()])


def figure(found: PathView) -> Figure:
    """Three small plots: output, gradient, distance to the nearest word."""
    pictures = [
        ("output", lambda track: track.output),
        ("length of the gradient", lambda t: np.linalg.norm(t.slope, axis=1)),
    ]
    moving = [i for i, held in enumerate(found.held) if not held]
    if not np.isnan(found.tracks[0].far).all():
        pictures.append(("distance to the nearest word", lambda track: track.far[:, moving].mean(1)))
    figure = canvas.blank(8, 2.1 * len(pictures) + 0.6)
    figure.set_layout_engine("constrained")
    figure.suptitle(view.visible(title(found)), size=11, color=canvas.INK, parse_math=False)
    every = figure.subplots(len(pictures), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, read) in zip(every, pictures, strict=True):
        for k, track in enumerate(found.tracks):
            axes.plot(track.t, list(read(track)), label=track.method, color=plots.COLORS[k], ls=plots.DASHES[k], lw=1.8)
        axes.set_ylabel(name, size=8, color=canvas.DIM)
        axes.tick_params(labelsize=8, color=canvas.LINE)
        axes.grid(color=canvas.LINE, lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    every[0].legend(loc="best", frameon=False, fontsize=8)
    every[-1].set_xlabel("along the path: 0 baseline, 1 text", size=8, color=canvas.DIM)
    return figure


def save(found: PathView, path: str | Path) -> Path:
    """Write the picture."""
    return canvas.save(figure(found), path)
