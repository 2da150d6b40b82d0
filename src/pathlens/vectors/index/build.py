"""Documents → vector files of a few hundred passages, a table of embeddings, and a manifest written last."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.engine.explainer import Explainer
from pathlens.errors import InputError, NumberError, StoreError
from pathlens.files import write_whole
from pathlens.vectors.documents import Passage, as_list, passages, prompt_of, read_documents
from pathlens.vectors.encode import SURE, Vectors, baseline_name, header_of, integrate, side_model, vector_maker
from pathlens.vectors.index import table
from pathlens.vectors.index.pack import STORAGES, pack

FORMAT = 3  # an index of another format is refused
MANIFEST = "index.json"
SHORTEST = 1e-18  # the square of a shorter length is no float32: the store could not compare it
PER_FILE = 256  # passages in one vector file: what is lost at most when one is damaged


def build(
    documents: str | Path | Sequence[str],
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

    documents: a folder (.txt, .md), a file with one document a line, or a list of texts.
    storage: "full", or "strongest" (the `keep` longest vectors of each passage and an exact remainder);
        unit="word" is the other way to a smaller index.
    chunk: cut documents longer than the model takes at sentences.
    store: where the table of embeddings lives, when not beside the rest (any LanceDB address, also object storage).
    Other choices as in `pl.explain`: layer, unit, baseline, norm, tolerance, n_steps.

    A build that was interrupted goes on where it stopped: finished vector files are kept. An index that is there
    already stays whole until the first new vector file is ready to take its place.
    """
    if storage not in STORAGES:
        raise InputError(f"storage must be one of {', '.join(STORAGES)}, got {storage!r}")
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise InputError(f"keep must be a whole number of at least 1, got {keep!r}")
    explainer = vector_maker(model, **choices)
    encoder = side_model(explainer.model, "b")
    names, texts = _read(documents)
    labels = names if not isinstance(documents, str | Path) else [repr(name) for name in names]
    request = explainer.choices.request(explainer.method)
    pieces = passages(
        encoder, texts, chunk=chunk, truncation=request.truncation, prompt=prompt_of(encoder, request), names=labels
    )
    for text, label in zip(texts, labels, strict=True):
        if not isinstance(text, str):
            raise InputError(f"{label}: an index holds texts, got {type(text).__name__}")
    folder = Path(where)
    named = baseline_name(explainer, pieces[0].text, 1, labels[0])
    header = {**header_of(explainer, named), "storage": storage, "keep": keep if storage == "strongest" else None}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from error
    table.ready(store or str(folder / "table"))
    files, embeddings = [], []
    for number, start in enumerate(range(0, len(pieces), PER_FILE)):
        file = folder / f"vectors-{number:05d}.safetensors"
        some = pieces[start : start + PER_FILE]
        vectors = _kept(file, header, some)
        if vectors is None:
            called = [labels[piece.document] for piece in some]
            vectors = _encoded(explainer, header, some, called, show_progress)
            _check_lengths(vectors, some, names)
            _begin(folder)
            vectors.save(file)
        files.append({"file": file.name, "passages": len(some), "bytes": file.stat().st_size, "sha256": checksum(file)})
        embeddings.append(vectors.embeddings)
    mine = {each["file"] for each in files}
    for stale in folder.glob("vectors-*.safetensors"):
        if re.fullmatch(r"vectors-\d{5}\.safetensors", stale.name) and stale.name not in mine:
            _begin(folder)
            stale.unlink()
    rows = rows_of(pieces, names)
    every = np.concatenate(embeddings)
    table.write(store or str(folder / "table"), every, rows)
    return _finish(folder, {**header, "embeddings_sha256": table.digest(every)}, files, rows, store)


def _begin(folder: Path) -> None:
    """From here on the old index is gone; until the new one is whole, there is none."""
    try:
        (folder / MANIFEST).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from error


def _finish(folder: Path, header: dict[str, Any], files: list, rows: list, store: str | None) -> dict[str, Any]:
    size = sum(file["bytes"] for file in files) + folder_size(Path(store or folder / "table"))
    manifest = {
        "format": FORMAT,
        **header,
        "files": files,
        "rows": rows,
        "store": store,
        "passages": len(rows),
        "documents": len({row["document"] for row in rows}),
        "bytes": size,
        "bytes_per_passage": size / len(rows),
        "bytes_per_document": size / len({row["document"] for row in rows}),
    }
    manifest["sha256"] = manifest_sum(manifest)
    write_whole(folder / MANIFEST, json.dumps(manifest, ensure_ascii=False).encode())
    return manifest


def manifest_sum(manifest: Mapping[str, Any]) -> str:
    """Over everything the manifest says but this sum itself."""
    said = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(said, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def checksum(file: Path) -> str:
    """Of the whole file: a file of another index in its place is told apart."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check_lengths(vectors: Vectors, pieces: Sequence[Passage], names: Sequence[str]) -> None:
    """Under the cosine a vector of length zero could never be found again, and nobody would know."""
    if vectors.header["similarity"] != "cosine":
        return
    for piece, embedding in zip(pieces, vectors.embeddings, strict=True):
        length = float(np.linalg.norm(embedding.astype(float)))
        if length < SHORTEST:
            said = "zero" if length == 0 else f"{length:.0e}, too short for 32 bits"
            raise NumberError(
                f"the embedding of {names[piece.document]!r} has length {said}, so the cosine is not defined; leave it out, "
                "or build with similarity='dot'"
            )


def rows_of(pieces: Sequence[Passage], names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"name": names[piece.document], "document": piece.document, "start": piece.start} for piece in pieces]


def folder_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.exists() else 0


def _read(documents: Any) -> tuple[list[str], list[str]]:
    if isinstance(documents, str | Path):
        return read_documents(documents)
    texts = as_list(documents, "documents")
    return [f"document {number}" for number in range(len(texts))], texts


def _kept(file: Path, header: dict[str, Any], pieces: Sequence[Passage]) -> Vectors | None:
    """A vector file of an earlier run, when it is whole, of the same making, and of the same texts."""
    if not file.exists():
        return None
    try:
        found = Vectors.load(file)
    except StoreError:
        found = None
    if found is not None and dict(found.header) == header and found.texts == tuple(piece.text for piece in pieces):
        return found
    return None


def _encoded(
    explainer: Explainer, header: dict[str, Any], pieces: Sequence[Passage], names: Sequence[str], show_progress: bool
) -> Vectors:
    tolerance = max(explainer.choices.accuracy.tolerance * SURE, 1e-5)
    limits = [lambda embedding: tolerance * float(np.linalg.norm(embedding))] * len(pieces)
    texts = [piece.text for piece in pieces]
    sides = integrate(explainer, texts, limits, place=1, names=names.__getitem__, show_progress=show_progress)
    return Vectors(tuple(pack(side, header["storage"], header["keep"] or 0) for side in sides), header)
