"""Vectors computed once per text: any pair of them is then one matrix product.

    e(x) = e(r) + Σ_U V_U        V_U = ∫₀¹ J_e(r + αδ) δ_U dα

V belongs to one text, not to a pair (METHODS §3), so a query against a thousand encoded documents costs one
integral, the query's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pathlens.engine.assemble import Part, estimates, spread
from pathlens.engine.assemble_pair import Measure, Side, one_sided, pair_of, side_of
from pathlens.engine.explainer import Explainer
from pathlens.engine.methods import find_method, moving_of
from pathlens.engine.progress import Progress
from pathlens.engine.solve import work
from pathlens.errors import InputError, PathlensError, StoreError
from pathlens.explanation.record import Explanation, PairExplanation
from pathlens.integrate.loop import Job, run
from pathlens.text.adapter import Case, TextModel
from pathlens.text.fingerprint import fingerprint
from pathlens.text.network import ONE_AT_A_TIME
from pathlens.text.softplus import prepared
from pathlens.vectors.documents import as_list

SURE = 0.5  # estimates are kept under tolerance · SURE · ‖e‖: pairs with a cosine of at least this settle
Limit = Callable[[np.ndarray], float]  # e(text) → how long a vector's error may be
Names = Callable[[int], str]  # a text's number → what an error calls it
MIXED = ("layer", "unit", "baseline")  # two texts' vectors may differ in these, and the pair then says so


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

    def pair(self, a: int, b: int, other: Vectors | None = None, *, similarity: str | None = None) -> PairExplanation:
        """Text a of these against text b of these (or of `other`): one matrix product."""
        second = self if other is None else other
        check_same(self.header, second.header)
        meta = {**self.header, "notes": mixed(self.header, second.header, "the first text", "the second")}
        return pair_of(self._item(a), second._item(b), self.measure(similarity), meta)

    def one_sided(self, query: np.ndarray, b: int, *, similarity: str | None = None) -> Explanation:
        """Text b's tokens against a whole query embedding e(query): nothing was integrated on the query's side."""
        vector = np.asarray(query, dtype=float)
        return one_sided(vector, self._item(b), self.measure(similarity), dict(self.header))

    def _item(self, number: Any) -> Side:
        try:
            return self.items[number]
        except (IndexError, TypeError) as error:
            raise InputError(f"there is no text {number!r}: {len(self)} were encoded, counted from 0") from error

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file with a JSON header and a checksum; whole or not at all."""
        from pathlens.explanation.vector_store import save

        try:
            return save(self, path)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"cannot write {str(path)!r}: {error.strerror or error}") from error

    @staticmethod
    def load(path: str | Path, model: Any = None) -> Vectors:
        """What `save` wrote. With `model` given, vectors of another model are refused."""
        from pathlens.explanation.vector_store import load

        if Path(path).is_dir():
            raise StoreError(f"{str(path)!r} is a folder; give the file that `save` wrote")
        try:
            header, items = load(path)
            _check_numbers(items)
        except (ValueError, KeyError, IndexError, TypeError) as error:  # a header with a few wrong characters
            raise StoreError(f"{str(path)!r} is damaged ({error}); encode the texts again and save them") from error
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
    explainer = vector_maker(model, **choices)
    encoder = side_model(explainer.model, side)
    for name in ("baseline", "unit"):
        if side is None and isinstance(getattr(explainer, name), tuple):
            raise InputError(f"encode takes one {name}, not one for each side; a dual encoder's side: side='a' or 'b'")
    place = int(side == "b")
    tolerance = explainer.settings.tolerance

    def limit(embedding: np.ndarray) -> float:
        return max(tolerance * SURE, 1e-5) * float(np.linalg.norm(embedding))

    items = integrate(explainer, encoder, texts, [limit] * len(texts), place=place, show_progress=show_progress)
    return Vectors(tuple(items), header_of(explainer, baseline_name(explainer, encoder, texts[0], place)))


