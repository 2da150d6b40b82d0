"""Is a certificate still of the numbers it stands beside? Sums are taken again whenever a result is shown, saved or loaded.

Arrays of a result are read-only. Whoever changes one all the same, or a file by hand, finds "✗ altered" where the tick was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlens.explanation.certificate import Certificate
    from pathlens.explanation.record import Result

ROUNDING = 1e-6  # of Σ|numbers|: the same float32 numbers summed in another order
WHEN_AND_WHERE = ("seconds", "versions", "row", "id")  # in `meta`: not what a result says, but of which run it is


def read_only(record: Any) -> None:
    """Every array of a frozen record as a view that cannot be written to; nothing is copied."""
    for each in fields(record):
        value = getattr(record, each.name)
        if isinstance(value, np.ndarray):
            view = value.view()
            view.flags.writeable = False
            object.__setattr__(record, each.name, view)


def rounding(numbers: np.ndarray) -> float:
    """How far two sums of the same numbers may be apart."""
    return ROUNDING * float(np.abs(numbers).sum()) + 1e-12


def mismatch(name: str, numbers: np.ndarray, certificate: Certificate) -> str:
    """How these numbers contradict their certificate, in words; nothing where they do not.

    Vectors are (out, U, d). The gap is taken again where the certificate says what the sum should be; `converged` where it
    has a bound.
    """
    c, slack = certificate, rounding(numbers)
    vectors = c.kind == "vector"
    total = float(np.linalg.norm(numbers.sum(axis=1))) if vectors else float(numbers.sum())
    if not abs(total - c.total) <= slack:  # also where one of them is not a number
        return f"{name} sum to {total:.6g}, the certificate says {c.total:.6g}"
    meant = {"total": c.f_input - c.f_baseline, "matrix": c.f_input}.get(c.kind)
    if meant is not None and not abs(abs(total - meant) - c.gap) <= slack + 1e-9 * (abs(c.f_input) + abs(c.f_baseline)):
        return f"{name} miss {meant:.6g} by {abs(total - meant):.2g}, the certificate says {c.gap:.2g}"
    if c.converged and 0 < c.bound < c.gap:  # estimates of words are sums of their tokens', and may pass it
        return f"the certificate says settled, with a gap of {c.gap:.2g} where {c.bound:.2g} is allowed"
    return ""


def apart(name: str, one: Any, other: Any, slack: float) -> str:
    """Two readings of the same numbers, side by side."""
    off = float(np.abs(np.asarray(one) - np.asarray(other)).max(initial=0.0))
    return "" if off <= slack else f"{name} (by up to {off:.2g})"


def seal(result: Result) -> str:
    """A checksum of all that a result says: numbers, tokens, texts, certificate, choices. Equal after save and load.

    It shows an edit; whoever wants to deceive can make a new one, so it is no signature.
    """
    digest = hashlib.blake2b(type(result).__name__.encode(), digest_size=16)
    for each in fields(result):
        digest.update(each.name.encode())
        value = getattr(result, each.name)
        if each.name == "meta":
            value = {name: fact for name, fact in value.items() if name not in WHEN_AND_WHERE}
        if isinstance(value, np.ndarray):
            digest.update(str(value.shape if value.size else 0).encode())
            numbers = np.ascontiguousarray(value, dtype="<f8")
            digest.update(np.where(np.isnan(numbers), np.nan, numbers).tobytes())  # one NaN of the many
        else:
            digest.update(json.dumps(_canonical(value), sort_keys=True).encode())
    return digest.hexdigest()


def _canonical(value: Any) -> Any:
    """The same for 1 and 1.0, for tuples and lists: files differ in what they keep apart."""
    from pathlens.explanation.store import plain

    value = plain(value)
    if isinstance(value, Mapping):
        return {name: _canonical(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_canonical(each) for each in value]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
