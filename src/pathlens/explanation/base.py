"""What every result has: how it was made, what it explains, whether it adds up, and how it is told in a line."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float

from pathlens.errors import InputError
from pathlens.explanation import reduce
from pathlens.explanation.binding import read_only, seal
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.check import Belief
from pathlens.explanation.origin import Origin
from pathlens.explanation.view import TableExport, Viewable, at_places
from pathlens.types import About, Span, brief

Made = TypeVar("Made", bound="Result")
Same = TypeVar("Same", bound="OfUnits")
SAME = "explain the same text with the same unit and kind of method"
CHANGED = "something in it was changed after it was made (its seal is of something else)"


def largest(values: np.ndarray, k: int) -> list[tuple[int, ...]]:
    """Places of the k entries with the largest |value|, largest first."""
    order = np.argsort(-np.abs(values), axis=None, kind="stable")[:k]
    return list(zip(*(each.tolist() for each in np.unravel_index(order, values.shape)), strict=True))


def likeliest(probabilities: Mapping[str, float]) -> str:
    return max(probabilities, key=lambda name: probabilities[name])


def percent(share: float) -> str:
    """Three digits; a whole is said of nothing less."""
    hidden = 0.9995 <= share < 1 or 0 < share < 0.001
    return (">99.9 %" if share > 0.5 else "<0.1 %") if hidden else f"{100 * share:.3g} %"


def shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def quoted(text: str) -> str:
    """What a generator wrote, on one line. Of the blank before a word nothing is seen; a line break is output like any other."""
    word = (text.removeprefix(" ") or text).replace("\r\n", "\n").replace("\n", "↵")
    return f"“{shortened(word)}”"


def first_unlike(one: tuple[Any, ...], other: tuple[Any, ...]) -> str:
    """Where two lists first differ, in a few words."""
    if len(one) != len(other):
        return f"{len(one)} and {len(other)} of them"
    first, second = next((a, b) for a, b in zip(one, other, strict=True) if a != b)
    return f"{shortened(repr(first), 30)} and {shortened(repr(second), 30)}"


def in_words(text: Mapping[str, float], start: Mapping[str, float], about: About | None = None) -> str:
    """What a model with classes says, at the text and at the baseline; nothing of one that has none.

    Of words the baseline's share is that of the word that is explained: it is one of very many.
    """
    if not text:
        return ""
    name, about = likeliest(text), about or About()
    place = f"{about.place}: " if about.place else ""
    if about.words:
        asked = about.asked or name
        line = f"{place}predicted {quoted(name)}, {percent(text[name])}"
        line += "" if asked == name else f"; {quoted(asked)} is {percent(text[asked])} likely"
        return f"{line} (from the baseline alone: {percent(start[asked])})" if start else line
    if len(text) == 1:  # a label with no rival is not predicted, however likely
        line = f"{name} is {percent(text[name])} likely"
        return f"{line} (from the baseline alone: {percent(start[name])})" if start else line
    line = f"{place}predicted {name}, {percent(text[name])}"
    return f"{line} (from the baseline alone: {likeliest(start)}, {percent(max(start.values()))})" if start else line


def names_of_both(one: Result, other: Result) -> tuple[str, str]:
    """A name for each of two results: what one has and the other has not."""
    names = "model", "baseline", "layer", "unit", "context", "texts"
    facts = [{"method": r.method, "target": r.target, **{n: r.meta.get(n) for n in names}} for r in (one, other)]
    differ = [name for name in facts[0] if facts[0][name] != facts[1][name] and None not in (f[name] for f in facts)]
    bare = ("method", "target", "model")
    first, second = (", ".join(str(f[n]) if n in bare else f"{n} {f[n]}" for n in differ) for f in facts)
    return (first, second) if differ else ("the first", "the second")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Result(TableExport, Viewable):
    """What every result has: how it was made, what it explains, and whether it adds up.

    `meta` holds what a reader of a saved result wants to know: model, text, baseline, layer, unit, score,
    notes (a list of sentences: truncation, what was held, what was filled), versions.
    """

    method: str
    target: str
    certificate: Certificate
    meta: Mapping[str, Any] = field(default_factory=dict)
    prediction: str = ""  # the likeliest class, tag, word or span at the text; of a generator what it writes itself
    probabilities: Mapping[str, float] = field(
        default_factory=dict
    )  # of every class at the text; of words the likeliest
    baseline_probabilities: Mapping[str, float] = field(default_factory=dict)  # at the baseline (the mean of several)
    check: Belief | None = None  # what the scores predict for the strongest units together, and what the model does
    edited: str = ""  # loaded from a file that is not as it was written, or made of such a result: what shows it
    seal: str = ""  # a checksum of all the rest, taken when the result is made (explanation/binding.py)
    entry: ClassVar[tuple[str, ...]] = ("token", "score")  # of a row, what iterating gives
    places: ClassVar[tuple[str, ...]] = ()  # fields that two results must share to be subtracted
    instead: ClassVar[str] = ""  # of a kind without differences: what to subtract

    def __post_init__(self) -> None:
        read_only(self)
        if not self.seal:
            object.__setattr__(self, "seal", seal(self))

    def derived(self: Made, **values: Any) -> Made:
        """The same with other values, sealed anew: the one way to make a result of a result.

        What was altered stays so. `dataclasses.replace` keeps the old seal, so what it makes reads "✗ altered".
        """
        edited = values.pop("edited") if "edited" in values else self.altered
        return replace(self, **values, edited=edited, seal="")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From a pickle or a deep copy, whose arrays could be written to."""
        self.__dict__.update(state)
        read_only(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain Python values (what `save` writes)."""
        from pathlens.explanation.store import to_dict

        return to_dict(self)

    def save(self, path: str | Path) -> Path:
        """Write JSON; results with large arrays put them in a safetensors file beside it."""
        from pathlens.explanation.store import save

        return save(self, path)

    @abstractmethod
    def rows(self) -> Iterator[dict[str, Any]]:
        """One plain dictionary per token, pair of tokens or phrase."""

    @property
    def altered(self) -> str:
        """What shows that the result is not as it was made, in words; nothing where it is. Taken again, here and now."""
        return self.edited or next(filter(None, self.doubts()), "") or ("" if self.seal == seal(self) else CHANGED)

    @property
    def settled(self) -> bool:
        """Do the numbers that stand here add up as their certificate says, within the tolerance?"""
        return self.certificate.converged and not self.altered

    @abstractmethod
    def doubts(self) -> Iterator[str]:
        """Every sum of this kind of result, taken again: words where it is not the certificate's, else nothing."""

    @property
    def origin(self) -> Origin:
        """How it was made, as fields: model, texts, baseline, layer, unit, score, notes, …"""
        return Origin.of(self.meta)

    @property
    def text(self) -> str | tuple[str, ...]:
        """What was explained; of two texts, both."""
        texts = self.origin.texts
        return texts[0] if len(texts) == 1 else texts

    @property
    def headline(self) -> str:
        """What the model says, in words: "predicted positive, 81 % (from the baseline alone: positive, 94.5 %)"."""
        if self.difference:
            (one, total), (other, less) = self.difference
            sums = f"sums {total:.4g} − {less:.4g} = {self.certificate.total:.4g}"
            if self.certificate.kind == "vector":
                sums = f"sums of length {total:.4g} and {less:.4g}, their difference of length {self.certificate.total:.4g}"
            return f"difference: {one} − {other}; {sums}"
        both = self.probabilities, self.baseline_probabilities
        return self._written() or in_words(*both, self.origin.about) or self._number()

    @property
    def headline_has_output(self) -> bool:
        """Are the output's two values in the headline already?"""
        return bool(self.difference or (self.target and not self.probabilities and not self._written()))

    def _written(self, *, alone: bool = False) -> str:
        """What a generator writes, and how likely that is: the output itself where it is a probability or its logarithm."""
        written, score = self.origin.outputs, self.origin.score
        if score not in ("logprob", "prob") or len(written) != 1 or self.certificate.kind == "vector":
            return ""  # of a vector the certificate has lengths, no probabilities
        ends = self.certificate.f_input, self.certificate.f_baseline
        text, start = (percent(f if score == "prob" else math.exp(min(f, 0.0))) for f in ends)
        line = f"{quoted(written[0])} is {text} likely"
        return line if alone else f"{line} (from the baseline alone: {start})"

    def _number(self) -> str:
        """What is explained and its value, of a model without words for it."""
        proof = self.certificate
        value = f"{proof.f_input:.4g} (from the baseline alone: {proof.f_baseline:.4g})"
        length = "a vector of length " if proof.kind == "vector" else ""
        return f"{shortened(self.target)}: {length}{value}" if self.target else ""

    @property
    def difference(self) -> tuple[tuple[str, float], ...]:
        """Of `a - b`: what a and b are called, and what the numbers of each sum to; of any other result nothing."""
        return self.origin.difference

    @property
    def about(self) -> tuple[str, ...]:
        """What is explained, of which text, and what the model says of it: in a few words each, for a short repr."""
        text = shortened(" | ".join(self.origin.texts))
        spoken = self._written(alone=True) or in_words(self.probabilities, {}, self.origin.about)
        return shortened(self.target), text and repr(text), "" if self.difference else spoken

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """(token, score), or what this kind of result has in each of its rows (`entry`)."""
        return (tuple(row[name] for name in self.entry) for row in self.rows())

    def __getitem__(self, place: Any) -> Any:
        """One (token, score), or a list of them: of a slice, of truth values, of several numbers."""
        if isinstance(place, str):
            raise InputError(
                f"entries are numbered: result[0], result[1:3]; by name: [e for e in result if e[0] == {place!r}]"
            )
        return at_places(list(self), place)

    def __repr__(self) -> str:
        top = ", ".join(
            " ".join(shortened(str(n), 30) for n in names) + f" {value:+.3g}" for *names, value in self.top(3) if value
        )
        how = self.headline if self.difference else self.method
        return brief(self, how, *self.about, top, "✗ altered" if self.altered else "")

    @abstractmethod
    def top(self, k: int = 5) -> list[Any]:
        """The k entries with the largest |value|, largest first."""

    def __sub__(self: Made, other: Made) -> Made:
        """Place by place; it adds up to the difference of what the two add up to."""
        self.same_places(other)
        values = self.less(other)
        mine, its = self.certificate, other.certificate
        proof = values.pop("certificate", None) or mine.less(its, total=mine.total - its.total)
        target = f"{self.target} − {other.target}" if self.target != other.target else self.target
        plain: dict[str, Any] = {"prediction": "", "probabilities": {}, "baseline_probabilities": {}, "check": None}
        names, sums = names_of_both(self, other), (mine.total, its.total)
        notes = list(dict.fromkeys((*self.origin.notes, *other.origin.notes)))
        meta = {**self.meta, "difference": [list(each) for each in zip(names, sums, strict=True)], "notes": notes}
        altered = self.altered or other.altered
        return self.derived(target=target, certificate=proof, edited=altered, meta=meta, **plain, **values)

    def less(self: Made, other: Made) -> dict[str, Any]:
        """This kind's numbers less the other's, both over the same places; with a certificate where its total is no difference."""
        raise InputError(
            f"two results of the kind {type(self).__name__} have no difference that adds up; {self.instead}"
        )

    def same_places(self, other: Any) -> None:
        """An error unless both results are of one kind, over the same places: in a line, not with both of them in it."""
        if type(self) is not type(other):
            kinds = " and ".join(type(each).__name__ for each in (self, other))
            raise InputError(f"a difference is taken of two results of one kind, got {kinds}; {SAME}")
        for name in self.places:
            mine, its = getattr(self, name), getattr(other, name)
            if mine != its:
                raise InputError(
                    f"these results differ in their {name.replace('_', ' ')} ({first_unlike(mine, its)}); {SAME}"
                )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OfUnits(Result):
    """A result over the units of one text, or of a pair read as one input."""

    tokens: tuple[str, ...]  # readable text of each unit, special tokens included
    offsets: tuple[Span, ...]  # characters of the text (of `segments`' text); (0, 0) for special tokens
    special: tuple[bool, ...] = ()  # added by the tokenizer, not part of the text
    segments: tuple[int, ...] = ()  # 0: first text (or prompt), 1: second text (or output), -1: special
    places: ClassVar[tuple[str, ...]] = ("tokens",)

    @property
    def added(self) -> tuple[bool, ...]:
        """Of each unit, was it added by the tokenizer? `special`; a result that does not say has none."""
        return self.special or (False,) * len(self.tokens)

    @property
    def homes(self) -> tuple[int, ...]:
        """Of each unit, the text it stands in: `segments`; a result that does not say has one text."""
        return self.segments or tuple(-1 if flag else 0 for flag in self.added)

    def words(self: Same) -> Same:
        """The same by word: the sum of each word's tokens (not for SIG's full reading, which is not a sum)."""
        return reduce.words(self)

    @abstractmethod
    def summed(self: Same, members: Float[np.ndarray, "G U"], **common: Any) -> Same:
        """Units joined into groups, `members` of 0 and 1; `common` is what the groups are called."""
