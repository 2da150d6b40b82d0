"""From one run of Integrated Gradients to a tree of phrases (IDG): every group's value, no further passes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from pathlens.engine.assemble import Order, certificate, meta_of
from pathlens.engine.solve import Solution
from pathlens.explanation.phrases import idg, phrase_nodes
from pathlens.explanation.record import SINGLE, PhraseTree
from pathlens.units.trees import tree_groups

FLAT = "nothing moves the output: every directional integral is 0, and v(whole text) = 1 by definition only"


def phrases(order: Order, solutions: Sequence[Solution]) -> PhraseTree:
    """Tokens, words, constituents and the whole share the value; with `coordinates=True` single coordinates too.

    Special tokens are in no group, so what they carry (at a layer above the embeddings) is in no phrase.
    """
    (solution,) = solutions
    case, tree = solution.case, order.prepared.tree
    assert tree is not None
    groups = tree_groups(tree, case.offsets, case.special)
    delta = torch.where(case.ends.held[:, None], 0.0, case.ends.delta.double()).cpu().numpy()
    square = np.square(delta).sum(axis=1)
    value = solution.spread()
    by_coordinate = solution.by_coordinate
    scores = value.sum(-1) if by_coordinate else value
    nodes = [(node.span, node.label, node.children) for node in groups.nodes]
    plain = idg(groups.members, scores.numpy(), square)
    shown = plain
    if by_coordinate:
        shown = idg(groups.members, scores.numpy(), square, value.numpy(), delta)
    meta = meta_of(order, solutions)
    if shown.flat:
        meta["notes"] = [*meta["notes"], FLAT]
    elif by_coordinate:
        share = 100 * (1 - float(shown.dividend.sum()))
        meta["notes"] = [*meta["notes"], f"{SINGLE}, as in the paper, and take {share:.1f} % of the value"]
    return PhraseTree(
        method=order.prepared.method.name,
        target=case.target_name,
        certificate=certificate(solution, order.tolerance, scores),
        meta=meta,
        nodes=phrase_nodes(tree.text, nodes, groups.group, shown),
        tokens=solution.units.names,
        offsets=solution.units.offsets,
        scores=scores.numpy(),
        special=solution.units.special,
        tree=tree.source,
        family="phrases and coordinates" if by_coordinate else "phrases",
        plain=phrase_nodes(tree.text, nodes, groups.group, plain) if by_coordinate else (),
    )
