"""Vectors computed once per text: any pair of them is then one matrix product.

    e(x) = e(r) + Σ_U V_U        V_U = ∫₀¹ J_e(r + αδ) δ_U dα

V belongs to one text, not to a pair (docs/siamese.md), so a query against a thousand encoded documents costs one
integral, the query's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
from torch import Tensor

from pathlens.engine.assemble import side_of
from pathlens.engine.explainer import Explainer
from pathlens.engine.methods import entry_for
from pathlens.engine.options import RECORDS, Compared, Method
from pathlens.engine.prepare import Choices, Prepared, embeddings_of
from pathlens.engine.progress import Progress
from pathlens.engine.typed import VectorOptions
from pathlens.errors import InputError, ModelError, PathlensError, first_line, setting
from pathlens.explanation.pair import Measure, Side, one_sided, pair_of
from pathlens.explanation.record import Explanation, PairExplanation
from pathlens.explanation.view import Listed
from pathlens.text.adapter import TextModel
from pathlens.text.fingerprint import whole_fingerprint
from pathlens.text.load import load
from pathlens.types import brief
from pathlens.vectors import store
from pathlens.vectors.documents import Passage, as_list, passages, prompt_of

TOGETHER = 64  # texts integrated in one go
OF_MANY = "secant"  # by default where texts are many and someone waits: one pass back for each
SURE = 0.5  # estimates are kept under tolerance · SURE · ‖e‖: pairs with a cosine of at least this settle
Limit = Callable[[np.ndarray], float]  # e(text) → how long a vector's error may be
MIXED = ("method", "layer", "unit", "baseline")  # two texts' vectors may differ in these, and the pair then says so


@dataclass(frozen=True, eq=False, repr=False)
class Vectors(Listed[Side]):
    """Texts with their vectors, and how they were made. `vectors.pair(0, 1)`; `.save(path)`; `Vectors.load(path)`."""

    listed: ClassVar[str] = "items"
    items: tuple[Side, ...]
    header: Mapping[str, Any]  # model, stamp, method, layer, unit, baseline, norm, tolerance, versions

    def __repr__(self) -> str:
        size = self.items[0].embedding.size if self.items else 0
        return brief(self, str(self.header.get("model", "")), f"{len(self)} texts", f"{size} numbers each")

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(item.text for item in self.items)

    @property
    def embeddings(self) -> np.ndarray:
        """(N, k): e(text), before a trailing Normalize unless norm="inside"."""
        return np.stack([item.embedding for item in self.items])

    def pair(self, a: int, b: int, other: Vectors | None = None, *, similarity: str | None = None) -> PairExplanation:
        """Text a of these against text b of these (or of `other`): one matrix product."""
        second = self if other is None else other
        for name in ("stamp", "norm"):  # the same model, and both before or both after the normalisation
            if self.header[name] != second.header[name]:
                raise InputError(
                    f"these vectors do not go together: {name} {self.header[name]!r} and {second.header[name]!r} (models "
                    f"{self.header['model']!r} and {second.header['model']!r}); encode both with the same model and the same norm"
                )
        meta = {**self.header, "notes": mixed(self.header, second.header, "the first text", "the second")}
        return pair_of(self._item(a), second._item(b), measure_of(self.header, similarity), meta)

    def one_sided(self, query: np.ndarray, b: int) -> Explanation:
        """Text b's tokens against a whole query embedding e(query): nothing was integrated on the query's side."""
        vector = np.asarray(query, dtype=float)
        return one_sided(vector, self._item(b), measure_of(self.header), dict(self.header))

    def _item(self, number: Any) -> Side:
        try:
            return self.items[number]
        except (IndexError, TypeError) as error:
            raise InputError(f"there is no text {number!r}: {len(self)} were encoded, counted from 0") from error

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file with a JSON header and a checksum; whole or not at all."""
        return store.save(self.items, self.header, path)

    @staticmethod
    def load(path: str | Path, model: Any = None) -> Vectors:
        """What `save` wrote. With `model` given, vectors of another model are refused."""
        vectors = Vectors(*store.load(path))
        if model is not None:
            check_model(vectors.header, load(model), str(path))
        return vectors


