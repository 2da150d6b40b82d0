"""Dual encoders: patches × words sum to CLIP's own similarity; two text encoders that differ work the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.text.load import load
from tests.support import models
from tests.support.dual_models import picture, small_clip, word_tokenizer

TEXT = "a red circle left of a blue square"


@pytest.fixture(scope="module")
def clip():
    return small_clip()


@pytest.fixture(scope="module")
def dual(clip):
    return pl.DualEncoder.clip(clip, word_tokenizer())


def own_similarity(clip, pixels, text) -> float:
    """As the model itself says it, from pixels and ids."""
    ids = word_tokenizer()(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        output = clip(pixel_values=pixels[None], input_ids=ids)
    return float((output.image_embeds @ output.text_embeds.T)[0, 0])


@pytest.mark.parametrize("choices", [{}, {"layer": 1}, {"layer": 2}, {"norm": "inside"}])
def test_patches_and_words_sum_to_clips_own_similarity(clip, dual, choices):
    result = pl.explain(dual, picture(), TEXT, **choices)
    assert result.certificate.converged
    assert result.similarity == pytest.approx(own_similarity(clip, picture(), TEXT), abs=1e-5)
    assert result.full_matrix.sum() == pytest.approx(result.similarity, abs=1e-3)
    assert result.matrix.shape == (17, 10) and result.tokens_a[:3] == ("[CLS]", "0,0", "0,1")


def test_the_path_is_the_straight_line_between_pixels(clip, dual):
    """Patch embeddings are linear in pixels: the same integral by finite steps in pixel space."""
    result = pl.explain(dual, picture(), TEXT, tolerance=1e-4)
    words = dual.b.embed(TEXT, pl.Explainer(dual).choices.request()).double()
    pixels, steps, size = picture(), 64, 8
    shares = torch.zeros(16)
    for step in range(steps):
        point = (pixels * (step + 0.5) / steps).requires_grad_()
        feature = clip.get_image_features(pixel_values=point[None]).pooler_output[0]
        slope = torch.autograd.grad((feature.double() * words).sum(), point)[0]
        blocks = (slope * pixels).sum(0).unfold(0, size, size).unfold(1, size, size).sum((-1, -2))
        shares += blocks.flatten().detach() / steps
    with torch.no_grad():
        length = float(clip.get_image_features(pixel_values=pixels[None]).pooler_output.norm() * words.norm())
    rows = result.full_matrix[2:].sum(1)  # patches; row 0 is the reference, row 1 the class token
    assert np.abs(rows - shares.numpy() / length).max() < 1e-3 * max(1, np.abs(rows).max())


def test_padding_and_batches_change_nothing(dual):
    texts = [TEXT, "a green triangle"]
    together = pl.Explainer(dual)([picture(), picture()], texts)
    for text, result in zip(texts, together, strict=True):
        alone = pl.explain(dual, picture(), text)
        assert np.abs(alone.full_matrix - result.full_matrix).max() < 1e-4


def test_rank_texts_for_a_picture_and_vectors_by_side(dual):
    captions = [TEXT, "a green triangle", "the square above the circle"]
    ranking = pl.rank(dual, picture(), captions)
    for hit in ranking:
        assert hit.explanation.full_matrix.sum() == pytest.approx(hit.score, abs=1e-3)
    with pytest.raises(pl.InputError, match="side='a'"):
        pl.encode(dual, captions)
    vectors = pl.encode(dual, captions, side="b", n_steps=8)
    assert vectors.texts == tuple(captions)


def test_two_text_encoders_that_differ():
    first, second = load(models.encoder("bert")), load(models.encoder("roberta"))
    dual = pl.DualEncoder(first, second)
    result = pl.explain(dual, "a funny film", "the movie was really funny .")
    swapped = pl.explain(dual, "the movie was really funny .", "a funny film")
    assert result.certificate.converged and swapped.certificate.converged
    assert result.full_matrix.sum() == pytest.approx(result.similarity, abs=1e-3)
    assert abs(result.similarity - swapped.similarity) > 1e-3  # the sides really differ


def test_bad_input(dual):
    for call, words in [
        (lambda: pl.explain(dual, torch.zeros(3, 8, 8), TEXT), "shape"),
        (lambda: pl.explain(dual, "a text", TEXT), "image processor"),
        (lambda: pl.explain(dual, picture(), TEXT, baseline="mask"), "not for pictures"),
        (lambda: pl.explain(dual, picture(), TEXT, layer=9), "blocks"),
        (lambda: pl.explain(dual, picture()), "second"),
    ]:
        with pytest.raises(pl.InputError, match=words):
            call()
    with pytest.raises(pl.ModelError, match="both sides"):
        pl.DualEncoder(load(models.classifier("bert")), load(models.encoder("bert")))
