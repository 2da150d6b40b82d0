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
from torch import Tensor

from pathlens.engine.assemble import side_of
from pathlens.engine.explainer import Explainer
from pathlens.engine.options import IJ
from pathlens.engine.prepare import Prepared, embedding_of
from pathlens.engine.progress import Progress
from pathlens.errors import InputError, PathlensError, StoreError
from pathlens.explanation.pair import Measure, Side, one_sided, pair_of
from pathlens.explanation.record import Explanation, PairExplanation
from pathlens.text.adapter import TextModel
from pathlens.text.fingerprint import fingerprint
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
        return Measure(chosen, self.header["norm"], self.header["tolerance"])

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
    side_model(explainer.model, side)
    for name in ("baseline", "unit"):
        if side is None and isinstance(getattr(explainer.choices, name), tuple):
            raise InputError(f"encode takes one {name}, not one for each side; a dual encoder's side: side='a' or 'b'")
    place = int(side == "b")
    tolerance = explainer.choices.accuracy.tolerance

    def limit(embedding: np.ndarray) -> float:
        return max(tolerance * SURE, 1e-5) * float(np.linalg.norm(embedding))

    items = integrate(explainer, texts, [limit] * len(texts), place=place, show_progress=show_progress)
    return Vectors(tuple(items), header_of(explainer, baseline_name(explainer, texts[0], place)))


def vector_maker(model: Any, **choices: Any) -> Explainer:
    """An explainer for vectors per text; a choice it would not read is refused, not ignored."""
    explainer = Explainer(model, method="ij", **choices)
    if measuring(explainer).coordinates:
        raise InputError("coordinates=True is for one pair: pl.explain(model, a, b, coordinates=True)")
    for name in ("target", "score"):
        if getattr(explainer.choices, name) is not None:
            raise InputError(f"{name}: not for vectors of texts; the similarity is what is explained")
    if explainer.model.two_texts_are_a_pair():
        explainer.method_for("")  # knows which rules it takes
    for name in ("baseline", "unit"):
        given = getattr(explainer.choices, name)
        if isinstance(given, tuple) and len(given) != 2:
            raise InputError(f"a tuple of {name}s has one for each text, two in all; got {len(given)}")
    return explainer


def measuring(explainer: Explainer) -> IJ:
    """The method of an explainer that `vector_maker` made."""
    assert isinstance(explainer.method, IJ)
    return explainer.method


def measure_of(explainer: Explainer) -> Measure:
    return measuring(explainer).measure(explainer.choices.accuracy.tolerance)


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


def read_sides(
    explainer: Explainer, texts: Sequence[Any], *, place: int = 0, names: Names = text_number
) -> list[Prepared]:
    """Every text read as the first (place 0) or second of a pair; an error names the text."""
    read = []
    for number, text in enumerate(texts):
        try:
            read.append(explainer.prepare_side(text, place))
        except PathlensError as error:
            raise type(error)(f"{names(number)}: {error}") from error
    return read


def baseline_name(explainer: Explainer, text: Any, place: int, name: str = "text 0") -> str:
    """What the baseline of this side is called, also where it is the model's own."""
    return read_sides(explainer, [text], place=place, names=lambda _: name)[0].cases[0].baseline


def embeddings_of(explainer: Explainer, prepared: Sequence[Prepared]) -> list[np.ndarray]:
    """e(text) of every text read."""
    with explainer.at_work():
        return [embedding_of(each.cases[0]) for each in prepared]


def integrate(
    explainer: Explainer,
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
            found = _batch(explainer, [texts[n] for n in some], [limits[n] for n in some], place, called, tick)
            done.update({keys[n]: side for n, side in zip(some, found, strict=True)})
    return [done[key] for key in keys]


def _batch(
    explainer: Explainer, texts: Sequence[Any], limits: Sequence[Limit], place: int, names: Sequence[str], tick: Any
) -> list[Side]:
    with explainer.at_work():
        read = read_sides(explainer, texts, place=place, names=names.__getitem__)
        bounds = [limit(e) for limit, e in zip(limits, embeddings_of(explainer, read), strict=True)]
        solved = explainer.solve([replace(r, limits=(bound,)) for r, bound in zip(read, bounds, strict=True)], tick)
    sides = []
    for name, solutions in zip(names, solved, strict=True):
        if isinstance(solutions, PathlensError):
            raise type(solutions)(f"{name}: {solutions}") from solutions
        if isinstance(solutions, Exception):
            raise solutions
        sides.append(_compact(side_of(solutions[0])))
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
    meta, method = explainer.describe(), measuring(explainer)
    meta.pop("seconds")
    return {
        **meta,
        "stamp": fingerprint(explainer.model),
        "norm": method.norm,
        "similarity": method.similarity or "cosine",
        "baseline": _told(explainer.choices.baseline),
        "baseline_name": name,
        "tolerance": explainer.choices.accuracy.tolerance,
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
