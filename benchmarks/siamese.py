"""Integrated Jacobians beside the paper's algorithm: same model, same nodes, same run.

`python benchmarks/siamese.py` (about ten minutes on a busy core; --quick: two minutes). One thread, CPU seconds
(`process_time`), so that other work on the machine does not decide. The opponent is the algorithm of Moeller,
Nikolaev and Padó at its best: all nodes of a text in one batch, weights without gradients, one reverse pass per
embedding coordinate. For 100 documents it is run on a few pairs and multiplied: every pair costs it the same.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

import pathlens as pl
from pathlens.quadrature import rule
from pathlens.text.adapter import Case, Request
from pathlens.text.load import load

A = "A man with a hard hat is dancing on the street today."
B = "The person wearing a big helmet dances outside in the sun ."
WORDS = ("man", "woman", "child", "dog", "chef", "nurse", "pilot", "farmer", "singer", "clerk")
DEEDS = ("plays a guitar", "cooks some rice", "rides a bike", "reads a paper", "paints a wall")
PLACES = ("in the garden", "near the old bridge")
SENTENCE = "The committee met again on Monday to discuss the new plan for the town library and its garden. "


def paper_vectors(case: Case, n: int) -> Tensor:
    """V (S, k): the integrated Jacobian by k reverse passes, times δ, summed over each token's coordinates."""
    nodes = rule("gauss")(n)
    t = torch.tensor(nodes.t, dtype=torch.float32)[:, None, None]
    points = (case.ends.start + t * case.ends.delta).requires_grad_()
    vectors = case.score(points, [case] * n)[:, 0]
    weight = torch.tensor(nodes.weight)
    columns = []
    for k in range(vectors.shape[1]):
        (slope,) = torch.autograd.grad(vectors[:, k].sum(), points, retain_graph=True)
        columns.append(torch.einsum("n,nsd,sd->s", weight, slope.double(), case.ends.delta.double()))
    return torch.stack(columns, dim=1)


def paper_pair(model: Any, a: str, b: str, n: int) -> np.ndarray:
    """A (S_a, S_b) under the cosine."""
    cases = [model.case(text, request=Request(vector=True)) for text in (a, b)]
    first, second = (paper_vectors(case, n) for case in cases)
    with torch.no_grad():
        lengths = [float(case.score(case.ends.end[None], [case]).norm()) for case in cases]
    return (first @ second.T).numpy() / (lengths[0] * lengths[1])


def seconds(work: Any) -> tuple[float, Any]:
    start = time.process_time()
    value = work()
    return time.process_time() - start, value


def row(work: str, goal: float, ours: float, theirs: float, error: float = 0.0) -> dict[str, Any]:
    against = "k reverse passes over the same nodes"
    figures = {"ours_seconds": ours, "theirs_seconds": theirs, "ours_error": error, "theirs_error": 0.0}
    return {"work": work, "against": against, "ratio": theirs / ours, "goal": goal, **figures}


def one_pair(model: Any, n: int) -> dict[str, Any]:
    pl.explain(model, A, B, n_steps=2)  # warm up
    ours, result = seconds(lambda: pl.explain(model, A, B, n_steps=n))
    theirs, matrix = seconds(lambda: paper_pair(model, A, B, n))
    error = float(np.abs(result.matrix - matrix).max())
    sizes = f"{len(result.tokens_a)} and {len(result.tokens_b)} tokens, {n} nodes"
    return row(f"one pair, MiniLM, {sizes}", 20.0, ours, theirs, error)


def a_hundred(model: Any, n: int, count: int, sample: int) -> dict[str, Any]:
    documents = [f"The {w} {d} {p} every day." for w in WORDS for d in DEEDS for p in PLACES][:count]
    query = "Who is making music outside in the park these days?"
    ours, ranking = seconds(lambda: pl.rank(model, query, documents, n_steps=n))
    theirs, matrices = seconds(lambda: [paper_pair(model, query, text, n) for text in documents[:sample]])
    found = {hit.document: hit.explanation.matrix for hit in ranking}
    error = max(float(np.abs(found[i] - matrix).max()) for i, matrix in enumerate(matrices))
    name = f"a query and {count} documents, {n} nodes (the paper's: {sample} pairs measured, times {count / sample:g})"
    return row(name, 40.0, ours, theirs * count / sample, error)


def long_document(n: int) -> dict[str, Any]:
    """A document of 400 tokens by sentence: extra memory, and cost against the number of units."""
    from sentence_transformers import SentenceTransformer

    from pathlens.text.builtin import minilm_folder
    from pathlens.text.sentence import SentenceTransformerEncoder

    body = SentenceTransformer(str(minilm_folder()), device="cpu")
    body.max_seq_length = 512
    model = SentenceTransformerEncoder(body, name="minilm, 512 tokens")
    document = (SENTENCE * 21).strip()
    pl.explain(model, A, B, n_steps=2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spent, result = seconds(lambda: pl.explain(model, document, A, n_steps=n, unit="sentence"))
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    width = len(SENTENCE)
    few = [(i * 5 * width, min((i + 1) * 5 * width, len(document))) for i in range(5)]
    fewer, _ = seconds(lambda: pl.explain(model, document, A, n_steps=n, unit=(few, "sentence")))
    tokens = len(model.tokenizer(document)["input_ids"])
    units = len(result.tokens_a) - 2
    return {
        "work": f"a document of {tokens} tokens in {units} sentences, {n} nodes: GiB of extra memory",
        "against": f"2 GiB; CPU seconds with {units} units {spent:.1f}, with 5 units {fewer:.1f}",
        "ratio": extra,
        "goal": 2.0,
        "ours_seconds": spent,
        "theirs_seconds": fewer,
        "ours_error": 0.0,
        "theirs_error": 0.0,
    }


def run(quick: bool = False) -> list[dict[str, Any]]:
    """All rows; the ratio of the memory row is GiB used, and small is good there."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    model = load("minilm")
    for parameter in model.module.parameters():
        parameter.requires_grad_(False)
    try:
        rows = [long_document(2), one_pair(model, 2 if quick else 8)]
        rows.append(a_hundred(model, 2, 10, 1) if quick else a_hundred(model, 4, 100, 2))
    finally:
        for parameter in model.module.parameters():
            parameter.requires_grad_(True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    for each in run(parser.parse_args().quick):
        print(f"{each['work']}\n  against {each['against']}")
        print(
            f"  ratio {each['ratio']:.2f} (goal {each['goal']:g})  ours {each['ours_seconds']:.1f} s  "
            f"theirs {each['theirs_seconds']:.1f} s  largest difference {each['ours_error']:.1e}"
        )


if __name__ == "__main__":
    main()
