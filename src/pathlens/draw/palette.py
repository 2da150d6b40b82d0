"""One signed scale for every picture, and the words under it.

Orange raises the target, blue lowers it. Both arms have the same lightness at the same strength (mixed in
OKLab), so neither sign looks stronger, and the two hues stay apart for red-, green- and blue-blind readers.
Lengths of vectors have no sign and get a third hue. Strength is linear in |value|: half the value, half the
way from the background to the full colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from pathlens.explanation.certificate import Certificate
from pathlens.explanation.continuation import Continuation
from pathlens.explanation.record import Interactions, PairExplanation, PhraseTree, Result, VectorExplanation

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


def color(value: float, limit: float, *, dark: bool = False) -> str:
    """Background colour "#rrggbb" of a signed value; the plain background at 0, full colour at ±limit."""
    return _blend(RAISES if value > 0 else LOWERS, strength(value, limit), dark)


def length_color(value: float, limit: float, *, dark: bool = False) -> str:
    """Background colour of a length, which has no sign."""
    return _blend(LENGTH, strength(value, limit), dark)


def strength(value: float, limit: float) -> float:
    """|value| / limit between 0 and 1; NaN counts as 0."""
    share = abs(value) / limit if limit > 0 else 0.0
    return 0.0 if math.isnan(share) else min(share, 1.0)


def text_color(background: str) -> str:
    """Black or white, whichever reads better on `background` (one of them always has contrast ≥ 4.58)."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, background))


