"""Vectors once per text: pairs from them are the same pairs, rankings add up, and files are whole or refused."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.errors import StoreError
from pathlens.text.load import load
from pathlens.text.sentence import SentenceEncoder
from pathlens.vectors.documents import passages, read_documents
from pathlens.vectors.encode import SideEncoder
from tests.support import models
from tests.support.dual_models import picture, small_clip, word_tokenizer

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
    assert product.tokens_a == direct.tokens_a and product.similarity == pytest.approx(direct.similarity, abs=1e-6)
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


def test_equal_documents_score_alike_whatever_their_place_in_a_batch():
    """A machine may round the rows of a batch differently; here they differ by more, so that they do on every machine."""
    module, words = copy.deepcopy(models.encoder("bert"))
    module.embeddings.register_forward_hook(
        lambda part, given, states: states + 1e-5 * torch.arange(len(states))[:, None, None] * states.roll(1, -1)
    )
    documents = [DOCUMENTS[1], DOCUMENTS[3], DOCUMENTS[1], DOCUMENTS[3]]
    hits = pl.rank((module, words), QUERY, documents, n_steps=2, top=1)
    assert [hit.document for hit in hits] in ([0, 2, 1, 3], [1, 3, 0, 2])
    assert hits[0].score == hits[1].score != hits[2].score == hits[3].score


def test_ranking_orders_explains_and_adds_up():
    """In float64: the documents are scored together, and explained in other batches."""
    module, words = copy.deepcopy(models.encoder("bert"))
    ranking = pl.rank((module.double(), words), QUERY, DOCUMENTS)
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
    assert np.array_equal(why.matrix[:, :count], first.matrix) and np.array_equal(why.matrix[:, count:], -last.matrix)
    assert why.words().full_matrix.sum() == pytest.approx(why.full_matrix.sum(), abs=1e-9)
    json.dumps(ranking.to_dict())


def test_one_sided_reading_needs_no_integral_of_the_query(model):
    full, single = (pl.rank(model, QUERY, DOCUMENTS, tolerance=1e-4, one_sided=flag) for flag in (False, True))
    for a, b in zip(full, single, strict=True):
        assert a.document == b.document
        columns = a.explanation.full_matrix.sum(0)  # over the query's rows: V_b,j · e(query)
        assert np.abs(columns[1:] - b.explanation.scores).max() < 1e-3
        proof = b.explanation.certificate
        assert proof.converged and proof.f_baseline + proof.total == pytest.approx(b.score, abs=1e-3)
    why = single.why(0, 1)
    assert why.certificate.f_baseline + why.scores.sum() == pytest.approx(single[0].score - single[1].score, abs=1e-3)


def test_encoded_documents_rank_the_same(model, vectors):
    fresh, stored = (pl.rank(model, QUERY, DOCUMENTS, tolerance=1e-4), pl.rank(model, QUERY, vectors, tolerance=1e-4))
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
    hits = {hit.document: hit for hit in pl.rank(model, QUERY, ["a plot", long], chunk=True)}
    piece = hits[1]
    assert len(hits) == 2 and long[piece.start :].startswith(piece.text) and piece.text.rstrip().endswith((".", "!"))
    assert piece.explanation.full_matrix.sum() == pytest.approx(piece.score, abs=1e-3)
    assert long[piece.start : piece.start + len(piece.text)] == piece.text and piece.start > 0
    pieces = passages(model, [long], chunk=True)
    alone = pl.rank(model, QUERY, [each.text for each in pieces], n_steps=1)
    assert len(pieces) > 2 and piece.score == pytest.approx(alone[0].score, abs=1e-6), "the best piece stands for it"
    assert (piece.text, piece.start) == (pieces[alone[0].document].text, pieces[alone[0].document].start)
    with pytest.raises(pl.InputError, match="one sentence"):
        pl.rank(model, QUERY, ["movie " * 30], chunk=True)


def test_of_equal_pieces_the_first_stands_for_its_document_and_equal_documents_keep_their_order():
    twice = "the movie was good and funny . " * 4  # every piece is the same text
    model = load(models.encoder("bert"))
    model.limit = 10
    ranking = pl.rank(model, QUERY, [twice, "a plot", twice], chunk=True, n_steps=1)
    assert [hit.start for hit in ranking] == [0, 0, 0]
    places = [hit.document for hit in ranking]
    assert ranking[places.index(0)].score == ranking[places.index(2)].score and places.index(0) < places.index(2)


def test_encoded_texts_are_held_to_half_the_tolerance(model, vectors):
    """So that any pair with a cosine of a half or more is settled."""
    limit = SideEncoder.of(model, tolerance=1e-2).any_pair
    assert limit(np.array([3.0, 4.0])) == pytest.approx(0.5 * 1e-2 * 5)
    for item in vectors:
        assert max(item.gap, *item.error) <= 0.5 * 1e-4 * np.linalg.norm(item.embedding)


def test_bad_input(model):
    for call, words in [
        (lambda: pl.rank(model, QUERY, []), "list of documents is empty"),
        (lambda: pl.rank(model, QUERY, "one text"), "list of texts"),
        (lambda: pl.rank(model, QUERY, None), "list of texts"),
        (lambda: pl.encode(model, None), "list of texts"),
        (lambda: pl.rank(model, "", DOCUMENTS), "empty"),
        (lambda: pl.rank(model, QUERY, [*DOCUMENTS, " "]), "document 4: text is empty"),
        (lambda: pl.rank(model, " ", DOCUMENTS), "the query: text is empty"),
        (lambda: pl.rank(model, QUERY, [*DOCUMENTS, 5]), "document 4: text must be"),
        (lambda: pl.rank(model, QUERY, DOCUMENTS, simlarity="dot"), "simlarity: not an option"),
        (lambda: pl.encode(model, DOCUMENTS, foo=1), "foo: not an option"),
        (lambda: pl.rank(model, QUERY, DOCUMENTS, rule="log"), "rule must be .* got 'log'"),
        (lambda: pl.rank(model, QUERY, DOCUMENTS, target=3), "target"),
        (lambda: pl.rank(model, QUERY, DOCUMENTS, coordinates=True), "for one pair"),
        (lambda: pl.rank(model, QUERY, DOCUMENTS, unit=("word", "word", "word")), "one for each text"),
        (lambda: pl.encode(model, DOCUMENTS, baseline=("mask", "pad")), "takes one baseline"),
        (lambda: pl.rank(model, QUERY, DOCUMENTS, top=True), "at least 1"),
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
    hits = pl.rank(encoder, QUERY, [DOCUMENTS[0], "great !"], n_steps=2, similarity="dot")
    assert [hit.score for hit in hits if hit.document == 1] == [0.0]


def test_a_text_that_fails_is_called_by_its_own_number(model):
    """Not by its place in a batch, nor among the texts that differ from each other."""
    texts = [f"{DOCUMENTS[0]} {'good ' * (n // 2)}" for n in range(70)]
    with pytest.raises(pl.InputError, match="text 69: text is empty"):
        pl.encode(model, [*texts[:69], " "], n_steps=1)


def test_wrong_places_and_embeddings_are_named(model, vectors):
    ranking = pl.rank(model, QUERY, DOCUMENTS, n_steps=1)
    for call, words in [
        (lambda: vectors.pair(0, 9), "no text 9: 4 were encoded"),
        (lambda: vectors.pair("x", 0), "no text 'x'"),
        (lambda: vectors.one_sided(np.ones(3), 0), r"32 finite numbers.*\(3,\)"),
        (lambda: vectors.one_sided(np.full(32, np.nan), 0), "32 finite numbers"),
        (lambda: ranking.why("a", 1), "place 'a' is not in the ranking"),
    ]:
        with pytest.raises(pl.InputError, match=words):
            call()


def test_each_side_may_have_its_own_baseline_and_unit(model):
    choices = {"baseline": ("pad", "mask"), "unit": ("word", "sentence"), "tolerance": 1e-4}
    hit = pl.rank(model, QUERY, DOCUMENTS[:1], **choices)[0]
    direct = pl.explain(model, QUERY, DOCUMENTS[0], **choices)
    assert hit.explanation.tokens_b == direct.tokens_b == ("[CLS]", DOCUMENTS[0], "[SEP]")
    assert np.abs(hit.explanation.full_matrix - direct.full_matrix).max() < 1e-4
    assert hit.explanation.meta["baseline"] == "pad | mask"
    assert pl.rank(model, QUERY, DOCUMENTS[:1], n_steps=1)[0].explanation.meta["baseline"] == model.quiet_reference.name


def test_vectors_made_differently_say_so(model, vectors):
    """They may be paired, and the sum holds; a picture that said one layer for both would be untrue."""
    other = pl.encode(model, DOCUMENTS, layer=2, unit="word")
    pair = vectors.pair(0, 1, other)
    assert pair.full_matrix.sum() == pytest.approx(pair.similarity, abs=1e-3)
    assert "the second with layer 2, unit word" in pair.meta["notes"][0]
    hit = pl.rank(model, QUERY, other, layer=1)[0]
    assert "the query was encoded with layer 1, unit token" in hit.explanation.meta["notes"][0]
    assert pl.rank(model, QUERY, other, one_sided=True)[0].explanation.meta["layer"] == 2
    assert vectors.pair(0, 1).meta["notes"] == list(model.quiet_reference.notes)


def test_a_difference_has_one_estimate_per_token(model):
    ranking = pl.rank(model, QUERY, DOCUMENTS)
    why, (first, second) = ranking.why(0, 1), (ranking[place].explanation for place in (0, 1))
    errors = why.certificate.error_estimate
    assert len(errors) == len(why.tokens_a) + len(why.tokens_b)
    count = len(why.tokens_a)
    assert errors[0:count] == pytest.approx(
        np.add(first.certificate.error_estimate[:count], second.certificate.error_estimate[:count])
    )
    assert why.certificate.bound == first.certificate.bound + second.certificate.bound


def test_a_difference_is_known_as_one_and_so_is_one_of_an_older_file(model, tmp_path):
    ranking = pl.rank(model, QUERY, DOCUMENTS)
    why = ranking.why(0, 1)
    plain = {name: value for name, value in why.meta.items() if name != "is_difference"}
    for each in (why, pl.load(why.save(tmp_path / "why.json")), why.derived(meta={**plain, "columns_above": 3})):
        assert each.origin.is_difference
        with pytest.raises(pl.InputError, match="this is the difference of two explanations"):
            pl.zoom(model, each, a=[1])
    assert not ranking[0].explanation.origin.is_difference and not why.derived(meta=plain).origin.is_difference


def test_another_pooling_is_another_model(vectors, tmp_path):
    path = vectors.save(tmp_path / "texts.safetensors")
    body, tokenizer = models.encoder("bert")
    pl.Vectors.load(path, SentenceEncoder(body, tokenizer, pooling="mean"))
    for pooling in ("cls", "last"):
        with pytest.raises(pl.InputError, match="another model"):
            pl.Vectors.load(path, SentenceEncoder(body, tokenizer, pooling=pooling))


def test_numbers_read_as_others_are_damage_too(vectors, tmp_path):
    """A few wrong characters in the header leave the checksum of the bytes as it was."""
    path = vectors.save(tmp_path / "texts.safetensors")
    whole = path.read_bytes()
    for was, now in [
        (b'"vectors":{"dtype":"F32"', b'"vectors":{"dtype":"I32"'),
        (b'"embedding":{"dtype":"F64"', b'"embedding":{"dtype":"I64"'),
        (b'"pathlens_vectors":"3"', b'"pathlens_vectors":"x"'),
    ]:
        assert whole.count(was) == 1
        path.write_bytes(whole.replace(was, now))
        with pytest.raises(StoreError, match=r"texts.safetensors.*damaged"):
            pl.Vectors.load(path)
    path.write_bytes(whole)
    with pytest.raises(StoreError, match="cannot write"):
        vectors.save(path / "inside a file")
    with pytest.raises(StoreError, match="is a folder"):
        pl.Vectors.load(tmp_path)


def test_a_prompt_takes_room_too(tmp_path):
    body, tokenizer = models.encoder("bert")
    encoder = SentenceEncoder(body, tokenizer)
    encoder.limit = 10
    text = "the movie was good . the plot was bad ."
    assert [piece.text for piece in passages(encoder, [text], chunk=True)] == [
        "the movie was good .",
        "the plot was bad .",
    ]
    encoder.limit = 12  # both sentences fit, but not after a word more
    assert [len(passages(encoder, [text], chunk=True, prompt=prompt)) for prompt in ("", "a ")] == [1, 2]
    encoder.limit = 10
    short = "the movie was good ."
    assert len(passages(encoder, [short], chunk=False)) == 1
    with pytest.raises(pl.InputError, match="document 0 has 11 tokens and the model takes 10"):
        passages(encoder, [short], chunk=False, prompt="a very funny film ")


def test_documents_of_a_folder(tmp_path):
    (tmp_path / "a.txt").write_text("a funny movie", encoding="utf-8-sig")
    (tmp_path / "B.TXT").write_text("a plot")
    assert read_documents(tmp_path) == (["B.TXT", "a.txt"], ["a plot", "a funny movie"])
    (tmp_path / "c.md").write_bytes(b"\xff\x00")
    with pytest.raises(StoreError, match=r"^'[^']*c.md' is not text"):
        read_documents(tmp_path)


def test_a_ranking_for_a_picture_is_drawn_and_saved(tmp_path):
    dual = pl.DualEncoder.clip(small_clip(), word_tokenizer())
    ranking = pl.rank(dual, picture(), ["a red circle", "a blue square"], n_steps=2)
    assert json.loads(json.dumps(ranking.to_dict()))["query"] == "(picture)"
    ranking.to_html(tmp_path / "hits.html")
    assert "(picture)" in (tmp_path / "hits.html").read_text()
    swapped = pl.rank(pl.DualEncoder(dual.b, dual.a), "a red circle", [picture()], n_steps=2)
    assert swapped[0].text == "(picture)" and json.dumps(swapped.to_dict())


def test_secants_rank_and_pair_like_the_direct_call(model):
    """Vectors by another method that compares two texts, and every result says by which."""
    direct = [pl.explain(model, QUERY, text, method="secant") for text in DOCUMENTS]
    encoded = pl.encode(model, [QUERY, *DOCUMENTS], method=pl.SECANT())
    ranking = pl.rank(model, QUERY, DOCUMENTS, method="secant")
    for hit in ranking:
        wanted = direct[hit.document]
        for pair in (hit.explanation, encoded.pair(0, hit.document + 1)):
            assert pair.method == wanted.method == "secant"
            assert pair.meta["rule"] == wanted.meta["rule"]
            assert np.abs(pair.full_matrix - wanted.full_matrix).max() < 1e-5
    assert ranking.why(0, 1).method == "secant"
    assert "the query was encoded with method ij" in pl.rank(model, QUERY, encoded)[0].explanation.meta["notes"][0]
    for choice in ({"method": "ig"}, {"method": pl.SECANT(gives="vectors")}, {"method": "secant", "gives": "scores"}):
        with pytest.raises(pl.InputError, match="does not compare two texts"):
            pl.encode(model, DOCUMENTS, **choice)
        with pytest.raises(pl.InputError, match="does not compare two texts"):
            pl.rank(model, QUERY, DOCUMENTS, **choice)


def test_a_saved_ranking_gives_its_explanations_back(model, tmp_path):
    ranking = pl.rank(model, QUERY, DOCUMENTS, top=2)
    again = pl.load(ranking.save(tmp_path / "ranking.json"), strict=True)
    assert [each.full_matrix.tolist() for each in again] == [
        hit.explanation.full_matrix.tolist() for hit in list(ranking)[:2]
    ]
    study = pl.whatif(load(models.classifier("bert")), DOCUMENTS[0])
    with pytest.raises(StoreError, match=r"is a saved WhatIf.*pl\.load opens results"):
        pl.load(study.save(tmp_path / "study.json"))


def test_pairs_of_a_max_pooling_encoder_go_by_secants_and_say_why():
    from tests.support import modular

    result = pl.explain(modular.pooled("max"), QUERY, DOCUMENTS[0])
    assert result.method == "secant" and result.settled and any("max pooling" in note for note in result.meta["notes"])
    plain = pl.explain(modular.pooled("mean"), QUERY, DOCUMENTS[0])
    assert plain.method == "ij" and not any("max pooling" in note for note in plain.meta["notes"])
