"""Vectors computed once per text: any pair of them is then one matrix product.

    e(x) = e(r) + Σ_U V_U        V_U = ∫₀¹ J_e(r + αδ) δ_U dα

V belongs to one text, not to a pair (METHODS §3), so a query against a thousand encoded documents costs one
integral, the query's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pathlens.documents import as_list
from pathlens.errors import InputError, PathlensError
from pathlens.explain import Explainer
from pathlens.explanation.record import Explanation, PairExplanation
from pathlens.finish import Part, estimates, spread
from pathlens.finish_pair import Measure, Side, one_sided, pair_of, side_of
from pathlens.integrate.loop import Job, run
from pathlens.methods import find_method, moving_of
from pathlens.progress import Progress
from pathlens.text.adapter import Case, TextModel
from pathlens.text.identity import stamp
from pathlens.work import work

SURE = 0.5  # estimates are kept under tolerance · SURE · ‖e‖: pairs with a cosine of at least this settle
Limit = Callable[[np.ndarray], float]  # e(text) → how long a vector's error may be


@dataclass(frozen=True, eq=False)
class Vectors:
    """Texts with their vectors, and how they were made. `vectors.pair(0, 1)`; `.save(path)`; `Vectors.load(path)`."""

    items: tuple[Side, ...]
    header: Mapping[str, Any]  # model, stamp, layer, unit, baseline, norm, tolerance, versions

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Side]:
        return iter(self.items)

    def __getitem__(self, number: int) -> Side:
        return self.items[number]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(item.text for item in self.items)

    @property
    def embeddings(self) -> np.ndarray:
        """(N, k): e(text), before a trailing Normalize unless norm="inside"."""
        return np.stack([item.embedding for item in self.items])

    def measure(self, similarity: str | None = None) -> Measure:
        chosen = similarity or self.header.get("similarity", "cosine")
        options = {"similarity": chosen, "norm": self.header["norm"]}
        return Measure.of(options, self.header["tolerance"])

    def pair(
        self, a: int, b: int, other: Vectors | None = None, *, similarity: str | None = None
    ) -> PairExplanation:
        """Text a of these against text b of these (or of `other`): one matrix product."""
        second = self if other is None else other
        check_same(self.header, second.header)
        return pair_of(self[a], second[b], self.measure(similarity), dict(self.header))

    def one_sided(self, query: np.ndarray, b: int, *, similarity: str | None = None) -> Explanation:
        """Text b's tokens against a whole query embedding e(query): nothing was integrated on the query's side."""
        return one_sided(np.asarray(query, dtype=float), self[b], self.measure(similarity), dict(self.header))

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file with a JSON header and a checksum; whole or not at all."""
        from pathlens.explanation.vector_store import save

        return save(self, path)

    @staticmethod
    def load(path: str | Path, model: Any = None) -> Vectors:
        """What `save` wrote. With `model` given, vectors of another model are refused."""
        from pathlens.explanation.vector_store import load

        header, items = load(path)
        if model is not None:
            from pathlens.text.load import load as load_model

            check_model(header, load_model(model), str(path))
        return Vectors(tuple(Side(**item) for item in items), header)


def encode(
    model: Any, texts: Sequence[Any], *, side: str | None = None, show_progress: bool = False, **choices: Any
) -> Vectors:
    """Per-text vectors that can be saved, loaded, and paired at the price of a matrix product.

    model, layer, unit, baseline, norm, tolerance, n_steps, rule, …: as in `pl.explain` with method "ij".
    side: "a" or "b", for a dual encoder whose two sides differ (queries and documents, images and texts).

    Limits: the estimates are held under tolerance/2 relative to ‖e(text)‖, so a pair with a cosine of 0.5 or more
    is settled at `tolerance`; a pair less similar may say converged=False, with its true estimates.
    """
    if isinstance(texts, str):
        raise InputError("encode takes a list of texts; for one text pass [text]")
    texts = as_list(texts, "texts")
    if not texts:
        raise InputError("the list of texts is empty; give at least one text")
    explainer = Explainer(model, method="ij", **choices)
    encoder = side_model(explainer.model, side)
    tolerance = explainer.settings.tolerance

    def limit(embedding: np.ndarray) -> float:
        return max(tolerance * SURE, 1e-5) * float(np.linalg.norm(embedding))

    items = integrate(explainer, encoder, texts, [limit] * len(texts), show_progress=show_progress)
    return Vectors(tuple(items), header_of(explainer))


