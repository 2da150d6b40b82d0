"""SIG and DIG beside time-interpret: the same model, class, baseline and, for DIG, the same lists of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import pathlens as pl
from benchmarks.captum_loop import CaptumLoop
from benchmarks.measure import EQUAL, Row, alternate, in_turns, largest_difference, row
from benchmarks.texts import of_length, sentences
from pathlens.path.words.options import PRESETS
from pathlens.path.words.store import PathCache
from pathlens.text.adapter import Request
from pathlens.text.load import load
from tests.support.twins.gradients import sequential_differences

ABLATIONS = (1, 8, 32)  # captum's perturbations_per_eval: 1 is its default
ROUNDING = 1e-6  # of the output: an exact telescoping sum of float32 outputs has this error, and no other


def sig(quick: bool) -> list[Row]:
    """Token scores: S + 1 forward passes, against S integrals of 50 gradients each."""
    from tint.attr import SequentialIntegratedGradients

    model = load("sentiment")
    captum = CaptumLoop(model)
    theirs = SequentialIntegratedGradients(captum.logits)
    text = of_length(model, 10 if quick else 24)

    def package() -> np.ndarray:
        end, start, mask = captum.ends([text])
        with torch.no_grad():
            target = int(captum.logits(end, mask).argmax())
        results = theirs.attribute(
            end, start, target=target, additional_forward_args=(mask,), n_steps=50
        )  # its own default rule
        return results.detach().sum(-1)[0].numpy()

    explainer = pl.Explainer(model, method="sig", check=False)
    with model.quiet():
        explainer(text)
        both = alternate(1 if quick else 3, lambda: explainer(text), package)
        case = model.case(text, request=Request())
        exact = sequential_differences(
            lambda point: case.score(point[None], [case])[0], case.ends.start, case.ends.end
        ).numpy()
    output = both.ours.certificate.f_input
    return [
        row(
            f"SIG token scores, {len(both.ours.tokens)} tokens",
            "time-interpret, 50 steps",
            goal=60.0,
            ours=both.ours_seconds,
            theirs=both.theirs_seconds,
            errors=(largest_difference(both.ours.scores, exact), largest_difference(both.theirs, exact)),
            holds=largest_difference(both.ours.scores, exact) <= ROUNDING * max(1.0, abs(output)),
            why="one forward pass per token against 50 gradients per token, each worth two forward passes, would give "
            "100; the rest is what a call costs besides",
            note="errors are largest differences from the output's own changes; ours is rounding: a batch of other "
            "shape multiplies in another order",
        )
    ]


def ablation(quick: bool) -> list[Row]:
    """SIG's token scores are leave-one-out differences: captum's FeatureAblation gives the same, at its quickest setting."""
    from captum.attr import FeatureAblation

    model = load("sentiment")
    captum = CaptumLoop(model)
    theirs = FeatureAblation(captum.logits)
    explainer = pl.Explainer(model, method="sig", check=False)

    def package(texts: Sequence[str], at_once: int) -> list[np.ndarray]:
        results = []
        for text in texts:
            end, start, mask = captum.ends([text])
            with torch.no_grad():
                target = int(captum.logits(end, mask).argmax())
                scores = theirs.attribute(
                    end,
                    start,
                    target=target,
                    additional_forward_args=(mask,),
                    feature_mask=torch.arange(end.shape[1])[None, :, None],
                    perturbations_per_eval=at_once,
                )
            results.append(scores[0, :, 0].numpy())
        return results

    work = {f"{count} tokens": [of_length(model, count)] for count in ((10,) if quick else (8, 24, 48))}
    work |= {"4 SST-2 sentences" if quick else "20 SST-2 sentences": list(sentences()[: 4 if quick else 20])}
    rows = []
    for name, texts in work.items():
        with model.quiet():
            explainer(texts), package(texts[:1], 8)  # both warm
            spent, results = in_turns(
                1 if quick else 5,
                lambda texts=texts: explainer(texts),
                *(lambda texts=texts, n=n: package(texts, n) for n in ABLATIONS),
            )
        best = int(np.argmin(spent[1:]))
        apart = max(
            largest_difference(our_result.scores, other)
            for our_result, other in zip(results[0], results[1 + best], strict=True)
        )
        rows.append(
            row(
                f"SIG token scores, {name}",
                f"captum's FeatureAblation, perturbations_per_eval = {ABLATIONS[best]}, the quickest of {ABLATIONS}",
                goal=1.0,
                ours=spent[0],
                theirs=spent[1 + best],
                errors=(apart, apart),
                holds=apart <= ROUNDING * 10,
                why="both sides take one forward pass a token; what a call costs besides decides short texts",
                note=f"errors are the largest difference between both; one perturbation at a time (captum's default) takes "
                f"{spent[1] / spent[0]:.2f} times ours",
            )
        )
    return rows


class KnownNeighbours:
    """What time-interpret expects of a sparse graph, for the words a path meets; found beforehand, not timed."""

    def __init__(self, table: np.ndarray, count: int) -> None:
        self.table, self.count = table, count
        self.known: dict[int, np.ndarray] = {}

    def __getitem__(self, word: int) -> KnownNeighbours.Entry:
        if word not in self.known:
            distance = ((self.table - self.table[word]) ** 2).sum(axis=1)
            distance[word] = np.inf  # as in scikit-learn's graph, which the authors use
            self.known[word] = np.argsort(distance, kind="stable")[: self.count]
        return self.Entry(self.known[word])

    class Entry:
        def __init__(self, near: np.ndarray) -> None:
            self.col, self.data = near, np.zeros(len(near))

        def tocoo(self) -> KnownNeighbours.Entry:
            return self


def dig(quick: bool) -> list[Row]:
    """Authors' settings (greedy, m = 30, K = 500, f = 1) and their left sum; path search included on both sides.

    time-interpret looks neighbours up in a graph that its users compute once for the whole table. On both sides the
    neighbours of the words met are found before the clock starts, and every path is searched inside it.
    """
    from tint.attr import DiscretetizedIntegratedGradients
    from tint.attr.models import scale_inputs

    model = load("sentiment")
    captum = CaptumLoop(model)
    settings = PRESETS["dig-greedy"]
    text = of_length(model, 6 if quick else 14)
    table = captum.embedding.weight.detach().double().numpy()
    graph = KnownNeighbours(table, settings.neighbours)
    words = {word: model.tokenizer.convert_tokens_to_ids(word) for word in ("[CLS]", "[SEP]")}
    theirs = DiscretetizedIntegratedGradients(captum.logits)

    def package() -> np.ndarray:
        ids = model.tokenizer(text)["input_ids"]
        baseline = [i if i in words.values() else model.tokenizer.mask_token_id for i in ids]
        path = scale_inputs(
            ids,
            baseline,
            "cpu",
            (words, table, graph),
            steps=settings.steps,
            factor=settings.factor,
            strategy=settings.strategy,
        )
        mask = torch.ones(1, len(ids), dtype=torch.long)
        with torch.no_grad():
            target = int(captum.logits(path[-1:], mask).argmax())
        results = theirs.attribute(path, target=target, additional_forward_args=(mask,), n_steps=len(path))
        return results.detach().sum(-1).reshape(-1, len(ids)).sum(0).numpy()

    cache = PathCache(capacity=0)  # keeps neighbours, and no paths: every path is searched anew

    def ours(cache: PathCache | None) -> Any:
        return pl.explain(model, text, method="dig", preset="dig-greedy", rule="left", cache=cache, check=False)

    with model.quiet():
        package(), ours(cache)  # both find their neighbours
        rounds = 1 if quick else 3
        (warm, cold, other), (mine, _, theirs_found) = in_turns(
            rounds, lambda: ours(cache), lambda: ours(None), package
        )
        best = pl.explain(model, text, method="dig", preset="dig-greedy")
    apart = largest_difference(mine.scores, theirs_found) / float(np.abs(theirs_found).max())
    tokens = len(mine.tokens)
    errors = (largest_difference(mine.scores, best.scores), largest_difference(theirs_found, best.scores))
    note = "errors are of the papers' left sum, which both take, against the integral along the same path"
    return [
        row(
            f"DIG, authors' settings, left rule, {tokens} tokens, neighbours known",
            f"time-interpret, neighbours known; scores equal to {apart:.0e} of the largest",
            goal=10.0,
            ours=warm,
            theirs=other,
            errors=errors,
            holds=apart < EQUAL,
            note=note,
            why="the gradients along the path, the same on both sides, are most of our time; the graph of neighbours, which "
            "their users compute for the whole table, is not counted",
        ),
        row(
            f"DIG, the same, our neighbours searched in the whole table in this very call, {tokens} tokens",
            "time-interpret, neighbours known (its users compute them for the whole table beforehand)",
            goal=None,
            ours=cold,
            theirs=other,
            errors=errors,
        ),
    ]