def encode(
    model: Any,
    texts: Sequence[Any],
    *,
    side: str | None = None,
    show_progress: bool = False,
    **choices: Unpack[VectorOptions],
) -> Vectors:
    """Per-text vectors that can be saved, loaded, and paired at the price of a matrix product.

    model, layer, unit, baseline, norm, tolerance, n_steps, rule, …: as in `pl.explain`.
    method: "ij" (default), or another that compares two texts ("secant").
    side: "a" or "b", for a dual encoder whose two sides differ (queries and documents, images and texts).

    Limits: the estimates are held under tolerance/2 relative to ‖e(text)‖, so a pair with a cosine of 0.5 or more
    is settled at `tolerance`; a pair less similar may say converged=False, with its true estimates.
    """
    texts = as_list(texts, "texts")
    if side not in (None, "a", "b"):
        raise InputError(f"side must be 'a' or 'b', got {side!r}")
    encoder = SideEncoder.of(model, int(side == "b"), **choices)
    if side is None:
        a, b = encoder.explainer.model.sides()
        if a is not b:
            raise InputError("this encoder has two sides that differ: say side='a' (first) or side='b' (second)")
        for name in ("baseline", "unit"):
            if isinstance(getattr(encoder.choices, name), tuple):
                one = f"encode takes one {name}, not one for each side"
                raise InputError(f"{one}; a dual encoder's side: side='a' or 'b'")
    sides = encoder.sides(texts, [encoder.any_pair] * len(texts), show_progress=show_progress)
    return Vectors(tuple(sides), encoder.header(encoder.embed(texts[:1])[1]))