def contrast(one: str, other: str) -> float:
    """WCAG contrast of two colours: (lighter + 0.05) / (darker + 0.05), from 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
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


def full(result: Result) -> float:
    """The value drawn in full colour: the largest |score|, |pair of tokens|, length or dividend."""
    if isinstance(result, PairExplanation | Interactions | Continuation):
        return limit(result.matrix)
    if isinstance(result, VectorExplanation):
        return limit(result.norms)
    if isinstance(result, PhraseTree):
        return limit([node.dividend for node in result.nodes])
    return limit(result.scores)  # type: ignore[attr-defined]


def legend(result: Result) -> str:
    """What the colours and the numbers of this result mean, in one or two sentences."""
    target = f"“{result.target}”" if result.target else "the target"
    colors = f"{RAISES_WORD} raises {target}, {LOWERS_WORD} lowers it"
    top = number(full(result), decimals(full(result)), sign=False)
    change = short(result.certificate.f_input - result.certificate.f_baseline)
    sums = "sum to" if result.certificate.converged else "should sum to"
    if isinstance(result, VectorExplanation):
        return (
            f"{LENGTH_WORD} is the length of a token's contribution to {target} (no sign); full colour is "
            f"{top}, the longest; the vectors add up, their lengths do not."
        )
    if isinstance(result, PairExplanation):
        clipped = limit(result.full_matrix) > full(result)
        beyond = "; the reference goes beyond, in the same colour" if clipped else ""
        return (
            f"{colors}; numbers are shares of the similarity, with the reference row and column they {sums} "
            f"{short(result.similarity)}; full colour is {top}, the largest |share| of two tokens{beyond}."
        )
    if isinstance(result, Interactions):
        whole = "" if result.certificate.kind == "per token" else f", everything to {change}"
        return (
            f"{colors}; a cell is how two tokens act together, the diagonal a token by itself; a row sums to "
            f"the token's score{whole}; full colour is {top}, the largest |cell|."
        )
    if isinstance(result, PhraseTree):
        return (
            f"{colors}; the number is a phrase's value from 0 to 1 (the whole text): its own dividend and "
            f"those of the phrases inside it, with the sign of its own integral; the shade is its own "
            f"dividend, full colour {top}, the largest."
        )
    if isinstance(result, Continuation):
        each = (
            "a cell is the change of an output token when that source alone is put back; columns have no common sum"
            if result.certificate.kind == "per token"
            else f"a cell is what a source adds to an output token; a column sums to that token's change, everything "
            f"{'to' if result.certificate.converged else 'should sum to'} {change}"
        )
        said = f"{RAISES_WORD} raises an output token's score, {LOWERS_WORD} lowers it"
        return f"{said}; {each}; full colour in the table is {top}, the largest |cell|."
    if result.certificate.kind == "per token":
        numbers = "a number is the change when that token alone is put back; the numbers have no common sum"
    else:
        numbers = f"numbers are shares of the change, they {sums} {change}"
    return f"{colors}; {numbers}; full colour is {top}, the largest |value|."


def certificate_line(certificate: Certificate) -> str:
    """The certificate in plain words: what adds up to what, how closely, and at what cost."""
    head = {"per token": _per_token, "matrix": _matrix, "vector": _vector}.get(certificate.kind, _total)
    state = "" if certificate.converged else "NOT settled: "
    return f"{state}{head(certificate)}, {_cost(certificate)}{_trouble(certificate)}"


def _gap(certificate: Certificate) -> str:
    gap, relative = abs(certificate.gap), abs(certificate.relative_gap)
    # where the change itself is next to nothing, a percentage of it says nothing
    return f"gap {gap:.1g}" + (f", {_percent(relative)}" if relative < 10 else "")


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.1 else f"{100 * share:.1g}%"


def _verb(certificate: Certificate, words: str = "adds up") -> str:
    return words if certificate.converged else "adds up only roughly"


def _total(certificate: Certificate) -> str:
    change = certificate.f_input - certificate.f_baseline
    sums = f"{_near(certificate.total, certificate.gap)} of {_near(change, certificate.gap)}"
    rows = f", rows within {max(map(abs, certificate.rows)):.1g}" if certificate.rows else ""
    return f"{_verb(certificate)}: {sums} ({_gap(certificate)}{rows})"


def _per_token(certificate: Certificate) -> str:
    worst = f"worst gap {abs(certificate.gap):.1g}"
    return (
        f"{_verb(certificate)}: every token by itself ({worst}); the total {short(certificate.total)} is not "
        f"meant to equal the change {short(certificate.f_input - certificate.f_baseline)}"
    )


def _matrix(certificate: Certificate) -> str:
    sums = f"{_near(certificate.total, certificate.gap)} of {_near(certificate.f_input, certificate.gap)}"
    return f"{_verb(certificate)}: all cells with the reference, {sums} ({_gap(certificate)})"


def _vector(certificate: Certificate) -> str:
    length = short(abs(certificate.total))
    return f"{_verb(certificate)}: the vectors sum to the output's change, length {length} ({_gap(certificate)})"


def _near(value: float, gap: float) -> str:
    """Enough decimals to see a gap, between 4 and 7."""
    places = 4 if gap == 0 or not math.isfinite(gap) else min(max(-math.floor(math.log10(abs(gap))), 4), 7)
    text = f"{value:.{places}f}"
    return text.lstrip("-") if float(text) == 0 else text


def _cost(certificate: Certificate) -> str:
    nodes = f"{certificate.nodes} node{'' if certificate.nodes == 1 else 's'}, " if certificate.nodes else ""
    settled = "settled, " if certificate.converged else ""
    return f"{settled}{nodes}{certificate.passes} pass{'' if certificate.passes == 1 else 'es'}"


def _trouble(certificate: Certificate) -> str:
    if certificate.converged:
        return ""
    worst = max(map(abs, certificate.error_estimate), default=0.0)
    single = f"; a single number may be off by {worst:.1g}" if worst > 0 else ""
    return f"; asked for {_percent(certificate.tolerance)}{single}"


def _blend(end: tuple[float, float, float], share: float, dark: bool) -> str:
    base = _to_oklab(DARK if dark else LIGHT)
    lightness, chroma, hue = end
    full = np.array([lightness, *(chroma * np.array([math.cos(math.radians(hue)), math.sin(math.radians(hue))]))])
    return _from_oklab(base + share * (full - base))


# OKLab (Ottosson 2020): linear sRGB -> cone responses -> cube root -> lightness and two opponent axes.
_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_AXES = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def _channels(color: str) -> np.ndarray:
    values = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def _luminance(color: str) -> float:
    return float(_channels(color) @ np.array([0.2126, 0.7152, 0.0722]))


def _to_oklab(color: str) -> np.ndarray:
    return _AXES @ np.cbrt(_CONES @ _channels(color))


def _from_oklab(lab: np.ndarray) -> str:
    linear = np.clip(np.linalg.solve(_CONES, np.linalg.solve(_AXES, lab) ** 3), 0, 1)
    encoded = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{round(255 * float(v)):02x}" for v in encoded)
