"""Pairs: what the model itself compares by, and choices that go in twos."""

from __future__ import annotations

import pytest

import pathlens as pl
from pathlens.text.load import load
from tests.support import models
from tests.support.dual_models import picture, small_clip, word_tokenizer

A, B = "the movie was bad .", "a great film ."

pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")


@pytest.mark.parametrize("normal", [True, False])
def test_a_model_that_says_dot_is_compared_as_it_compares_itself(tmp_path, normal):
    """After a Normalize the dot product is the cosine; before it, it is another number."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    for part in models.encoder("bert"):
        part.save_pretrained(tmp_path / "body")
    parts = [Transformer(str(tmp_path / "body")), Pooling(32, pooling_mode="mean")]
    model = SentenceTransformer(modules=[*parts, *([Normalize()] if normal else [])], similarity_fn_name="dot")
    embeddings = model.encode([A, B], convert_to_tensor=True)
    own = float(model.similarity(embeddings[:1], embeddings[1:]))
    found = pl.explain(model, A, B)
    assert found.similarity == pytest.approx(own, rel=1e-5)
    assert found.full_matrix.sum() == pytest.approx(own, rel=1e-3)
    assert pl.rank(model, A, [B], n_steps=1)[0].score == pytest.approx(own, rel=1e-5)


def test_choices_in_twos():
    model = load(models.encoder("bert"))
    for choices in ({"unit": ("word", "word", "word")}, {"baseline": ("mask", "pad", "zero")}):
        with pytest.raises(pl.InputError, match="one for each text, two in all; got 3"):
            pl.explain(model, A, B, **choices)
    found = pl.explain(model, A, B, baseline=("mask", "pad"), n_steps=2)
    assert found.meta["baseline"] == "mask | pad"
    with pytest.raises(pl.InputError, match="scale must be a positive number"):
        pl.Shifted(model, scale="a")
    dual = pl.DualEncoder.clip(small_clip(), word_tokenizer())
    with pytest.raises(pl.InputError, match="layer must be a whole number"):
        pl.explain(dual, picture(), "a red circle", layer="first")
    spoilt = picture()
    spoilt[0, 0, 0] = float("nan")
    with pytest.raises(pl.InputError, match="the picture has NaN or infinite pixels"):
        pl.explain(dual, spoilt, "a red circle")
