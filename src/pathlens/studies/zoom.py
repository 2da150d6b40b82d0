"""Sentences or passages first, then the tokens inside those that matter: everything still adds up.

A unit is a direction: V along a sentence's direction is one product and equals the sum over its tokens, so the
first look costs one product per sentence, and the second one per token of the chosen sentences only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, TypeVar, Unpack

from pathlens.engine.explainer import Explainer
from pathlens.engine.typed import StudyOptions
from pathlens.errors import InputError, setting
from pathlens.explanation.answer import Answer
from pathlens.explanation.base import OfUnits, Result
from pathlens.explanation.record import PairExplanation
from pathlens.explanation.reduce import adds_up_in_groups
from pathlens.studies.answer import opened as opened_answer
from pathlens.studies.sources import kept_prompt
from pathlens.types import TEXT_UNITS, Span
from pathlens.units.units import Opened

Same = TypeVar("Same", bound=OfUnits | PairExplanation | Answer)


def zoom(
    model: Any,
    result: Same,
    units: Sequence[int | str] = (),
    *,
    a: Sequence[int] = (),
    b: Sequence[int] = (),
    inside: str = "token",
    **choices: Unpack[StudyOptions],
) -> Same:
    """Open units of a result: the chosen ones become tokens, the others stay, and everything still adds up.

    Of one text: `units` are names or indices of its units (passages, turns, sentences). Of a pair: `a` and `b` are
    indices into `tokens_a` and `tokens_b`. An opened unit's tokens sum to what the unit had. Choices as in
    `pl.explain`; what the result says of itself (layer, score, target, similarity, rule, tolerance, …) is kept unless given.
    inside: "token", "word" or, of one text, "sentence".

    Of an answer: `units` are names of sources or indices of parts, by default those that matter; `inside` is "sentence" or
        "word", by default the next finer cut. `result.passes_to_open()` says before what it costs.
    """
    if isinstance(result, Answer):
        finer = None if inside == "token" else inside
        closer: Any = opened_answer(model, result, _columns(result, units) if units else None, finer, **choices)
        return closer
    if not isinstance(result, OfUnits | PairExplanation):
        order = "; the model comes first" if isinstance(model, Result) else ""
        raise InputError(
            f"zoom(model, result, ...) opens the units of a result, and {type(result).__name__} has none{order}"
        )
    if inside not in (("token", "word") if isinstance(result, PairExplanation) else TEXT_UNITS):
        raise InputError(f'inside must be "token" or "word" (of one text also "sentence"), got {inside!r}')
    if isinstance(result, PairExplanation):
        if units:
            raise InputError("a pair's units are opened by side: zoom(model, result, a=[...], b=[...])")
        pair: Any = _pair(model, result, a, b, inside, choices)
        return pair
    if a or b:
        raise InputError("a and b are for a pair of texts; of one text name the units: zoom(model, result, [...])")
    opened: Same = _one(model, result, units, inside, choices)
    return opened


def _pair(
    model: Any, pair: PairExplanation, a: Sequence[int], b: Sequence[int], inside: str, choices: Mapping[str, Any]
) -> PairExplanation:
    if pair.origin.is_difference:
        raise InputError("this is the difference of two explanations; open one of them: ranking[place].explanation")
    given, choices = choices, {**_chosen(pair), **choices}
    texts = pair.origin.texts
    if not all(isinstance(text, str) and text for text in texts):
        raise InputError("one side of this pair is a picture, so it cannot be opened again from the result")
    cuts = _opened(pair.offsets_a, pair.special_a, a, inside), _opened(pair.offsets_b, pair.special_b, b, inside)
    opened = Explainer(model, unit=cuts, **choices)(*texts)
    _check_same_pair(pair, opened, given)
    return opened


def _check_same_pair(pair: PairExplanation, opened: PairExplanation, given: Mapping[str, Any]) -> None:
    """Numbers that would not add up to those of the first look are refused."""
    room = 1e-4 * max(1.0, abs(pair.similarity), abs(float(pair.full_matrix[0, 0])))
    if not {"similarity", "prompt", "prompt_name"} & set(given) and abs(opened.similarity - pair.similarity) > room:
        raise InputError(
            f"this model finds a similarity of {opened.similarity:.6g} and the result says {pair.similarity:.6g}: zoom with "
            "the model and the choices the result was made with"
        )
    loose = room + 1e-2 * abs(float(pair.full_matrix[0, 0]))  # an index keeps e(r) in 16 bits
    if "baseline" not in given and abs(opened.full_matrix[0, 0] - pair.full_matrix[0, 0]) > loose:
        raise InputError(
            f"the result's baseline was {pair.origin.baseline!r}, and it cannot be known how it was given: say "
            "baseline=… again (a tuple with one for each text, if they differ)"
        )


def _opened(offsets: Sequence[Span], special: Sequence[bool], chosen: Sequence[int], inside: str) -> Opened:
    """One side's cut as character spans, with the chosen units opened."""
    chosen = chosen if isinstance(chosen, Iterable) and not isinstance(chosen, str) else [chosen]
    for number in chosen:
        whole = isinstance(number, Integral) and not isinstance(number, bool)
        if not whole or not 0 <= number < len(offsets) or special[number]:
            have = [i for i, flag in enumerate(special) if not flag]
            raise InputError(f"unit {number!r} cannot be opened; units with text: {have[0]} to {have[-1]}")
    spans = [offset for offset, flag in zip(offsets, special, strict=True) if not flag]
    return Opened(spans, frozenset(map(int, chosen)), inside)


