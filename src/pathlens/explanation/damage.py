"""Is what was read from a file a whole result? Types by the annotations of its record, lengths by each other.

A file that was edited may still be a result, and is marked so; one whose parts do not fit is none, and would end in some
library's error wherever it is shown.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from pathlens.explanation.answer import Answer
from pathlens.explanation.base import Result
from pathlens.explanation.origin import Origin
from pathlens.explanation.record import Explanation, PairExplanation, PhraseTree
from pathlens.path.words.options import WordPath

LENGTHS = {  # of fields that say something of each unit, output or source, by the letters of the arrays' annotations
    **dict.fromkeys(("tokens", "offsets", "special", "segments"), "U"),
    **dict.fromkeys(("tokens_a", "offsets_a", "special_a"), "A"),
    **dict.fromkeys(("tokens_b", "offsets_b", "special_b"), "B"),
    "output_offsets": "T",
}
OF_KIND = {  # where a kind has other letters, or other fields
    "Continuation": {"outputs": "T", "certificates": "T"},
    "VectorExplanation": {"outputs": "out", "sources": "U"},
    "PhraseTree": dict.fromkeys(("tokens", "offsets", "special"), "S"),
    "Answer": {
        **dict.fromkeys(("owners", "offsets"), "U"),
        **dict.fromkeys(("sentence_offsets", "lengths", "certificates"), "N"),
        **dict.fromkeys(("names", "sources"), "K"),
    },
}


def misfit(result: Result) -> str:
    """The first thing that does not fit, in words; nothing where all of it does."""
    return next(_misfits(result), "")


def _misfits(result: Result) -> Iterator[str]:
    sizes: dict[str, int] = {}
    yield from _unlike(result, sizes)
    sizes |= {letter: size - 1 for letter, size in (("A", sizes.get("A1", 0)), ("B", sizes.get("B1", 0))) if size}
    lengths = LENGTHS | OF_KIND.get(type(result).__name__, {})
    optional = {each.name for each in fields(result) if each.default == ()}
    for name, letter in lengths.items():
        value = getattr(result, name, None)
        if value is None or (name in optional and not value):
            continue
        if len(value) != sizes.setdefault(letter, len(value)):
            yield f"it has {len(value)} {name.replace('_', ' ')} where {sizes[letter]} belong"
    texts = result.meta.get("texts") or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        yield "its texts are no list of texts"
    yield from _unlike(Origin.of(result.meta), {})
    yield from _out_of_place(result)


def _out_of_place(result: Result) -> Iterator[str]:
    """Numbers of places that are not there."""
    if isinstance(result, Answer) and not all(0 <= owner < len(result.sources) for owner in result.owners):
        yield "a part belongs to a source that is not there"
    if isinstance(result, PhraseTree):
        if not result.nodes:
            yield "its tree has no nodes"
        for nodes in (result.nodes, result.plain):
            if not all(0 <= child < len(nodes) for node in nodes for child in node.children):
                yield "a phrase has parts that are not there"
    rows, units = result.origin.rows, getattr(result, "tokens", ())
    if rows is not None and not all(0 <= row < len(units) for row in rows):
        yield "rows were asked for that are not there"
    paths = [(getattr(result, "path", None), getattr(result, "tokens", ()))]
    if isinstance(result, PairExplanation):
        paths = [(result.path_a, result.tokens_a), (result.path_b, result.tokens_b)]
    if isinstance(result, Explanation) and any(
        isinstance(path, WordPath) and len(path.tokens) < len(tokens) for path, tokens in paths
    ):
        yield "its path is of other tokens"  # of words it is of their tokens, which are more


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _unlike(record: Any, sizes: dict[str, int]) -> Iterator[str]:
    """Fields of a record that are no instances of their annotations; arrays of one record agree about their letters."""
    kind: Any = type(record)
    for each in fields(record):
        value = getattr(record, each.name)
        if not _fits(value, _hints(kind)[each.name], sizes):
            yield f"its {each.name.replace('_', ' ')} cannot be {type(value).__name__} of this form"


def _fits(value: Any, hint: Any, sizes: dict[str, int]) -> bool:
    kind, inside = get_origin(hint), get_args(hint)
    if hint is Any:
        return not is_dataclass(value) or next(_unlike(value, sizes), "") == ""
    if kind in (Union, types.UnionType):
        return any(_fits(value, one, sizes) for one in inside)
    if kind is tuple:
        if not isinstance(value, tuple):
            return False
        if inside[-1:] == (Ellipsis,):
            return all(_fits(one, inside[0], sizes) for one in value)
        return len(value) == len(inside) and all(_fits(one, of, sizes) for one, of in zip(value, inside, strict=True))
    if kind is not None and issubclass(kind, Mapping):
        return isinstance(value, Mapping) and all(
            _fits(name, inside[0], sizes) and _fits(one, inside[1], sizes) for name, one in value.items()
        )
    if hasattr(hint, "dim_str"):
        return _has_shape(value, hint.dim_str.split(), sizes)
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    if is_dataclass(hint):
        return isinstance(value, hint) and next(_unlike(value, sizes), "") == ""  # type: ignore[arg-type]
    return isinstance(value, hint)


def _has_shape(value: Any, letters: list[str], sizes: dict[str, int]) -> bool:
    if not isinstance(value, np.ndarray) or value.ndim != len(letters):
        return False
    return all(sizes.setdefault(letter, size) == size for letter, size in zip(letters, value.shape, strict=True))
