"""A file of bracketed trees, such as the Stanford Sentiment Treebank's, looked up by the text they are of."""

from __future__ import annotations

from pathlib import Path

from pathlens.errors import InputError
from pathlens.units.brackets import _alike, bracketed_text, read_bracketed


class Treebank:
    """`Treebank("dev.txt")(text)` is the gold tree of that text: a parser that looks up, spaces and capitals aside.

    `texts` and `trees` are in the file's order: `explain(model, bank.texts, method="idg", tree=bank)`.
    """

    def __init__(self, path: str | Path) -> None:
        self.name = Path(path).name
        self.trees = tuple(read_bracketed(path))
        if not self.trees:
            raise InputError(f"{self.name!r} holds no trees; expected bracketed ones: (S (NP ...) (VP ...))")
        try:
            self.texts = tuple(bracketed_text(tree) for tree in self.trees)
        except InputError as error:
            raise InputError(f"{self.name!r} is not a file of bracketed trees: {error}") from error
        self._of = {_key(text): tree for text, tree in zip(self.texts, self.trees, strict=True)}

    def __len__(self) -> int:
        return len(self.trees)

    def __call__(self, text: str) -> str:
        tree = self._of.get(_key(text))
        if tree is None:
            raise InputError(
                f"{self.name!r} has no tree of the text {text[:60]!r} (it has {len(self)}); give the tree itself, or None "
                "for a right-branching one"
            )
        return tree


def _key(text: str) -> str:
    return "".join(_alike(character) for character in text if not character.isspace())
