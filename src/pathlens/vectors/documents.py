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
                file for file in path.rglob("*") if file.suffix.lower() in (".txt", ".md") and file.is_file()
            )
            pairs = [(str(file.relative_to(path)), _text(file).strip()) for file in files]
        else:
            lines = _text(path).split("\n")
            pairs = [(f"{path.name}:{n}", line.strip()) for n, line in enumerate(lines, 1)]
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    pairs = [(name, text) for name, text in pairs if text]
    if not pairs:
        what = "no .txt or .md file with text" if path.is_dir() else "no line with text"
        raise InputError(f"{str(path)!r} holds {what}; give a folder of documents or a file with one document a line")
    return [name for name, _ in pairs], [text for _, text in pairs]


def _text(file: Path) -> str:
    """A file's text, without the mark some editors put in front."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise StoreError(f"{str(file)!r} is not UTF-8 text ({error}); convert it first") from error


def as_list(texts: Any, name: str) -> list[Any]:
    """Any collection of texts as a list; one that is none is named."""
    try:
        return list(texts)
    except TypeError as error:
        raise InputError(f"{name} must be a list of texts, got {type(texts).__name__}") from error


def passages(
    model: Any,
    documents: Sequence[str],
    *,
    chunk: bool,
    truncation: bool = False,
    prompt: str = "",
    names: Sequence[str] = (),
) -> list[Passage]:
    """One passage per document; with `chunk`, a document longer than the model takes becomes several.

    prompt: what the model puts before every text, which takes room too. names: what errors call the documents.
    """
    if isinstance(documents, str):
        raise InputError("documents must be a list of texts, got one string; for one document pass [document]")
    documents = as_list(documents, "documents")
    if not documents:
        raise InputError("the list of documents is empty; give at least one document")
    found = []
    limit = getattr(model, "limit", None)
    for number, text in enumerate(documents):
        name = names[number] if names else f"document {number}"
        if isinstance(text, str) and not text.strip():
            raise InputError(f"{name}: text is empty ({text!r}); give a text with words")
        long = isinstance(text, str) and limit is not None and _length(model, prompt + text) > limit
        long = long and not truncation
        if long and not chunk:
            raise TooLongError(
                f"{name} has {_length(model, prompt + text)} tokens and the model takes {limit}: pass chunk=True (--chunk) "
                "to cut such documents at sentences (each piece is scored on its own, the best stands for its document), or "
                "in Python truncation=True to read the beginning only"
            )
        found += _cut(model, Passage(number, text), name, limit, prompt) if long else [Passage(number, text)]
    return found


def _cut(model: Any, whole: Passage, name: str, limit: int, prompt: str) -> list[Passage]:
    """Runs of whole sentences, each as long as fits."""
    number, text = whole.document, whole.text
    spans = sentence_spans(text)
    pieces: list[tuple[int, int]] = []
    for start, end in spans:
        if pieces and _length(model, prompt + text[pieces[-1][0] : end]) <= limit:
            pieces[-1] = (pieces[-1][0], end)
        else:
            pieces.append((start, end))
    for start, end in pieces:
        if (length := _length(model, prompt + text[start:end])) > limit:
            shown = text[start : start + 60]
            raise TooLongError(
                f"{name} has one sentence of {length} tokens ({shown!r}…) and the model takes {limit}; it "
                "cannot be cut at sentences: shorten it"
            )
    assert all(before[1] <= after[0] for before, after in pairwise(pieces))
    return [Passage(number, text[start:end], start) for start, end in pieces]


def prompt_of(model: Any, request: Any) -> str:
    """What a sentence encoder puts before every text."""
    told = getattr(model, "prompt", None)
    return told(request) if callable(told) else ""


def _length(model: Any, text: str) -> int:
    return len(model.tokenizer(text, verbose=False)["input_ids"])
