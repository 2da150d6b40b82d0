"""Phrase trees over a text, from brackets, spans, a spaCy parse or the right-branching rule; their groups.

A tree is a set of spans: constituents over the same characters are one (a unary chain counts once), and all
its words are nodes. Which tokens a node holds is decided by characters.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
from jaxtyping import Bool

from pathlens.errors import InputError
from pathlens.types import Span
from pathlens.units.brackets import RIGHT_BRANCHING, Constituents, align
from pathlens.units.cuts import point_at, sentence_spans, trim, word_spans


@dataclass(frozen=True)
class Node:
    """One constituent or word."""

    span: Span  # characters
    label: str = ""  # labels of a unary chain are joined by "+", outer first
    children: tuple[int, ...] = ()  # indices into the tree's nodes


@dataclass(frozen=True)
class Tree:
    """Nodes over a text, parents before children, left before right; `nodes[0]` is the whole text."""

    text: str
    nodes: tuple[Node, ...]
    words: tuple[Span, ...]  # the leaves
    source: str  # "bracketed", "spans", "dependencies" (and whose) or "right-branching"


@dataclass(frozen=True, eq=False)
class Groups:
    """The family M of IDG over a text's tokens: tokens, words, constituents, the whole. All different."""

    members: Bool[np.ndarray, "G S"]  # row 0 is the whole text
    nodes: tuple[Node, ...]  # the tree that is shown: nodes without tokens of their own are gone
    group: tuple[int, ...]  # the row of `members` each node stands for


def read_tree(tree: Any, text: str) -> Tree:
    """A tree over `text` from what the user handed over.

    A string: brackets, or "right-branching". A spaCy Doc or Span: its dependency subtrees. A list of spans
    (start, end) or (start, end, label). A nested (start, end, [children]), or {"span", "label", "children"}.
    """
    if isinstance(tree, str) and tree == RIGHT_BRANCHING:
        return right_branching(text)
    if isinstance(tree, Tree):
        if tree.text != text:
            raise InputError(f"the tree is of another text\n{point_at(tree.text, 0, len(tree.text))}")
        return tree
    if isinstance(tree, str):
        constituents, words = align(tree, text)
        return _build(text, constituents, words, "bracketed")
    if _is_spacy(tree):
        return _from_dependencies(tree, text)
    if isinstance(tree, Mapping) or _is_nested(tree):
        constituents = list(_flatten(tree, text))
        _check_whole(constituents[0][1], text)
        return _from_spans(text, constituents)
    if isinstance(tree, Iterable):
        return _from_spans(text, [_constituent(item, text) for item in tree])
    raise InputError(
        f"cannot read a tree from {type(tree).__name__}; give a bracketed string, spans (start, end), nested "
        "spans (start, end, [children]) or a spaCy Doc"
    )


def right_branching(text: str) -> Tree:
    """Each word joined with all that follows it in its sentence.

    Limits: a shape, not a parse; English mostly branches this way.
    """
    words, constituents = word_spans(text), []
    for start, end in sentence_spans(text):
        inside = [word for word in words if start <= word[0] < end]
        constituents += [("", (word[0], inside[-1][1])) for word in inside]
    return _build(text, constituents, words, RIGHT_BRANCHING)


# ---- from spans


def _from_spans(text: str, constituents: Constituents) -> Tree:
    """Words by characters, cut where a span cuts them."""
    borders = {border for _, span in constituents for border in span}
    words = []
    for start, end in word_spans(text):
        cuts = [start, *sorted(border for border in borders if start < border < end), end]
        words += [trim(text, low, high) for low, high in pairwise(cuts)]
    return _build(text, constituents, words, "spans")


def _is_nested(tree: Any) -> bool:
    """(start, end, [children]), also as a list, which is how JSON writes it."""
    return _is_list(tree) and len(tree) == 3 and not _is_list(tree[0]) and _is_list(tree[2])


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _flatten(tree: Any, text: str) -> Iterable[tuple[str, Span]]:
    """Constituents of nested spans, outer before inner; a child must lie inside its parent."""
    waiting: list[tuple[Any, Span | None]] = [(tree, None)]
    while waiting:
        item, parent = waiting.pop()
        span: Any
        if isinstance(item, Mapping):
            label, span, children = str(item.get("label") or ""), item.get("span"), item.get("children") or ()
        else:
            nested = _is_nested(item)
            label, span, children = "", item[:2] if nested else item, item[2] if nested else ()
        if not _is_list(span) or not _is_list(children):
            raise InputError(
                f"a nested tree is (start, end, [children]) or {{'span': (start, end), 'children': [...]}}, got {item!r}"
            )
        label, span = _constituent((*span, label) if label else tuple(span), text)
        if parent is not None and not (parent[0] <= span[0] and span[1] <= parent[1]):
            raise InputError(f"span {span} is not inside its parent {parent}\n{point_at(text, *span)}")
        yield label, span
        waiting += [(child, span) for child in reversed(children)]


def _constituent(item: Any, text: str) -> tuple[str, Span]:
    """(label, span) of a flat item, checked and without whitespace at its edges."""
    try:
        start, end = operator.index(item[0]), operator.index(item[1])
        label = str(item[2]) if len(item) > 2 else ""
    except (TypeError, ValueError, IndexError, KeyError):
        raise InputError(f"a span of a tree is (start, end) or (start, end, label), got {item!r}") from None
    if start < 0 or end > len(text) or not text[start:end].strip():
        wrong = "is not inside" if start < 0 or end > len(text) else "holds nothing of"
        where = point_at(text, start, end)
        raise InputError(f"span {(start, end)} {wrong} the text of {len(text)} characters\n{where}")
    return label, trim(text, start, end)