def side_model(model: TextModel, side: str | None) -> TextModel:
    if not model.two_texts_are_a_pair():
        raise InputError(
            f"{model.name!r} is a {model.kind} model, and vectors are for sentence encoders; use 'minilm', a "
            "SentenceTransformer, or (encoder, tokenizer)"
        )
    a, b = model.sides()
    if side is None and a is not b:
        raise InputError("this encoder has two sides that differ: say side='a' (first) or side='b' (second)")
    if side not in (None, "a", "b"):
        raise InputError(f"side must be 'a' or 'b', got {side!r}")
    return b if side == "b" else a


def cases_of(explainer: Explainer, model: TextModel, texts: Sequence[Any]) -> list[Case]:
    """One case per text; an error names the text."""
    Measure.of(explainer.options, explainer.settings.tolerance)
    request = replace(explainer.request, vector=True, baseline=explainer.baseline)
    cases = []
    for number, text in enumerate(texts):
        try:
            cases.append(model.case(text, request=request))
        except PathlensError as error:
            raise type(error)(f"text {number}: {error}") from error
    return cases


def embedding_of(case: Case) -> np.ndarray:
    with torch.no_grad():
        return case.score(case.ends.end[None], [case])[0, 0].double().cpu().numpy()


def integrate(
    explainer: Explainer,
    model: TextModel,
    texts: Sequence[Any],
    limits: Sequence[Limit],
    *,
    show_progress: bool = False,
    batch_size: int = 64,
) -> list[Side]:
    """Vectors of every text; equal texts are integrated once. A text that fails ends the call with its number."""
    first: dict[Any, int] = {}
    keys = [text if isinstance(text, str) else id(text) for text in texts]
    for number, key in enumerate(keys):
        first.setdefault(key, number)
    wanted = sorted(first.values())
    done: dict[Any, Side] = {}
    with Progress(len(wanted), show_progress) as tick:
        for start in range(0, len(wanted), batch_size):
            some = wanted[start : start + batch_size]
            found = _batch(explainer, model, [texts[n] for n in some], [limits[n] for n in some], tick)
            done.update({keys[n]: side for n, side in zip(some, found, strict=True)})
    return [done[key] for key in keys]


def _batch(
    explainer: Explainer, model: TextModel, texts: Sequence[Any], limits: Sequence[Limit], tick: Any
) -> list[Side]:
    method = find_method("ij")
    with model.quiet():
        cases = cases_of(explainer, model, texts)
        groups = [explainer._units(case, explainer.unit) for case in cases]
        bounds = [limit(embedding_of(case)) for case, limit in zip(cases, limits, strict=True)]
        jobs = [
            Job(case, moving_of(case, own)[0], work(case, own, method, explainer.settings, bound))
            for case, own, bound in zip(cases, groups, bounds, strict=True)
        ]
        run(jobs, explainer.limits, tick)
    sides = []
    for number, (job, own) in enumerate(zip(jobs, groups, strict=True)):
        if isinstance(job.error, PathlensError):
            raise type(job.error)(f"text {number}: {job.error}") from job.error
        if job.error is not None:
            raise job.error
        part = Part(job.case, own, job.result, job.passes)
        sides.append(_compact(side_of(part, spread(part), estimates(part))))
    return sides


def _compact(side: Side) -> Side:
    """Vectors as float32, which is what is stored: loading gives back exactly what was there."""
    return replace(side, vectors=side.vectors.astype(np.float32), coordinates=None)


def header_of(explainer: Explainer) -> dict[str, Any]:
    meta = explainer._meta(find_method("ij"), 0.0)
    meta.pop("seconds")
    return {
        **meta,
        "stamp": stamp(explainer.model),
        "norm": explainer.options.get("norm", "outside"),
        "similarity": explainer.options.get("similarity", "cosine"),
        "baseline": explainer.baseline
        if isinstance(explainer.baseline, str)
        else "default"
        if explainer.baseline is None
        else "given",
        "tolerance": explainer.settings.tolerance,
    }


def check_same(a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
    """Vectors go together when the same model made them, and both before or both after the normalisation."""
    for name in ("stamp", "norm"):
        if a[name] != b[name]:
            raise InputError(
                f"these vectors do not go together: {name} {a[name]!r} and {b[name]!r} (models {a['model']!r} and "
                f"{b['model']!r}); encode both with the same model and the same norm"
            )


def check_model(header: Mapping[str, Any], model: TextModel, source: str) -> None:
    if header["stamp"] != stamp(model):
        raise InputError(
            f"{source} was made with another model ({header['model']!r}, stamp {header['stamp']}; this one is {model.name!r}, "
            f"stamp {stamp(model)}); load the model it was made with, or encode the texts again"
        )
