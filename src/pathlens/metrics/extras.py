"""Metrics that are asked for by name: they edit texts at random, explain them again, or change the model.

- infidelity: do the scores predict what the model does when random sets of tokens are put to the reference?
- wae: how near are the points of a path to words?
- max-sensitivity: the largest relative change of the scores when the embeddings are nudged.
- stability: rank correlation with the scores after a token was deleted that the model hardly needs.
- randomisation: layers are drawn anew from the top; the rank correlation with the scores must fall.

Papers: Yeh et al., "On the (In)fidelity and Sensitivity of Explanations" (NeurIPS 2019); Adebayo et al., "Sanity
Checks for Saliency Maps" (NeurIPS 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pathlens.engine.methods import ALONG_ONE_PATH, route_of
from pathlens.engine.options import build
from pathlens.errors import ModelError
from pathlens.metrics.contenders import (
    THROUGH_WORDS,
    Contender,
    Pair,
    ScoredText,
    Scores,
    deletable,
    explained,
    request_of,
)
from pathlens.metrics.deletion import Question, outputs, repacked
from pathlens.metrics.record import HIGHER, LOWER, Column, Evaluation, Randomised
from pathlens.metrics.statistics import spearman
from pathlens.path.words.route import word_approximation_error as of_route
from pathlens.path.words.store import PathCache, path_cache
from pathlens.text.adapter import Altered, Case, Request, TextModel

EXTRAS = ("infidelity", "wae", "max-sensitivity", "stability", "randomisation")
SUBSETS = 16
LINE_FACTOR = 6  # 65 points on the straight line, as many as a word path of 30 steps has (63)
NUDGES = 4
RADIUS = 0.1  # of the text's root mean square coordinate
EDITS = 2
Change = Callable[[Case, Pair, Request], Case]


@dataclass(frozen=True, eq=False)
class Trial:
    """What these metrics start from: a model, texts with their scores under every contender, how they were made."""

    model: TextModel
    rows: Sequence[Contender]
    texts: Sequence[ScoredText]
    choices: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def again(self, row: int, change: Change) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(number, scores, new scores) of the texts that can be explained with their cases changed; of no control."""
        if self.rows[row].control:
            return
        pairs = [text.pair for text in self.texts]
        for n, after in enumerate(explained(self.rows[row], Altered(self.model, change), pairs, self.choices)):
            if isinstance(after, Scores):
                yield n, self.texts[n].scores[row].values, after.values


def add_extras(evaluation: Evaluation, trial: Trial, extra: Sequence[str]) -> Evaluation:
    """The evaluation with the metrics that were asked for."""
    columns, randomised, every = list(evaluation.columns), None, range(len(trial.rows))
    with trial.model.quiet():
        if "infidelity" in extra:
            name = evaluation.references[0]
            row, tables = trial.texts[0].references[name], [text.table for text in trial.texts]
            plain, scaled = infidelity([text.case for text in trial.texts], row, tables, trial.seed)
            columns += [Column(f"infidelity ({name})", LOWER, plain), Column("infidelity, scaled", LOWER, scaled)]
        if "wae" in extra:
            columns.append(Column("WAE", LOWER, _word_errors(trial)))
        if "max-sensitivity" in extra:
            columns.append(Column("max-sensitivity", LOWER, np.stack([max_sensitivity(trial, row) for row in every])))
        if "stability" in extra:
            columns.append(Column("stability", HIGHER, np.stack([stability(trial, row) for row in every])))
        if "randomisation" in extra:
            randomised = randomisation(trial)
    return replace(evaluation, columns=tuple(columns), randomised=randomised)


def subsets(case: Case, seed: int, number: int) -> list[tuple[int, ...]]:
    """Random sets of real tokens, sizes uniform from 1 to all."""
    real = [i for i, flag in enumerate(case.special) if not flag]
    rng = np.random.default_rng([seed, number, 1])
    drawn = (rng.choice(real, size=rng.integers(1, len(real) + 1), replace=False) for _ in range(SUBSETS))
    return [tuple(sorted(each.tolist())) for each in drawn]


