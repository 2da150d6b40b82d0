"""Each method beside another of the family that must give the same numbers: what law 5 compares.

A method added to the table without a relative fails the law; `relative_of(name)` binds one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import pathlens as pl
from tests.support import models
from tests.support.methods import SECOND, WORDS
from tests.support.models import TEXTS

Two = tuple[np.ndarray, np.ndarray]
RELATIVES: dict[str, Callable[[], Two]] = {}
TEXT = TEXTS[0]
FINE = {"tolerance": 1e-6}


def relative_of(name: str) -> Callable[[Callable[[], Two]], Callable[[], Two]]:
    def bind(function: Callable[[], Two]) -> Callable[[], Two]:
        RELATIVES[name] = function
        return function

    return bind


@relative_of("ig")
@relative_of("vaig")
def a_logits_vector_is_its_ig() -> Two:
    pair = models.classifier("bert")
    vectors = pl.explain(pair, TEXT, method="vaig", **FINE).vectors[0]  # (S, labels)
    return vectors, np.stack(
        [pl.explain(pair, TEXT, method="ig", target=label, **FINE).scores for label in range(3)], axis=1
    )


@relative_of("sig")
def one_word_alone_moves_as_ig_moves_it() -> Two:
    """With a single token that can move, the token's own line is the whole line."""
    pair = models.classifier("bert")
    return pl.explain(pair, "funny", method="sig").scores, pl.explain(pair, "funny", method="ig", **FINE).scores


@relative_of("dig")
def dig_is_ig_along_its_path() -> Two:
    return _along("dig")


@relative_of("udig")
def udig_is_ig_along_its_path() -> Two:
    return _along("udig")


def _along(method: str) -> Two:
    pair, options = models.classifier("bert"), {**WORDS, "rule": "gauss", "n_steps": 8}
    alone = pl.explain(pair, TEXT, method=method, **options).scores
    return alone, pl.explain(pair, TEXT, method="ig", path=method, **options).scores


@relative_of("idg")
def phrases_are_read_from_ig() -> Two:
    pair = models.classifier("bert")
    return pl.explain(pair, TEXT, method="idg", **FINE).scores, pl.explain(pair, TEXT, method="ig", **FINE).scores


@relative_of("ij")
def a_pair_is_the_product_of_two_texts_vectors() -> Two:
    """V_a V_bᵀ over the product of both lengths, the reference as row and column 0."""
    model = models.encoder()
    sides = [pl.explain(model, text, method="vaig", **FINE) for text in (TEXT, SECOND)]
    rows = [np.vstack([side.f_baseline[0], side.vectors[0]]) for side in sides]
    lengths = [np.linalg.norm(side.f_input[0]) for side in sides]
    return pl.explain(model, TEXT, SECOND, **FINE).full_matrix, rows[0] @ rows[1].T / (lengths[0] * lengths[1])


@relative_of("ih")
def rows_of_interactions_sum_to_ig() -> Two:
    pair = models.classifier("bert")
    return pl.explain(pair, TEXT, method="ih", **FINE).matrix.sum(1), pl.explain(pair, TEXT, method="ig", **FINE).scores


@relative_of("secant")
def secants_of_the_logits_are_those_of_each() -> Two:
    pair = models.classifier("bert")
    vectors = pl.explain(pair, TEXT, method="secant", gives="vectors").vectors[0]
    each = [pl.explain(pair, TEXT, method="secant", target=label).scores for label in range(3)]
    return vectors, np.stack(each, axis=1)
