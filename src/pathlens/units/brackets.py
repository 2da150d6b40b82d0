"""Bracketed trees (Penn Treebank, Stanford Sentiment Treebank): read them, find their leaves in a text; files of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import regex

from pathlens.checks import did_you_mean
from pathlens.errors import InputError, StoreError, setting
from pathlens.types import Span
from pathlens.units.cuts import point_at, trim

RIGHT_BRANCHING = "right-branching"  # the name of a shape that fits any text
_PART = regex.compile(r"[()]|[^\s()]+")
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}
_ALIKE = str.maketrans("‘’‚‛“”„‟`–—", "''''\"\"\"\"'--")  # signs that treebanks write plainly
_LONGER = {"...": ("…",), "--": ("—", "–"), '"': ("''", "``"), "…": ("...",)}

# A constituent: (label, span of characters). The constituents of a tree, outer before inner.
Constituents = list[tuple[str, Span]]


def align(bracketed: str, text: str) -> tuple[Constituents, list[Span]]:
    """(constituents, leaves) of a bracketed tree as spans of the text.

    Leaves are found one after another, spaces and capitals aside, escapes undone ("-LRB-" is "("), plain
    quotes and dashes matching curved and long ones. Empty leaves ("-NONE-") are passed over.
    """
    leaves, constituents = _read(bracketed)
    spans, at = [], 0
    for leaf in leaves:
        start, at = _find(leaf, text, at)
        spans.append((start, at))
    rest = text[at:].strip()
    if rest:
        where = point_at(text, trim(text, at, len(text))[0])
        raise InputError(f"the tree ends before the text does; {rest[:20]!r} has no leaf\n{where}")
    return [(label, (spans[low][0], spans[high - 1][1])) for label, low, high in constituents], spans


def bracketed_text(bracketed: str) -> str:
    """The leaves of a tree, escapes undone, with a space between them."""
    return " ".join(_plain(leaf) for leaf in _read(bracketed)[0])


def read_bracketed(path: str | Path) -> Iterator[str]:
    """The trees of a file, one after another, whether each is on a line of its own or spread over several."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise StoreError(
            f"{setting(tree=str(path))} is neither a tree in brackets, (S (NP …) …), nor a file of such trees, nor "
            f"{RIGHT_BRANCHING!r}{did_you_mean(str(path), [RIGHT_BRANCHING])}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read trees from {path}: {error}") from error
    depth, gathered = 0, []
    for line in lines:
        if not line.strip():
            continue
        gathered.append(line.strip())
        depth += line.count("(") - line.count(")")
        if depth <= 0:
            yield " ".join(gathered)
            depth, gathered = 0, []
    if gathered:
        yield " ".join(gathered)  # unclosed: whoever reads it says where


def _read(bracketed: str) -> tuple[list[str], list[tuple[str, int, int]]]:
    """(leaves, [(label, first leaf, one past the last)]), outer before inner; empty brackets drop out."""
    leaves: list[str] = []
    constituents: list[tuple[str, int, int] | None] = []
    open_at: list[tuple[int, str, int, int]] = []  # (place in `constituents`, label, first leaf, character)
    parts = [(match.group(), match.start()) for match in _PART.finditer(bracketed)]
    for k, (part, where) in enumerate(parts):
        if part == "(":
            if not open_at and k:
                raise InputError(f"a second tree begins here\n{point_at(bracketed, where)}")
            following = parts[k + 1][0] if k + 1 < len(parts) else ""
            open_at.append((len(constituents), "" if following in "()" else following, len(leaves), where))
            constituents.append(None)
        elif not open_at:
            raise InputError(f"this is outside of every bracket\n{point_at(bracketed, where)}")
        elif part == ")":
            place, label, first, _ = open_at.pop()
            if label and parts[k - 2][0] == "(" and parts[k - 1][0] == label:  # (word): it was a leaf
                leaves.append(label)
                label = ""
            if len(leaves) > first:
                constituents[place] = (label, first, len(leaves))
        elif parts[k - 1][0] != "(" and open_at[-1][1] != "-NONE-":  # a trace stands for nothing in the text
            leaves.append(part)
    if open_at:
        raise InputError(f"this bracket is never closed\n{point_at(bracketed, open_at[-1][3])}")
    if not leaves:
        raise InputError(f"the tree has no leaves: {bracketed[:60]!r}")
    return leaves, [constituent for constituent in constituents if constituent is not None]


def _plain(leaf: str) -> str:
    return _ESCAPES.get(leaf, _ESCAPES.get(leaf.upper(), leaf)).replace("\\/", "/").replace("\\*", "*")


def _find(leaf: str, text: str, at: int) -> Span:
    """Where the leaf stands in the text, looking from `at`; nothing but whitespace may lie between."""
    plain = _plain(leaf)
    start = trim(text, at, len(text))[0]
    for form in (plain, leaf, *_LONGER.get(plain, ())):
        signs = regex.compile(r"\s*".join(map(regex.escape, form.translate(_ALIKE))), regex.IGNORECASE)
        match = signs.match(text.translate(_ALIKE), start)  # whitespace and capitals aside
        if match:
            return match.start(), match.end()
    if start >= len(text):
        raise InputError(f"the text ends before the tree does, at its leaf {plain!r}\n{point_at(text, start)}")
    raise InputError(f"the tree's leaf {plain!r} is not what the text has here\n{point_at(text, start)}")


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
                f"{self.name!r} has no tree of the text {text[:60]!r} (it has {len(self)}); give the tree itself, or "
                f"{setting(tree=None)} for a parse"
            )
        return tree


def _key(text: str) -> str:
    return "".join(text.split()).translate(_ALIKE).lower()