def _check_whole(span: Span, text: str) -> None:
    start, end = trim(text, 0, len(text))
    if span[0] > start or span[1] < end:
        missing = start if span[0] > start else span[1]
        where = point_at(text, trim(text, missing, len(text))[0])
        raise InputError(f"the tree covers {span}, not the whole text {(start, end)}\n{where}")


# ---- from spaCy


def _is_spacy(tree: Any) -> bool:
    """A Doc or a Span, by what it can do: spaCy itself is never imported."""
    return hasattr(tree, "text") and hasattr(tree, "vocab") and hasattr(tree, "__iter__")


def _from_dependencies(parse: Any, text: str) -> Tree:
    """Every token with all that depends on it, where that is an unbroken stretch of the text."""
    annotated = getattr(getattr(parse, "doc", parse), "has_annotation", None)
    if annotated is not None and not annotated("DEP"):
        raise InputError("the spaCy object has no dependencies; run a pipeline with a parser on it first")
    if parse.text != text:
        first = next(i for i, (a, b) in enumerate(zip_longest(parse.text, text)) if a != b)
        raise InputError(f"the spaCy object is of another text, from here on\n{point_at(text, first)}")
    tokens = [token for token in parse if token.text.strip()]
    inside = {token.idx for token in tokens}  # a Span's tokens may govern others outside of it
    shift = getattr(parse, "start_char", 0)
    constituents, words = [], []
    for token in tokens:
        words.append((token.idx - shift, token.idx - shift + len(token.text)))
        subtree = [other for other in token.subtree if other.idx in inside]
        first, last = subtree[0], subtree[-1]
        if sum(first.idx <= other.idx <= last.idx for other in tokens) == len(subtree):  # unbroken
            constituents.append((token.dep_, (first.idx - shift, last.idx - shift + len(last.text))))
    return _build(text, constituents, words, "dependencies")


# ---- the tree


def _build(text: str, constituents: Constituents, words: Sequence[Span], source: str) -> Tree:
    """Nest the spans: equal spans are one node, crossing ones an error; words and the whole are added."""
    whole = trim(text, 0, len(text))
    if whole[0] == whole[1]:
        raise InputError("a tree needs a text; this one is empty")
    labels: dict[Span, list[str]] = {whole: []}
    for label, span in [*constituents, *(("", word) for word in words)]:
        labels.setdefault(span, []).extend([label] if label else [])
    spans = sorted(labels, key=lambda span: (span[0], -span[1]))
    children: list[list[int]] = [[] for _ in spans]
    above: list[int] = []
    for k, (start, end) in enumerate(spans):
        while above and spans[above[-1]][1] <= start:
            above.pop()
        if above and end > spans[above[-1]][1]:
            other = spans[above[-1]]
            where = point_at(text, start, min(end, other[1]))
            raise InputError(
                f"spans {other} and {(start, end)} cross: they share this, neither holds the other\n{where}"
            )
        if above:
            children[above[-1]].append(k)
        above.append(k)
    nodes = [Node(span, "+".join(labels[span]), tuple(below)) for span, below in zip(spans, children, strict=True)]
    return Tree(text, tuple(nodes), tuple(words), source)


def tree_groups(tree: Tree, offsets: Sequence[Span], special: Sequence[bool]) -> Groups:
    """M over S tokens: every token, every word and constituent of the tree, the whole text; special in none.

    A token belongs to every span that holds its middle visible character: then groups nest as spans do, even
    where a token straddles a border. Spans with the same tokens are one group, so a node may vanish into the
    one above it; a node without tokens vanishes too.
    """
    places = [-1 if alone else _middle(tree.text, *span) for span, alone in zip(offsets, special, strict=True)]
    middle = np.array(places)
    holds = np.array([(middle >= node.span[0]) & (middle < node.span[1]) for node in tree.nodes])
    holds[0] = middle >= 0
    if not holds[0].any():
        raise InputError("no token of the text is left for a tree: all of them are special")
    nodes, kept = _shown(tree, holds)
    single = np.eye(len(offsets), dtype=bool)[middle >= 0]
    rows = {row.tobytes(): row for row in [*(holds[k] for k in kept), *single]}
    members = np.array(list(rows.values()))
    place = {key: k for k, key in enumerate(rows)}
    return Groups(members, nodes, tuple(place[holds[k].tobytes()] for k in kept))


def _middle(text: str, start: int, end: int) -> int:
    """The middle visible character of a token; of a blank one, its first place; never beyond the text."""
    visible = [k for k in range(start, end) if not text[k].isspace()]
    if not visible:  # goes with what follows it
        following = trim(text, start, len(text))[0]
        return following if following < len(text) else len(text.rstrip()) - 1
    return visible[(len(visible) - 1) // 2]


def _shown(tree: Tree, holds: Bool[np.ndarray, "N S"]) -> tuple[tuple[Node, ...], list[int]]:
    """The tree with empty nodes left out and nodes of the same tokens joined; and which nodes were kept."""
    kept, label = [0], {0: tree.nodes[0].label}
    below: dict[int, list[int]] = {0: []}
    waiting = [(child, 0) for child in reversed(tree.nodes[0].children)]
    while waiting:
        k, parent = waiting.pop()
        node = tree.nodes[k]
        if not holds[k].any():
            continue
        if (holds[k] == holds[parent]).all():
            label[parent] = "+".join(part for part in (label[parent], node.label) if part)
            waiting += [(child, parent) for child in reversed(node.children)]
            continue
        below[parent].append(k)
        below[k], label[k] = [], node.label
        kept.append(k)
        waiting += [(child, k) for child in reversed(node.children)]
    index = {k: i for i, k in enumerate(kept)}
    nodes = [Node(tree.nodes[k].span, label[k], tuple(index[child] for child in below[k])) for k in kept]
    return tuple(nodes), kept