def infidelity(
    cases: Sequence[Case], row: Tensor, scores: Sequence[np.ndarray], seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(lists, texts) twice: E[(Σ_{i∈A} score_i − (F(x) − F(x, A at the reference)))²] over random sets A, plain and
    scaled: with the best factor before the scores, over E[(F(x) − F(…))²], so that 0 is perfect and 1 says nothing.
    """
    drawn = [subsets(case, seed, number) for number, case in enumerate(cases)]
    questions = []
    for case, sets in zip(cases, drawn, strict=True):
        every = tuple(range(len(case)))
        questions.append(Question(case, every))
        questions += [Question(case, every, frozenset(chosen), row) for chosen in sets]
    values = outputs(questions).reshape(len(cases), SUBSETS + 1)
    plain, scaled = (np.full((len(scores[0]), len(cases)), np.nan) for _ in range(2))
    for n, (sets, lists) in enumerate(zip(drawn, scores, strict=True)):
        change = values[n, 0] - values[n, 1:]
        for m, one in enumerate(lists):
            predicted = np.array([one[list(chosen)].sum() for chosen in sets])
            plain[m, n] = np.mean((predicted - change) ** 2)
            size, spread = predicted @ predicted, change @ change
            factor = predicted @ change / size if size > 0 else 0.0
            if spread > 0:
                scaled[m, n] = np.mean((factor * predicted - change) ** 2) / np.mean(change**2)
    return plain, scaled


def _word_errors(trial: Trial) -> np.ndarray:
    cache, request = path_cache(None), request_of(trial.model, trial.choices)
    errors = np.full((len(trial.rows), len(trial.texts)), np.nan)
    for w, contender in enumerate(trial.rows):
        for n, text in enumerate(trial.texts):
            case = trial.model.case(*text.pair, request=replace(request, baseline=contender.baseline))
            errors[w, n] = word_approximation_error(contender, case, cache)
    return errors


def word_approximation_error(contender: Contender, case: Case, cache: PathCache) -> float:
    """Mean over moving tokens and path points of the distance to the nearest vocabulary row; NaN off the embeddings.

    The straight line is looked at in 65 points, a word path in the authors' own (63 by default).
    """
    if contender.method not in ALONG_ONE_PATH or case.ends.vocabulary is None:
        return float("nan")
    options = {**contender.options, "cache": cache}
    route = route_of(build(contender.method, options), case.ends)
    factor = LINE_FACTOR if contender.method == "ig" and not contender.options.get("path") else None
    errors = of_route(route, case.ends, factor=factor, cache=cache)
    moving = errors[np.isfinite(errors)]
    return float(moving.mean()) if len(moving) else float("nan")


def max_sensitivity(trial: Trial, row: int, *, nudges: int = NUDGES, radius: float = RADIUS) -> np.ndarray:
    """(texts,) max over nudges of ‖Φ(x + ε) − Φ(x)‖ / ‖Φ(x)‖, every coordinate of ε uniform in ±radius·rms(x).

    `row`: which contender. NaN for paths through words: a nudged embedding is no word, and they have no path to it.
    """
    worst = np.full(len(trial.texts), np.nan)
    for draw in range(0 if trial.rows[row].method in THROUGH_WORDS else nudges):

        def nudge(case: Case, pair: Pair, request: Request, draw: int = draw) -> Case:
            return replace(case, ends=replace(case.ends, end=nudged(case, trial.seed, draw, radius), ids=None))

        for n, before, after in trial.again(row, nudge):
            size = np.linalg.norm(before)
            if size > 0:
                worst[n] = np.fmax(worst[n], float(np.linalg.norm(after - before) / size))
    return worst


def nudged(case: Case, seed: int, draw: int, radius: float) -> Tensor:
    """The text's rows with noise; held tokens stay."""
    end = case.ends.end
    noise = np.random.default_rng([seed, draw, len(case)]).uniform(-1, 1, tuple(end.shape))
    size = radius * float(end.double().square().mean().sqrt())
    moved = end + torch.as_tensor(size * noise).to(end)
    return torch.where(case.ends.held[:, None], end, moved)


def stability(trial: Trial, row: int, *, edits: int = EDITS) -> np.ndarray:
    """(texts,) mean Spearman correlation of the remaining real tokens' scores, before and after a small edit.

    An edit deletes one token: those whose loss changes the output least, by the leave-one-out control.
    """
    rho = np.full((edits, len(trial.texts)), np.nan)
    left_out = {text.pair: text.scores[1].values for text in trial.texts}  # the second control
    for edit in range(edits):
        gone: dict[Pair, int] = {}

        def shorten(case: Case, pair: Pair, request: Request, edit: int = edit, gone: dict[Pair, int] = gone) -> Case:
            able = sorted(deletable(case), key=lambda i: abs(left_out[pair][i]))
            if len(able) <= edit + 1:
                raise ModelError("too few tokens to delete one")
            gone[pair] = able[edit]
            return repacked(case, [i for i in range(len(case)) if i != able[edit]])

        for n, before, after in trial.again(row, shorten):
            rho[edit, n] = _agree(np.delete(before, gone[trial.texts[n].pair]), after)
    count = np.isfinite(rho).sum(0)
    return np.where(count > 0, np.nansum(rho, axis=0) / np.maximum(count, 1), np.nan)


def _agree(before: np.ndarray, after: np.ndarray) -> float:
    """Spearman over the tokens that have a score at all."""
    moves = (before != 0) | (after != 0)
    return spearman(before[moves], after[moves])


def stages(model: TextModel) -> list[tuple[str, list[nn.Parameter]]]:
    """Parameters from the top down: head, last block, …, first block. Embeddings stay: paths are made of them."""
    network = getattr(model, "network", None)
    if network is None or not network.blocks:
        raise ModelError("parameters are randomised layer by layer, and no list of blocks was found in this model")
    inside = {id(p) for block in network.blocks for p in block.parameters()}
    outside = [(name.lower(), p) for name, p in network.whole.named_parameters() if id(p) not in inside]
    head = [p for name, p in outside if not any(part in name for part in ("embed", "wte", "wpe"))]
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


def randomisation(trial: Trial) -> Randomised:
    """Spearman of the scores with the original scores as layers are drawn anew.

    Stages are cumulative, from the top; each text's target stays what the true model predicts.
    """
    plan = stages(trial.model)
    targets = {text.pair: text.case.target for text in trial.texts}
    rho = np.full((len(trial.rows), len(plan), len(trial.texts)), np.nan)
    generator = torch.Generator().manual_seed(trial.seed)

    def pin(case: Case, pair: Pair, request: Request) -> Case:
        return replace(case, target=targets[pair])

    with trial.model.quiet(), restored([p for _, parameters in plan for p in parameters]):
        for s, (_, parameters) in enumerate(plan):
            redraw(parameters, generator)
            for w in range(len(trial.rows)):
                for n, before, after in trial.again(w, pin):
                    rho[w, s, n] = _agree(before, after)
    return Randomised(tuple(name for name, _ in plan), rho)
