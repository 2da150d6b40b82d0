"""A query meets texts: every token of a text against the whole query, or token × token. Nothing was stored for it.

    e(q)·e(x) / (‖e(q)‖ ‖e(x)‖) = e(q)·e(r) / (…) + Σ_i score_i

With the query's vector and both lengths fixed the similarity is one number, linear in e(x), so one pass backwards gives
every token of a text its exact share. Token × token takes a pass backwards for every row of the query's vectors, or a
push for every token of the text: whichever are fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from pathlens.checks import option_names
from pathlens.engine.assemble import side_of
from pathlens.engine.explainer import Explainer
from pathlens.engine.options import IG, SECANT
from pathlens.engine.prepare import Prepared, by_side
from pathlens.engine.progress import Progress
from pathlens.errors import PathlensError
from pathlens.explanation.pair import Measure, Side, pair_by_rows, pair_of
from pathlens.explanation.record import Explanation, PairExplanation
from pathlens.path.words.options import PathOptions
from pathlens.vectors.encode import SideEncoder

Reason = Explanation | PairExplanation


@dataclass(frozen=True, eq=False)
class Query:
    """The query's part in every pair: e(query) at once, its vectors when it is known whom it meets."""

    text: Any
    encoder: SideEncoder
    measure: Measure
    embedding: np.ndarray
    baseline: str  # its name

    @staticmethod
    def of(encoder: SideEncoder, text: Any, measure: Measure | None = None) -> Query:
        (embedding,), baseline = encoder.embed([text], ["the query"])
        measure = encoder.measure if measure is None else measure
        measure.scale(embedding, embedding)  # a query of length zero has no cosine
        return Query(text, encoder, measure, embedding, baseline)

    def score(self, embedding: np.ndarray) -> float:
        return float(self.embedding @ embedding) / self.measure.scale(self.embedding, embedding)

    def side(self, others: Sequence[np.ndarray] = ()) -> Side:
        """Its vectors, exact enough to meet these embeddings; without any, to meet texts not yet seen."""
        limit = meets(others, self.measure) if len(others) else self.encoder.any_pair
        return self.encoder.sides([self.text], [limit], ["the query"])[0]


def meets(others: Sequence[np.ndarray], measure: Measure) -> Callable[[np.ndarray], float]:
    """How long an error of a text's vectors may be, so that its pair with every one of `others` settles."""
    return lambda embedding: min(measure.length_limit(embedding, other) for other in others)


def reasons(
    asked: Query, second: SideEncoder, texts: Sequence[Any], names: Sequence[str], *, pairs: bool, show_progress: bool
) -> Sequence[Reason]:
    """Every text explained, in order; one that fails ends the call with its name."""
    return (paired if pairs else against)(asked, second, texts, names, show_progress)


def against(
    asked: Query, second: SideEncoder, texts: Sequence[Any], names: Sequence[str], show_progress: bool
) -> list[Explanation]:
    """Every token of a text against the whole query: one pass backwards a text, all in shared batches."""
    vector = torch.tensor(asked.embedding)
    target = ("similarity", vector) if asked.measure.norm == "inside" else ("against", vector)
    one_way = _backwards(second, target)
    results = one_way.run(((text, None) for text in texts), total=len(texts), show_progress=show_progress)
    for name, result in zip(names, results, strict=True):
        _raise_named(name, result)
    chosen = {"method": second.method.name, "similarity": asked.measure.similarity, "norm": asked.measure.norm}
    return [
        each.derived(
            method=second.method.name,
            meta={**each.meta, "one_sided": True, "chosen": {**each.meta.get("chosen", {}), **chosen}},
        )
        for each in results
        if isinstance(each, Explanation)
    ]


def _backwards(second: SideEncoder, target: Any) -> Explainer[Any]:
    """The documents' side as an explainer of numbers: by secants, or by the integral along the same line."""
    method, choices = second.method, second.choices
    along = {name: getattr(method, name) for name in option_names(PathOptions) if hasattr(method, name)}
    scores = replace(method, gives="scores") if isinstance(method, SECANT) else IG(**along)
    return second.explainer.asking(
        scores,
        model=second.model,
        target=target,
        baseline=by_side(choices.baseline, "baselines")[1],
        unit=by_side(choices.unit, "units")[1],
        check=False,  # a hit is read beside others, and ten of them are asked for at once
    )


def paired(
    asked: Query, second: SideEncoder, texts: Sequence[Any], names: Sequence[str], show_progress: bool
) -> list[PairExplanation]:
    """Both texts token by token: by the query's rows backwards where a text has more units than the query has rows."""
    embeddings, baseline = second.embed(texts, names)
    one = asked.side(embeddings)
    baseline = " | ".join(dict.fromkeys([asked.baseline, baseline]))
    meta = second.about(baseline)
    # a row against a text is a number only where both lengths are outside of it
    rows_serve = asked.measure.similarity == "cosine" and asked.measure.norm == "outside"
    counts = second.counts(texts, names)
    many = [n for n, count in enumerate(counts) if count > len(one.rows) + 1 and rows_serve]
    few = [n for n in range(len(texts)) if n not in set(many)]
    pairs: dict[int, PairExplanation] = {}
    with Progress(len(texts), show_progress):
        if few:
            limits = [meets([asked.embedding], asked.measure)] * len(few)
            sides = second.sides([texts[n] for n in few], limits, [names[n] for n in few])
            pairs |= {n: pair_of(one, side, asked.measure, meta) for n, side in zip(few, sides, strict=True)}
        if many:
            sides = _by_rows(
                asked, one, second, [texts[n] for n in many], [names[n] for n in many], [embeddings[n] for n in many]
            )
            pairs |= {n: pair_by_rows(one, side, asked.measure, meta) for n, side in zip(many, sides, strict=True)}
    return [pairs[number] for number in range(len(texts))]


def _by_rows(
    asked: Query,
    one: Side,
    second: SideEncoder,
    texts: Sequence[Any],
    names: Sequence[str],
    embeddings: Sequence[np.ndarray],
) -> list[Side]:
    """Texts as the query sees them: every vector by its products with the query's rows, and last with e(query) itself."""
    rows = np.concatenate([one.rows, asked.embedding[None]]) / np.linalg.norm(asked.embedding)
    backwards = _backwards(second, ("rows", torch.from_numpy(rows).float()))
    read = backwards.read([(text, None) for text in texts])
    for name, each in zip(names, read, strict=True):
        _raise_named(name, each)
    measure = asked.measure
    limits = [measure.limit(asked.score(e), measure.reach(asked.embedding, e)) / len(rows) for e in embeddings]
    both = zip(read, limits, strict=True)
    ready = [replace(each, limits=(limit,)) for each, limit in both if isinstance(each, Prepared)]
    solved = backwards.solve(ready)
    sides = []
    for name, solutions in zip(names, solved, strict=True):
        _raise_named(name, solutions)
        assert isinstance(solutions, tuple)
        sides.append(side_of(solutions[0], by_rows=True))
    return sides


def _raise_named(name: str, result: Any) -> None:
    if isinstance(result, PathlensError):
        raise type(result)(f"{name}: {result}") from result
    if isinstance(result, Exception):
        raise result
