"""Search an index: hits with their explanations at the cost of a matrix product."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.engine.explainer import Explainer
from pathlens.errors import InputError, ModelError, NumberError, PathlensError, StoreError
from pathlens.explanation.pair import Measure, Side
from pathlens.vectors.encode import Vectors, check_model, embeddings_of, integrate, read_sides, the_query, vector_maker
from pathlens.vectors.index import table
from pathlens.vectors.index.build import FORMAT, MANIFEST, PER_FILE, checksum, folder_size, manifest_sum
from pathlens.vectors.index.pack import unpack
from pathlens.vectors.rank import Hit, Ranking, _explain, _score, against, shown


class Index:
    """`Index.open(folder).search("a question", k=5)`. The model is the one the index was built with.

    A damaged vector file takes the explanations of its own passages and nothing else: their scores still come
    from the table, and a damaged table is written again from the vector files (`repair`).
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], model: Any = None) -> None:
        self.folder, self.manifest = folder, manifest
        choices = {name: manifest[name] for name in ("layer", "tolerance", "norm") if manifest.get(name)}
        baseline = _chosen(manifest["baseline"])
        if baseline is not None:
            choices["baseline"] = baseline
        if manifest["unit"] != "spans":
            choices["unit"] = manifest["unit"]
        self.choices = choices
        self._model = model
        self._checked = False  # the table's numbers, read once
        self._file = lru_cache(maxsize=32)(self._load_file)

    @staticmethod
    def open(where: str | Path, model: Any = None) -> Index:
        """The index in a folder; refused when half written, of another format, or (with `model`) of another model."""
        folder = Path(where)
        if not folder.is_dir():
            raise StoreError(
                f"there is no index at {str(folder)!r}; build one: pathlens index build DOCUMENTS {folder}"
            )
        try:
            manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            number = manifest["format"]
            if number == FORMAT:
                _check_fields(manifest)
        except FileNotFoundError as error:
            if not any(folder.iterdir()):
                raise StoreError(
                    f"{str(folder)!r} is empty; build an index there: pathlens index build DOCUMENTS {folder}"
                ) from error
            raise StoreError(
                f"{str(folder)!r} is half written: {MANIFEST}, which is written last, is missing; run the same `pathlens "
                "index build` again, finished files are kept"
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{str(folder / MANIFEST)!r} is damaged ({error}); run the same `pathlens index build` again, the vector "
                "files are kept"
            ) from error
        if number != FORMAT:
            raise StoreError(
                f"{str(folder)!r} was built by another version (index format {number}, this pathlens reads {FORMAT}; pathlens "
                f"{manifest.get('versions', {}).get('pathlens')}); build it again with `pathlens index build`"
            )
        index = Index(folder, manifest, model)
        if model is not None:
            index._explainer()
        return index

    def __len__(self) -> int:
        return self.manifest["passages"]

    def search(
        self,
        query: str,
        k: int = 5,
        *,
        one_sided: bool = False,
        similarity: str | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> Ranking:
        """The k nearest passages, each with the decomposition of its score.

        one_sided: each passage token against the whole query: no integral at all. Otherwise the query is integrated
        once, and every hit is a matrix product.
        prompt, prompt_name: the query's own, for a model that reads queries and documents by different prompts.
        """
        if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
            raise InputError(f"k must be a whole number of at least 1, got {k!r}")
        explainer = self._explainer()
        own = {"prompt": prompt, "prompt_name": prompt_name}
        if own := {name: value for name, value in own.items() if value is not None}:
            explainer = vector_maker(explainer.model, **self.choices, **own)
        chosen = similarity or self.manifest["similarity"]
        measure = Measure(chosen, self.manifest["norm"], self.manifest["tolerance"])
        read = read_sides(explainer, [query], names=the_query)
        (e_query,), baseline = embeddings_of(explainer, read), read[0].cases[0].baseline
        measure.scale(e_query, e_query)  # a query of length zero has no cosine
        sha256 = None if self._checked or "://" in self._table else self._sha256  # elsewhere: `check`
        rows = table.nearest(self._table, e_query, min(int(k), len(self)), measure.similarity, len(self), sha256)
        self._checked = True
        if len(rows) < min(k, len(self)):
            raise NumberError(
                f"only {len(rows)} of {min(k, len(self))} passages have a cosine: the others' embeddings have length zero; "
                "search with similarity='dot'"
            )
        found = [(row, self._side(row["number"])) for row in rows]
        side: Any = e_query
        intact = [each for _, each in found if each is not None]
        if not one_sided and intact:
            strict = against([each.embedding for each in intact], measure)
            (side,) = integrate(explainer, [query], [strict], names=the_query)
        meta = {
            name: value
            for name, value in self.manifest.items()
            if name not in ("files", "rows", "sha256", "embeddings_sha256")
        }
        if not one_sided:
            meta["baseline_name"] = " | ".join(dict.fromkeys([baseline, meta.get("baseline_name") or baseline]))
        hits = [self._hit(row, each, side, e_query, measure, meta) for row, each in found]
        return Ranking(shown(query), tuple(sorted(hits, key=lambda hit: -hit.score)), meta)

    def verify(self) -> list[str]:
        """What is damaged, by name; an empty list when everything is whole."""
        found = []
        for number in range(len(self.manifest["files"])):
            try:
                self._read_file(number)
            except PathlensError as error:
                found.append(str(error))
        try:
            table.check(self._table, len(self), self._sha256)
        except PathlensError as error:
            found.append(str(error))
        return found

    def repair(self) -> None:
        """Write the table of embeddings again from the vector files; the model is not needed."""
        vectors = [self._read_file(number) for number in range(len(self.manifest["files"]))]
        table.write(self._table, np.concatenate([each.embeddings for each in vectors]), self.manifest["rows"])

    def size(self) -> dict[str, float]:
        """Bytes in all, per passage, and of the two parts."""
        files = [self.folder / file["file"] for file in self.manifest["files"]]
        vectors = sum(file.stat().st_size for file in files if file.exists())
        embeddings = folder_size(Path(self._table))
        total = vectors + embeddings
        return {
            "bytes": total,
            "per_passage": total / len(self),
            "per_document": total / len({row["document"] for row in self.manifest["rows"]}),
            "vectors": vectors,
            "embeddings": embeddings,
        }

    @property
    def _table(self) -> str:
        return self.manifest.get("store") or str(self.folder / "table")

    @property
    def _sha256(self) -> str | None:
        return self.manifest.get("embeddings_sha256")

    def _explainer(self) -> Explainer:
        """The model, checked once."""
        if isinstance(self._model, Explainer):
            return self._model
        name = self._model if self._model is not None else self.manifest["model"]
        try:
            explainer = vector_maker(name, **self.choices)
        except ModelError as error:
            if self._model is not None:
                raise
            raise ModelError(
                f"the index {str(self.folder)!r} was built with a model called {name!r}, which cannot be found by that name "
                f"({error}); pass the model itself: Index.open(folder, model), or --model"
            ) from error
        check_model(self.manifest, explainer.model, f"the index {str(self.folder)!r}")
        self._model = explainer
        return explainer

    def _read_file(self, number: int) -> Vectors:
        """One vector file, when it is whole and the one this index was built with."""
        entry = self.manifest["files"][number]
        path = self.folder / entry["file"]
        try:
            vectors = Vectors.load(path)
        except StoreError as error:
            said = str(error).split("; ")[0]
            raise StoreError(
                f"{said}; run the same `pathlens index build` again, which writes this file again and keeps the others"
            ) from error
        if checksum(path) != entry["sha256"]:
            raise StoreError(
                f"{str(path)!r} is whole, but not the file this index was built with; run the same `pathlens index build` again"
            )
        return vectors

    def _load_file(self, number: int) -> Vectors | None:
        """One vector file, or None when it is damaged: said once, and the others go on."""
        try:
            return self._read_file(number)
        except StoreError as error:
            warnings.warn(f"{error}. Until then its passages are found but not explained", stacklevel=5)
            return None

    def _side(self, number: int) -> Side | None:
        vectors = self._file(number // PER_FILE)
        return None if vectors is None else unpack(vectors[number % PER_FILE])

    def _hit(
        self, row: Mapping[str, Any], found: Side | None, side: Any, e_query: np.ndarray, measure: Measure, meta: dict
    ) -> Hit:
        place, told = self.manifest["rows"][row["number"]], 1.0 - float(row["_distance"])
        if found is None:  # the score as the table has it
            return Hit(place["document"], place["name"], told, None, place["start"])
        score = _score(e_query, found.embedding, measure)
        if not abs(score - told) <= 1e-3 * measure.reach(e_query, found.embedding):
            raise table.damaged(self._table, f"it says {told:.4f} where the vectors say {score:.4f}")
        why = _explain(side, found, measure, {**meta, "name": place["name"]})
        return Hit(place["document"], found.text, score, why, place["start"])


def _chosen(told: Any) -> Any:
    """A baseline as the manifest says it → as it was chosen; numbers that were given are not kept."""
    if isinstance(told, list):
        return tuple(_chosen(each) for each in told)
    return None if told == "default" or str(told).startswith("given") else told


def _check_fields(manifest: Mapping[str, Any]) -> None:
    """Everything a search reads is there; a manifest cut short is damaged, not half used."""
    names = "model", "stamp", "baseline", "unit", "norm", "similarity", "tolerance", "rows", "passages"
    missing = [name for name in names if name not in manifest]
    entries = manifest["files"]
    missing += [name for entry in entries for name in ("file", "passages", "sha256") if name not in entry]
    if missing:
        raise KeyError(f"without {', '.join(missing)}")
    if not sum(entry["passages"] for entry in entries) == len(manifest["rows"]) == manifest["passages"]:
        raise ValueError("its counts of passages do not agree")
    if manifest.get("sha256", found := manifest_sum(manifest)) != found:
        raise ValueError("its content does not match its checksum")
