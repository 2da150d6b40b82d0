"""The quiet reference: found once for a model, the same on every run, named, kept, overridden; sums hold whatever it is."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.text import reference
from pathlens.text.adapter import Request
from pathlens.text.fingerprint import fingerprint
from pathlens.text.load import load
from pathlens.text.options import POOLINGS
from pathlens.text.sentence import SentenceEncoder
from tests.support import models

A, B = "the movie was not really funny , but moving .", "i never was a plot that was hardly good"
PAIRS = [
    ("A man plays a guitar.", "Someone makes music."),
    ("How do I cook rice?", "Rinse the rice, then simmer it in water."),
    ("The stock market fell sharply.", "How do I cook rice?"),
    ("Two dogs run across the grass.", "A pair of dogs is running in a field."),
    ("She reads a book about the sea.", "The car needs a new engine."),
]


def encoder(pooling: str = "mean") -> SentenceEncoder:
    return SentenceEncoder(*models.encoder("bert"), pooling=pooling)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("norm", ["outside", "inside"])
def test_sums_hold_from_it_for_every_pooling_and_norm(pooling, norm):
    model = encoder(pooling)
    result = pl.explain(model, A, B, method="secant", norm=norm)
    assert result.meta["baseline"] == model.quiet_reference.name and result.meta["chosen"]["baselines"] == ["quiet"] * 2
    assert result.core + result.rest == pytest.approx(result.similarity, abs=1e-5)
    assert result.core == pytest.approx(result.matrix.sum()) and result.certificate.converged


def test_searching_and_learning_only_make_it_quieter_and_repeat():
    model = encoder()
    blanks = reference.BlankTexts.of(model)
    quiet = reference.quietest_tokens(blanks)
    ids = torch.arange(5, len(blanks.table))  # every word: the vocabulary is small enough to look at all of it
    with torch.no_grad():
        loud = blanks.of_tokens(ids, reference.THEN)
    assert set(quiet) <= set(ids[loud.argsort()[: reference.BEST]].tolist()) and len(quiet) == reference.TRIES[-1][0]
    token = blanks.table[quiet]
    learned = reference.learn(blanks, token, blanks.loudness(token), 0.1)
    assert blanks.loudness(learned) < blanks.loudness(token)
    one, two = (reference.find(model) for _ in range(2))
    assert torch.equal(one.rows, two.rows) and one.name == two.name


@pytest.mark.parametrize("loudness, quiet", [(0.0, True), (0.1, True), (0.11, False), (2.0, False)])
def test_quiet_is_at_most_a_tenth_of_a_text(loudness, quiet):
    reference_rows = reference.Reference(torch.zeros(1, 4), ("a",), loudness, learned=True)
    assert (reference_rows.notes == ()) == quiet


def test_a_tie_holds_it_near_its_token():
    blanks = reference.BlankTexts.of(encoder())
    token = blanks.table[7:11]
    free, tied = (float((reference.learn(blanks, token, 1.0, tie) - token).norm()) for tie in (0.0, 1e4))
    assert tied < 0.2 * free


def test_where_none_is_quiet_the_quietest_token_stands_and_a_note_says_so(monkeypatch):
    monkeypatch.setattr(reference, "SMALL", 0.0)
    monkeypatch.setattr(reference, "HALF", 0.0)
    model = encoder()
    monkeypatch.setattr(reference, "user_cache", lambda: None)
    quiet = reference.reference_of(model)
    assert not quiet.learned and "the tokens" in quiet.name
    table = reference.BlankTexts.of(model).table
    assert all(any((row == each).all() for each in table) for row in quiet.rows)
    result = pl.explain(model, A, B, method="secant")
    assert "no quiet reference was found" in " ".join(result.meta["notes"])
    assert result.core + result.rest == pytest.approx(result.similarity, abs=1e-5)


def test_it_is_kept_by_fingerprint_and_a_damaged_file_counts_as_absent(monkeypatch, tmp_path):
    monkeypatch.setattr(reference, "user_cache", lambda: tmp_path)
    model = encoder("cls")
    quiet = reference.reference_of(model)
    (file,) = (tmp_path / reference.KEPT).iterdir()
    assert fingerprint(model) in file.name
    monkeypatch.setattr(reference, "find", lambda model: pytest.fail("searched again"))
    again = reference.reference_of(model)
    assert torch.equal(quiet.rows.float(), again.rows) and (quiet.name, quiet.loudness) == (again.name, again.loudness)
    monkeypatch.setattr(reference, "find", lambda model: quiet)
    for damage in (
        "{",
        json.dumps({"rows": [[1.0]]}),
        json.dumps({"rows": [[1.0]], "tokens": ["a"], "loudness": 0, "learned": True}),
    ):
        file.write_text(damage)
        assert reference.reference_of(model) is quiet
        assert len(json.loads(file.read_text())["rows"][0]) == 32  # written again


def test_a_baseline_given_goes_before_it_and_blocks_keep_theirs():
    model = encoder()
    given = pl.explain(model, A, B, method="secant", baseline="pad")
    assert given.meta["baseline"] == "pad"
    assert model.case(A, request=Request(vector=True, block="encoder.layer.0.attention")).baseline == "mask"
    with pytest.raises(pl.InputError, match="sentence encoder"):
        pl.explain(models.classifier("bert"), A, baseline="quiet")


def test_the_model_is_left_as_it_was():
    module, tokenizer = models.in_double(models.encoder("bert"))
    model = SentenceEncoder(module.train(), tokenizer)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with torch.inference_mode():
        reference.find(model)
    assert module.training and all(parameter.grad is None for parameter in module.parameters())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    module.eval()


def test_minilms_is_built_in_and_the_pairs_of_words_carry_the_similarity(minilm, monkeypatch):
    monkeypatch.setattr(reference, "find", lambda model: pytest.fail("minilm's own file was not read"))
    results = [pl.explain(minilm, *pair, method="secant", unit="word") for pair in PAIRS]
    core, similarity = (np.array([getattr(each, name) for each in results]) for name in ("core", "similarity"))
    masked = np.array(
        [pl.explain(minilm, *pair, method="secant", unit="sentence", baseline="mask").core for pair in PAIRS]
    )
    assert np.abs(core - similarity).max() < 0.15 < 1.0 < np.abs(masked - similarity).mean()
    assert np.corrcoef(core, similarity)[0, 1] > 0.98
    assert np.abs(results[2].matrix).max() < 0.02  # two texts that have nothing to do with each other


def test_it_is_found_again_from_the_weights(minilm):
    """What is built in is what `find` finds; processors differ in the last digits, so not digit by digit."""
    kept, quiet = load("minilm").quiet_reference, reference.find(minilm)
    assert kept.tokens == quiet.tokens and kept.learned and quiet.learned
    assert float((kept.rows - quiet.rows).norm() / quiet.rows.norm()) < 1e-2
