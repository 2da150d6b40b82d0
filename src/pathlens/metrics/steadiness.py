"""Do scores stay put when they should, and move when they should?

- max-sensitivity: the largest relative change of the scores when the embeddings are nudged.
- stability: rank correlation with the scores after a token was deleted that the model hardly needs.
- parameter randomisation: layers are drawn anew from the top; the rank correlation with the scores must fall.

Papers: Yeh et al. (NeurIPS 2019); Adebayo et al., "Sanity Checks for Saliency Maps" (NeurIPS 2018).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pathlens.errors import ModelError
from pathlens.metrics.agreement import spearman
from pathlens.metrics.altered import Altered
from pathlens.metrics.contenders import THROUGH_WORDS, Pair, Scores, Way, deletable, explained
from pathlens.metrics.variants import repacked
from pathlens.text.adapter import Case, TextModel

NUDGES = 4
RADIUS = 0.1  # of the text's root mean square coordinate
EDITS = 2


def max_sensitivity(
    way: Way,
    model: TextModel,
    pairs: Sequence[Pair],
    before: Sequence[np.ndarray],
    choices: Mapping[str, Any],
    *,
    seed: int = 0,
    nudges: int = NUDGES,
    radius: float = RADIUS,
) -> np.ndarray:
    """(texts,) max over nudges of ‖Φ(x + ε) − Φ(x)‖ / ‖Φ(x)‖, every coordinate of ε uniform in ±radius·rms(x).

    NaN for paths through words: a nudged embedding is no word, and they have no path to it.
    """
    worst = np.full(len(pairs), np.nan)
    if way.control or way.method in THROUGH_WORDS:
        return worst
    for draw in range(nudges):

        def nudge(case: Case, pair: Pair, draw: int = draw) -> Case:
            return replace(case, ends=replace(case.ends, end=nudged(case, seed, draw, radius), ids=None))

        after = explained(way, Altered(model, nudge), pairs, choices)
        for n, found in enumerate(after):
            size = np.linalg.norm(before[n])
            if isinstance(found, Scores) and size > 0:
                moved = float(np.linalg.norm(found.values - before[n]) / size)
                worst[n] = np.fmax(worst[n], moved)
    return worst


def nudged(case: Case, seed: int, draw: int, radius: float) -> Tensor:
    """The text's rows with noise; held tokens stay."""
    end = case.ends.end
    noise = np.random.default_rng([seed, draw, len(case)]).uniform(-1, 1, tuple(end.shape))
    size = radius * float(end.double().square().mean().sqrt())
    moved = end + torch.as_tensor(size * noise).to(end)
    return torch.where(case.ends.held[:, None], end, moved)


def stability(
    way: Way,
    model: TextModel,
    pairs: Sequence[Pair],
    before: Sequence[np.ndarray],
    left_out: Sequence[np.ndarray],
    choices: Mapping[str, Any],
    *,
    edits: int = EDITS,
) -> np.ndarray:
    """(texts,) mean Spearman correlation of the remaining real tokens' scores, before and after a small edit.

    An edit deletes one token: those whose loss changes the output least, by leave-one-out `left_out` (S,).
    """
    total, count = np.zeros(len(pairs)), np.zeros(len(pairs))
    if way.control:
        return np.full(len(pairs), np.nan)
    for number in range(edits):
        gone: dict[Pair, int] = {}

        def shorten(case: Case, pair: Pair, number: int = number, gone: dict[Pair, int] = gone) -> Case:
            index = pairs.index(pair)
            able = sorted(deletable(case), key=lambda i: abs(left_out[index][i]))
            if len(able) <= number + 1:
                raise ModelError("too few tokens to delete one")
            gone[pair] = able[number]
            return repacked(case, [i for i in range(len(case)) if i != able[number]])

        after = explained(way, Altered(model, shorten), pairs, choices)
        for n, found in enumerate(after):
            if not isinstance(found, Scores):
                continue
            kept = np.delete(before[n], gone[pairs[n]])
            moves = (kept != 0) | (found.values != 0)
            rho = spearman(kept[moves], found.values[moves])
            if np.isfinite(rho):
                total[n] += rho
                count[n] += 1
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def stages(model: TextModel) -> list[tuple[str, list[nn.Parameter]]]:
    """Parameters from the top down: head, last block, …, first block. Embeddings stay: paths are made of them."""
    network = getattr(model, "network", None)
    if network is None or not network.blocks:
        raise ModelError("parameters are randomised layer by layer, and no list of blocks was found in this model")
    inside = {id(p) for block in network.blocks for p in block.parameters()}
    head = [
        p
        for name, p in network.whole.named_parameters()
        if id(p) not in inside and not any(part in name.lower() for part in ("embed", "wte", "wpe"))
    ]
    blocks = list(enumerate(network.blocks))
    return [("head", head), *((f"block {i}", list(block.parameters())) for i, block in reversed(blocks))]


@contextmanager
def restored(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Whatever happens inside, every parameter has its bits again afterwards."""
    before = [parameter.detach().clone() for parameter in parameters]
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, old in zip(parameters, before, strict=True):
                parameter.copy_(old)


def redraw(parameters: Sequence[nn.Parameter], generator: torch.Generator) -> None:
    """Each tensor drawn from a normal with its own mean and spread: the scale stays, what was learned goes."""
    with torch.no_grad():
        for parameter in parameters:
            spread = float(parameter.std()) if parameter.numel() > 1 else 0.0
            noise = torch.randn(parameter.shape, generator=generator).to(parameter)
            parameter.copy_(parameter.mean() + spread * noise)


def randomisation(
    ways: Sequence[Way],
    model: TextModel,
    pairs: Sequence[Pair],
    targets: Sequence[Any],
    before: Sequence[Sequence[np.ndarray]],
    choices: Mapping[str, Any],
    *,
    seed: int = 0,
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the stages, and (ways, stages, texts) Spearman of the scores with the original scores.

    Stages are cumulative, from the top; each text's target stays what the true model predicts. `before`[way][text].
    """
    plan = stages(model)
    known = dict(zip(pairs, targets, strict=True))
    pinned = Altered(model, lambda case, pair: replace(case, target=known[pair]))
    rho = np.full((len(ways), len(plan), len(pairs)), np.nan)
    generator = torch.Generator().manual_seed(seed)
    with model.quiet(), restored([p for _, own in plan for p in own]):
        for s, (_, own) in enumerate(plan):
            redraw(own, generator)
            for w, way in enumerate(ways):
                if way.control:
                    continue
                for n, found in enumerate(explained(way, pinned, pairs, choices)):
                    if isinstance(found, Scores):
                        moves = (before[w][n] != 0) | (found.values != 0)
                        rho[w, s, n] = spearman(before[w][n][moves], found.values[moves])
    return tuple(name for name, _ in plan), rho
