"""The same text under several methods, baselines or models: side by side, how far they agree, and where not.

>>> from pathlens.studies.compare import compare
>>> compare("sentiment", "Not really funny, but moving.", methods=["ig", "sig"]).show()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from pathlens.errors import InputError
from pathlens.explanation.record import PairExplanation, Result, VectorExplanation
from pathlens.explanation.store import many_to_dict
from pathlens.explanation.view import Viewable
from pathlens.metrics.statistics import kendall, spearman

WEAK = 0.1  # of a column's largest |value|: what is smaller has no sign worth quarrelling about
SAID = 6  # disagreements put into words


@dataclass(frozen=True, eq=False)
class Comparison(Viewable):
    """Columns of values over the same units; `spearman` and `kendall` are (columns, columns)."""

    labels: tuple[str, ...]
    results: tuple[Result, ...]
    units: tuple[str, ...]
    values: np.ndarray  # (units, columns), signed (lengths for vector results)
    spearman: np.ndarray
    kendall: np.ndarray
    notes: tuple[str, ...] = ()
    varied: str = "method"
    shown: tuple[int, ...] = field(default=())  # units that count: not special, not zero everywhere

    def disagreements(self) -> list[tuple[str, str, str, float, float]]:
        """(unit, one column, another, value, value) where two columns give opposite signs, strongest first."""
        limits = np.abs(self.values).max(0)
        found = []
        for i in self.shown:
            row = self.values[i]
            strong = [k for k in range(len(row)) if limits[k] > 0 and abs(row[k]) >= WEAK * limits[k]]
            up = [k for k in strong if row[k] > 0]
            down = [k for k in strong if row[k] < 0]
            if up and down:
                high = max(up, key=lambda k: row[k] / limits[k])
                low = min(down, key=lambda k: row[k] / limits[k])
                size = row[high] / limits[high] - row[low] / limits[low]
                found.append((size, i, high, low))
        return [
            (self.units[i], self.labels[a], self.labels[b], float(self.values[i, a]), float(self.values[i, b]))
            for _, i, a, b in sorted(found, key=lambda item: -item[0])
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `pl.load` of the saved file gives the results back as a list."""
        return many_to_dict(
            self.results, labels=list(self.labels), units=list(self.units), values=self.values.tolist(),
            spearman=_plain(self.spearman), kendall=_plain(self.kendall), notes=list(self.notes),
            varied=self.varied, disagreements=[list(row) for row in self.disagreements()],
        )  # fmt: skip


def compare(
    model: Any,
    text: Any,
    text_b: Any = None,
    *,
    methods: Sequence[str] | None = None,
    baselines: Sequence[Any] | None = None,
    models: Sequence[Any] | None = None,
    show_progress: bool = False,
    **choices: Any,
) -> Comparison:
    """Explain one text in several ways. Every combination of the lists given is one column.

    methods: names as in `pl.methods()` (default: ig and sig, when nothing else is varied).
    baselines: names, texts or tensors. models: further models, each compared with the first.
    With different models or tokenizers, values are compared by word. Other choices as in `pl.explain`.
    """
    from pathlens.engine.explainer import Explainer
    from pathlens.text.load import load

    if methods is None and "method" in choices:
        methods = [choices.pop("method")]
    several = [load(each) for each in (model, *(models or ()))]
    if methods is None and not baselines and len(several) == 1:
        methods = ("ig", "sig")
    if len(several) > 1:
        choices.setdefault("unit", "word")
    usual = choices.pop("baseline", None)
    ways = list(product(several, methods or (None,), baselines or (usual,)))
    if len(ways) < 2:
        raise InputError("nothing to compare: give at least two methods, two baselines or two models")
    results = []
    with _bar(len(ways), show_progress) as tick:
        for one, method, baseline in ways:
            results.append(Explainer(one, method=method, baseline=baseline, **choices)(text, text_b))
            tick()
    varied = [
        name
        for name, many in (("model", several), ("method", methods), ("baseline", baselines))
        if many and len(many) > 1
    ]
    return side_by_side(results, labels=_labels(results, varied), varied=" and ".join(varied))


