"""Integrated Jacobians beside the paper's algorithm: same model, same nodes, same run.

`python -m benchmarks.siamese` (about ten minutes of one core; --quick: two). One thread, CPU seconds, the sides take
turns and medians of three rounds are compared. The opponent is the algorithm of Moeller, Nikolaev and Padó at its
best: all nodes of a text in one batch, weights without gradients, one reverse pass per embedding coordinate. For 100
documents it is run on a few pairs and multiplied: every pair costs it the same.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

import pathlens as pl
from benchmarks.measure import EQUAL, Row, alternate, largest_difference, row
from benchmarks.subprocess_run import measured
from pathlens.quadrature import rule
from pathlens.text.adapter import Case, Request
from pathlens.text.load import load
from tests.support.twins.jacobians import vectors_by_coordinate

A = "A man with a hard hat is dancing on the street today."
B = "The person wearing a big helmet dances outside in the sun ."
WORDS = ("man", "woman", "child", "dog", "chef", "nurse", "pilot", "farmer", "singer", "clerk")
DEEDS = ("plays a guitar", "cooks some rice", "rides a bike", "reads a paper", "paints a wall")
PLACES = ("in the garden", "near the old bridge")
SENTENCE = "The committee met again on Monday to discuss the new plan for the town library and its garden. "
SENTENCES, FEW = 21, 3
AGAINST = "k reverse passes over the same nodes"
FINE = 64  # nodes of the matrices that errors are measured against
ERRORS = "errors of the ij rows are largest differences from {} nodes: both sides take the same few"


def paper_vectors(case: Case, n: int) -> Tensor:
    """V (S, k) by the tests' slow twin."""
    nodes = rule("gauss")(n)
    embed = lambda points: case.score(points, [case] * len(points))[:, 0]  # noqa: E731
    return vectors_by_coordinate(embed, case.ends.start, case.ends.end, nodes.t, nodes.weight)


def paper_pair(model: Any, a: str, b: str, n: int) -> np.ndarray:
    """A (S_a, S_b) under the cosine."""
    cases = [model.case(text, request=Request(vector=True)) for text in (a, b)]
    first, second = (paper_vectors(case, n) for case in cases)
    with torch.no_grad():
        lengths = [float(case.score(case.ends.end[None], [case]).norm()) for case in cases]
    return (first @ second.T).numpy() / (lengths[0] * lengths[1])


def one_pair(model: Any, n: int, rounds: int, fine: int = FINE) -> Row:
    pl.explain(model, A, B, method="ij", n_steps=2)  # warm up
    both = alternate(
        rounds, lambda: pl.explain(model, A, B, method="ij", n_steps=n, check=False), lambda: paper_pair(model, A, B, n)
    )
    sizes = f"{len(both.ours.tokens_a)} and {len(both.ours.tokens_b)} tokens, {n} nodes"
    exact = pl.explain(model, A, B, method="ij", n_steps=fine).matrix
    apart = largest_difference(both.ours.matrix, both.theirs) / float(np.abs(exact).max())
    return row(
        f"one pair, MiniLM, {sizes}",
        f"{AGAINST}; matrices equal to {apart:.0e} of the largest entry",
        goal=20.0,
        ours=both.ours_seconds,
        theirs=both.theirs_seconds,
        errors=(largest_difference(both.ours.matrix, exact), largest_difference(both.theirs, exact)),
        holds=apart < EQUAL,
        note=ERRORS.format(fine),
    )