@dataclass(frozen=True, eq=False)
class SideEncoder:
    """One side of a sentence encoder with a method that compares two texts: texts → embeddings, and vectors that explain them."""

    explainer: Explainer
    place: int = 0  # 0: the first text of a pair, 1: the second

    @staticmethod
    def of(model: Any, place: int = 0, **choices: Any) -> SideEncoder:
        """A choice that would not be read is refused, not ignored."""
        method = choices.pop("method", None) or "ij"
        explainer = Explainer(model, method=method, **choices)
        if not isinstance(explainer.method, Compared):
            able = " or ".join(repr(name) for name, record in RECORDS.items() if issubclass(record, Compared))
            raise InputError(
                f"{setting(method=method)} does not compare two texts; vectors of texts are made by {able}"
            )
        if explainer.method.coordinates:
            raise InputError(f"{setting(coordinates=True)} is for one pair: pl.explain(model, a, b, coordinates=True)")
        for name in ("target", "score"):
            if getattr(explainer.choices, name) is not None:
                raise InputError(f"{name}: not for vectors of texts; the similarity is what is explained")
        if not explainer.model.two_texts_are_a_pair():
            raise InputError(
                f"{explainer.model.name!r} is {explainer.model.plain_kind}, and vectors are for sentence encoders; use "
                "'minilm', a SentenceTransformer, or (encoder, tokenizer)"
            )
        settled = explainer.method.settled(encoder=True, two_texts=True)
        if entry_for(settled).sides != 2:
            raise InputError(f"{settled} does not compare two texts; leave gives and block out")
        explainer.method_for("")  # knows which rules it takes
        for name in ("baseline", "unit"):
            given = getattr(explainer.choices, name)
            if isinstance(given, tuple) and len(given) != 2:
                raise InputError(f"a tuple of {name}s has one for each text, two in all; got {len(given)}")
        return SideEncoder(explainer, place)

    @property
    def choices(self) -> Choices:
        return self.explainer.choices

    @property
    def method(self) -> Method[Any]:
        return self.explainer.method_for("")

    @property
    def other(self) -> SideEncoder:
        """The other side."""
        return replace(self, place=1 - self.place)

    @property
    def model(self) -> TextModel:
        return self.explainer.model.sides()[self.place]

    @property
    def measure(self) -> Measure:
        method = self.method
        assert isinstance(method, Compared)
        return method.measure(self.choices.accuracy.tolerance)

    def any_pair(self, embedding: np.ndarray) -> float:
        """How long a vector's error may be when nothing is known of the other text."""
        return max(self.choices.accuracy.tolerance * SURE, 1e-5) * float(np.linalg.norm(embedding))

    def header(self, baseline_name: str = "") -> dict[str, Any]:
        """How vectors of this encoder are made, and which model made them: what is kept with them."""
        return {**self.about(baseline_name), "stamp": whole_fingerprint(self.explainer.model)}

    def about(self, baseline_name: str = "") -> dict[str, Any]:
        """The same without the model's stamp, which reads every weight."""
        meta = self.explainer.describe(self.method)
        meta.pop("seconds")
        meta |= {"method": self.method.name, **vars(self.measure)}  # similarity, norm, tolerance
        return {**meta, "baseline": _in_a_header(self.choices.baseline), "baseline_name": baseline_name}

    def passages(self, documents: Sequence[str], *, chunk: bool, names: Sequence[str] = ()) -> list[Passage]:
        """What is encoded of these documents, at most as long as the model takes."""
        request = self.choices.request(self.method)
        prompt = prompt_of(self.model, request)
        return passages(self.model, documents, chunk=chunk, truncation=request.truncation, prompt=prompt, names=names)

    def counts(self, texts: Sequence[Any], names: Sequence[str] = ()) -> list[int]:
        """How many units each text has: what a push for every one of them costs."""
        return [len(each.units[0]) for each in self._prepare(texts, names)]

    def embed_all(self, texts: Sequence[str]) -> np.ndarray:
        """(N, k): e(text) of many texts, at the model's own speed, in float32."""
        with self.explainer.at_work():
            request = self.choices.request(self.method)
            vectors = self.model.embed_all(texts, request)
            vectors = vectors / vectors.norm(dim=-1, keepdim=True) if self.measure.norm == "inside" else vectors
        return vectors.float().numpy()

    def embed(self, texts: Sequence[Any], names: Sequence[str] = ()) -> tuple[list[np.ndarray], str]:
        """e(text) of every text, and what their baseline is called, also where it is the model's own. Equal texts are read
        once: in two rows of a batch they may be rounded differently, and they are to score alike."""
        names = names or [f"text {number}" for number in range(len(texts))]
        wanted, places = _once(texts)
        labels = [names[n] for n in wanted]
        with self.explainer.at_work():
            read = self._prepare([texts[n] for n in wanted], labels)
            embeddings = self._embeddings(read, labels)
        return [embeddings[place] for place in places], read[0].cases[0].baseline

    def sides(
        self, texts: Sequence[Any], limits: Sequence[Limit], names: Sequence[str] = (), *, show_progress: bool = False
    ) -> list[Side]:
        """Vectors of every text; equal texts are integrated once. A text that fails ends the call with its name."""
        names = names or [f"text {number}" for number in range(len(texts))]
        sides: list[Side] = []
        wanted, places = _once(texts)
        with Progress(len(wanted), show_progress) as tick:
            for start in range(0, len(wanted), TOGETHER):
                some = wanted[start : start + TOGETHER]
                sides += self._solve(
                    [texts[n] for n in some], [limits[n] for n in some], [names[n] for n in some], tick
                )
        return [sides[place] for place in places]

    def _solve(self, texts: Sequence[Any], limits: Sequence[Limit], names: Sequence[str], tick: Progress) -> list[Side]:
        with self.explainer.at_work():
            read = self._prepare(texts, names)
            embeddings = self._embeddings(read, names)
            exact = [limit(embedding) for embedding, limit in zip(embeddings, limits, strict=True)]
            prepared = [replace(each, limits=(limit,)) for each, limit in zip(read, exact, strict=True)]
            solved = self.explainer.solve(prepared, tick, tick.points)
        sides = []
        for name, solutions in zip(names, solved, strict=True):
            if isinstance(solutions, Exception):
                raise _named(name, solutions) from solutions
            side = side_of(solutions[0])
            # float32 is what is stored: loading gives back exactly what was there
            sides.append(replace(side, vectors=side.vectors.astype(np.float32), coordinates=None))
        return sides

    def _prepare(self, texts: Sequence[Any], names: Sequence[str]) -> list[Prepared]:
        """Every text read; an error names the text."""
        read = []
        for number, text in enumerate(texts):
            try:
                read.append(self.explainer.prepare_side(text, self.place))
            except PathlensError as error:
                raise _named(names[number] if names else f"text {number}", error) from error
        return read

    def _embeddings(self, read: Sequence[Prepared], names: Sequence[str]) -> list[np.ndarray]:
        """e(text) of every text; where the model fails on some, the first of those is named."""
        cases = [each.cases[0] for each in read]
        try:
            return embeddings_of(cases)
        except Exception:
            for number, case in enumerate(cases):
                try:
                    embeddings_of([case])
                except Exception as error:
                    raise _named(names[number] if names else f"text {number}", error) from error
            raise


