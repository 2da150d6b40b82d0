"""The same text under several methods, baselines or models: side by side, how far they agree, and where not.

>>> from pathlens.studies.compare import compare
>>> compare("sentiment", "Not really funny, but moving.", methods=["ig", "sig"]).show()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Unpack

import numpy as np

from pathlens.checks import listed, option_names
from pathlens.engine.explainer import Explainer, check_choices, loaded
from pathlens.engine.methods import entry_for
from pathlens.engine.options import Method, build
from pathlens.engine.progress import Progress
from pathlens.engine.typed import StudyOptions
from pathlens.errors import InputError
from pathlens.explanation.base import Result
from pathlens.explanation.binding import read_only
from pathlens.explanation.record import PairExplanation, VectorExplanation
from pathlens.explanation.store import many_to_dict, plain
from pathlens.explanation.view import TableExport, Viewable
from pathlens.metrics.statistics import kendall, ranks, spearman
from pathlens.text.adapter import Request, TextModel
from pathlens.text.chat import as_chat, as_list
from pathlens.text.generator import DEFAULT_SCORE, Generator
from pathlens.types import brief

WEAK = 0.1  # of a column's largest |value|: what is smaller has no sign worth quarrelling about
IN_WORDS = 6  # disagreements put into words


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(TableExport, Viewable):
    """Columns of values over the same units; `spearman` and `kendall` are (columns, columns)."""

    labels: tuple[str, ...]
    results: tuple[Result, ...]
    units: tuple[str, ...]
    values: np.ndarray  # (units, columns), signed (lengths for vector results)
    spearman: np.ndarray
    kendall: np.ndarray
    notes: tuple[str, ...] = ()
    varied: str = "method"
    shown: tuple[int, ...] = ()  # units that count: not special, not zero everywhere

    def __post_init__(self) -> None:
        read_only(self)  # the ticks beside the numbers are the results'

    def __repr__(self) -> str:
        first = self.results[0]
        pairs = self.spearman[np.triu_indices(len(self.labels), 1)]
        known = pairs[np.isfinite(pairs)]  # of one unit, or of equal values, there is no order
        ends = " to ".join(f"{end:.2f}" for end in (known.min(), known.max())[: len(known)]) if len(known) else ""
        return brief(self, ", ".join(self.labels), *first.about, ends and f"Spearman {ends}")

    @property
    def headline(self) -> str:
        """What the model says; of several models, what each of them does."""
        if len({each.origin.model for each in self.results}) == 1:
            return self.results[0].headline
        return "; ".join(f"{label}: {each.headline}" for label, each in zip(self.labels, self.results, strict=True))

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary per unit: its name, and its value in every column."""
        return by_unit(self.units, self.labels, self.values)

    def disagreements(self) -> list[tuple[str, str, str, float, float]]:
        """(unit, one column, another, value, value) where two columns give opposite signs, strongest first."""
        limits = np.abs(self.values).max(0)
        shares = self.values / np.where(limits > 0, limits, 1.0)
        shares = np.where(np.abs(shares) >= WEAK, shares, 0.0)
        high, low = shares.argmax(1), shares.argmin(1)
        size = shares.max(1) - shares.min(1)
        split = [i for i in self.shown if shares[i].max() > 0 > shares[i].min()]
        order = ((i, high[i], low[i], self.values[i]) for i in sorted(split, key=lambda i: -size[i]))
        return [(self.units[i], self.labels[a], self.labels[b], float(v[a]), float(v[b])) for i, a, b, v in order]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `pl.load` of the saved file gives the results back as a list."""
        return many_to_dict(
            self.results, labels=list(self.labels), units=list(self.units), values=self.values.tolist(),
            spearman=plain(self.spearman), kendall=plain(self.kendall), notes=list(self.notes),
            varied=self.varied, disagreements=[list(row) for row in self.disagreements()],
        )  # fmt: skip


def compare(
    model: Any,
    text: Any,
    text_b: Any = None,
    *,
    methods: str | Sequence[str | Method[Any]] | None = None,
    baselines: Sequence[Any] | None = None,
    models: Sequence[Any] | None = None,
    show_progress: bool = False,
    **choices: Unpack[StudyOptions],
) -> Comparison:
    """Explain one text in several ways. Every combination of the lists given is one column.

    methods: names as in `pl.methods()`, or records (when nothing else is varied: the model's own beside ig and sig; of two texts ij and secant).
    baselines: names, texts or tensors; a list given as `baseline` means these, and a list inside one of the lists is averaged over.
    models: further models, each compared with the first.
    With different models or tokenizers, values are compared by word. Other choices as in `pl.explain`.
    """
    if isinstance(as_chat(as_list(text)), list):
        raise InputError("compare takes one text (or a pair); of many texts, pl.evaluate says which method to believe")
    named: dict[str, Any] = {**choices}
    methods = listed(named.pop("method", None) if methods is None else methods)
    usual = named.pop("baseline", None)
    if (
        baselines is None and isinstance(usual, list) and usual
    ):  # as the command line has it: several stand side by side
        usual, baselines = (usual[0], None) if len(usual) == 1 else (None, usual)
    asked = (model, *(models or ()))
    if methods is None and not baselines and len(asked) == 1:
        one, named = loaded(model, named)
        asked, methods = (one,), _usual(one, text_b is not None)
    if len(asked) > 1:
        named.setdefault("unit", "word")
    variants = list(product(methods or (None,), baselines or (usual,)))
    if len(asked) * len(variants) < 2:
        raise InputError("nothing to compare: give at least two methods, two baselines or two models").plainly(
            "There is one column only, and nothing to compare it with. Tick at least two methods, two baselines or another model."
        )
    for method, baseline in variants:
        check_choices(method, {**named, "baseline": baseline}, compare)
    ready = [loaded(each, named) for each in asked]
    several, named = [one for one, _ in ready], ready[0][1]
    columns = []
    for one, (method, baseline) in product(several, variants):
        shared = _of_one_number(one, methods or (), {**named, "baseline": baseline})
        columns.append((method, Explainer(one, method=method, **shared).of_one_target("compare")))
    results = []
    with Progress(len(columns), show_progress) as tick:
        for method, explainer in columns:
            results.append(explainer(text, text_b))
            tick(method)
    lists: dict[str, Sequence[Any]] = {"model": several, "method": methods or (), "baseline": baselines or ()}
    varied = [name for name, many in lists.items() if len(many) > 1]
    return side_by_side(results, labels=_labels(results, varied), varied=" and ".join(varied))


def _of_one_number(model: Any, methods: Sequence[str | Method[Any]], choices: dict[str, Any]) -> dict[str, Any]:
    """Methods are compared on one change: a model may have a score, and a baseline, of its own for integrals alone."""
    entries = [entry_for(build(method)) for method in methods]
    if choices["baseline"] is None and isinstance(model, Generator) and any(entry.integrates for entry in entries):
        choices = {**choices, "baseline": model.usual_baseline(Request())}
    differs = getattr(model, "default_score", DEFAULT_SCORE) != DEFAULT_SCORE
    one_number = len(methods) > 1 and not any(entry.vector for entry in entries)
    return {"score": DEFAULT_SCORE, **choices} if differs and one_number else choices


def _usual(model: TextModel, second: bool) -> tuple[str, ...]:
    """What is compared where nothing is named; of what a model writes, where integrals take hundreds of nodes, two methods."""
    if second and model.two_texts_are_a_pair():
        return ("ij", "secant")
    return (
        ("secant", "sig")
        if "generate" in option_names(model.options)
        else tuple(dict.fromkeys((model.default_method, "ig", "sig")))
    )


def side_by_side(results: Sequence[Result], *, labels: Sequence[str] | None = None, varied: str = "") -> Comparison:
    """Results of the same text → a comparison."""
    if len(results) < 2:
        raise InputError(f"a comparison takes at least two results, got {len(results)}")
    columns, notes = [values_of(result) for result in results], []
    if any(names != columns[0][0] for names, _, _ in columns):
        columns = [values_of(result.words()) for result in results]  # type: ignore[attr-defined]
        notes.append("tokens differ, so values are compared by word")
    if any(names != columns[0][0] for names, _, _ in columns):
        raise InputError("the results are not of the same text and unit, so they cannot stand side by side")
    names, _, special = columns[0]
    values = np.stack([column for _, column, _ in columns], axis=1)
    shown = tuple(i for i in range(len(names)) if not special[i] and np.any(values[i]))
    count = len(results)
    rank, order = np.eye(count), np.eye(count)
    for a in range(count):
        for b in range(a):
            pair = values[list(shown), a], values[list(shown), b]
            rank[a, b] = rank[b, a] = spearman(*pair)
            order[a, b] = order[b, a] = kendall(*pair)
    labels = tuple(labels or _labels(results, ["method"]))
    bare = Comparison(labels, tuple(results), names, values, rank, order, (), varied or "method", shown)
    return replace(bare, notes=(*notes, *_notes(bare)))


def _notes(comparison: Comparison) -> list[str]:
    """What a reader should see first, in words."""
    notes, labels = [], comparison.labels
    pairs = [(comparison.spearman[a, b], a, b) for a in range(len(labels)) for b in range(a)]
    rho, a, b = min(pairs, key=lambda pair: np.nan_to_num(pair[0], nan=2.0))
    shown = list(comparison.shown)
    if np.isfinite(rho):
        notes.append(
            f"{'least agreement' if len(pairs) > 1 else 'agreement'}: {labels[b]} and {labels[a]}, Spearman {rho:+.2f}"
        )
        one, other = (len(shown) + 1 - ranks(comparison.values[shown, k]) for k in (b, a))
        place = int(np.abs(one - other).argmax())
        if one[place] != other[place]:
            unit, count = comparison.units[shown[place]], len(shown)
            where = f"{one[place]:g}. of {count} in {labels[b]}, {other[place]:g}. in {labels[a]}"
            notes[-1] += f"; their orders differ most on “{unit}”: {where}"
    if any(np.isnan(pair[0]) for pair in pairs):
        notes.append("an agreement is not defined where all values of a column are equal")
    strongest = [comparison.units[shown[k]] for k in np.abs(comparison.values[shown]).argmax(0)] if shown else []
    if len(set(strongest)) > 1:
        named = (f"“{unit}” in {label}" for unit, label in zip(strongest, labels, strict=True))
        notes.append(f"strongest unit: {', '.join(named)}")
    quarrels = comparison.disagreements()
    for unit, up, down, high, low in quarrels[:IN_WORDS]:
        notes.append(f"they disagree on “{unit}”: {high:+.3g} in {up}, {low:+.3g} in {down}")
    if len(quarrels) > IN_WORDS:
        notes.append(f"and on {len(quarrels) - IN_WORDS} more units")
    if not quarrels:
        notes.append("they agree on the sign of every unit that counts")
    loose = [label for label, each in zip(labels, comparison.results, strict=True) if not each.settled]
    if loose:
        notes.append(f"not settled within the tolerance: {', '.join(loose)}; do not trust their order yet")
    return notes


def by_unit(units: Sequence[str], columns: Sequence[str], values: np.ndarray) -> list[dict[str, Any]]:
    """One plain dictionary per unit: its name, and its value in every column; `values` are (units, columns)."""
    every = zip(units, values.tolist(), strict=True)
    return [{"unit": unit, **dict(zip(columns, row, strict=True))} for unit, row in every]


def values_of(result: Any) -> tuple[tuple[str, ...], np.ndarray, tuple[bool, ...]]:
    """Unit names, one value each, and which are special; cells of a table are units too."""
    if isinstance(result, PairExplanation):
        names = tuple(f"{a} × {b}" for a in result.tokens_a for b in result.tokens_b)
        one, other = result.added
        return names, result.matrix.ravel(), tuple(a or b for a in one for b in other)
    values = result.norms.sum(0) if isinstance(result, VectorExplanation) else np.asarray(result.scores)
    return result.tokens, values, result.added


def _labels(results: Sequence[Result], varied: Sequence[str]) -> tuple[str, ...]:
    """What tells the columns apart; numbered where that is not enough."""
    names = []
    for result in results:
        facts = {"method": result.method, "model": result.origin.model, "baseline": result.origin.baseline}
        names.append(" · ".join(facts[fact] for fact in varied if facts[fact]) or result.method)
    return tuple(name if names.count(name) == 1 else f"{name} ({k})" for k, name in enumerate(names, 1))
