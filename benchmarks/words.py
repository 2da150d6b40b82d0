"""A whole UDIG explanation against the definition, and every phrase's IDG against an integral of its own.

The definitions are the tests' slow twins. UDIG: each token's path is searched step by step over the whole table, then one
gradient call per point of the left sum; ours is `rule="left"` with an empty cache, so both have the same points. IDG:
one integral per group, with the nodes that one run of ours needed: node by node, as the twin has it, and at its best, all
nodes of a group in one batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import pathlens as pl
from benchmarks.measure import EQUAL, Row, alternate, in_turns, largest_difference, row
from pathlens.path.words.options import PRESETS
from pathlens.quadrature import gauss
from pathlens.text.adapter import Request
from pathlens.text.load import load
from pathlens.units.trees import read_tree, tree_groups
from tests.support.twins.word_sums import directional, left_sum, points_of

SENTENCE = "A gorgeous, witty and seductive movie, not really funny but moving."
SHORT = "Not really funny, but moving."
TREE_SENTENCE = "the film is not really very funny but it moves me ."
TREE = (
    "(S (NP (DT the) (NN film)) (VP (VBZ is) (ADJP (RB not) (ADJP (RB really) (ADJP (RB very) (JJ funny))))) "
    "(CC but) (S (NP it) (VP (VBZ moves) (PRP me))) (. .))"
)


def udig_row(model: Any, setting: str, text: str, rounds: int) -> Row:
    case = model.case(text, request=Request())
    case.ends.vocabulary.table  # both find the table read  # noqa: B018
    settings = PRESETS[setting]

    def definition() -> np.ndarray:
        points = points_of(
            case.ends,
            factor=settings.factor,
            method=settings.method,
            strategy=settings.strategy,
            steps=settings.steps,
            neighbours=settings.neighbours,
        )
        return left_sum(lambda point: case.score(point[None], [case])[0], points).numpy()

    both = alternate(
        rounds, lambda: pl.explain(model, text, method="udig", preset=setting, rule="left", check=False), definition
    )
    best = pl.explain(model, text, method="udig", preset=setting)
    apart = largest_difference(both.ours.scores, both.theirs) / float(np.abs(both.theirs).max())
    return row(
        f"UDIG whole explanation, {settings.strategy}, left rule, {both.ours.certificate.nodes} points, "
        f"{len(both.ours.tokens)} tokens",
        f"the literal definition, one gradient call per point; scores equal to {apart:.0e} of the largest",
        goal=5.0,
        ours=both.ours_seconds,
        theirs=both.theirs_seconds,
        errors=(largest_difference(both.ours.scores, best.scores), largest_difference(both.theirs, best.scores)),
        holds=apart < EQUAL,
        why="the gradients themselves cost both sides the same; only their batching and the path search can be won",
        note="errors are of the papers' left sum, which both take, against the integral along the same path",
    )


def udig(quick: bool) -> list[Row]:
    model = load("sentiment")
    with model.quiet():
        if quick:
            return [udig_row(model, "udig-maxcount", SHORT, 1)]
        return [udig_row(model, setting, SENTENCE, 2) for setting in ("udig-maxcount", "udig-greedy")]


def idg(quick: bool) -> list[Row]:
    model = load("sentiment")
    with model.quiet():
        case = model.case(TREE_SENTENCE, request=Request())
        groups = tree_groups(read_tree(TREE, TREE_SENTENCE), case.offsets, case.special)
        explainer = pl.Explainer(model, method="idg", tree=TREE, check=False, n_steps=12 if quick else None)
        rule = gauss(explainer(TREE_SENTENCE).certificate.nodes)

        def score(point: torch.Tensor) -> torch.Tensor:
            return case.score(point[None], [case])[0]

        def definition() -> np.ndarray:
            ends, members = case.ends, torch.from_numpy(groups.members)
            return np.array([directional(score, ends.start, ends.end, group, rule.t, rule.weight) for group in members])

        def batched() -> np.ndarray:
            ends, members = case.ends, torch.from_numpy(groups.members)
            t, weight = torch.from_numpy(rule.t).float()[:, None, None], torch.from_numpy(rule.weight)
            results = []
            for group in members:
                direction = torch.where(group[:, None], ends.delta, 0.0)
                points = (ends.start + t * ends.delta).requires_grad_()
                (slope,) = torch.autograd.grad(case.score(points, [case] * len(points)).sum(), points)
                share = (slope * direction).sum((1, 2)).double()
                results.append(float(weight @ share) / float(direction.norm()))
            return np.array(results)

        (ours, slow, quicker), (mine, *theirs) = in_turns(
            1 if quick else 3, lambda: explainer(TREE_SENTENCE), definition, batched
        )
        best = pl.explain(model, TREE_SENTENCE, method="idg", tree=TREE, rule="gauss", n_steps=256)
    exact = np.array([node.signed for node in best.nodes])
    error = largest_difference([node.signed for node in mine.nodes], exact)
    hows = ("all nodes of a group in one batch", "node by node")
    return [
        row(
            f"IDG, a tree of {len(mine.nodes)} nodes ({len(groups.members)} groups), {len(rule)} nodes on the line",
            f"one integral per group, as many nodes, {how}",
            goal=10.0,
            ours=ours,
            theirs=took,
            errors=(error, largest_difference(results[list(groups.group)], exact)),
            why="a batch of gradients runs at the speed of the matrix products, so the ratio is the number of groups at most",
        )
        for how, took, results in zip(hows, (quicker, slow), reversed(theirs), strict=True)
    ]
