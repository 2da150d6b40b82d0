"""Pairs: what the model itself compares by, and choices that go in twos."""

from __future__ import annotations

import pytest
import torch

import pathlens as pl
from pathlens.text.load import load
from tests.support import models
from tests.support.dual_models import picture, small_clip, word_tokenizer

A, B = "the movie was bad .", "a great film ."

pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")


def compared_by(similarity, folder, *after):
    """A SentenceTransformer that says how its vectors are compared."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    for part in models.encoder("bert"):
        part.save_pretrained(folder / "body")
    parts = [Transformer(str(folder / "body")), Pooling(32, pooling_mode="mean"), *filter(None, after)]
    return SentenceTransformer(modules=parts, similarity_fn_name=similarity, device="cpu")


@pytest.mark.parametrize("normal", [True, False])
def test_a_model_that_says_dot_is_compared_as_it_compares_itself(tmp_path, normal):
    """After a Normalize the dot product is the cosine; before it, it is another number."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    model = compared_by("dot", tmp_path, Normalize() if normal else None)
    embeddings = model.encode([A, B], convert_to_tensor=True)
    expected = float(model.similarity(embeddings[:1], embeddings[1:]))
    result = pl.explain(model, A, B)
    assert result.similarity == pytest.approx(expected, rel=1e-5)
    assert result.full_matrix.sum() == pytest.approx(expected, rel=1e-3)
    assert pl.rank(model, A, [B], n_steps=1)[0].score == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("distance", ["euclidean", "manhattan"])
def test_a_model_that_says_a_distance_is_not_explained_by_the_cosine_without_a_word(tmp_path, distance):
    model = compared_by(distance, tmp_path)
    embeddings = model.encode([A, B], convert_to_tensor=True)
    for ask in (
        lambda: pl.explain(model, A, B),
        lambda: pl.explain(model, A, B, method="ig"),
        lambda: pl.explain(model, A, B, method="secant"),
        lambda: pl.rank(model, A, [B]),
        lambda: pl.encode(model, [A, B]),
    ):
        with pytest.raises(pl.InputError, match=f"by the {distance} distance.*similarity='cosine' or similarity='dot'"):
            ask()
    cosine = float(torch.cosine_similarity(*embeddings[:, None]))
    for chosen in ({"similarity": "cosine"}, {"method": pl.IJ(similarity="cosine")}):
        result = pl.explain(model, A, B, **chosen)
        assert result.similarity == pytest.approx(cosine, abs=1e-5) and result.target == "cosine similarity"
    assert pl.explain(model, A, method="vaig", n_steps=2).target == "embedding"  # no second text, nothing compared


def test_two_encoders_are_compared_as_both_say(tmp_path):
    """DPR's two, and a model's two routes: the dot product."""
    model = load(compared_by("dot", tmp_path))
    dual, mixed = pl.DualEncoder(model, model), pl.DualEncoder(model, load(models.encoder("bert")))
    a, b = (model.embed(text, pl.models.Request()) for text in (A, B))
    assert pl.explain(dual, A, B, n_steps=2).similarity == pytest.approx(float(a @ b), rel=1e-5)
    assert pl.explain(mixed, A, B, n_steps=2).target == "cosine similarity"


def test_choices_in_twos():
    model = load(models.encoder("bert"))
    for choices in ({"unit": ("word", "word", "word")}, {"baseline": ("mask", "pad", "zero")}):
        with pytest.raises(pl.InputError, match="one for each text, two in all; got 3"):
            pl.explain(model, A, B, **choices)
    result = pl.explain(model, A, B, baseline=("mask", "pad"), n_steps=2)
    assert result.meta["baseline"] == "mask | pad"
    with pytest.raises(pl.InputError, match="scale must be a positive number"):
        pl.Shifted(model, scale="a")
    dual = pl.DualEncoder.clip(small_clip(), word_tokenizer())
    with pytest.raises(pl.InputError, match="layer must be a whole number"):
        pl.explain(dual, picture(), "a red circle", layer="first")
    spoilt = picture()
    spoilt[0, 0, 0] = float("nan")
    with pytest.raises(pl.InputError, match="the picture has NaN or infinite pixels"):
        pl.explain(dual, spoilt, "a red circle")
