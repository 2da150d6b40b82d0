"""Documents from a file or folder, and long ones cut at sentences on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pathlens.checks import whole_text
from pathlens.errors import InputError, TooLongError
from pathlens.files import read_text
from pathlens.units.cuts import sentence_spans


@dataclass(frozen=True)
class Passage:
    """What is encoded: a document, or a run of its sentences."""

    document: int  # which document it comes from
    text: str
    name: str  # what errors call its document
    start: int = 0  # where in the document it begins, in characters


def read_documents(path: str | Path) -> tuple[list[str], list[str]]:
    """(names, texts): a folder's .txt and .md files, one document each, or a file's lines."""
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in (".txt", ".md") and file.is_file())
        pairs = [(str(file.relative_to(path)), read_text(file).strip()) for file in files]
    else:
        pairs = [(f"{path.name}:{n}", line.strip()) for n, line in enumerate(read_text(path).split("\n"), 1)]
    pairs = [(name, text) for name, text in pairs if text]
    if not pairs:
        what = "no .txt or .md file with text" if path.is_dir() else "no line with text"
        raise InputError(f"{str(path)!r} holds {what}; give a folder of documents or a file with one document a line")
    return [name for name, _ in pairs], [text for _, text in pairs]


def as_list(texts: Any, name: str) -> list[Any]:
    """Any collection of texts as a list; one that is none, or empty, is named."""
    one = name.removesuffix("s")
    if isinstance(texts, str):
        raise InputError(f"{name} must be a list of texts, got one string; for one {one} pass [{one}]")
    try:
        listed = list(texts)
    except TypeError as error:
        raise InputError(f"{name} must be a list of texts, got {type(texts).__name__}") from error
    if not listed:
        raise InputError(f"the list of {name} is empty; give at least one {one}")
    return listed


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
    limit: int | None = None if truncation else getattr(model, "limit", None)
    pieces, every = [], as_list(documents, "documents")
    for number, text in enumerate(every):
        whole_text(names[number] if names else f"document {number}", text)
    texts = [prompt + text for text in every if isinstance(text, str)] if limit is not None else []
    lengths = iter([len(ids) for ids in model.tokenizer(texts, verbose=False)["input_ids"]] if texts else ())
    for number, text in enumerate(every):
        name = names[number] if names else f"document {number}"
        if isinstance(text, str) and not text.strip():
            raise InputError(f"{name}: text is empty ({text!r}); give a text with words")
        length = next(lengths) if isinstance(text, str) and limit is not None else 0
        if limit is None or length <= limit:
            pieces.append(Passage(number, text, name))
        elif chunk:
            pieces += _cut(model, Passage(number, text, name), limit, prompt)
        else:
            raise TooLongError(
                f"{name} has {length} tokens and the model takes {limit}: pass chunk=True (--chunk) to cut such "
                "documents at sentences (each piece is scored on its own, the best stands for its document), or in Python "
                "truncation=True to read the beginning only"
            )
    return pieces


def _cut(model: Any, whole: Passage, limit: int, prompt: str) -> list[Passage]:
    """Runs of whole sentences, each as long as fits."""
    text = whole.text
    spans: list[tuple[int, int]] = []
    for start, end in sentence_spans(text):
        if spans and _length(model, prompt + text[spans[-1][0] : end]) <= limit:
            spans[-1] = (spans[-1][0], end)
        elif (length := _length(model, prompt + text[start:end])) <= limit:
            spans.append((start, end))
        else:
            raise TooLongError(
                f"{whole.name} has one sentence of {length} tokens ({text[start : start + 60]!r}…) and the model takes {limit}; "
                "it cannot be cut at sentences: shorten it"
            )
    return [replace(whole, text=text[start:end], start=start) for start, end in spans]


def prompt_of(model: Any, request: Any) -> str:
    """What a sentence encoder puts before every text."""
    prompt = getattr(model, "prompt", None)
    return prompt(request) if callable(prompt) else ""


def _length(model: Any, text: str) -> int:
    return len(model.tokenizer(text, verbose=False)["input_ids"])
