"""Why is this hit here: the shares add up to the model's own similarity, whatever the hits looked like."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import pathlens as pl
from pathlens.text.load import load
from pathlens.text.sentence import SentenceEncoder
from pathlens.text.shifted import Shifted
from pathlens.vectors.why import FORMS
from tests.support import models

QUERY = "a funny film"
TEXTS = ["the movie was really funny .", "a man plays guitar . it is great !", "it is a great plot"]


@pytest.fixture(scope="module")
def model():
    return load(models.encoder("bert"))


def cosines(model) -> list[float]:
    vectors = pl.encode(model, [QUERY, *TEXTS], method="secant")
    return [vectors.pair(0, k + 1).similarity for k in range(len(TEXTS))]


@pytest.mark.parametrize(
    "choices", [{}, {"similarity": "dot"}, {"norm": "inside"}, {"baseline": "pad"}, {"unit": "word"}]
)
def test_shares_add_up_in_the_hits_own_order(model, choices):
    hits = pl.why(model, QUERY, TEXTS, **choices)
    assert [hit.text for hit in hits] == TEXTS
    for hit, text in zip(hits, TEXTS, strict=True):
        proof = hit.certificate
        assert proof.converged and proof.f_baseline + hit.scores.sum() == pytest.approx(
            hit.similarity, rel=1e-5, abs=1e-5
        )
        pair = pl.explain(model, QUERY, text, method="secant", **{k: v for k, v in choices.items() if k != "unit"})
        assert hit.similarity == pytest.approx(pair.similarity, rel=1e-6, abs=1e-6)
        for token, (start, end), special in zip(hit.tokens, hit.spans, hit.explanation.special, strict=True):
            assert special or text[start:end] == token


def test_one_pass_backwards_gives_what_the_columns_of_the_matrix_sum_to(model):
    one, both = pl.why(model, QUERY, TEXTS), pl.why(model, QUERY, TEXTS, pairs=True)
    for single, pair in zip(one, both, strict=True):
        assert np.abs(single.scores - pair.scores).max() < 1e-5
        assert pair.matrix.shape == (len(pair.explanation.tokens_a), len(pair.tokens))
        assert pair.explanation.core + pair.explanation.rest == pytest.approx(pair.similarity, abs=1e-5)
    with pytest.raises(pl.InputError, match="ask for pairs"):
        _ = one[0].matrix


@pytest.mark.parametrize("method", ["secant", "ij"])
def test_rows_backwards_give_the_matrix_that_pushes_give(model, method):
    """A hit with more units than the query has rows goes by passes backwards; `explain` always pushes."""
    long = " . ".join(TEXTS)
    hit = pl.why(model, "funny", [long], pairs=True, method=method, tolerance=1e-6).hits[0]
    pushed = pl.explain(model, "funny", long, method=method, tolerance=1e-6)
    assert len(hit.tokens) > 2 * len(hit.explanation.tokens_a)  # so that it did go backwards
    assert np.abs(hit.explanation.full_matrix - pushed.full_matrix).max() < 1e-5


def test_hits_as_stores_give_them(model):
    mixed = [
        TEXTS[0],
        (TEXTS[0], 0.5),
        {"text": TEXTS[0], "_distance": 0.5, "vector": [1.0]},
        SimpleNamespace(page_content=TEXTS[0], metadata={"score": 0.5}),
        (SimpleNamespace(page_content=TEXTS[0], metadata={}), 0.5),
        SimpleNamespace(node=SimpleNamespace(text=TEXTS[0]), score=0.5),
        {"payload": {"text": TEXTS[0]}, "score": 0.5},
        {"_source": {"content": TEXTS[0]}, "_score": 0.5},
    ]
    hits = pl.why(model, QUERY, mixed)
    assert {hit.text for hit in hits} == {TEXTS[0]} and [hit.given for hit in hits] == [None, *[0.5] * 7]
    assert len({round(hit.similarity, 6) for hit in hits}) == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_stores_score_is_known_for_what_it_is_and_a_foreign_one_is_named(model, form):
    expected = cosines(model)
    scores = [float(FORMS[form](value)) for value in expected]
    agree = pl.why(model, QUERY, list(zip(TEXTS, scores, strict=True)))
    assert not any("the store says" in note for hit in agree for note in hit.notes)
    scores[1] += 0.2
    changed = pl.why(model, QUERY, list(zip(TEXTS, scores, strict=True)))
    named = [any("the store says" in note for note in hit.notes) for hit in changed]
    assert named == [False, True, False] and changed.meta["given"] == agree.meta["given"]


def test_why_one_stands_above_another_is_the_difference(model):
    for pairs in (False, True):
        hits = pl.why(model, QUERY, TEXTS, pairs=pairs)
        reason = hits.why(0, 1)
        assert reason.certificate.f_input == pytest.approx(hits[0].similarity - hits[1].similarity, abs=1e-6)
        assert reason.certificate.converged and reason.certificate.gap < 1e-5
    single = pl.why(model, QUERY, TEXTS).why(0, 1)
    text = single.meta["texts"][0]
    assert text == f"{TEXTS[0]}\n{TEXTS[1]}"
    for token, (start, end), special in zip(single.tokens, single.offsets, single.special, strict=True):
        assert special or text[start:end] == token


def test_sentences_of_a_passage_share_its_score(model):
    (hit,) = pl.why(model, QUERY, [TEXTS[1]])
    assert [TEXTS[1][start:end].strip() for start, end, _ in hit.sentences] == ["a man plays guitar .", "it is great !"]
    assert sum(score for *_, score in hit.sentences) == pytest.approx(hit.scores.sum(), abs=1e-9)
    border = TEXTS[1].index("it is")
    first = sum(score for (start, end), score in zip(hit.spans, hit.scores, strict=True) if start < end <= border)
    assert hit.sentences[0][2] == pytest.approx(first, abs=1e-9), "a word counts to the sentence it begins"


def test_alone_or_among_others_a_hit_reads_the_same(model):
    together = pl.why(model, QUERY, TEXTS)
    for hit, text in zip(together, TEXTS, strict=True):
        assert np.abs(pl.why(model, QUERY, [text])[0].scores - hit.scores).max() < 1e-6


def test_a_shifted_encoder_has_its_own_similarity(model):
    shifted = Shifted(SentenceEncoder(*models.encoder("bert")))
    (hit,) = pl.why(shifted, QUERY, TEXTS[:1])
    pair = pl.explain(shifted, QUERY, TEXTS[0], method="secant")
    assert hit.similarity == pytest.approx(pair.similarity, abs=1e-5)
    assert hit.scores.sum() == pytest.approx(hit.similarity, abs=1e-5)  # its reference is nothing


@pytest.mark.parametrize(
    ("hits", "message"),
    [
        ([], "list of hits is empty"),
        ("one text", "got one string"),
        ([TEXTS[0], " "], "hit 1 has an empty text"),
        ([TEXTS[0], 7], "hit 1 is a int with no text"),
        ([{"vector": [1.0]}], "hit 0 is a dict with no text"),
        ([(TEXTS[0], float("nan"))], "hit 0 has the score nan"),
    ],
)
def test_hits_that_cannot_be_read_are_named(model, hits, message):
    with pytest.raises(pl.InputError, match=message):
        pl.why(model, QUERY, hits)


def test_a_hit_that_is_too_long_is_cut_as_the_store_did(model):
    long = " ".join(["funny"] * 600)
    (hit,) = pl.why(model, QUERY, [long])
    assert len(hit.tokens) <= model.limit and any("cut" in note or "trunc" in note for note in hit.notes)
    assert hit.certificate.converged
