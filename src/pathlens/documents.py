"""Documents from a file or folder, and long ones cut at sentences on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pathlens.errors import InputError, StoreError, TooLongError
from pathlens.units.pieces import sentence_spans


@dataclass(frozen=True)
class Passage:
    """What is encoded: a document, or a run of its sentences."""

    document: int  # which document it comes from
    text: str
    start: int = 0  # where in the document it begins, in characters


def read_documents(path: str | Path) -> tuple[list[str], list[str]]:
    """(names, texts): a folder's .txt and .md files, one document each, or a file's lines."""
    path = Path(path)
    try:
        if path.is_dir():
            files = sorted(
                file for file in path.rglob("*") if file.suffix in (".txt", ".md") and file.is_file()
            )
            pairs = [
                (str(file.relative_to(path)), file.read_text(encoding="utf-8").strip()) for file in files
            ]
        else:
            lines = path.read_text(encoding="utf-8").split("\n")
            pairs = [(f"{path.name}:{n}", line.strip()) for n, line in enumerate(lines, 1)]
    except UnicodeDecodeError as error:
        raise StoreError(f"{str(path)!r} is not UTF-8 text ({error}); convert it first") from error
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    pairs = [(name, text) for name, text in pairs if text]
    if not pairs:
        what = "no .txt or .md file with text" if path.is_dir() else "no line with text"
        raise InputError(
            f"{str(path)!r} holds {what}; give a folder of documents or a file with one document a line"
        )
    return [name for name, _ in pairs], [text for _, text in pairs]


def as_list(texts: Any, name: str) -> list[Any]:
    """Any collection of texts as a list; one that is none is named."""
    try:
        return list(texts)
    except TypeError as error:
        raise InputError(f"{name} must be a list of texts, got {type(texts).__name__}") from error


def passages(model: Any, documents: Sequence[str], *, chunk: bool, truncation: bool = False) -> list[Passage]:
    """One passage per document; with `chunk`, a document longer than the model takes becomes several."""
    if isinstance(documents, str):
        raise InputError(
            "documents must be a list of texts, got one string; for one document pass [document]"
        )
    documents = as_list(documents, "documents")
    if not documents:
        raise InputError("the list of documents is empty; give at least one document")
    found = []
    for number, text in enumerate(documents):
        limit = getattr(model, "limit", None)
        long = isinstance(text, str) and limit is not None and _length(model, text) > limit
        long = long and not truncation
        if long and not chunk:
            raise TooLongError(
                f"document {number} has {_length(model, text)} tokens and the model takes {limit}: pass chunk=True to cut "
                "such documents at sentences (each piece is scored on its own, the best stands for its document), or "
                "truncation=True to read the beginning only"
            )
        found += _cut(model, number, text, limit) if long else [Passage(number, text)]
    return found


def _cut(model: Any, number: int, text: str, limit: int) -> list[Passage]:
    """Runs of whole sentences, each as long as fits."""
    spans = sentence_spans(text)
    pieces: list[tuple[int, int]] = []
    for start, end in spans:
        if pieces and _length(model, text[pieces[-1][0] : end]) <= limit:
            pieces[-1] = (pieces[-1][0], end)
        else:
            pieces.append((start, end))
    for start, end in pieces:
        if (length := _length(model, text[start:end])) > limit:
            shown = text[start : start + 60]
            raise TooLongError(
                f"document {number} has one sentence of {length} tokens ({shown!r}…) and the model takes {limit}; it "
                "cannot be cut at sentences: shorten it"
            )
    assert all(before[1] <= after[0] for before, after in pairwise(pieces))
    return [Passage(number, text[start:end], start) for start, end in pieces]


def _length(model: Any, text: str) -> int:
    return len(model.tokenizer(text, verbose=False)["input_ids"])