def vector_maker(model: Any, **choices: Any) -> Explainer:
    """An explainer for vectors per text; a choice it would not read is refused, not ignored."""
    explainer = Explainer(model, method="ij", **choices)
    if explainer.options.get("coordinates"):
        raise InputError("coordinates=True is for one pair: pl.explain(model, a, b, coordinates=True)")
    for name in ("target", "score"):
        if getattr(explainer.request, name) is not None:
            raise InputError(f"{name}: not for vectors of texts; the similarity is what is explained")
    if explainer.model.two_texts_are_a_pair():
        explainer._method("")  # knows the method's and the model's options and rules
    for name in ("baseline", "unit"):
        given = getattr(explainer, name)
        if isinstance(given, tuple) and len(given) != 2:
            raise InputError(f"a tuple of {name}s has one for each text, two in all; got {len(given)}")
    Measure.of(explainer.options, explainer.settings.tolerance)
    return explainer


def choice_of(given: Any, place: int) -> Any:
    """One choice for both texts, or a tuple with one for each: that of the first (0) or second (1)."""
    return given[place] if isinstance(given, tuple) else given


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


def text_number(number: int) -> str:
    return f"text {number}"


def the_query(_: int) -> str:
    return "the query"


def cases_of(
    explainer: Explainer, model: TextModel, texts: Sequence[Any], *, place: int = 0, names: Names = text_number
) -> list[Case]:
    """One case per text of the first (place 0) or second side; an error names the text."""
    request = replace(explainer.request, vector=True, baseline=choice_of(explainer.baseline, place))
    cases = []
    for number, text in enumerate(texts):
        try:
            case = model.case(text, request=request)
            cases.append(prepared(case, explainer.options, second_order=False))
        except PathlensError as error:
            raise type(error)(f"{names(number)}: {error}") from error
    return cases


def baseline_name(explainer: Explainer, model: TextModel, text: Any, place: int, name: str = "text 0") -> str:
    """What the baseline of this side is called, also where it is the model's own."""
    with ONE_AT_A_TIME, torch.inference_mode(False), model.quiet():
        return cases_of(explainer, model, [text], place=place, names=lambda _: name)[0].baseline


def embedding_of(case: Case) -> np.ndarray:
    with torch.no_grad():
        return case.score(case.ends.end[None], [case])[0, 0].double().cpu().numpy()


def integrate(
    explainer: Explainer,
    model: TextModel,
    texts: Sequence[Any],
    limits: Sequence[Limit],
    *,
    place: int = 0,
    names: Names = text_number,
    show_progress: bool = False,
    batch_size: int = 64,
) -> list[Side]:
    """Vectors of every text; equal texts are integrated once. A text that fails ends the call with its name."""
    first: dict[Any, int] = {}
    keys = [text if isinstance(text, str) else id(text) for text in texts]
    for number, key in enumerate(keys):
        first.setdefault(key, number)
    wanted = sorted(first.values())
    done: dict[Any, Side] = {}
    with Progress(len(wanted), show_progress) as tick:
        for start in range(0, len(wanted), batch_size):
            some = wanted[start : start + batch_size]
            called = [names(n) for n in some]
            found = _batch(explainer, model, [texts[n] for n in some], [limits[n] for n in some], place, called, tick)
            done.update({keys[n]: side for n, side in zip(some, found, strict=True)})
    return [done[key] for key in keys]


