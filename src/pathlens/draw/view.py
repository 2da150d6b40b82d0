"""What is drawn, before how: running text cut into pieces, labels, headings, notes.

The terminal, the page and the picture all read from here and from `tables`, so they never disagree.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pathlens.errors import InputError
from pathlens.explanation.continuation import Continuation
from pathlens.explanation.record import (
    Explanation,
    Interactions,
    PairExplanation,
    PhraseTree,
    Result,
    VectorExplanation,
)
from pathlens.types import Span

TITLE = 160  # letters of a target in a heading; a continuation's may be a page long
DRAWN = (Explanation, PairExplanation, Interactions, VectorExplanation, PhraseTree, Continuation)


@dataclass(frozen=True)
class Piece:
    """A stretch of running text: `units` that sit on it (none: text between units) and their summed value.

    Several units share a piece when their characters overlap (the byte pieces of one emoji).
    """

    text: str
    units: tuple[int, ...] = ()
    value: float = 0.0


def check(result: Result, unit: str | None = None) -> Result:
    """The result at the unit wanted (`None` or "token": as it is; "word": by word)."""
    if unit not in (None, "token", "word"):
        raise InputError(f"unit is {unit!r} here; expected 'token' or 'word' (other units: explain(..., unit=))")
    if not isinstance(result, DRAWN):
        raise InputError(f"cannot draw a {type(result).__name__}; expected a result of pathlens.explain")
    return result.words() if unit == "word" else result  # type: ignore[attr-defined]


def visible(text: str) -> str:
    """A label on one line: control characters as pictures, so none can act on a terminal or a page."""
    if not text:
        return "∅"
    shown = "".join(map(_safe, text.replace("\n", "↵").replace("\t", "⇥")))
    return shown if shown.strip() else shown.replace(" ", "␣")


def printable(text: str) -> str:
    """Running text: line breaks and tabs stay, other control characters become pictures."""
    return "".join(c if c in "\n\t" else _safe(c) for c in text.replace("\r\n", "\n"))


def _safe(char: str) -> str:
    kind = unicodedata.category(char)
    if kind == "Cc":
        return chr(0x2400 + ord(char)) if ord(char) < 32 else "␡" if ord(char) == 127 else "�"
    # half a surrogate pair cannot be written; an override of direction would reorder what stands beside it
    return "�" if kind == "Cs" or "\u202a" <= char <= "\u202e" or "\u2066" <= char <= "\u2069" else char


def right_to_left(text: str) -> bool:
    """Does the first letter with a direction run from the right?"""
    strong = (unicodedata.bidirectional(char) for char in text)
    return next((kind != "L" for kind in strong if kind in ("L", "R", "AL")), False)


def heading(result: Result) -> tuple[str, str]:
    """("ig · positive", "minilm · baseline mask · output 1.8 …"): what is explained, and how it was made."""
    meta, certificate = result.meta, result.certificate
    target = visible(str(result.target)) if result.target else ""
    target = target if len(target) <= TITLE else target[: TITLE - 1] + "…"
    title = f"{result.method} · {target}" if target else result.method
    how = [str(meta["model"])] if meta.get("model") else []
    how += [f"{key} {meta[key]}" for key in ("baseline", "layer", "score", "unit") if meta.get(key) not in (None, "")]
    if isinstance(result, PairExplanation):
        title += f" {result.similarity:.4f}"
    elif certificate.kind in ("total", "per token"):
        how.append(f"output {certificate.f_input:.4g}, at the baseline {certificate.f_baseline:.4g}")
    return title, visible(" · ".join(how)) if how else ""


def notes(result: Result) -> list[str]:
    """The result's own notes as one-line sentences, and how far a mean over baselines can be trusted."""
    found = result.meta.get("notes") or []
    said = [visible(str(note)) for note in ([found] if isinstance(found, str) else found)]
    spread = getattr(result, "standard_error", None)
    if spread is not None and np.size(spread):
        said.append(f"means over a sample of baselines, standard error up to {float(np.nanmax(spread)):.2g}")
    return said


