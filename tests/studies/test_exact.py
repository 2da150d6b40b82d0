"""Exact encoders: nothing is said at the reference, sentence-transformers reads the folder, a killed training ends the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.studies.exact import Training, checked, exact, read_pairs
from pathlens.text import shift as shifting
from pathlens.text.fingerprint import fingerprint
from pathlens.text.load import load
from tests.support import models

A, B = "the movie was not really funny , but moving .", "i never was a plot that was hardly good"
PAIRS = [
    (A, B, 1.0),
    ("great !", "very good", 5.0),
    (B, "great plot", 2.0),
    ("bad movie", "not funny", 4.0),
    (A, A, 5.0),
]
FINGERPRINT = "494d53f2060478ad"  # of minilm-exact, on every machine
CHOICES = {"test": PAIRS, "epochs": 2, "batch_size": 2, "rank": 2}


def sentence_transformer(folder: Path, pooling: str = "mean", *, normal: bool = True):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer

    body, tokenizer = models.encoder("bert")
    for part in (body, tokenizer):
        part.save_pretrained(folder)
    parts = [Transformer(str(folder), max_seq_length=16), Pooling(32, pooling_mode=pooling)]
    return SentenceTransformer(modules=[*parts, *([Normalize()] if normal else [])], device="cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(the encoder as it came, the folder that was made of it, the report)"""
    folder = tmp_path_factory.mktemp("exact")
    plain = sentence_transformer(folder / "body")
    return plain, folder / "made", exact(plain, PAIRS, folder / "made", **CHOICES)


def test_at_the_reference_nothing_is_said_and_the_pairs_alone_add_up(made):
    _, folder, _ = made
    for method in ("secant", "ij"):
        for unit in ("token", "word"):
            result = pl.explain(str(folder), A, B, method=method, unit=unit)
            assert max(np.abs(result.full_matrix[0]).max(), np.abs(result.full_matrix[:, 0]).max()) < 1e-5
            assert result.core == pytest.approx(result.similarity, abs=1e-3 if method == "ij" else 1e-5)
            assert result.certificate.converged and result.meta["baseline"] == "[PAD]"
    with pytest.raises(pl.InputError, match="length zero at its reference"):
        pl.explain(str(folder), A, B, method="ig")
    assert pl.explain(str(folder), A, B, baseline="mask", method="secant").rest != pytest.approx(0, abs=1e-3)


def test_sentence_transformers_gives_the_shifted_vectors_and_saves_them_again(made, tmp_path):
    from sentence_transformers import SentenceTransformer

    plain, folder, _ = made
    there = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    cosine = float(there.similarity(*there.encode([A, B], convert_to_tensor=True).split(1)))
    assert cosine == pytest.approx(pl.explain(str(folder), A, B, method="secant").similarity, abs=1e-5)
    blank = " ".join(["[PAD]"] * 9)  # a text of nothing is nothing, whatever its length
    unit = SentenceTransformer(modules=list(there)[:-1], device="cpu")
    assert np.linalg.norm(unit.encode(blank)) < 1e-5 < 0.1 < np.linalg.norm(unit.encode(A))
    there.save(str(tmp_path / "again"))
    again = SentenceTransformer(str(tmp_path / "again"), trust_remote_code=True, device="cpu")
    assert np.array_equal(again.encode([A, B]), there.encode([A, B]))
    assert fingerprint(load(str(tmp_path / "again"))) == fingerprint(load(str(folder))) != fingerprint(load(plain))


def test_the_encoder_that_came_is_left_as_it_was_and_the_report_is_kept(made):
    plain, folder, report = made
    assert len(plain) == 3 and not any("parametrizations" in name for name, _ in plain.named_parameters())
    kept = json.loads((folder / "exact.json").read_text())
    assert kept["after"] == report.after and kept["steps"] == report.steps == 6 and "5 test pairs" in str(report)
    assert not folder.with_name("made.training").exists()


