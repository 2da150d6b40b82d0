"""The one file that imports matplotlib: blank figures, fonts that have the characters, safe text.

Figures are made directly, never through pyplot, so nothing global changes and threads do not meet.
"""

from __future__ import annotations

import functools
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len

from pathlens.draw.words import visible
from pathlens.errors import InputError, MissingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, DIM, LINE = "#1b1f27", "#5b6372", "#d8dce4"
DPI = 160
KINDS = (".png", ".svg", ".pdf")  # of pictures, by suffix
PAPER = 0.09  # the dark ground, between black and white
HALF_TURN = 2 * np.array([[0.213, 0.715, 0.072]] * 3) - np.eye(3)  # hues by 180 degrees, lightness kept


def blank(width: float, height: float) -> Figure:
    """An empty figure of that many inches."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingError(
            'drawing pictures needs matplotlib; install it with: pip install "pathlens[plot]"'
        ) from error
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def write(axes: Axes, x: float, y: float, text: str, **style: Any) -> Any:
    """Text that is only text: no mathematics between dollars, no LaTeX."""
    return axes.text(x, y, visible(text) if text else "", parse_math=False, usetex=False, **style)


def names(axes: Axes, side: str, labels: Iterable[str], **style: Any) -> None:
    """Tick labels 0, 1, 2 … of the "x" or "y" axis, as plain text."""
    shown = [visible(label) for label in labels]
    place = axes.set_xticks if side == "x" else axes.set_yticks
    place(range(len(shown)), labels=shown, parse_math=False, usetex=False, **style)


def check_kind(path: Path) -> None:
    """A picture's name says what it is."""
    if path.suffix.lower() not in KINDS:
        raise InputError(f"cannot write a picture to {path.name!r}; expected a name ending in {', '.join(KINDS)}")


def save(figure: Figure, path: str | Path, *, dark: bool = False) -> Path:
    """Write PNG, SVG or PDF by suffix; `dark` writes a PNG for dark pages."""
    path = Path(path)
    check_kind(path)
    if dark and path.suffix.lower() != ".png":
        raise InputError(f"dark pictures are PNG, got {path.name!r}; expected a name ending in .png")
    fit(figure)
    with warnings.catch_warnings():
        # `fit` has already said which characters are missing, once and in words
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing.*")
        # no date inside: the same picture gives the same bytes
        figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    if dark:
        turn_over(path)
    return path


def turn_over(path: Path) -> None:
    """White becomes near-black and black near-white; hues are turned back, so orange still raises and blue lowers."""
    from matplotlib import image

    over = (PAPER + (1 - 2 * PAPER) * (1 - image.imread(path)[..., :3])) @ HALF_TURN.T
    image.imsave(path, np.clip(over, 0, 1), dpi=DPI)


def fit(figure: Figure) -> set[str]:
    """Give every text of a figure fonts that have its characters; warn and note on it what none has."""
    from matplotlib.text import Text

    every = figure.findobj(Text)
    families, missing = fonts("".join(text.get_text() for text in every))
    for text in every:
        text.set_fontfamily(families)
        text.set_parse_math(False)
        text.set_usetex(False)
    if missing:
        warnings.warn(missing_note(missing), stacklevel=3)
        words = missing_note(missing, shown=False)
        if (engine := figure.get_layout_engine()) is not None:  # plots fill their figure: the note needs a line
            line = 0.2 / figure.get_size_inches()[1]
            engine.set(rect=(0, line, 1, 1 - line))  # type: ignore[call-arg]
        figure.text(0.99, 0.004, words, ha="right", va="bottom", size=7, color=DIM, parse_math=False)
    return missing


def missing_note(missing: set[str], *, shown: bool = True) -> str:
    """One sentence about characters without a font (as code points where they could not be drawn)."""
    listed = " ".join(c if shown else f"U+{ord(c):04X}" for c in sorted(missing)[:8])
    more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
    cjk = any(unicodedata.category(c) == "Lo" and cell_len(c) == 2 for c in missing)
    hint = "; for Japanese install e.g. fonts-noto-cjk" if cjk else ""
    return f"no font on this machine has {listed}{more}: drawn as boxes{hint}"


def fonts(text: str) -> tuple[list[str], set[str]]:
    """Font families that together have every character of `text`, and the characters that none has."""
    wanted = {char for char in text if _needs_glyph(char)}
    families = ["DejaVu Sans"]  # comes with matplotlib
    wanted -= covered(_default_font())
    for name, path in system_fonts() if wanted else ():
        if gained := wanted & covered(path):
            families.append(name)
            wanted -= gained
    return families, wanted


def _needs_glyph(char: str) -> bool:
    """Blanks, controls and invisible joiners need none."""
    return not char.isspace() and unicodedata.category(char) not in ("Cc", "Cf", "Mn", "Cs")


def _default_font() -> str:
    from matplotlib import font_manager

    return font_manager.findfont("DejaVu Sans")


