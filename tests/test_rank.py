"""Vectors once per text: pairs from them are the same pairs, rankings add up, and files are whole or refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.text.load import load
from pathlens.text.sentence import SentenceEncoder
from tests import models

QUERY = "a funny film"
DOCUMENTS = ["the movie was really funny .", "a man plays guitar .", "it is a great plot", "a funny movie"]


@pytest.fixture(scope="module")
def model():
    return load(models.encoder("bert"))


@pytest.fixture(scope="module")
def vectors(model):
    return pl.encode(model, DOCUMENTS, tolerance=1e-4)


def test_a_pair_from_vectors_is_the_pair_itself(model, vectors):
    direct = pl.explain(model, DOCUMENTS[0], DOCUMENTS[1], tolerance=1e-4)
    product = vectors.pair(0, 1)
    assert np.abs(direct.full_matrix - product.full_matrix).max() < 1e-4
    assert product.tokens_a == direct.tokens_a and product.similarity == pytest.approx(
        direct.similarity, abs=1e-6
    )
    dot = vectors.pair(0, 1, similarity="dot")
    assert dot.full_matrix.sum() == pytest.approx(dot.similarity, rel=1e-3)


def test_saved_vectors_come_back_identical(vectors, model, tmp_path):
    again = pl.Vectors.load(vectors.save(tmp_path / "texts.safetensors"), model)
    assert again.texts == vectors.texts and dict(again.header) == dict(vectors.header)
    for a, b in zip(vectors, again, strict=True):
        assert a.tokens == b.tokens and a.offsets == b.offsets
        for name in ("vectors", "reference", "embedding", "error"):
            assert np.array_equal(getattr(a, name), getattr(b, name)), name


def test_damaged_or_foreign_files_are_refused(vectors, tmp_path):
    path = vectors.save(tmp_path / "texts.safetensors")
    whole = path.read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]  # nothing half written is left beside it
    for cut in (3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(pl.PathlensError, match="damaged"):
            pl.Vectors.load(path)
    for place in (len(whole) - 7, whole.index(b"funny")):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(pl.PathlensError, match="damaged"):
            pl.Vectors.load(path)
    path.write_bytes(whole)
    with pytest.raises(pl.InputError, match="another model"):
        pl.Vectors.load(path, load(models.encoder("roberta")))


def test_vectors_of_two_models_do_not_mix(vectors):
    other = pl.encode(load(models.encoder("electra")), ["a plot"], n_steps=2)
    with pytest.raises(pl.InputError, match="do not go together"):
        vectors.pair(0, 0, other)


def test_ranking_orders_explains_and_adds_up(model):
    ranking = pl.rank(model, QUERY, DOCUMENTS)
    scores = [hit.score for hit in ranking]
    assert scores == sorted(scores, reverse=True) and {hit.document for hit in ranking} == {0, 1, 2, 3}
    for hit in ranking:
        assert hit.explanation.certificate.converged
        assert hit.explanation.full_matrix.sum() == pytest.approx(hit.score, abs=1e-3)
        assert hit.text == DOCUMENTS[hit.document]
    why = ranking.why(0, 3)
    assert why.similarity == pytest.approx(scores[0] - scores[3])
    assert why.target.endswith("place 1 minus place 4"), "counted from 1, as on every picture"
    assert why.full_matrix.sum() == pytest.approx(scores[0] - scores[3], abs=1e-3)
    first, last = ranking[0].explanation, ranking[3].explanation
    count = len(first.tokens_b)
    assert np.array_equal(why.matrix[:, :count], first.matrix) and np.array_equal(
        why.matrix[:, count:], -last.matrix
    )
    assert why.words().full_matrix.sum() == pytest.approx(why.full_matrix.sum(), abs=1e-9)
    json.dumps(ranking.to_dict())


def test_one_sided_reading_needs_no_integral_of_the_query(model):
    full, single = (
        pl.rank(model, QUERY, DOCUMENTS, tolerance=1e-4, one_sided=flag) for flag in (False, True)
    )
    for a, b in zip(full, single, strict=True):
        assert a.document == b.document
        columns = a.explanation.full_matrix.sum(0)  # over the query's rows: V_b,j · e(query)
        assert np.abs(columns[1:] - b.explanation.scores).max() < 1e-3
        proof = b.explanation.certificate
        assert proof.converged and proof.f_baseline + proof.total == pytest.approx(b.score, abs=1e-3)
    with pytest.raises(pl.InputError, match="one-sided"):
        single.why(0, 1)


def test_encoded_documents_rank_the_same(model, vectors):
    fresh, stored = (
        pl.rank(model, QUERY, DOCUMENTS, tolerance=1e-4),
        pl.rank(model, QUERY, vectors, tolerance=1e-4),
    )
    for a, b in zip(fresh, stored, strict=True):
        assert a.document == b.document and a.score == pytest.approx(b.score, abs=1e-6)
        assert np.abs(a.explanation.full_matrix - b.explanation.full_matrix).max() < 1e-3


def test_top_integrates_only_what_is_shown(model):
    ranking = pl.rank(model, QUERY, DOCUMENTS, top=2)
    assert [hit.explanation is not None for hit in ranking] == [True, True, False, False]
    with pytest.raises(pl.InputError, match="not explained"):
        ranking.why(0, 3)


def test_long_documents_are_cut_at_sentences_on_request(model):
    model = load(models.encoder("bert"))
    model.limit = 16
    long = "the movie was good . " * 4 + "a funny film ! " + "the plot was bad . " * 3
    with pytest.raises(pl.InputError, match=r"document 1 has \d+ tokens and the model takes 16.*chunk=True"):
        pl.rank(model, QUERY, ["a plot", long])
    found = {hit.document: hit for hit in pl.rank(model, QUERY, ["a plot", long], chunk=True)}
    piece = found[1]
    assert (
        len(found) == 2
        and long[piece.start :].startswith(piece.text)
        and piece.text.rstrip().endswith((".", "!"))
    )
    assert piece.explanation.full_matrix.sum() == pytest.approx(piece.score, abs=1e-3)
    with pytest.raises(pl.InputError, match="one sentence"):
        pl.rank(model, QUERY, ["movie " * 30], chunk=True)


def test_bad_input(model):
    for call, words in [
        (lambda: pl.rank(model, QUERY, []), "list of documents is empty"),
        (lambda: pl.rank(model, QUERY, "one text"), "list of texts"),
        (lambda: pl.rank(model, QUERY, None), "list of texts"),
        (lambda: pl.encode(model, None), "list of texts"),
        (lambda: pl.rank(model, "", DOCUMENTS), "empty"),
        (lambda: pl.rank(model, QUERY, [*DOCUMENTS, " "]), "text 4"),
        (lambda: pl.rank(model, QUERY, DOCUMENTS, top=0), "at least 1"),
        (lambda: pl.encode(model, []), "empty"),
        (lambda: pl.encode(model, "one"), "list of texts"),
        (lambda: pl.rank(load(models.classifier("bert")), QUERY, DOCUMENTS), "sentence encoders"),
    ]:
        with pytest.raises(pl.InputError, match=words):
            call()


def test_any_collection_of_texts_is_a_list(model):
    wanted = [hit.score for hit in pl.rank(model, QUERY, DOCUMENTS, n_steps=2)]
    for texts in (tuple(DOCUMENTS), np.array(DOCUMENTS), (text for text in DOCUMENTS)):
        assert [hit.score for hit in pl.rank(model, QUERY, texts, n_steps=2)] == wanted


def test_a_document_of_length_zero_is_named():
    body, tokenizer = models.encoder("bert")
    encoder = SentenceEncoder(body, tokenizer)
    plain = encoder.head
    encoder.head = lambda states, mask, cases: (
        plain(states, mask, cases) * torch.tensor([[float(case.texts[0] != "great !")] for case in cases])
    )
    with pytest.raises(pl.PathlensError, match=r"document 1: .*length zero.*similarity='dot'"):
        pl.rank(encoder, QUERY, [DOCUMENTS[0], "great !"], n_steps=2)
    found = pl.rank(encoder, QUERY, [DOCUMENTS[0], "great !"], n_steps=2, similarity="dot")
    assert [hit.score for hit in found if hit.document == 1] == [0.0]
