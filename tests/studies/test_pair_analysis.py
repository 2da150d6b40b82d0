"""Analyses over many pairs, on matrices whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

import pathlens as pl
from experiments.pair_statistics import agreement, error_by_nodes, relations, tag_class, top_share
from pathlens.explanation import reduce
from pathlens.text.load import load
from tests.support import models


def made(matrix, texts=("dogs run", "cats eat")) -> pl.PairExplanation:
    """A result with a given token × token matrix, nothing at the reference."""
    matrix = np.array(matrix, dtype=float)
    tokens = [text.split() for text in texts]
    offsets = [tuple((text.index(word), text.index(word) + len(word)) for word in text.split()) for text in texts]
    total = float(matrix.sum())
    proof = pl.Certificate(total, 0.0, total, 0.0, 0.0, 1e-3, True, 1, 1, kind="matrix")
    return pl.PairExplanation(
        method="ij",
        target="cosine similarity",
        certificate=proof,
        meta={"texts": list(texts), "unit": "word"},
        tokens_a=tuple(tokens[0]),
        tokens_b=tuple(tokens[1]),
        offsets_a=offsets[0],
        offsets_b=offsets[1],
        full_matrix=np.pad(matrix, ((1, 0), (1, 0))),
        similarity=total,
        special_a=(False,) * len(tokens[0]),
        special_b=(False,) * len(tokens[1]),
    )


def test_top_share_can_exceed_one_and_counts_negatives():
    share = top_share([made([[0.8, 0.2], [-0.5, 0.1]])] * 3, percent=25)
    assert share["of_prediction"] == pytest.approx(0.8 / 0.6)
    assert share["of_positive"] == pytest.approx(0.8 / 1.1)
    assert share["negative"] == pytest.approx(0.25)
    with pytest.raises(pl.InputError, match="no pairs"):
        top_share([])


def test_relations_name_what_is_on_top():
    def tag(text):
        first = text.split()[0]
        return [(0, len(first), "NNS"), (len(first) + 1, len(text), "VBP")]

    rows = relations([made([[0.9, 0.1], [0.2, 0.3]])], tag, percent=25)
    assert rows[0] == {"relation": "NN–NN", "share": 1.0, "base": 0.25, "lift": 4.0}
    assert {row["relation"]: row["base"] for row in rows}["NN–VB"] == 0.5
    assert tag_class("PRP$") == "PR" and tag_class("VBG") == "VB" and tag_class("UH") == "other"


def test_agreement_ignores_scale():
    a = made([[0.9, 0.1], [0.2, 0.3]])
    assert agreement([a], [made(3 * a.matrix)]) == pytest.approx(1)
    assert agreement([a], [made(-a.matrix)]) == pytest.approx(-1)


@pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
def test_error_falls_with_nodes_and_with_depth():
    model = load(models.encoder("bert"))
    texts = [("the movie was not really funny", "a great plot !")]
    rows = error_by_nodes(lambda **choices: pl.Explainer(model, **choices), texts, (0, 3), (2, 16), ("gauss", "right"))
    error = {(row["layer"], row["rule"], row["nodes"]): row["worst_error"] for row in rows}
    assert error[0, "gauss", 16] < error[0, "gauss", 2]
    assert error[0, "gauss", 16] < error[0, "right", 16]
    assert error[3, "gauss", 2] < 1e-5  # only pooling is left: linear, exact at once


def test_shares_read_who_speaks_to_whom_and_links_are_mutual():
    matrix = np.array([[0.9, 0.3, -0.2], [0.3, 0.2, 0.0], [0.0, 0.0, -0.1]])
    result = reduce.shares(matrix)
    slow = np.zeros((3, 3))
    for i, j in np.ndindex(3, 3):
        row, column = (sum(max(x, 0) for x in line) for line in (matrix[i], matrix[:, j]))
        slow[i, j] = max(matrix[i, j], 0) / (row * column) ** 0.5 if row * column > 0 else 0
    np.testing.assert_allclose(result, slow)
    assert result.min() == 0 and result.max() <= 1
    assert reduce.shares(np.diag([5.0, 0.01])).tolist() == [[1, 0], [0, 1]]  # no rival: weak or strong, all of it
    assert reduce.mutual(matrix, 0.0) == [(0, 0)]  # a strong word is everyone's best
    assert reduce.mutual(result, 0.0) == [(0, 0), (1, 1)]  # what is left of the second belongs to its own
    assert reduce.mutual(np.diag([5.0, 0.01]), 1.0) == [(0, 0)] and reduce.mutual(np.zeros((0, 2)), 0.0) == []


def test_links_of_a_pair_are_its_own_tokens():
    pair = pl.explain("minilm", "A man plays a guitar.", "Someone makes music.", method="secant", unit="word")
    for by in ("share", "sum"):
        links = pair.links(by=by)
        assert ("guitar", "music") in [link[:2] for link in links] and len(links) == len({a for a, *_ in links})
    assert pair.shares().shape == pair.matrix.shape
    with pytest.raises(pl.InputError, match="by must be"):
        pair.links(by="luck")
