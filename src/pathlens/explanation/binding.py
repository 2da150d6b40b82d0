"""Is a result still what it was made as? Sums and seal are taken again whenever it is shown, saved or loaded.

Arrays and mappings of a result are read-only. Whoever changes one all the same, or a file by hand, finds "✗ altered" where the
tick was: also where the sum is as it was, for the seal is of every number and word (`Result.derived` makes a new one).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

if TYPE_CHECKING:
    from pathlens.explanation.base import Result
    from pathlens.explanation.certificate import Certificate

ROUNDING = 1e-6  # of Σ|numbers|: the same float32 numbers summed in another order
OF_THE_RUN = ("seconds", "versions")  # in `meta`: not what a result says, and not twice alike
UNSEALED_AT_FIRST = (*OF_THE_RUN, "row", "id")  # in files of schema 1
PIECE = 1 << 20  # numbers of an array that are sealed at a time: no copy of a large one


class Fixed(dict[str, Any]):
    """A dictionary that nobody writes to; everything else a dictionary does (JSON, copies, pickles, `{**it}`) it does."""

    def _refused(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a result is read-only; take a dictionary of your own: dict(result.meta)")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refused

    def __reduce__(self) -> tuple[type[Fixed], tuple[dict[str, Any]]]:
        return Fixed, (dict(self),)  # else a pickle would be filled item by item


def fixed(value: Any) -> Any:
    """Dictionaries that cannot be written to, inside each other too; lists are copied, so that nobody else holds them."""
    if isinstance(value, Mapping):
        return Fixed({name: fixed(each) for name, each in value.items()})
    return [fixed(each) for each in value] if isinstance(value, list) else value


def read_only(record: Any) -> None:
    """Every array of a frozen record as a view that cannot be written to (nothing is copied), every mapping `Fixed`."""
    for each in fields(record):
        value = getattr(record, each.name)
        if isinstance(value, np.ndarray):
            view = value.view()
            view.flags.writeable = False
            object.__setattr__(record, each.name, view)
        elif isinstance(value, Mapping):
            object.__setattr__(record, each.name, fixed(value))


def rounding(numbers: np.ndarray) -> float:
    """How far two sums of the same numbers may be apart."""
    return ROUNDING * float(np.abs(numbers).sum()) + 1e-12


def mismatch(name: str, numbers: np.ndarray, certificate: Certificate) -> str:
    """How these numbers contradict their certificate, in words; nothing where they do not.

    Vectors are (out, U, d). The gap is taken again where the certificate says what the sum should be; what counts as settled
    a certificate decides by itself.
    """
    c, slack = certificate, rounding(numbers)
    vectors = c.kind == "vector"
    total = float(np.linalg.norm(numbers.sum(axis=1))) if vectors else float(numbers.sum())
    if not abs(total - c.total) <= slack:  # also where one of them is not a number
        return f"{name} sum to {total:.6g}, the certificate says {c.total:.6g}"
    meant = c.meant
    if meant is not None and not abs(abs(total - meant) - c.gap) <= slack + 1e-9 * (abs(c.f_input) + abs(c.f_baseline)):
        return f"{name} miss {meant:.6g} by {abs(total - meant):.2g}, the certificate says {c.gap:.2g}"
    return ""


def unlike(name: str, one: Any, other: Any, slack: float) -> str:
    """Two readings of the same numbers, side by side."""
    off = float(np.abs(np.asarray(one) - np.asarray(other)).max(initial=0.0))
    return "" if off <= slack else f"{name} (by up to {off:.2g})"


def seal(result: Result, *, schema: int = 2) -> str:
    """A checksum of all that a result says: numbers, tokens, texts, certificate, choices, which row it is. Equal after save and load.

    It shows an edit; whoever wants to deceive can make a new one, so it is no signature. No seal of schema 1 is one of schema 2,
    so what schema 1 left open cannot be edited in a newer file.
    """
    outside, mark = (UNSEALED_AT_FIRST, b"") if schema == 1 else (OF_THE_RUN, b"2")
    digest = hashlib.blake2b(type(result).__name__.encode(), digest_size=16, person=mark)
    for each in fields(result):
        if each.name == "seal":
            continue
        digest.update(each.name.encode())
        value = getattr(result, each.name)
        if each.name == "meta":
            value = {name: fact for name, fact in value.items() if name not in outside}
        if isinstance(value, np.ndarray):
            digest.update(str(value.shape if value.size else 0).encode())
            for start in range(0, value.size, PIECE):
                numbers = value.reshape(-1)[start : start + PIECE].astype("<f8")
                digest.update(np.where(np.isnan(numbers), np.nan, numbers).tobytes())  # one NaN of the many
        else:
            digest.update(json.dumps(_canonical(value), sort_keys=True).encode())
    return digest.hexdigest()


def _canonical(value: Any) -> Any:
    """The same for 1 and 1.0, for tuples and lists: files differ in what they keep apart."""
    kind = type(value)
    if kind is int or kind is float:
        return float(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is tuple or kind is list:
        return [_canonical(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _canonical(each) for name, each in value.items()}
    from pathlens.explanation.store import plain

    simple = plain(value)
    if isinstance(simple, list | dict):
        return _canonical(simple)
    return float(simple) if isinstance(simple, int | float) and not isinstance(simple, bool) else simple
