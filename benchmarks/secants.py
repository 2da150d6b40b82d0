"""Secants beside the integrals they stand in for: captum's IG at 1e-3, a plain pass, the paper's Jacobians, our own.

The methods are different ones, so no equality of scores is claimed; the error of a secant row is its largest relative gap,
that of an integral its largest error as in its own row.
"""

from __future__ import annotations

from typing import Any

import torch

import pathlens as pl
from benchmarks.generators import PASSAGE, PROMPTS, TOLERANCE, CaptumNext, steps_needed
from benchmarks.gradients import WITHIN, hundred_sentences
from benchmarks.measure import EQUAL, Row, alternate, in_pieces, in_turns, largest_difference, row
from benchmarks.siamese import AGAINST, SENTENCE, A, B, paper_pair
from pathlens.text.adapter import Request
from pathlens.text.load import load

PAPER = 50  # nodes of Moeller, Nikolaev and Padó
QUERY = "Who plans the garden?"
NOTE = "errors of secant rows are relative gaps: another method is timed, no scores are compared"


def worst_gap(results: list[Any]) -> float:
    return max(result.certificate.relative_gap for result in results)


def classifier(quick: bool) -> list[Row]:
    """100 SST-2 sentences: one pass each, against captum with as many nodes as its worst text needs."""
    model, captum, exact, n, pieces = hundred_sentences(quick)
    texts = [text for piece in pieces for text in piece]
    ours, ig = pl.Explainer(model, method="secant", check=False), pl.Explainer(model, method="ig", check=False)
    with model.quiet():
        ours(texts[0]), ig(texts[0]), captum.one_by_one(texts[:1], 8)
        spent, results = in_pieces(
            pieces,
            lambda some: ours(list(some)),
            lambda some: captum.one_by_one(some, n),
            lambda some: ig(list(some)),
            rounds=1 if quick else 3,
        )
    gap = worst_gap(results[0])
    work = f"secants, {len(texts)} SST-2 sentences"
    errors = (gap, float(exact.errors(results[1]).max()))
    return [
        row(work, f"captum's IG one by one, n_steps = {n}: the smallest that brings its worst text within {WITHIN:g}",
            goal=25.0, ours=spent[0], theirs=spent[1], errors=errors, holds=gap <= 1e-5, note=NOTE),
        row(work, "our IG at its default tolerance", goal=None, ours=spent[0], theirs=spent[2],
            errors=(gap, float(exact.errors([result.scores for result in results[2]]).max())), note=NOTE),
    ]  # fmt: skip


def generator(quick: bool) -> list[Row]:
    """A prompt of 64 tokens on `smollm`: captum's IG within 1e-3, and one plain forward and backward pass."""
    model = load("smollm")
    captum, prompt = CaptumNext(model), PROMPTS[0] if quick else PASSAGE
    ours = pl.Explainer(model, method="secant", score="prob", check=False)
    with model.quiet():
        count = len(model.tokenizer(prompt)["input_ids"])
        same = model.case(prompt, request=Request(layer=model.default_layer))
        whole = model.case(prompt, request=Request(layer=0))
        gaps: dict[int, float] = {}

        def gap_of(steps: int) -> float:
            if steps not in gaps:
                gaps[steps] = captum.same_path(same, steps)[1]
            return gaps[steps]

        n = steps_needed(gap_of, TOLERANCE)
        parameters = [weight for weight in model.module.parameters() if weight.requires_grad]

        def one_pass() -> torch.Tensor:
            """The gradient by the embeddings alone, as a careful user takes it: weights need none."""
            for weight in parameters:
                weight.requires_grad_(False)
            try:
                point = whole.ends.end[None].clone().requires_grad_()
                return torch.autograd.grad(whole.score(point, [whole]).sum(), point)[0]
            finally:
                for weight in parameters:
                    weight.requires_grad_(True)

        ours(prompt), one_pass()
        (mine, theirs, plain), (result, (_, gap), _) = in_turns(
            1 if quick else 3, lambda: ours(prompt), lambda: captum.same_path(same, n), one_pass
        )
    our_gap = result.certificate.relative_gap
    work = f"secants, next token, smollm, {count} tokens"
    return [
        row(work, f"captum's IG, our layer, held token, baseline and score, n_steps = {n}: its gap within {TOLERANCE:g}",
            goal=40.0, ours=mine, theirs=theirs, errors=(our_gap, gap), holds=our_gap <= 1e-5, note=NOTE),
        row(work, "one forward and backward pass of the same prompt (times as many)", goal=4.5, ours=mine, theirs=plain,
            ratio=mine / plain, sense="at most", errors=(our_gap, None), note=NOTE),
    ]  # fmt: skip