def side_by_side(results: Sequence[Result], *, labels: Sequence[str] | None = None, varied: str = "") -> Comparison:
    """Results of the same text → a comparison."""
    if len(results) < 2:
        raise InputError(f"a comparison takes at least two results, got {len(results)}")
    columns, notes = [_values(result) for result in results], []
    if any(names != columns[0][0] for names, _, _ in columns):
        columns = [_values(result.words()) for result in results]  # type: ignore[attr-defined]
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
    given = tuple(labels or _labels(results, ["method"]))
    found = Comparison(given, tuple(results), names, values, rank, order, tuple(notes), varied or "method", shown)
    return _with_notes(found)


def _with_notes(found: Comparison) -> Comparison:
    from dataclasses import replace

    notes = list(found.notes)
    count = len(found.labels)
    if count > 1:
        pairs = [(found.spearman[a, b], a, b) for a in range(count) for b in range(a)]
        worst = min(pairs, key=lambda pair: np.nan_to_num(pair[0], nan=2.0))
        if np.isfinite(worst[0]):
            notes.append(
                f"least agreement: {found.labels[worst[2]]} and {found.labels[worst[1]]}, Spearman {worst[0]:+.2f}"
            )
        if any(np.isnan(pair[0]) for pair in pairs):
            notes.append("an agreement is not defined where all values of a column are equal")
    strongest = {label: _strongest(found, k) for k, label in enumerate(found.labels)}
    if len(set(strongest.values())) > 1:
        notes.append("strongest unit: " + ", ".join(f"{name} in {label}" for label, name in strongest.items()))
    quarrels = found.disagreements()
    for unit, up, down, high, low in quarrels[:SAID]:
        notes.append(f"they disagree on “{unit}”: {high:+.3g} in {up}, {low:+.3g} in {down}")
    if len(quarrels) > SAID:
        notes.append(f"and on {len(quarrels) - SAID} more units")
    if not quarrels:
        notes.append("no unit of weight has opposite signs")
    loose = [
        label for label, result in zip(found.labels, found.results, strict=True) if not result.certificate.converged
    ]
    if loose:
        notes.append(f"not settled within the tolerance: {', '.join(loose)}; do not trust their order yet")
    return replace(found, notes=tuple(notes))


def _strongest(found: Comparison, k: int) -> str:
    return found.units[max(found.shown, key=lambda i: abs(found.values[i, k]))] if found.shown else ""


def _values(result: Any) -> tuple[tuple[str, ...], np.ndarray, tuple[bool, ...]]:
    """Unit names, one value each, and which are special; cells of a table are units too."""
    if isinstance(result, PairExplanation):
        names = tuple(f"{a} × {b}" for a in result.tokens_a for b in result.tokens_b)
        one, two = (flags or (False,) * len(tokens) for flags, tokens in
                    ((result.special_a, result.tokens_a), (result.special_b, result.tokens_b)))  # fmt: skip
        return names, result.matrix.ravel(), tuple(a or b for a in one for b in two)
    if isinstance(result, VectorExplanation):
        return result.tokens, result.norms.sum(0), result.special or (False,) * len(result.tokens)
    return result.tokens, np.asarray(result.scores), result.special or (False,) * len(result.tokens)


def _labels(results: Sequence[Result], varied: Sequence[str]) -> tuple[str, ...]:
    """What tells the columns apart; numbered where that is not enough."""
    said = []
    for result in results:
        known = {"method": result.method, **{key: str(result.meta.get(key, "")) for key in ("model", "baseline")}}
        said.append(" · ".join(known[name] for name in varied if known[name]) or result.method)
    return tuple(name if said.count(name) == 1 else f"{name} ({k})" for k, name in enumerate(said, 1))


def _plain(matrix: np.ndarray) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in matrix]


class _bar:
    """A progress bar, or nothing."""

    def __init__(self, total: int, show: bool) -> None:
        self.total, self.show = total, show

    def __enter__(self) -> Any:
        if not self.show:
            return lambda: None
        from tqdm.auto import tqdm

        self.bar = tqdm(total=self.total, unit="way", leave=False)
        return lambda: self.bar.update(1)

    def __exit__(self, *_: object) -> None:
        if self.show:
            self.bar.close()