def a_hundred(model: Any, n: int, count: int, sample: int, rounds: int, fine: int = FINE) -> Row:
    documents = [f"The {w} {d} {p} every day." for w in WORDS for d in DEEDS for p in PLACES][:count]
    query = "Who is making music outside in the park these days?"
    both = alternate(
        rounds,
        lambda: pl.rank(model, query, documents, n_steps=n),
        lambda: [paper_pair(model, query, text, n) for text in documents[:sample]],
    )
    matrices = {hit.document: hit.explanation.matrix for hit in both.ours}
    exact = [pl.explain(model, query, text, method="ij", n_steps=fine).matrix for text in documents[:sample]]
    largest = max(float(np.abs(matrix).max()) for matrix in exact)
    apart = max(largest_difference(matrices[i], matrix) for i, matrix in enumerate(both.theirs)) / largest
    errors = [
        max(largest_difference(matrix, exact[i]) for i, matrix in enumerate(side))
        for side in ([matrices[i] for i in range(sample)], both.theirs)
    ]
    times = f"{sample} pairs measured, times {count / sample:g}"
    return row(
        f"a query and {count} documents, MiniLM, {n} nodes",
        f"{AGAINST} ({times}); matrices equal to {apart:.0e} of the largest entry",
        goal=40.0,
        ours=both.ours_seconds,
        theirs=both.theirs_seconds * count / sample,
        errors=(errors[0], errors[1]),
        holds=apart < EQUAL,
        note=ERRORS.format(fine),
    )


def long_document(n: int, rounds: int) -> list[Row]:
    """A document of 400 tokens by sentence: extra memory, and cost against the number of units."""
    from sentence_transformers import SentenceTransformer

    from pathlens.text.builtin import minilm_folder
    from pathlens.text.sentence import SentenceTransformerEncoder

    body = SentenceTransformer(str(minilm_folder()), device="cpu")
    body.max_seq_length = 512
    model = SentenceTransformerEncoder(body, name="minilm, 512 tokens")
    document = (SENTENCE * SENTENCES).strip()
    pl.explain(model, A, B, method="ij", n_steps=2)
    call = {"text": document, "text_b": A, "choices": {"n_steps": n, "unit": "sentence"}}
    extra = measured("minilm", [call])[0]["peak"] / 2**30
    width, step = len(SENTENCE), SENTENCES // FEW
    few = [(i * width, min((i + step) * width, len(document))) for i in range(0, SENTENCES, step)]
    both = alternate(
        rounds,
        lambda: pl.explain(model, document, A, method="ij", n_steps=n, check=False, unit="sentence"),
        lambda: pl.explain(model, document, A, method="ij", n_steps=n, check=False, unit=(few, "sentence")),
    )
    tokens = len(model.tokenizer(document)["input_ids"])
    units = len(both.ours.tokens_a) - 2
    spent, fewer = both.ours_seconds, both.theirs_seconds
    work = f"a document of {tokens} tokens by {units} sentences, {n} nodes"
    sums = tuple(abs(each.full_matrix.sum() - each.similarity) for each in (both.ours, both.theirs))
    memory = row(f"{work}: GiB of extra memory", "a budget of 2 GiB", goal=2.0, ours=spent, theirs=spent)
    share = {"ratio": (spent / units) / (fewer / FEW), "sense": "at most"}
    cost = row(
        f"{work}: cost of a unit",
        f"by {FEW} units",
        goal=1.1,
        ours=spent,
        theirs=fewer,
        errors=sums,
        **share,
        note="a long document's rows take 2 nodes, for cost and memory alone: its error is that of sums far from settled",
    )
    return [{**memory, "ratio": extra, "sense": "at most"}, cost]


def run(quick: bool = False) -> list[Row]:
    """All rows; where small is good the row says so (`sense`)."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    model = load("minilm")
    for parameter in model.module.parameters():
        parameter.requires_grad_(False)
    try:
        rounds = 1 if quick else 3
        rows = long_document(2, rounds)
        rows.append(one_pair(model, 2 if quick else 8, rounds))
        rows.append(a_hundred(model, *((2, 10, 1) if quick else (4, 100, 2)), rounds))
    finally:
        for parameter in model.module.parameters():
            parameter.requires_grad_(True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    for each in run(parser.parse_args().quick):
        print(f"{each['work']}\n  against {each['against']}")
        sense = each.get("sense", "at least")
        error = "" if each["ours_error"] is None else f"  largest difference {each['ours_error']:.1e}"
        print(
            f"  ratio {each['ratio']:.2f} (goal: {sense} {each['goal']:g})  ours {each['ours_seconds']:.2f} s  "
            f"theirs {each['theirs_seconds']:.2f} s{error}"
        )


if __name__ == "__main__":
    main()