@functools.cache
def system_fonts() -> tuple[tuple[str, str], ...]:
    """(family, file) of upright regular fonts on this machine, the broadest families first."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    known = {entry.fname for entry in manager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:  # installed after matplotlib made its list
            try:
                manager.addfont(path)
            except Exception:  # a font it cannot read is a font it cannot draw with
                continue
    files: dict[str, str] = {}
    for entry in manager.ttflist:
        # the last resort has a box for every character and a glyph for none
        upright = entry.style == "normal" and not entry.name.startswith("Last Resort")
        if upright and entry.weight in (400, "normal", "regular"):
            files.setdefault(entry.name, entry.fname)
    order = ("CJK JP", "Noto Sans CJK", "IPA", "TakaoP", "Hiragino", "Yu Gothic", "Meiryo", "Noto Sans", "Noto", "")
    rank = {name: next(k for k, part in enumerate(order) if part in name) for name in files}
    return tuple(sorted(files.items(), key=lambda item: (rank[item[0]], len(item[0]), item[0])))


@functools.cache
def covered(path: str) -> frozenset[str]:
    """Characters a font has an outline for."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
        scalable = bool(font.get_charmap()) and font.num_glyphs > 0 and font.units_per_EM > 0
        return frozenset(map(chr, font.get_charmap())) if scalable else frozenset()
    except Exception:  # unreadable, or bitmaps only
        return frozenset()


def inches(text: str, size: float) -> float:
    """Width of a text, blanks included, from the advances of the fonts that will draw it."""
    return size * sum(map(advance, text)) / 72


@functools.cache
def advance(char: str) -> float:
    """A character's advance in heights of the font."""
    from matplotlib.ft2font import FT2Font

    if not _needs_glyph(char) and not char.isspace():
        return 0.0
    for path in (_default_font(), *(path for _, path in system_fonts())):
        if char in covered(path):
            font = FT2Font(path)
            font.set_size(100, 72)
            return float(font.load_char(ord(char)).linearHoriAdvance) / 65536 / 100
    return 1.0  # the box drawn in its place


@dataclass(frozen=True)
class Part:
    """A block `height` inches high; `draw` gets bare axes, in inches from its top left corner."""

    height: float
    draw: Callable[[Axes], None] = lambda axes: None


MARGIN = 0.3


def sheet(parts: Sequence[Part], inner: float) -> Figure:
    """Parts one below another, `inner` inches wide, on a page as high as they need."""
    wide, height = inner + 2 * MARGIN, sum(part.height for part in parts) + 2 * MARGIN
    figure = blank(wide, height)
    top = height - MARGIN
    for part in parts:
        axes = figure.add_axes((MARGIN / wide, (top - part.height) / height, inner / wide, part.height / height))
        _put(part, axes, inner)
        top -= part.height
    return figure


def _put(part: Part, axes: Axes, wide: float) -> None:
    axes.set(xlim=(0, wide), ylim=(part.height, 0), xticks=[], yticks=[])
    axes.axis("off")
    part.draw(axes)


def abreast(columns: Sequence[tuple[float, Sequence[Part]]], gap: float) -> Part:
    """Columns of parts side by side, each as wide as it says."""

    def draw(axes: Axes) -> None:
        left = 0.0
        for wide, parts in columns:
            top = 0.0
            for part in parts:
                _put(part, inside(axes, left, top, wide, part.height), wide)
                top += part.height
            left += wide + gap

    return Part(max(sum(part.height for part in parts) for _, parts in columns), draw)


def inside(axes: Axes, left: float, top: float, wide: float, tall: float) -> Axes:
    """Axes of their own inside a part's, in inches from its top left corner."""
    across, down = axes.get_xlim()[1], axes.get_ylim()[0]
    return axes.inset_axes((left / across, 1 - (top + tall) / down, wide / across, tall / down))


def paragraph(
    text: str, inner: float, *, size: float = 9, color: str = DIM, weight: str = "normal", after: float = 0.06
) -> Part:
    """Words, wrapped to the width."""
    lines = wrap(text, inner * (0.88 if weight == "bold" else 1.0), size)  # bold letters are wider
    step = size * 1.45 / 72

    def draw(axes: Axes) -> None:
        for k, line in enumerate(lines):
            write(axes, 0, k * step, line, size=size, color=color, weight=weight, va="top")

    return Part(len(lines) * step + after, draw)


def wrap(text: str, room: float, size: float) -> list[str]:
    """Lines of at most `room` inches: words stay whole, wide scripts break anywhere."""
    lines = [""]
    for part in re.findall(r"\s+|[^\s\u2e80-\U0003ffff]+|[\u2e80-\U0003ffff]", text):
        if lines[-1] and inches(lines[-1] + part.rstrip(), size) > room:
            lines.append("")
        if lines[-1] or not part.isspace():
            lines[-1] += part
        while inches(lines[-1].rstrip(), size) > room and len(lines[-1]) > 1:  # one word longer than a line
            sizes = range(len(lines[-1]) - 1, 0, -1)
            fits = next((k for k in sizes if inches(lines[-1][:k], size) <= room), 1)
            lines[-1:] = [lines[-1][:fits], lines[-1][fits:]]
    return lines
