"""Sentences first, then the tokens inside the sentences that matter: everything still adds up.

A unit is a direction: V along a sentence's direction is one product and equals the sum over its tokens, so the
first look costs one product per sentence, and the second one per token of the chosen sentences only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pathlens.errors import InputError
from pathlens.explain import Explainer
from pathlens.explanation.record import PairExplanation
from pathlens.text.adapter import Request, TextModel
from pathlens.text.load import load
from pathlens.types import Span


def zoom(
    model: Any,
    pair: PairExplanation,
    *,
    a: Sequence[int] = (),
    b: Sequence[int] = (),
    inside: str = "token",
    **choices: Any,
) -> PairExplanation:
    """Open units of an explained pair: those listed in `a` and `b` (indices into `tokens_a`, `tokens_b`) become tokens.

    The other units stay as they are, and an opened unit's tokens sum to what the unit had. Choices as in
    `pl.explain`; layer, similarity, norm and tolerance are taken from the pair unless given.
    inside: "token" or "word".
    """
    if inside not in ("token", "word"):
        raise InputError(f'inside must be "token" or "word", got {inside!r}')
    encoder = load(model)
    kept = {name: pair.meta[name] for name in ("layer", "similarity", "norm") if name in pair.meta}
    choices = {**kept, "tolerance": pair.certificate.tolerance, **choices}
    texts = pair.meta["texts"]
    parts = (pair.offsets_a, pair.special_a, a), (pair.offsets_b, pair.special_b, b)
    spans = tuple(
        _opened(side, text, *part, inside)
        for side, text, part in zip(encoder.sides(), texts, parts, strict=True)
    )
    return Explainer(encoder, method="ij", unit=spans, **choices)(*texts)


def _opened(
    model: TextModel,
    text: str,
    offsets: Sequence[Span],
    special: Sequence[bool],
    chosen: Sequence[int],
    inside: str,
) -> list[Span]:
    """The partition as character spans, the chosen units replaced by their tokens."""
    for number in chosen:
        if not 0 <= number < len(offsets) or special[number]:
            have = [i for i, flag in enumerate(special) if not flag]
            raise InputError(f"unit {number} cannot be opened; units with text: {have[0]} to {have[-1]}")
    spans: list[Span] = []
    for number, (offset, flag) in enumerate(zip(offsets, special, strict=True)):
        if flag:
            continue
        spans += _pieces(model, text, offset, inside) if number in chosen else [tuple(offset)]
    return spans


def _pieces(model: TextModel, text: str, offset: Span, inside: str) -> list[Span]:
    from pathlens.units.groups import units

    case = model.case(text, request=Request(vector=True))
    found = units(inside, case.tokens, case.offsets, case.segments, case.texts)
    start, end = offset
    return [
        span
        for span, flag in zip(found.offsets, found.special, strict=True)
        if not flag and start <= span[0] and span[1] <= end and span[0] < span[1]
    ]
