"""From one run of Integrated Gradients to a tree of phrases (IDG): every group's value, no further passes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pathlens.errors import InputError
from pathlens.explanation.phrases import idg, phrase_nodes
from pathlens.explanation.record import SINGLE, PhraseTree
from pathlens.text.adapter import Case
from pathlens.units.treebank import Treebank
from pathlens.units.trees import Tree, read_tree, tree_groups

if TYPE_CHECKING:
    from pathlens.engine.assemble import Order, Part

FLAT = "nothing moves the output: every directional integral is 0, and v(whole text) = 1 by definition only"


def tree_of(case: Case, tree: Any, unit: Any = "token") -> Tree:
    """The tree of one text, read before any work is done; a spaCy pipeline, or any parser, is called with the text."""
    if unit != "token":
        raise InputError(
            f"unit={unit!r}: idg gives every token, word and phrase at once; leave unit out, and give spans as tree=..."
        )
    if len(case.texts) != 1 or case.sources:
        what = "no text" if not case.texts else f"{len(case.texts)} texts as one input"
        raise InputError(f"idg reads the phrases of one text, and this input has {what}; use method='ig'")
    (text,) = case.texts
    is_parser = callable(tree) and not isinstance(tree, str | Tree)
    return read_tree(tree(text) if is_parser else tree, text)


def tree_source(tree: Any) -> Any:
    """A file's name becomes its trees, read once; a bracketed tree, spans or a parser stay what they are."""
    is_file = isinstance(tree, Path) or (isinstance(tree, str) and not tree.lstrip().startswith("("))
    return Treebank(tree) if is_file else tree


def trees_for(tree: Any, count: int) -> list[Any] | None:
    """One tree per text of a list; a parser, or None, serves all of them."""
    if tree is None or callable(tree):
        return None
    if not isinstance(tree, list) or len(tree) != count:
        came = f"{len(tree)} trees" if isinstance(tree, list) else f"one {type(tree).__name__}"
        raise InputError(f"{count} texts need a list of {count} trees (None for a text without one), got {came}")
    return tree


def phrases(order: Order, parts: Sequence[Part]) -> PhraseTree:
    """Tokens, words, constituents and the whole share the value; with `coordinates=True` single coordinates too.

    Special tokens are in no group, so what they carry (at a layer above the embeddings) is in no phrase.
    """
    from pathlens.engine.assemble import certificate, meta_of, spread

    (part,) = parts
    case, tree = part.case, order.tree
    groups = tree_groups(tree, case.offsets, case.special)
    delta = torch.where(case.ends.held[:, None], 0.0, case.ends.delta.double()).cpu().numpy()
    square = np.square(delta).sum(axis=1)
    value = spread(part)
    by_coordinate = bool(order.settings.options.get("coordinates"))
    scores = value.sum(-1) if by_coordinate else value
    nodes = [(node.span, node.label, node.children) for node in groups.nodes]
    plain = idg(groups.members, scores.numpy(), square)
    shown = plain
    if by_coordinate:
        shown = idg(groups.members, scores.numpy(), square, value.numpy(), delta)
    meta = meta_of(order, parts)
    if shown.flat:
        meta["notes"] = [*meta["notes"], FLAT]
    elif by_coordinate:
        share = 100 * (1 - float(shown.dividend.sum()))
        meta["notes"] = [*meta["notes"], f"{SINGLE}, as in the paper, and take {share:.1f} % of the value"]
    return PhraseTree(
        method=order.method.name,
        target=case.target_name,
        certificate=certificate(part, order.settings, scores),
        meta=meta,
        nodes=phrase_nodes(tree.text, nodes, groups.group, shown),
        tokens=part.units.names,
        offsets=part.units.offsets,
        scores=scores.numpy(),
        special=part.units.special,
        tree=tree.source,
        family="phrases and coordinates" if by_coordinate else "phrases",
        plain=phrase_nodes(tree.text, nodes, groups.group, plain) if by_coordinate else (),
    )