def _one(model: Any, result: OfUnits, wanted: Sequence[int | str], inside: str, choices: Mapping[str, Any]) -> Any:
    """The same explanation of the same text, with some of its units opened."""
    if result.origin.one_sided:  # of two texts, and only one is here
        raise InputError(
            "a one-sided reading says nothing of its query, so it cannot be opened again; open the pair: "
            "pl.explain(model, query, text, unit=…)"
        )
    if not adds_up_in_groups(result.method, result.origin.context):
        raise InputError(
            "SIG's score of a passage is not the sum of its tokens' (a passage moves as one), so it cannot be opened; open an "
            f"ig result, or run sig again with {setting(unit='token')}"
        )
    cut = Opened(_unit_of(result), frozenset(_indices(result, wanted)), inside)
    opened = Explainer(model, unit=cut, **{**_chosen(result), **choices}).of_one_target("zoom")(*_texts_of(result))
    for name, was, now in (
        ("target", result.target, opened.target),
        ("baseline", result.origin.baseline, opened.origin.baseline),
    ):
        if was != now and name not in choices:
            raise InputError(
                f"the result's {name} was {was!r}, and it cannot be known how it was given: say {name}=… again"
            )
    return opened


def _indices(result: OfUnits, wanted: Sequence[int | str]) -> list[int]:
    if isinstance(wanted, str) or not wanted:
        raise InputError(f"name the units to open in a list; this result has: {_listed(result)}")
    indices = []
    for each in wanted:
        number = result.tokens.index(each) if each in result.tokens else each
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(result.tokens):
            raise InputError(f"{each!r} is not a unit of this result; it has: {_listed(result)}")
        indices.append(number)
    return indices


def _columns(result: Answer, wanted: Sequence[int | str]) -> list[int]:
    """Columns of an answer: all of a source's by its name, or one by its index."""
    columns: list[int] = []
    for each in wanted:
        if each in result.names:
            columns += [u for u, owner in enumerate(result.owners) if result.names[owner] == each]
        elif isinstance(each, int) and not isinstance(each, bool) and 0 <= each < len(result.owners):
            columns.append(each)
        else:
            names, last = ", ".join(map(repr, result.names)), len(result.owners) - 1
            raise InputError(f"{each!r} is no source of this answer ({names}) and no index of a part (0 to {last})")
    return columns


def _listed(result: OfUnits) -> str:
    names = [f"{i} {name!r:.30}" for i, name in enumerate(result.tokens)]
    return ", ".join(names[:12]) + (f" … ({len(names)} in all)" if len(names) > 12 else "")


def _unit_of(result: OfUnits) -> Any:
    """The cut the result was made with: by its name, or from the characters of its units."""
    unit = result.origin.unit or "token"
    if unit != "spans":
        return unit
    placed = zip(result.tokens, result.offsets, result.segments, strict=True)
    return {name: (at, *span) for name, span, at in placed if at >= 0 and span[1] > span[0]}


def _texts_of(result: OfUnits) -> list[Any]:
    """What was explained: a chat's prompt with its spans, or the texts; a continuation's own text is its target."""
    origin = result.origin
    given = list(origin.texts[:1] if origin.outputs else origin.texts)
    if origin.spans:
        given[0] = kept_prompt(result)
    return given if origin.compared_with is None else [*given, origin.compared_with]


def _chosen(result: OfUnits | PairExplanation) -> dict[str, Any]:
    """The choices the result was made with, as `pl.explain` takes them."""
    if result.origin.chosen is None:
        raise InputError(
            "this result does not say how it was made (an older pathlens saved it); explain the text again"
        )
    chosen = {name: value for name, value in result.origin.chosen.items() if value is not None}
    baselines = [tuple(each) if isinstance(each, list) else each for each in chosen.pop("baselines", ())]
    if isinstance(chosen.get("target"), list):  # a tuple, before it was saved
        chosen["target"] = tuple(chosen["target"])
    if baselines:
        sides = isinstance(result, PairExplanation)
        chosen["baseline"] = tuple(baselines) if sides else baselines if len(baselines) > 1 else baselines[0]
    return {"tolerance": result.certificate.tolerance, **chosen}  # older files say it in the certificate alone
