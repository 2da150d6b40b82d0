"""A fused score is a sum of sums: every word's dense and lexical share, and what stands in no word."""

from __future__ import annotations

import json
import math
import re

import pytest

import pathlens as pl
from pathlens.text.load import load
from pathlens.vectors.hybrid import BM25, SparseTerms, hybrid
from tests.support import models

QUERY = "a funny film , really funny"
TEXTS = ["The movie was really funny, really .", "a man plays guitar . it is great !", "it is a great plot"]


@pytest.fixture(scope="module")
def model():
    return load(models.encoder("bert"))


def slow_bm25(query: str, text: str, documents: list[str], k1: float = 1.5, b: float = 0.75) -> float:
    """The formula, word by word of the query, nothing kept."""
    cut = [re.findall(r"\w+", each.lower()) for each in documents]
    words, mean = re.findall(r"\w+", text.lower()), sum(map(len, cut)) / len(cut)
    total = 0.0
    for term in re.findall(r"\w+", query.lower()):
        n, f = sum(term in each for each in cut), words.count(term)
        idf = math.log(1 + (len(cut) - n + 0.5) / (n + 0.5))
        total += idf * f * (k1 + 1) / (f + k1 * (1 - b + b * len(words) / mean))
    return total


def adds_up(result, dense: list[float], lexical: list[float], weights: tuple[float, float]) -> None:
    for hit, similarity, terms in zip(result, dense, lexical, strict=True):
        assert hit.dense == pytest.approx(weights[0] * similarity, abs=1e-6)
        assert hit.lexical == pytest.approx(weights[1] * terms, rel=1e-5, abs=1e-9)
        whole = sum(word.score for word in hit.words) + sum(hit.rest.values())
        assert whole == pytest.approx(hit.score, abs=1e-9)
        assert all(hit.text[word.start : word.end] == word.word for word in hit.words)
        assert json.loads(json.dumps(hit.facts())) == hit.facts()


def test_bm25_and_the_similarity_by_word(model):
    weights = (0.7, 0.3)
    result = hybrid(model, QUERY, TEXTS, BM25(TEXTS), weights=weights)
    plain = pl.why(model, QUERY, TEXTS)
    wanted = [slow_bm25(QUERY, text, TEXTS) for text in TEXTS]
    adds_up(result, [hit.similarity for hit in plain], wanted, weights)
    first = {word.word: word for word in result[0].words}
    assert first["funny"].lexical > 0 and first["movie"].lexical == 0, "BM25 knows words alone"
    assert sum(word.lexical for word in result[0].words) == pytest.approx(result[0].lexical)
    assert [hit.text for hit in result] == TEXTS and result.best[0].score == max(hit.score for hit in result)
    parts = result.why(0, 1)
    assert parts["score"] == pytest.approx(parts["dense"] + parts["lexical"])
    assert parts["score"] == pytest.approx(result[0].score - result[1].score)


def test_a_sparse_encoders_own_terms(model, tmp_path):
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling
    from transformers import BertForMaskedLM

    body, tokenizer = models.encoder("bert")
    BertForMaskedLM(body.config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    sparse = SparseEncoder(modules=[MLMTransformer(str(tmp_path)), SpladePooling()], device="cpu")
    result = hybrid(model, QUERY, TEXTS[:2], SparseTerms(sparse), weights={"dense": 1, "lexical": 0.5})
    query, documents = (sparse.encode_query(QUERY), sparse.encode_document(TEXTS[:2]))
    wanted = [float((query.to_dense() * row.to_dense()).sum()) for row in documents]
    adds_up(result, [hit.similarity for hit in pl.why(model, QUERY, TEXTS[:2])], wanted, (1.0, 0.5))
    assert any(term.spans for term in result[0].terms) and any(not term.spans for term in result[0].terms)


def test_bad_input(model):
    terms = BM25(TEXTS)
    for call, words in [
        (lambda: BM25([]), "empty"),
        (lambda: BM25(TEXTS, b=2), "b between 0 and 1"),
        (lambda: SparseTerms(model), "no SparseEncoder"),
        (lambda: hybrid(model, QUERY, TEXTS, terms, weights=(1, math.nan)), "two finite numbers"),
        (lambda: hybrid(model, QUERY, TEXTS, terms, weights={"sparse": 1}), "'sparse'; it knows 'dense' and 'lexical'"),
        (lambda: hybrid(model, QUERY, [" "], terms), "hit 0 has an empty text"),
    ]:
        with pytest.raises(pl.InputError, match=words):
            call()