@pytest.mark.parametrize("rank", [2, 0])
def test_a_killed_training_goes_on_and_ends_in_the_same_bytes(made, tmp_path, monkeypatch, rank):
    plain, _, _ = made
    choices = {**CHOICES, "rank": rank}
    exact(plain, PAIRS, tmp_path / "whole", **choices)
    step, left = Training.take_step, [4]

    def dies(self, *args):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return step(self, *args)

    monkeypatch.setattr(Training, "take_step", dies)
    with pytest.raises(KeyboardInterrupt):
        exact(plain, PAIRS, tmp_path / "killed", **choices)
    assert not (tmp_path / "killed").exists()
    with pytest.raises(pl.PathlensError, match="unfinished training of other pairs"):
        exact(plain, PAIRS, tmp_path / "killed", **{**choices, "seed": 1})
    left[0] = 2  # of six steps four were done, and none of them is done again
    exact(plain, PAIRS, tmp_path / "killed", **choices)
    for file in ("model.safetensors", "2_Shift/model.safetensors"):
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_tuning_learns_the_scores(made, tmp_path):
    plain, _, _ = made
    for rank, rate in ((4, 5e-3), (0, 1e-3)):
        report = exact(plain, PAIRS[:4], tmp_path / str(rank), test=PAIRS[:4], epochs=30, rank=rank, rate=rate)
        assert report.after > 0.99 > report.shifted


@pytest.mark.parametrize("pooling", ["cls", "max", "lasttoken", "weightedmean"])
def test_every_pooling_is_exact_before_and_after(tmp_path, pooling):
    plain = sentence_transformer(tmp_path / "body", pooling, normal=False)
    result = pl.explain(plain, A, B, method="secant")
    assert result.certificate.converged and result.core + result.rest == pytest.approx(result.similarity, abs=1e-5)
    exact(plain, PAIRS, tmp_path / "made", **CHOICES)
    result = pl.explain(str(tmp_path / "made"), A, B, method="secant")
    assert result.core == pytest.approx(result.similarity, abs=1e-5) and abs(result.rest) < 1e-5


def test_one_matrix_after_the_shift_is_exact_too_and_leaves_the_encoder_alone(made, tmp_path):
    plain, _, _ = made
    exact(plain, PAIRS, tmp_path / "made", test=PAIRS, linear=True)
    model = load(str(tmp_path / "made"))
    for name, weight in plain[0].auto_model.state_dict().items():
        assert torch.equal(weight, model.sentence_transformer[0].auto_model.state_dict()[name])
    matrix = model.sentence_transformer[3].linear.weight.detach()
    assert 0 < float((matrix - torch.eye(32)).norm()) < 3
    result = pl.explain(model, A, B, method="secant")
    assert result.core == pytest.approx(result.similarity, abs=1e-5) and abs(result.rest) < 1e-5
    assert not (tmp_path / "made" / "adapter.safetensors").exists()


def test_no_steps_is_the_shift_alone(made, tmp_path):
    plain, _, _ = made
    report = exact(plain, PAIRS, tmp_path / "made", test=PAIRS, steps=0)
    assert report.after == report.shifted and report.steps == 0
    result = pl.explain(str(tmp_path / "made"), A, B, method="secant", similarity="dot")
    slow = pl.explain(pl.Shifted(load(plain)), A, B, method="secant", similarity="dot")
    np.testing.assert_allclose(result.full_matrix, slow.full_matrix, atol=1e-4 * np.abs(slow.full_matrix).max())


def test_the_built_in_one_says_nothing_at_its_reference_and_is_the_same_everywhere():
    model = load("minilm-exact")
    assert fingerprint(model) == FINGERPRINT
    result = pl.explain(model, "A man plays a guitar.", "Someone makes music.", method="secant", unit="word")
    assert max(np.abs(result.full_matrix[0]).max(), np.abs(result.full_matrix[:, 0]).max()) < 1e-5
    assert result.core == pytest.approx(result.similarity, abs=1e-5) and result.top(1)[0][:2] == ("guitar", "music")
    a, b = model.sentence_transformer.encode(["A man plays a guitar.", "Someone makes music."])
    assert float(a @ b) == pytest.approx(result.similarity, abs=1e-5)
    asset = Path(pl.__file__).parent / "assets" / "minilm-exact" / "adapter.safetensors"
    assert asset.stat().st_size < 3e6 and result.meta["baseline"] == "[PAD]"


