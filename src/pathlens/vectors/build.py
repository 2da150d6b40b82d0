"""Writing an index: documents → parts of passages, each with its rows in the table and, unless it is plain, a vector file.

A part is finished when the journal names it; the manifest, written last, is what readers go by. So a build that was
interrupted goes on where it stopped, and an index that is there already stays whole until the new one is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from pathlens.checks import check_choice, whole_number
from pathlens.engine.progress import Progress
from pathlens.engine.typed import VectorOptions
from pathlens.errors import InputError, NumberError, StoreError, setting
from pathlens.explanation.pair import Side
from pathlens.files import checksum, content_sum, make_folder, only_writer, remove_left_behind, write_whole
from pathlens.vectors import store
from pathlens.vectors.documents import Passage, as_list, read_documents
from pathlens.vectors.encode import OF_MANY, SideEncoder
from pathlens.vectors.table import IndexRow, Table, sum_of

FORMAT = 5  # an index of another format is refused
MANIFEST, JOURNAL, LOCK = "index.json", "building.json", ".lock"
STORAGES = {
    "full": "every vector, in 16 bits",
    "strongest": "the longest of each passage (keep), in 16 bits",
    "compact": "the longest of each passage (keep), in 4 bits",
    "plain": "none: explained when they are found",
}
SHORTEST = 1e-18  # the square of a shorter length is no float32: the store could not compare it
PER_FILE = 256  # passages in one vector file: what is lost at most when one is damaged
PER_PART = 4096  # passages in one part of a plain index
KEEP = {"strongest": 8, "compact": 12}
FIELDS = (
    *("model", "stamp", "method", "baseline", "unit", "norm", "similarity", "tolerance"),
    *("parts", "passages", "table", "version", "storage", "next_document", "documents"),
)
CONTENT = ("parts", "sha256", "table", "version", "next_document")  # of a manifest; the rest says how it was made


def build(
    documents: str | Path | Sequence[str] | Mapping[str, str],
    where: str | Path,
    model: Any = "minilm",
    *,
    storage: str = "full",
    keep: int | None = None,
    chunk: bool = False,
    store: str | None = None,
    show_progress: bool = False,
    **choices: Unpack[VectorOptions],
) -> dict[str, Any]:
    """Write an index; gives its manifest (passages, bytes, bytes per document, how it was made).

    documents: a folder (.txt, .md), a file with one document a line, a list of texts, or {id: text}.
    storage: "full"; "strongest" (the `keep` longest vectors of each passage, 8, and an exact remainder); "compact" (12,
        in 4 bits: under 3 kB a document of MiniLM); "plain" (no vectors: hits are explained when they are found).
    chunk: cut documents longer than the model takes at sentences.
    store: where the table of embeddings lives, when not beside the rest (any LanceDB address, also object storage).
    Other choices as in `pl.encode`: method ("secant" by default; an integral where n_steps, max_nodes or rule is given), layer,
        unit, baseline, norm, tolerance, n_steps.

    A build that was interrupted goes on where it stopped: run the same again. An index that is there already stays whole
    until the new one is.
    """
    check_choice("storage", storage, STORAGES)
    keep = KEEP.get(storage) if keep is None else keep
    if keep is not None:
        whole_number("keep", keep)
    integral = any(choices.get(name) is not None for name in ("n_steps", "max_nodes", "rule"))
    encoder = SideEncoder.of(model, 1, **{"method": "ij" if integral else OF_MANY, **choices})
    names, labels, texts = read(documents)
    pieces = encoder.passages(texts, chunk=chunk, names=labels)
    for text, label in zip(texts, labels, strict=True):
        if not isinstance(text, str):
            raise InputError(f"{label}: an index holds texts, got {type(text).__name__}")
    folder = Path(where)
    header = encoder.header(encoder.embed([pieces[0].text], labels[:1])[1])
    header |= {"storage": storage, "keep": keep if storage in KEEP else None, "chunk": chunk, "store": store}
    Table(store or str(folder / "table"), "").connect()  # can a table be written there? Asked before the work
    make_folder(folder)
    with only_writer(folder / LOCK):
        remove_left_behind(folder, "vectors-*", JOURNAL, MANIFEST)
        work = IndexWriter(folder, encoder, header)
        work.begin([(piece, names[piece.document]) for piece in pieces], show_progress)
        return work.complete(len(texts))


def read(documents: Any, first: int = 0) -> tuple[list[str], list[str], list[Any]]:
    """Ids of the documents, what errors call them, and their texts."""
    if isinstance(documents, str | Path):
        names, texts = read_documents(documents)
        return names, [repr(name) for name in names], texts
    if isinstance(documents, Mapping):
        texts = as_list(documents.values(), "documents")
        return list(map(str, documents)), [repr(name) for name in documents], texts
    texts = as_list(documents, "documents")
    names = [f"document {first + number}" for number in range(len(texts))]
    return names, names, texts


def per_part(storage: str) -> int:
    return PER_PART if storage == "plain" else PER_FILE


@dataclass(eq=False)
class IndexWriter:
    """One build on its way."""

    folder: Path
    encoder: SideEncoder
    header: dict[str, Any]
    table: Table | None = None
    parts: list[dict[str, Any]] | None = None

    def begin(self, pieces: Sequence[tuple[Passage, str]], show_progress: bool) -> None:
        """All parts, those of an interrupted build first looked for."""
        size = per_part(self.header["storage"])
        some = [list(pieces[start : start + size]) for start in range(0, len(pieces), size)]
        self.table, self.parts = self._resumed([texts_mark(part) for part in some])
        with Progress(len(pieces), show_progress) as tick:
            for number, part in enumerate(some):
                if number >= len(self.parts):
                    self.parts.append(self.write(number, part))
                    self._note()
                for _ in part:
                    tick(None)

    def _resumed(self, marks: Sequence[str]) -> tuple[Table, list[dict[str, Any]]]:
        """The table of an interrupted build with its finished parts, or a new one."""
        where = self.header["store"] or str(self.folder / "table")
        with suppress(OSError, ValueError, KeyError, StoreError):
            journal = json.loads((self.folder / JOURNAL).read_text(encoding="utf-8"))
            table, done = Table(where, journal["table"]), journal["parts"]
            alike = [one["texts"] == mark for one, mark in zip(done, marks, strict=False)]
            good = alike.index(False) if False in alike else len(alike)
            if journal["header"] == json.loads(json.dumps(self.header)):
                table.delete(f"part >= {good}")  # added and not yet noted, or of other texts
                if table.count() == sum(part["passages"] for part in done[:good]):
                    return table, done[:good]
        taken = {name for name in Table(where, "").names() if name.startswith("embeddings-")}
        table = Table(where, next(f"embeddings-{n}" for n in range(len(taken) + 1) if f"embeddings-{n}" not in taken))
        width = len(self.encoder.embed_all(["a"])[0])
        table.create(width)
        return table, []

    def _note(self) -> None:
        assert self.table is not None
        journal = {"header": self.header, "table": self.table.name, "parts": self.parts}
        write_whole(self.folder / JOURNAL, json.dumps(journal, ensure_ascii=False).encode())

    def write(self, number: int, part: Sequence[tuple[Passage, str]], first: int = 0) -> dict[str, Any]:
        """One part: its vector file, where it has one, and its rows. `first`: the number of the first document."""
        assert self.table is not None
        texts, labels = [piece.text for piece, _ in part], [piece.name for piece, _ in part]
        entry: dict[str, Any] = {"part": number, "passages": len(part), "texts": texts_mark(part)}
        if self.header["storage"] == "plain":
            embeddings = self.encoder.embed_all(texts)
        else:
            places = [[name, first + piece.document, piece.start] for piece, name in part]
            file, embeddings = self._file(number, texts, labels, places)
            entry |= {"file": file.name, "bytes": file.stat().st_size, "sha256": checksum(file)}
        check_lengths(embeddings, [name for _, name in part], self.header["similarity"])
        rows = [
            IndexRow(number, slot, first + piece.document, name, piece.start, piece.text, vector)
            for slot, ((piece, name), vector) in enumerate(zip(part, embeddings, strict=True))
        ]
        self.table.add(rows)
        return {**entry, "sum": sum_of(rows)}

    def _file(self, number: int, texts: list[str], labels: list[str], places: list[Any]) -> tuple[Path, np.ndarray]:
        """A vector file of an earlier run, when it is whole, of the same making, and of the same texts; or a new one."""
        made = json.loads(json.dumps({**self.header, "places": places}))
        for path in _names(self.folder, number):
            try:
                sides, header = load_vectors(path, self.header["storage"])
            except StoreError:
                break  # there is none, or it is damaged: in its place
            if header == made and [side.text for side in sides] == texts:
                whole = self.header["storage"] != "compact"
                return path, np.stack([side.embedding for side in sides]) if whole else self.encoder.embed_all(texts)
        sides = self.encoder.sides(texts, [self.encoder.any_pair] * len(texts), labels)
        embeddings = np.stack([side.embedding for side in sides])
        check_lengths(embeddings, [place[0] for place in places], self.header["similarity"])
        if self.header["storage"] == "compact":
            store.save_compact(sides, made, path, self.header["keep"])
        else:
            store.save([store.pack(side, self.header["keep"]) for side in sides], made, path)
        return path, embeddings

    def complete(self, documents: int) -> dict[str, Any]:
        """The index as a whole; then whatever an older one left is removed."""
        assert self.table is not None and self.parts is not None
        self.table.settle(metric_of(self.header), sum(part["passages"] for part in self.parts))
        self.table.forget()  # nobody reads it yet
        facts = {"table": self.table.name, "next_document": documents, "documents": documents}
        manifest = write_manifest(self.folder, {**self.header, **facts}, self.parts, self.table)
        with suppress(OSError):
            (self.folder / JOURNAL).unlink()
        remove_stale(self.folder, manifest, self.table)
        return manifest


def _names(folder: Path, number: int) -> Iterator[Path]:
    """Where the vectors of a part may lie: a file of another, whole index is left until the new one is there."""
    yield folder / f"vectors-{number:05d}.safetensors"
    copy = 1
    while True:
        yield folder / f"vectors-{number:05d}-{copy}.safetensors"
        copy += 1


def load_vectors(path: Path, storage: str) -> tuple[Sequence[Side], dict[str, Any]]:
    return store.load_compact(path) if storage == "compact" else store.load(path)


def texts_mark(part: Sequence[tuple[Passage, str]]) -> str:
    """Of the passages of a part, so that a build that goes on knows whether they are the same."""
    plain = [[name, piece.document, piece.start, piece.text] for piece, name in part]
    return hashlib.sha256(json.dumps(plain, ensure_ascii=False).encode()).hexdigest()[:32]


def metric_of(header: Mapping[str, Any]) -> str:
    return "cosine" if header["similarity"] == "cosine" else "dot"


def check_lengths(embeddings: np.ndarray, names: Sequence[str], similarity: str) -> None:
    """Under the cosine a vector of length zero could never be found again, and nobody would know."""
    if similarity != "cosine":
        return
    for name, length in zip(names, np.linalg.norm(embeddings.astype(float), axis=1), strict=True):
        if not length >= SHORTEST:
            how_long = "zero" if length == 0 else f"{length:.0e}, too short for 32 bits"
            raise NumberError(
                f"the embedding of {name!r} has length {how_long}, so the cosine is not defined; leave it out, or build "
                f"with {setting(similarity='dot')}"
            )


def write_manifest(
    folder: Path, facts: Mapping[str, Any], parts: Sequence[Mapping[str, Any]], table: Table
) -> dict[str, Any]:
    """What readers go by, with the version of the table it speaks of."""
    passages = sum(part["passages"] for part in parts)
    of_table = Path(table.where) / f"{table.name}.lance"
    size = sum(part.get("bytes", 0) for part in parts)
    size += sum(file.stat().st_size for file in of_table.rglob("*") if file.is_file())  # nothing, where it is elsewhere
    manifest = {
        **facts,
        "format": FORMAT,
        "parts": list(parts),
        "version": table.version,
        "passages": passages,
        "bytes": size,
        "bytes_per_document": size / max(1, facts["documents"]),
    }
    manifest["sha256"] = content_sum(manifest)
    write_whole(folder / MANIFEST, json.dumps(manifest, ensure_ascii=False).encode())
    return manifest


def remove_stale(folder: Path, manifest: Mapping[str, Any], table: Table) -> None:
    """Vector files and tables of an earlier index, and older versions of this one; files of others are left alone."""
    current = {part.get("file") for part in manifest["parts"]}
    for file in folder.glob(f"vectors-{'[0-9]' * 5}*.safetensors"):
        if file.name not in current:
            file.unlink()
    for name in table.names():
        if name != table.name and name.startswith("embeddings-"):
            Table(table.where, name).drop()
    table.forget()


# ---- what a manifest must say, and reading it


def read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        number = manifest["format"]
        if number == FORMAT:
            _check_fields(manifest)
    except FileNotFoundError as error:
        if not any(folder.iterdir()):
            raise StoreError(
                f"{str(folder)!r} is empty; build an index there: pathlens index build minilm DOCUMENTS {folder}"
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
    if missing:
        raise KeyError(f"without {', '.join(missing)}")
    entries = manifest["parts"]
    needed = ("part", "passages", "sum", *(() if manifest["storage"] == "plain" else ("file", "sha256")))
    missing += [name for entry in entries for name in needed if name not in entry]
    if missing:
        raise KeyError(f"without {', '.join(missing)}")
    if sum(entry["passages"] for entry in entries) != manifest["passages"]:
        raise ValueError("its counts of passages do not agree")
    if manifest.get("sha256", checksum := content_sum(manifest)) != checksum:
        raise ValueError("its content does not match its checksum")