def pairs(quick: bool) -> list[Row]:
    """Two sentences of 15 and 14 tokens on MiniLM: the paper's algorithm with 8 nodes, our `ij`, and our `vaig`."""
    model, n, rounds = load("minilm"), 2 if quick else 8, 1 if quick else 3
    secant, ij = pl.Explainer(model, method="secant", check=False), pl.Explainer(model, method="ij", check=False)
    vectors, vaig = (
        pl.Explainer(model, method="secant", gives="vectors", check=False),
        pl.Explainer(model, method="vaig", check=False),
    )
    for each in (secant, ij):
        each(A, B)
    both = alternate(rounds, lambda: secant(A, B), lambda: paper_pair(model, A, B, n))
    (mine, theirs), (result, _) = in_turns(rounds, lambda: secant(A, B), lambda: ij(A, B))
    (one, other), (vector, _) = in_turns(rounds, lambda: vectors(A), lambda: vaig(A))
    gap, vector_gap = result.certificate.relative_gap, vector.certificate.relative_gap
    size = f"{len(result.tokens_a)} and {len(result.tokens_b)} tokens"
    return [
        row(f"secants, one pair, MiniLM, {size}", f"{AGAINST}, the paper's {PAPER} nodes ({n} timed, times {PAPER / n:g})",
            goal=500.0, ours=both.ours_seconds, theirs=both.theirs_seconds * PAPER / n, errors=(gap, None),
            holds=gap <= 1e-5, note=NOTE),
        row(f"secants, one pair, MiniLM, {size}", "our `ij` at its default tolerance", goal=15.0, ours=mine, theirs=theirs,
            errors=(gap, None), holds=gap <= 1e-5, note=NOTE),
        row(f"secants, vectors of one text, MiniLM, {len(vector.tokens)} tokens", "our `vaig` at its default tolerance",
            goal=15.0, ours=one, theirs=other, errors=(vector_gap, None), holds=vector_gap <= 1e-5, note=NOTE),
    ]  # fmt: skip


def known_query(quick: bool) -> list[Row]:
    """A query that is known and a long hit, token × token: a pass backwards for each row of the query, or a push for
    each token of the hit."""
    model, rows = load("minilm"), []
    for method in ("secant", "ij"):
        for sentences in (1,) if quick else (1, 4, 10):
            hit, n = SENTENCE * sentences, None if method == "secant" else 4
            choices = {"method": method, "n_steps": n} if n else {"method": method}
            backwards = lambda hit=hit, choices=choices: pl.why(model, QUERY, [hit], pairs=True, **choices)  # noqa: E731
            pushes = lambda hit=hit, choices=choices: pl.explain(model, QUERY, hit, check=False, **choices)  # noqa: E731
            backwards(), pushes()
            both = alternate(1 if quick else 3, backwards, pushes)
            seen, whole = both.ours[0].explanation, both.theirs
            apart = largest_difference(seen.full_matrix, whole.full_matrix) / float(abs(whole.full_matrix).max())
            sizes = f"{len(whole.tokens_a)} and {len(whole.tokens_b)} tokens"
            rows.append(
                row(f"{method} with a known query, token × token, MiniLM, {sizes}: passes backwards, one a row of the query",
                    f"pushes, one a token of the hit; matrices equal to {apart:.0e} of the largest entry", goal=None,
                    ours=both.ours_seconds, theirs=both.theirs_seconds, errors=(apart, 0.0), holds=apart < EQUAL,
                    note="errors of the rows with a known query are differences from the matrix by pushes")
            )  # fmt: skip
    return rows