def _batch(
    explainer: Explainer,
    model: TextModel,
    texts: Sequence[Any],
    limits: Sequence[Limit],
    place: int,
    names: Sequence[str],
    tick: Any,
) -> list[Side]:
    method = find_method("ij")
    with ONE_AT_A_TIME, torch.inference_mode(False), model.quiet():
        cases = cases_of(explainer, model, texts, place=place, names=names.__getitem__)
        groups = [explainer._units(case, choice_of(explainer.unit, place)) for case in cases]
        bounds = [limit(embedding_of(case)) for case, limit in zip(cases, limits, strict=True)]
        jobs = [
            Job(case, moving_of(case, own)[0], work(case, own, method, explainer.settings, bound))
            for case, own, bound in zip(cases, groups, bounds, strict=True)
        ]
        run(jobs, explainer.limits, tick)
    sides = []
    for number, (job, own) in enumerate(zip(jobs, groups, strict=True)):
        if isinstance(job.error, PathlensError):
            raise type(job.error)(f"{names[number]}: {job.error}") from job.error
        if job.error is not None:
            raise job.error
        part = Part(job.case, own, job.result, job.passes)
        sides.append(_compact(side_of(part, spread(part), estimates(part))))
    return sides


def _compact(side: Side) -> Side:
    """Vectors as float32, which is what is stored: loading gives back exactly what was there."""
    return replace(side, vectors=side.vectors.astype(np.float32), coordinates=None)


def _check_numbers(items: Sequence[Mapping[str, Any]]) -> None:
    """The checksum is of bytes: that they are read as the numbers they were is seen here."""
    for number, item in enumerate(items):
        arrays = {name: np.asarray(item[name]) for name in ("vectors", "error", "reference", "embedding")}
        count, width = len(item["tokens"]), arrays["embedding"].shape
        wanted = {"vectors": (count, *width), "error": (count,), "reference": width, "embedding": width}
        for name, array in arrays.items():
            if array.dtype.kind != "f" or array.shape != wanted[name]:
                raise ValueError(f"{name} of text {number} is {array.dtype} {array.shape}")


def header_of(explainer: Explainer, name: str = "") -> dict[str, Any]:
    meta = explainer._meta(find_method("ij"), 0.0)
    meta.pop("seconds")
    return {
        **meta,
        "stamp": fingerprint(explainer.model),
        "norm": explainer.options.get("norm", "outside"),
        "similarity": explainer.options.get("similarity", "cosine"),
        "baseline": _told(explainer.baseline),
        "baseline_name": name,
        "tolerance": explainer.settings.tolerance,
    }


def _told(baseline: Any) -> Any:
    """A baseline in a header: its name or text, one for each side, or a fingerprint of the numbers that were given."""
    if baseline is None or isinstance(baseline, str):
        return baseline or "default"
    if isinstance(baseline, tuple):
        return [_told(each) for each in baseline]
    numbers = baseline.detach().cpu().numpy() if isinstance(baseline, Tensor) else np.asarray(baseline)
    return f"given {sha256(repr((numbers.shape, numbers.tobytes())).encode()).hexdigest()[:8]}"


def mixed(a: Mapping[str, Any], b: Mapping[str, Any], first: str, second: str) -> list[str]:
    """A note when two texts' vectors were not made alike: the sum holds, but the two sides do not read alike."""
    differ = [name for name in MIXED if a.get(name) != b.get(name)]
    if not differ:
        return []
    told = [", ".join(f"{name} {header.get(name)}" for name in differ) for header in (a, b)]
    return [f"{first} was encoded with {told[0]}, {second} with {told[1]}"]


def check_same(a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
    """Vectors go together when the same model made them, and both before or both after the normalisation."""
    for name in ("stamp", "norm"):
        if a[name] != b[name]:
            raise InputError(
                f"these vectors do not go together: {name} {a[name]!r} and {b[name]!r} (models {a['model']!r} and "
                f"{b['model']!r}); encode both with the same model and the same norm"
            )


def check_model(header: Mapping[str, Any], model: TextModel, source: str) -> None:
    if header["stamp"] != (found := fingerprint(model)):
        raise InputError(
            f"{source} was made with another model ({header['model']!r}, stamp {header['stamp']}; this one is {model.name!r}, "
            f"stamp {found}); load the model it was made with, or encode the texts again"
        )
