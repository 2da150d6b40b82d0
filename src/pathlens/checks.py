"""Checks of what a user typed that several rooms share, and options as fields that say of themselves what they take."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from sys import float_info
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from pathlens.errors import InputError

Record = TypeVar("Record")
HALVES = re.compile("[\ud800-\udfff]")  # a Python text can hold half of a character, which no UTF-8 has


def whole_number(name: str, value: Any, *, least: float = 1, most: float | None = None) -> int:
    """`value` as Python's own, if it is a whole number from `least` to `most`."""
    number = plain_number(value)
    within = (least, math.inf if most is None else most)
    if not isinstance(number, int) or isinstance(number, bool) or not within[0] <= number <= within[1]:
        least_and_most = f"of at least {least}" if most is None else f"of at least {least} and at most {most}"
        raise InputError(f"{name} must be a whole number {least_and_most}, got {value!r}")
    return number


def plain_number(value: Any) -> Any:
    """numpy's and torch's whole numbers as Python's; anything else as it is."""
    try:
        return value if isinstance(value, bool) else operator.index(value)
    except TypeError:  # also of an array of several, which has the method all the same
        return value


def as_lists(value: Any) -> Any:
    """An array or a tensor as lists, to be compared and walked through like any; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def listed(names: Any) -> list[Any] | None:
    """Several things as people write them: a list, one of them, or "ig, sig"; None stays None."""
    if isinstance(names, str):
        return [part.strip() for part in names.split(",") if part.strip()]
    return names if names is None else list(names) if isinstance(names, Iterable) else [names]


def whole_text(name: str, text: Any) -> None:
    """An error that names the place, where a text has half a character (a lone surrogate): no model can read it."""
    half = HALVES.search(text) if isinstance(text, str) else None
    if half is not None:
        raise InputError(
            f"{name} is no valid text: character {half.start()} (from 0) is {half.group()!r}, half of a character (a lone "
            f'surrogate); take it out, or mend it: text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")'
        ).plainly(f"Character {half.start() + 1} of the text is half a character. Take it out.", name)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ "; did you mean 'steps'?" where a known name is close, else nothing."""
    folded = {each.casefold(): each for each in known}  # capitals are the likeliest slip
    typed = str(name).strip().casefold()
    close = difflib.get_close_matches(typed, list(folded), n=1)
    longer = (
        each for each in folded if min(len(each), len(typed)) > 2 and (each.startswith(typed) or typed.startswith(each))
    )
    close = close or list(longer)  # "probability" and "prob" are the same word
    return f"; did you mean {folded[close[0]]!r}?" if close else ""


def check_choice(name: str, value: Any, choices: Mapping[str, str]) -> None:
    """`choices`: what may be given → a gloss of it, or nothing."""
    if isinstance(value, str) and value in choices:
        return
    *some, last = [f'"{choice}"' + (f" ({gloss})" if gloss else "") for choice, gloss in choices.items()]
    every = f"{', '.join(some)} or {last}" if some else last
    hint = did_you_mean(value, choices) if isinstance(value, str) else ""
    raise InputError(f"{name} must be {every}, got {value!r}{hint}")


def option(
    default: Any,
    help: str,
    *,
    choices: Mapping[str, str] | Iterable[str] = (),
    bounds: tuple[float | None, float | None] = (None, None),
) -> Any:
    """A field of an options record: written once, it serves Python, the command line and the page.

    `choices`, and `bounds` of a whole number (least and most), are checked with the record (`check_options`).
    """
    glossed = dict(choices) if isinstance(choices, Mapping) else dict.fromkeys(choices, "")
    return field(default=default, metadata={"help": help, "choices": glossed, "bounds": bounds})


def check_options(record: Any) -> None:
    """Every field holds one of its choices, a number within its bounds, or what its type says (or None, its default)."""
    types = get_type_hints(type(record))
    for each in fields(record):
        meta, value = each.metadata, getattr(record, each.name)
        if not meta or value is each.default:
            continue
        least, most = meta["bounds"]
        if meta["choices"]:
            check_choice(each.name, value, meta["choices"])
        elif least is not None:
            object.__setattr__(record, each.name, whole_number(each.name, value, least=least, most=most))
        else:
            object.__setattr__(record, each.name, _of_type(each.name, value, types[each.name]))


LARGEST = float_info.max  # a whole number may be larger than any float
KINDS = {  # types whose values are checked, as a message says them
    str: "a text",
    Sequence[str]: "a list of texts",
    int: "a whole number",
    float: "a finite number",
    bool: "True or False",
    NoneType: "None",
}


def _of_type(name: str, value: Any, hint: Any) -> Any:
    """The value, as Python's own number or a tuple, if it is what a type says; types not in `KINDS` may hold anything."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    number = plain_number(value)
    came = str if isinstance(value, str) else type(number)
    if any(kind not in KINDS for kind in kinds) or (came in kinds and came is not float):
        return number
    if float in kinds and isinstance(value, Real) and not isinstance(value, bool) and -LARGEST <= number <= LARGEST:
        return float(value)
    if Sequence[str] in kinds and isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        texts = tuple(value)
        if all(isinstance(each, str) for each in texts):
            return texts
    *some, last = [words for kind, words in KINDS.items() if kind in kinds]
    raise InputError(f"{name} must be {', '.join(some)}{' or ' if some else ''}{last}, got {value!r}")


def option_names(record: Any) -> tuple[str, ...]:
    """Names of the options of a record, or of its class."""
    return tuple(each.name for each in fields(record))


def taken(record: type[Record], named: dict[str, Any]) -> Record:
    """The record with those of its options that are among `named`; they are taken out of there."""
    return record(**{name: named.pop(name) for name in option_names(record) if name in named})


def given(record: Any) -> dict[str, Any]:
    """The fields that are not as they are by default."""
    values = ((each, getattr(record, each.name)) for each in fields(record))
    return {each.name: value for each, value in values if not _is(value, each.default)}


def _is(value: Any, default: Any) -> bool:
    """Is it the default? An array, which compares number by number, never is."""
    return value is default or (type(value) is type(default) and bool(value == default))


@dataclass(frozen=True)
class Option:
    """One option, for those who list them: the command line, the page, `pathlens methods`."""

    name: str
    type: Any  # as annotated: `int | None`
    default: Any
    help: str
    least: float | None
    most: float | None
    takers: Mapping[str, tuple[str, ...]]  # name of a method or model kind that takes it → its choices, if it has some

    @property
    def choices(self) -> tuple[str, ...]:
        """What some taker accepts."""
        return tuple(dict.fromkeys(choice for choices in self.takers.values() for choice in choices))


def options_of(record: type) -> tuple[Option, ...]:
    """The options of one record, in the order of its fields."""
    types, taker = get_type_hints(record), getattr(record, "name", "")
    shown = [(each.name, each.default, each.metadata) for each in fields(record)]
    return tuple(
        Option(n, types[n], default, m["help"], least, most, {taker: tuple(m["choices"])})
        for n, default, m in shown
        for least, most in [m["bounds"]]
    )
