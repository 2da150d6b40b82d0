"""An index that explains itself: embeddings and token vectors written once, hits with their reasons ever after.

A folder with vector files of a few hundred passages, a table of embeddings, and a manifest written last.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.checks import check_choice, whole_number
from pathlens.errors import InputError, ModelError, NumberError, PathlensError, StoreError
from pathlens.files import checksum, make_folder, write_whole
from pathlens.text.load import load
from pathlens.vectors.documents import Passage, as_list, read_documents
from pathlens.vectors.encode import SideEncoder, Vectors, check_model, chosen_baseline, measure_of
from pathlens.vectors.rank import Candidate, Query, Ranking, ranked
from pathlens.vectors.store import STORAGES, EmbeddingTable, digest, pack, unpack

FORMAT = 4  # an index of another format is refused
MANIFEST = "index.json"
SHORTEST = 1e-18  # the square of a shorter length is no float32: the store could not compare it
PER_FILE = 256  # passages in one vector file: what is lost at most when one is damaged
FIELDS = (
    "model",
    "stamp",
    "method",
    "baseline",
    "unit",
    "norm",
    "similarity",
    "tolerance",
    "rows",
    "passages",
    "files",
)
CONTENT = ("files", "rows", "sha256", "embeddings_sha256")  # of a manifest; the rest says how it was made


def build(
    documents: str | Path | Sequence[str] | Mapping[str, str],
    where: str | Path,
    model: Any = "minilm",
    *,
    storage: str = "full",
    keep: int = 8,
    chunk: bool = False,
    store: str | None = None,
    show_progress: bool = False,
    **choices: Any,
) -> dict[str, Any]:
    """Write an index; gives its manifest (passages, bytes, bytes per passage, how it was made).

    documents: a folder (.txt, .md), a file with one document a line, a list of texts, or {name: text}.
    storage: "full", or "strongest" (the `keep` longest vectors of each passage and an exact remainder);
        unit="word" is the other way to a smaller index.
    chunk: cut documents longer than the model takes at sentences.
    store: where the table of embeddings lives, when not beside the rest (any LanceDB address, also object storage).
    Other choices as in `pl.encode`: method, layer, unit, baseline, norm, tolerance, n_steps.

    A build that was interrupted goes on where it stopped: finished vector files are kept. An index that is there
    already stays whole until the first new vector file is ready to take its place.
    """
    check_choice("storage", storage, dict.fromkeys(STORAGES, ""))
    whole_number("keep", keep)
    encoder = SideEncoder.of(model, 1, **choices)
    names, labels, texts = _read(documents)
    pieces = encoder.passages(texts, chunk=chunk, names=labels)
    for text, label in zip(texts, labels, strict=True):
        if not isinstance(text, str):
            raise InputError(f"{label}: an index holds texts, got {type(text).__name__}")
    folder = Path(where)
    header = encoder.header(encoder.embed([pieces[0].text], labels[:1])[1])
    header |= {"storage": storage, "keep": keep if storage == "strongest" else None}
    make_folder(folder)
    table = EmbeddingTable(store or str(folder / "table"))
    table.connect()  # can a table be written there? Asked before the work
    files: list[dict[str, Any]] = []
    embeddings = []
    for number, start in enumerate(range(0, len(pieces), PER_FILE)):
        file, some = folder / f"vectors-{number:05d}.safetensors", pieces[start : start + PER_FILE]
        vectors = _vectors(file, encoder, header, some, names, show_progress)
        files.append({"file": file.name, "passages": len(some), "bytes": file.stat().st_size, "sha256": checksum(file)})
        embeddings.append(vectors.embeddings)
    _remove_stale(folder, {each["file"] for each in files})
    rows = [{"name": names[piece.document], "document": piece.document, "start": piece.start} for piece in pieces]
    every = np.concatenate(embeddings)
    table.write(every, rows)
    return _write_manifest(folder, {**header, "embeddings_sha256": digest(every)}, files, rows, store)


def _read(documents: Any) -> tuple[list[str], list[str], list[Any]]:
    """Names of the documents, what errors call them, and their texts."""
    if isinstance(documents, str | Path | Mapping):
        named = documents.items() if isinstance(documents, Mapping) else zip(*read_documents(documents), strict=True)
        names, texts = map(list, zip(*named, strict=True)) if documents else ([], [])
        return names, [repr(name) for name in names], as_list(texts, "documents")
    texts = as_list(documents, "documents")
    names = [f"document {number}" for number in range(len(texts))]
    return names, names, texts


def _vectors(
    file: Path,
    encoder: SideEncoder,
    header: Mapping[str, Any],
    pieces: Sequence[Passage],
    names: Sequence[str],
    show_progress: bool,
) -> Vectors:
    """Those of an earlier run, when the file is whole, of the same making, and of the same texts; or made and written."""
    texts = [piece.text for piece in pieces]
    with suppress(StoreError):
        vectors = Vectors.load(file)
        if dict(vectors.header) == header and vectors.texts == tuple(texts):
            return vectors
    limits, labels = [encoder.any_pair] * len(texts), [piece.name for piece in pieces]
    sides = encoder.sides(texts, limits, labels, show_progress=show_progress)
    vectors = Vectors(tuple(pack(side, header["storage"], header["keep"] or 0) for side in sides), header)
    _check_lengths(vectors, [names[piece.document] for piece in pieces])
    _begin(file.parent)
    vectors.save(file)
    return vectors


def _check_lengths(vectors: Vectors, names: Sequence[str]) -> None:
    """Under the cosine a vector of length zero could never be found again, and nobody would know."""
    if vectors.header["similarity"] != "cosine":
        return
    for name, length in zip(names, np.linalg.norm(vectors.embeddings.astype(float), axis=1), strict=True):
        if length < SHORTEST:
            how_long = "zero" if length == 0 else f"{length:.0e}, too short for 32 bits"
            raise NumberError(
                f"the embedding of {name!r} has length {how_long}, so the cosine is not defined; leave it out, or build "
                "with similarity='dot'"
            )


def _begin(folder: Path) -> None:
    """From here on the old index is gone; until the new one is whole, there is none."""
    try:
        (folder / MANIFEST).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from error


def _remove_stale(folder: Path, current: set[str]) -> None:
    """Vector files of an earlier, larger index; files of others are left alone."""
    for file in folder.glob(f"vectors-{'[0-9]' * 5}.safetensors"):
        if file.name not in current:
            _begin(folder)
            file.unlink()


def _write_manifest(
    folder: Path, header: Mapping[str, Any], files: list[Any], rows: list[Any], store: str | None
) -> dict[str, Any]:
    table = Path(store or folder / "table").rglob("*")  # nothing, where it is kept elsewhere
    size = sum(file["bytes"] for file in files) + sum(file.stat().st_size for file in table if file.is_file())
    documents = len({row["document"] for row in rows})
    manifest = {
        "format": FORMAT,
        **header,
        "files": files,
        "rows": rows,
        "store": store,
        "passages": len(rows),
        "documents": documents,
        "bytes": size,
        "bytes_per_passage": size / len(rows),
        "bytes_per_document": size / documents,
    }
    manifest["sha256"] = _manifest_sum(manifest)
    write_whole(folder / MANIFEST, json.dumps(manifest, ensure_ascii=False).encode())
    return manifest


class Index:
    """`Index.open(folder).search("a question", k=5)`. The model is the one the index was built with.

    A damaged vector file takes the explanations of its own passages and nothing else: their scores still come
    from the table, and a damaged table is written again from the vector files (`repair`).
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], model: Any = None) -> None:
        self.folder, self.manifest = folder, manifest
        self.table = EmbeddingTable(manifest.get("store") or str(folder / "table"))
        self.choices = {name: manifest[name] for name in ("method", "layer", "tolerance", "norm") if manifest.get(name)}
        if (baseline := chosen_baseline(manifest["baseline"])) is not None:
            self.choices["baseline"] = baseline
        if manifest["unit"] != "spans":
            self.choices["unit"] = manifest["unit"]
        self._model = model
        self._encoder: SideEncoder | None = None
        self._checked = "://" in self.table.where  # the table's numbers are read once; elsewhere: `verify`
        self._file = lru_cache(maxsize=32)(self._load_file)

    @staticmethod
    def open(where: str | Path, model: Any = None) -> Index:
        """The index in a folder; refused when half written, of another format, or (with `model`) of another model."""
        folder = Path(where)
        if not folder.is_dir():
            raise StoreError(
                f"there is no index at {str(folder)!r}; build one: pathlens index build DOCUMENTS {folder}"
            )
        index = Index(folder, _read_manifest(folder), model)
        if model is not None:
            index.encoder()
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
        encoder, given = self.encoder(), {"prompt": prompt, "prompt_name": prompt_name}
        if prompts := {name: value for name, value in given.items() if value is not None}:
            encoder = SideEncoder.of(encoder.explainer.model, **self.choices, **prompts)
        asked = Query.of(encoder, query, measure_of(self.manifest, similarity))
        count, sha256 = min(int(k), len(self)), None if self._checked else self.manifest.get("embeddings_sha256")
        rows = self.table.nearest(asked.embedding, count, asked.measure.similarity, len(self), sha256)
        self._checked = True
        if len(rows) < count:
            raise NumberError(
                f"only {len(rows)} of {count} passages have a cosine: the others' embeddings have length zero; "
                "search with similarity='dot'"
            )
        meta = {name: value for name, value in self.manifest.items() if name not in CONTENT}
        return ranked(asked, [self._candidate(asked, *row) for row in sorted(rows)], meta, one_sided=one_sided)

    def _candidate(self, query: Query, number: int, score: float) -> Candidate:
        """A row of the table with its vectors; without them (a damaged file), with the score as the table has it."""
        row = self.manifest["rows"][number]
        vectors = self._file(number // PER_FILE)
        if vectors is None:
            return Candidate(Passage(row["document"], row["name"], row["name"], row["start"]), score)
        side = unpack(vectors[number % PER_FILE])
        exact = query.score(side.embedding)
        if not abs(exact - score) <= 1e-3 * query.measure.reach(query.embedding, side.embedding):
            raise self.table.damaged(f"it says {score:.4f} where the vectors say {exact:.4f}")
        return Candidate(Passage(row["document"], side.text, row["name"], row["start"]), exact, side, row["name"])

    def verify(self) -> list[str]:
        """What is damaged, by name; an empty list when everything is whole."""
        checks: list[Callable[[], Any]] = [partial(self._read_file, n) for n in range(len(self.manifest["files"]))]
        checks.append(partial(self.table.check, len(self), self.manifest.get("embeddings_sha256")))
        damages = []
        for check in checks:
            try:
                check()
            except PathlensError as error:
                damages.append(str(error))
        return damages

    def repair(self) -> None:
        """Write the table of embeddings again from the vector files; the model is not needed."""
        files = [self._read_file(number) for number in range(len(self.manifest["files"]))]
        self.table.write(np.concatenate([vectors.embeddings for vectors in files]), self.manifest["rows"])

    def encoder(self) -> SideEncoder:
        """The model with the choices of the build, checked once."""
        if self._encoder is None:
            try:
                model = load(self.manifest["model"] if self._model is None else self._model)
            except ModelError as error:
                if self._model is not None:
                    raise
                raise ModelError(
                    f"the index {str(self.folder)!r} was built with a model called {self.manifest['model']!r}, which cannot be "
                    f"found by that name ({error}); pass the model itself: Index.open(folder, model), or --model"
                ) from error
            check_model(self.manifest, model, f"the index {str(self.folder)!r}")
            self._encoder = SideEncoder.of(model, **self.choices)
        return self._encoder

    def _load_file(self, number: int) -> Vectors | None:
        """One vector file, or None when it is damaged: said once, and the others go on."""
        try:
            return self._read_file(number)
        except StoreError as error:
            warnings.warn(f"{error}. Until then its passages are found but not explained", stacklevel=5)
            return None

    def _read_file(self, number: int) -> Vectors:
        """One vector file, when it is whole and the one this index was built with."""
        entry = self.manifest["files"][number]
        path = self.folder / entry["file"]
        try:
            vectors = Vectors.load(path)
        except StoreError as error:
            raise StoreError(
                f"{error.what}; run the same `pathlens index build` again, which writes this file again and "
                "keeps the others"
            ) from error
        if checksum(path) != entry["sha256"]:
            raise StoreError(
                f"{str(path)!r} is whole, but not the file this index was built with; run the same `pathlens index build` again"
            )
        return vectors


def _read_manifest(folder: Path) -> dict[str, Any]:
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
    return manifest


def _check_fields(manifest: Mapping[str, Any]) -> None:
    """Everything a search reads is there; a manifest cut short is damaged, not half used."""
    missing = [name for name in FIELDS if name not in manifest]
    entries = manifest["files"]
    missing += [name for entry in entries for name in ("file", "passages", "sha256") if name not in entry]
    if missing:
        raise KeyError(f"without {', '.join(missing)}")
    if not sum(entry["passages"] for entry in entries) == len(manifest["rows"]) == manifest["passages"]:
        raise ValueError("its counts of passages do not agree")
    if manifest.get("sha256", checksum := _manifest_sum(manifest)) != checksum:
        raise ValueError("its content does not match its checksum")


def _manifest_sum(manifest: Mapping[str, Any]) -> str:
    """Over everything the manifest says but this sum itself."""
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
