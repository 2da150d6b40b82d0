"""A continuation on a page: choose an output token, and the running prompt is coloured by what made it likely.

Without the script the text is coloured by the whole continuation, and the table or its picture is there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import numpy as np

from pathlens.draw import markup, palette, pixels, tables, view
from pathlens.draw.markup import Markup, element, level
from pathlens.explanation.continuation import Continuation

WHOLE = "the whole continuation"


def sections(result: Continuation, said: list[str]) -> list[tuple]:
    """(title, parts…) of the page: what it said, the prompt it said it to, the strongest sources, the table."""
    said += notes(result, ", until a token is chosen,")
    whole = tables.grid(result)
    small = max(len(whole.rows), len(whole.columns)) <= markup.SIDE
    table = markup.matrix(whole, corner="from ↓ to →", between="→")[0] if small else _picture(whole, result)
    said += whole.notes
    box = element(
        "div",
        {"class": "said", "data-view": json.dumps(facts(result), ensure_ascii=False, separators=(",", ":")),
         "data-matrix": packed(result.matrix)},
        element("h2", None, "what it said: choose a token (click, or the arrow keys) to see its sources"),
        _outputs(result),
        element("p", {"class": "chosen", "role": "status", "aria-live": "polite"}, _chosen(result)),
        element("h2", None, "the prompt"),
        *_prompt(result),
        element("h2", None, "strongest sources"),
        element("div", {"class": "strongest"}, _bars(result)),
        element("h2", None, "source × output token"),
        table,
    )  # fmt: skip
    return [("", box)]


def facts(result: Continuation) -> dict[str, object]:
    """What the script needs besides the matrix; every text already safe to be shown on one line."""
    certificates = (*result.certificates, result.certificate)
    return {
        "tokens": [view.visible(token) for token in result.tokens],
        "outputs": [view.visible(output) for output in result.outputs],
        "whole": WHOLE,
        "lines": [palette.certificate_line(each) for each in certificates],
        "ends": [f"{each.f_input:.4g}, at the baseline {each.f_baseline:.4g}" for each in certificates],
        "settled": [bool(each.converged) for each in certificates],
        "score": str(result.meta.get("score") or "output"),
        "digits": palette.decimals(palette.limit(result.matrix), 4),
        "additive": result.certificate.kind != "per token",
        "bars": markup.BARS // 2,
        "levels": markup.LEVELS,
    }


def packed(matrix: np.ndarray) -> str:
    """(U, T) as the bytes of 32-bit floats, row by row: 500 × 100 tokens are 270 000 characters."""
    return base64.b64encode(np.ascontiguousarray(matrix, dtype="<f4").tobytes()).decode()


def notes(result: Continuation, until: str = "") -> list[str]:
    """How the single output tokens add up, and on which scale the text is coloured."""
    settled = sum(each.converged for each in result.certificates)
    worst = max(range(len(result.certificates)), key=lambda t: abs(result.certificates[t].gap), default=None)
    told = []
    if worst is not None and result.certificate.kind != "per token":
        gap = abs(result.certificates[worst].gap)
        told.append(
            f"every output token adds up by itself: {settled} of {len(result.outputs)} settled, worst gap {gap:.1g} "
            f"(“{view.visible(result.outputs[worst])}”)"
        )
    full = palette.short(palette.limit(result.scores))
    told.append(f"the running text{until} is coloured by {WHOLE}; full colour there is {full}")
    return told


def pieces(result: Continuation) -> list[list[view.Piece]]:
    """The prompt's running text: one list of pieces, or none where the result has no text."""
    whole = view.paragraphs(result)
    has_output = any(
        segment == 1 and end > start for segment, (start, end) in zip(result.segments, result.offsets, strict=True)
    )
    return whole[:-1] if has_output else whole


def output_pieces(result: Continuation) -> list[view.Piece]:
    """The continuation as running text; `units` are output tokens (several where they share a character)."""
    texts = view.texts_of(result)
    drawn = [end > start for start, end in result.output_offsets]
    return view.pieces(texts[1], result.outputs, result.output_offsets, np.zeros(len(result.outputs)), drawn)


def own_source(result: Continuation) -> list[int]:
    """For each output token, the source that it belongs to once it has been said; −1 for none."""
    places = [
        (start, end, unit)
        for unit, ((start, end), segment) in enumerate(zip(result.offsets, result.segments, strict=True))
        if segment == 1 and end > start
    ]
    found = []
    for start, end in result.output_offsets:
        touching = [unit for low, high, unit in places if low < end and start < high]
        found.append(touching[0] if touching else -1)
    return found


def _prompt(result: Continuation) -> list[Markup]:
    limit = palette.limit(result.scores)
    found = []
    for paragraph in pieces(result):
        children = [_unit(result, piece, limit) if piece.units else piece.text for piece in paragraph]
        found.append(element("p", {"class": "text prompt", "dir": "auto"}, *children))
    return found


def _unit(result: Continuation, piece: view.Piece, limit: float) -> Markup:
    digits = palette.decimals(limit, 4)
    tip = " ".join(
        f"{view.visible(result.tokens[i])} {palette.number(float(result.scores[i]), digits)}" for i in piece.units
    )
    marks = {
        "class": f"unit {level(piece.value, limit)}".strip(),
        "title": tip,
        "data-units": " ".join(map(str, piece.units)),
    }
    return element("span", marks, piece.text)


def _outputs(result: Continuation) -> Markup:
    """The continuation, token by token; those without characters of their own (end of text) stand at its end."""
    sources = own_source(result)
    seen: set[int] = set()

    def one(outputs: Sequence[int], text: str) -> Markup:
        seen.update(outputs)
        marks = {
            "class": "out",
            "role": "option",
            "aria-selected": "false",
            "data-outputs": " ".join(map(str, outputs)),
            "data-source": sources[outputs[0]],
        }
        return element("span", marks, text)

    children: list[object] = []
    for piece in output_pieces(result):
        children.append(one(piece.units, piece.text) if piece.units else piece.text)
    for t, name in enumerate(result.outputs):
        if t not in seen:
            children += [" ", one((t,), view.visible(name))]
    marks = {"class": "outputs", "role": "listbox", "tabindex": 0, "aria-label": "output tokens", "dir": "auto"}
    return element("p", marks, *children)


def _chosen(result: Continuation) -> str:
    certificate = result.certificate
    return f"{WHOLE}: {result.meta.get('score') or 'output'} {certificate.f_input:.4g}, at the baseline {certificate.f_baseline:.4g}"


def _bars(result: Continuation) -> Markup:
    named = view.scored(result)
    additive = result.certificate.kind != "per token"
    return markup.bars(named, palette.limit(result.scores), additive=additive)


def _picture(whole: tables.Grid, result: Continuation) -> Markup:
    shape = f"{len(result.tokens)} × {len(result.outputs)}"
    words = (
        f"all {shape} cells, one pixel each: sources from top to bottom, output tokens from left to right; click one"
    )
    image = pixels.picture(tables.Grid(result.tokens, result.outputs, result.matrix))
    return markup.join(
        [
            element("p", {"class": "outside"}, words),
            element("div", {"class": "pixelbox"}, image, element("i", {"class": "cursor", "hidden": "hidden"})),
            element("p", {"class": "outside readout"}, ""),
        ]
    )