def paragraphs(result: Result, scores: np.ndarray | None = None) -> list[list[Piece]]:
    """The running text of a result, one list of pieces per text; empty for results that have no text."""
    if isinstance(result, PairExplanation):
        sums = result.matrix.sum(1), result.matrix.sum(0)
        sides = (
            (result.tokens_a, result.offsets_a, result.special_a),
            (result.tokens_b, result.offsets_b, result.special_b),
        )
        given = texts_of(result)
        return [pieces(given[k], *sides[k][:2], sums[k], _drawn(*sides[k])) for k in (0, 1)]
    values = result.scores if scores is None else scores  # type: ignore[attr-defined]
    special = getattr(result, "special", ())
    drawn = _drawn(result.tokens, result.offsets, special)  # type: ignore[attr-defined]
    segments = getattr(result, "segments", ()) or [0] * len(drawn)
    given = texts_of(result)
    found = []
    for segment in sorted({s for s, d in zip(segments, drawn, strict=True) if d and s >= 0}):
        here = [d and s == segment for s, d in zip(segments, drawn, strict=True)]
        text = given[segment] if segment < len(given) else None
        found.append(pieces(text, result.tokens, result.offsets, values, here))  # type: ignore[attr-defined]
    return found


def scored(result: Explanation | Continuation) -> list[tuple[str, float]]:
    """(unit, score) as bars name them: all but special tokens without a score."""
    special = result.special or (False,) * len(result.tokens)
    found = zip(result.tokens, map(float, result.scores), special, strict=True)
    return [(token, score) for token, score, flag in found if score != 0 or not flag]


def outside(result: Explanation | Interactions | PhraseTree) -> list[int]:
    """Units that stand in no text (special tokens) but carry a score."""
    drawn = _drawn(result.tokens, result.offsets, result.special)
    has_text = any(drawn)
    return [i for i, d in enumerate(drawn) if has_text and not d and result.scores[i] != 0]


def texts_of(result: Result) -> list[str | None]:
    """The texts as given (`meta["texts"]`, or `text` and `text_b`), padded with None."""
    given = result.meta.get("texts") or [result.meta.get("text"), result.meta.get("text_b")]
    found = [given] if isinstance(given, str) else list(given)
    return [text if isinstance(text, str) else None for text in found] + [None, None]


def _drawn(tokens: Sequence[str], offsets: Sequence[Span], special: Sequence[bool]) -> list[bool]:
    """Which units stand in the text: not special, and with characters of their own."""
    flags = special or [False] * len(tokens)
    return [not flag and end > start for (start, end), flag in zip(offsets, flags, strict=True)]


def pieces(
    text: str | None, tokens: Sequence[str], offsets: Sequence[Span], values: np.ndarray, drawn: Sequence[bool]
) -> list[Piece]:
    """A text cut into what units stand on and what lies between, with the units' summed values."""
    units = sorted((i for i, here in enumerate(drawn) if here), key=lambda i: offsets[i])
    if not units:
        return []
    if text is None or max(offsets[i][1] for i in units) > len(text):
        text, offsets = _rebuilt(tokens, offsets, units)
    found: list[Piece] = []
    at, k = 0, 0
    while k < len(units):
        start, end = offsets[units[k]]
        members = [units[k]]
        while k + 1 < len(units) and offsets[units[k + 1]][0] < end:
            k += 1
            members.append(units[k])
            end = max(end, offsets[units[k]][1])
        # a decoder's token often owns the blank before it: colour the word, not the blank
        covered = text[start:end]
        start += (len(covered) - len(covered.lstrip())) if covered.strip() else 0
        found += [Piece(text[at:start])] if start > at else []
        found.append(Piece(text[start:end], tuple(members), float(sum(values[i] for i in members))))
        at, k = end, k + 1
    return found + ([Piece(text[at:])] if at < len(text) else [])


def _rebuilt(tokens: Sequence[str], offsets: Sequence[Span], units: Sequence[int]) -> tuple[str, list[Span]]:
    """A text from tokens alone: a blank wherever the offsets leave room for one."""
    text, spans, end = "", list(offsets), None
    for i in units:
        word = tokens[i].removeprefix("##") or tokens[i]
        text += " " if end is not None and offsets[i][0] > end else ""
        spans[i] = (len(text), len(text) + len(word))
        text, end = text + word, offsets[i][1]
    return text, spans