def test_a_folder_with_other_code_in_it_is_not_run(made, tmp_path):
    """The code beside a model is run for its reader only where it is ours, letter by letter."""
    import shutil

    shutil.copytree(made[1], tmp_path / "foreign")
    code = tmp_path / "foreign" / shifting.CODE
    code.write_text(code.read_text() + "\nraise SystemExit('it was run')\n")
    with pytest.raises(pl.ModelError, match="not part of Sentence Transformers"):
        load(str(tmp_path / "foreign"))


def test_bad_input_is_named(made, tmp_path):
    plain, folder, _ = made
    for wrong, words in (
        ([(A, B)], "pair 0 must be"),
        ([(A, B, 1.0), (A, " ", 0.5)], "pair 1 needs two texts"),
        ([(A, B, 1.0), (A, B, float("nan"))], "finite"),
        ([(A, B, 5.0), (A, B, -1.0)], "between 0 and the largest"),
        ([(A, B, 1.0)], "at least two pairs"),
    ):
        with pytest.raises(pl.InputError, match=words):
            exact(plain, wrong, tmp_path / "out")
    with pytest.raises(pl.InputError, match="no token of this model"):
        exact(plain, PAIRS, tmp_path / "out", reference="nonsense")
    with pytest.raises(pl.ModelError, match="exact already"):
        exact(str(folder), PAIRS, tmp_path / "out")
    with pytest.raises(pl.ModelError, match="sentence-transformers model"):
        exact(models.classifier("bert"), PAIRS, tmp_path / "out")
    with pytest.raises(pl.PathlensError, match="there already"):
        exact(plain, PAIRS, folder)


def test_scores_are_scaled_by_the_training_pairs():
    rows, scale = checked(PAIRS)
    assert scale == 5 and [score for *_, score in rows] == [0.2, 1.0, 0.4, 0.8, 1.0]
    assert checked([(A, B, -0.5), (A, B, 0.5)])[0] == [(A, B, -0.5), (A, B, 0.5)]
    with pytest.raises(pl.InputError, match="between 0 and the largest"):
        checked([(A, B, 9.0), (A, B, 1.0)], scale)


def test_tables_of_pairs(tmp_path):
    plain, named, commas = tmp_path / "p.tsv", tmp_path / "n.tsv", tmp_path / "c.csv"
    plain.write_text('a "quoted" text\tanother\t3.5\nb\tc\t1\n')
    named.write_text("score\tone\ttwo\n3.5\ta\tb\n")
    commas.write_text('"a, b",c,1\n')
    assert read_pairs(plain) == [('a "quoted" text', "another", 3.5), ("b", "c", 1.0)]
    assert read_pairs(named, ("one", "two", "score")) == [("a", "b", 3.5)]
    assert read_pairs(commas) == [("a, b", "c", 1.0)]
    with pytest.raises(pl.InputError, match="no column 'three'"):
        read_pairs(named, ("one", "three", "score"))
    plain.write_text("a\tb\t1\nc\td\tmany\n")
    with pytest.raises(pl.InputError, match="row 1 .* no number"):
        read_pairs(plain)


def test_the_command_line_says_what_was_reached(made, tmp_path, monkeypatch, capsys):
    from pathlens.cli import main

    plain, _, _ = made
    plain.save(str(tmp_path / "plain"))
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\t{score}\n" for a, b, score in PAIRS))
    words = ["exact", str(tmp_path / "plain"), "--data", str(tmp_path / "pairs.tsv"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", ["pathlens", *words, "--rank", "2", "--batch-size", "2"])
    with pytest.raises(SystemExit) as ended:
        main()
    output = capsys.readouterr()
    assert ended.value.code == 0 and "pairs held out" in output.out and str(tmp_path / "out") in output.out
    assert torch.isfinite(load(str(tmp_path / "out")).shift.table).all()