def _once(texts: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Where each text stands first, and of every text which of those it is."""
    keys = [text if isinstance(text, str) else id(text) for text in texts]
    first: dict[Any, int] = {}
    for number, key in enumerate(keys):
        first.setdefault(key, number)
    place = {key: k for k, key in enumerate(first)}
    return list(first.values()), [place[key] for key in keys]


def _named(name: str, error: Exception) -> PathlensError:
    """An error of one text, with its name."""
    if isinstance(error, PathlensError):
        return type(error)(f"{name}: {error}")
    return ModelError(f"{name}: the model fails on this text ({type(error).__name__}: {first_line(error)})")


def _in_a_header(baseline: Any) -> Any:
    """How a baseline was chosen, one for each side: None, its name or text, or a fingerprint of the numbers given."""
    if baseline is None:
        return None
    if isinstance(baseline, str):
        return {"named": baseline}
    if isinstance(baseline, tuple):
        return [_in_a_header(each) for each in baseline]
    numbers = baseline.detach().cpu().numpy() if isinstance(baseline, Tensor) else np.asarray(baseline)
    return {"numbers": sha256(repr((numbers.shape, numbers.tobytes())).encode()).hexdigest()[:8]}


def chosen_baseline(record: Any) -> Any:
    """What `_in_a_header` wrote → as it was chosen; numbers that were given are not kept."""
    if isinstance(record, list):
        return tuple(chosen_baseline(each) for each in record)
    return None if record is None else record.get("named")


def _in_words(value: Any) -> str:
    """An entry of a header for a note."""
    match value:
        case None:
            return "default"
        case {"named": name}:
            return str(name)
        case {"numbers": mark}:
            return f"of numbers ({mark})"
        case list():
            return " | ".join(map(_in_words, value))
    return str(value)


def measure_of(header: Mapping[str, Any], similarity: str | None = None) -> Measure:
    """How vectors with this header are compared, unless another similarity is asked for."""
    return Measure(similarity or header.get("similarity", "cosine"), header["norm"], header["tolerance"])


def mixed(a: Mapping[str, Any], b: Mapping[str, Any], first: str, second: str) -> list[str]:
    """A note when two texts' vectors were not made alike: the sum holds, but the two sides do not read alike."""
    differ = [name for name in MIXED if a.get(name) != b.get(name)]
    if not differ:
        return []
    one, two = (", ".join(f"{name} {_in_words(header.get(name))}" for name in differ) for header in (a, b))
    return [f"{first} was encoded with {one}, {second} with {two}"]


def check_model(header: Mapping[str, Any], model: TextModel, source: str) -> None:
    if header["stamp"] != (stamp := whole_fingerprint(model)):
        raise InputError(
            f"{source} was made with another model ({header['model']!r}, stamp {header['stamp']}; this one is {model.name!r}, "
            f"stamp {stamp}); load the model it was made with, or encode the texts again"
        )
