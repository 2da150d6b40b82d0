"""One signed scale for every picture, and how its numbers are written.

Orange raises the target, blue lowers it. Both arms have the same lightness at the same strength (mixed in
OKLab), so neither sign looks stronger, and the two hues stay apart for red-, green- and blue-blind readers.
Lengths of vectors have no sign and get a third hue. Strength is linear in |value|: half the value, half the
way from the background to the full colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

# Ends of the scale in OKLCh (lightness, chroma, hue in degrees): same lightness for all three. It is the one
# at which black text has contrast 7 and the colour still stands out on white and on near-black.
RAISES = (0.70, 0.165, 48.0)
LOWERS = (0.70, 0.135, 248.0)
LENGTH = (0.70, 0.110, 168.0)
LIGHT, DARK = "#ffffff", "#15181e"  # the backgrounds the scale starts from

RAISES_WORD, LOWERS_WORD, LENGTH_WORD = "orange", "blue", "green"


def limit(values: Iterable[float] | np.ndarray) -> float:
    """The value drawn in full colour: the largest |value| (finite ones only), or 1 when all are zero.

    Not a quantile: clipping would draw unequal values alike.
    """
    sizes = np.abs(np.asarray(list(values) if not isinstance(values, np.ndarray) else values, dtype=float))
    sizes = sizes[np.isfinite(sizes)]
    return float(sizes.max()) if sizes.size and sizes.max() > 0 else 1.0


def color(value: float, limit: float, *, signed: bool = True, dark: bool = False) -> str:
    """Background colour "#rrggbb" of a value, or of a length where values have no sign.

    The plain background at 0, full colour at ±limit.
    """
    lightness, chroma, hue = LENGTH if not signed else RAISES if value > 0 else LOWERS
    full = np.array([lightness, chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))])
    base = oklab(DARK if dark else LIGHT)
    cones = np.linalg.solve(AXES, base + strength(value, limit) * (full - base)) ** 3
    linear = np.clip(np.linalg.solve(CONES, cones), 0, 1)
    encoded = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{round(255 * float(v)):02x}" for v in encoded)


def strength(value: float, limit: float) -> float:
    """|value| / limit between 0 and 1; NaN counts as 0."""
    share = abs(value) / limit if limit > 0 else 0.0
    return 0.0 if math.isnan(share) else min(share, 1.0)


def text_color(background: str) -> str:
    """Black or white, whichever reads better on `background` (one of them always has contrast ≥ 4.58)."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, background))


def contrast(one: str, other: str) -> float:
    """WCAG contrast of two colours: (lighter + 0.05) / (darker + 0.05), from 1 to 21."""
    low, high = sorted(float(channels(each) @ np.array([0.2126, 0.7152, 0.0722])) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def decimals(limit: float, digits: int = 3) -> int:
    """Decimals that show `digits` significant digits of `limit`; the same for every number of one picture."""
    if not math.isfinite(limit) or limit <= 0:
        return digits - 1
    return min(max(digits - 1 - math.floor(math.log10(limit)), 0), 8)


def number(value: float, decimals: int, *, sign: bool = True, narrow: bool = False) -> str:
    """A value with its sign; what rounds to zero has none. `narrow` drops the 0 before the point.

    NaN stands for "not computed" (rows of a table that were not asked for) and is a dot.
    """
    if not math.isfinite(value):
        return "·" if math.isnan(value) else str(value)
    text = f"{value:+.{decimals}f}" if sign else f"{value:.{decimals}f}"
    text = text.lstrip("+-") if float(text) == 0 else text
    if narrow and float(text) == 0:
        return "0"
    return text.replace("0.", ".", 1) if narrow and abs(value) < 1 and "." in text else text


def short(value: float) -> str:
    """Five significant digits, trailing zeros dropped."""
    return f"{value:.5g}"


# OKLab (Ottosson 2020): linear sRGB -> cone responses -> cube root -> lightness and two opponent axes.
CONES = np.array([
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
])  # fmt: skip
AXES = np.array([
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
])  # fmt: skip


def rgb(color: str) -> bytes:
    """Red, green and blue, a byte each."""
    return bytes.fromhex(color[1:])


def channels(color: str) -> np.ndarray:
    """Linear red, green and blue, each from 0 to 1."""
    values = np.array(list(rgb(color))) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def oklab(color: str) -> np.ndarray:
    """Lightness and two opponent axes, in which equal steps look equal."""
    return AXES @ np.cbrt(CONES @ channels(color))
