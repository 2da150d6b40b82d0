"""An index that explains itself: hits add up after rounding, and a damaged part takes nothing else with it."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import pathlens as pl
from pathlens.index import Index, build
from pathlens.text.load import load
from pathlens.text.sentence import SentenceEncoder
from tests import models

DOCUMENTS = [
    "the movie was really funny .",
    "a man plays guitar .",
    "it is a great plot",
    "a funny movie",
    "bad acting",
]
QUERY = "a funny film"


@pytest.fixture(scope="module")
def model():
    return load(models.encoder("bert"))


@pytest.fixture
def folder(model, tmp_path, monkeypatch):
    """Five documents in three vector files."""
    monkeypatch.setattr(sys.modules["pathlens.index.build"], "PER_FILE", 2)
    monkeypatch.setattr(sys.modules["pathlens.index.search"], "PER_FILE", 2)
    build(DOCUMENTS, tmp_path / "index", model, tolerance=1e-3)
    return tmp_path / "index"


def _empty(folder):
    folder.mkdir()
    return folder


def test_hits_are_the_ranking_and_add_up_to_the_score(folder, model):
    found = Index.open(folder, model).search(QUERY, k=5)
    fresh = pl.rank(model, QUERY, DOCUMENTS)
    assert [hit.document for hit in found] == [hit.document for hit in fresh]
    for a, b in zip(found, fresh, strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-6)
        assert a.explanation.certificate.converged
        assert abs(a.explanation.full_matrix.sum() - a.score) < 1e-3 * max(abs(a.score), 0.1)
        assert a.explanation.tokens_b == (*b.explanation.tokens_b, "(remainder)")
        assert np.abs(a.explanation.full_matrix[:, :-1] - b.explanation.full_matrix).max() < 3e-3  # 16 bits
    why = found.why(0, 4)
    assert why.full_matrix.sum() == pytest.approx(found[0].score - found[4].score, abs=1e-3)


def test_one_sided_search_sums_exactly_whatever_was_rounded_or_left_out(folder, model, tmp_path):
    full = Index.open(folder, model)
    made = build(DOCUMENTS, tmp_path / "small", model, storage="strongest", keep=2)
    small = Index.open(tmp_path / "small", model)
    assert small.size()["vectors"] < full.size()["vectors"] and made["bytes_per_passage"] > 0
    for index in (full, small):
        for hit in index.search(QUERY, k=5, one_sided=True):
            proof = hit.explanation.certificate
            assert proof.f_baseline + hit.explanation.scores.sum() == pytest.approx(hit.score, abs=1e-12)
    kept = small.search(QUERY, k=1)[0].explanation
    assert len(kept.tokens_b) == 3 and kept.full_matrix.sum() == pytest.approx(kept.similarity, abs=1e-3)


def test_a_damaged_vector_file_is_named_and_nothing_else_is_lost(folder, model):
    victim = folder / "vectors-00001.safetensors"  # documents 2 and 3
    whole = victim.read_bytes()
    victim.write_bytes(whole[: len(whole) // 2])
    index = Index.open(folder, model)
    assert [victim.name in line for line in index.verify()] == [True]
    with pytest.warns(UserWarning, match=victim.name):
        found = index.search(QUERY, k=5)
    assert len(found) == 5
    assert {hit.document for hit in found if hit.explanation is None} == {2, 3}
    fresh = {hit.document: hit.score for hit in pl.rank(model, QUERY, DOCUMENTS, top=1)}
    assert all(hit.score == pytest.approx(fresh[hit.document], abs=1e-5) for hit in found)
    before = (folder / "vectors-00000.safetensors").stat().st_mtime_ns
    build(DOCUMENTS, folder, model, tolerance=1e-3)  # builds what is damaged again, keeps the rest
    assert (folder / "vectors-00000.safetensors").stat().st_mtime_ns == before
    assert len(victim.read_bytes()) == len(whole) and Index.open(folder, model).verify() == []


def test_a_damaged_table_is_rebuilt_without_the_model(folder, model):
    before = [hit.score for hit in Index.open(folder, model).search(QUERY, one_sided=True)]
    for file in (folder / "table").rglob("*.lance"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:20])
    index = Index.open(folder, model)
    assert any("table of embeddings" in line for line in index.verify()) or _fails(index)
    index.repair()
    assert Index.open(folder, model).verify() == []
    assert [hit.score for hit in Index.open(folder, model).search(QUERY, one_sided=True)] == before


def _fails(index) -> bool:
    try:
        index.search(QUERY, one_sided=True)
    except pl.PathlensError as error:
        return "nothing is lost" in str(error)
    return False


def test_half_written_foreign_and_other_versions_are_refused(folder, model):
    with pytest.raises(pl.InputError, match="another model"):
        Index.open(folder, load(models.encoder("roberta")))
    manifest = folder / "index.json"
    body = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**body, "format": 99}))
    with pytest.raises(pl.PathlensError, match=r"another version.*build it again"):
        Index.open(folder, model)
    few = {name: body[name] for name in ("format", "model", "files")}
    uneven = {**body, "passages": 7}
    for text in ("{half", "[1, 2]", json.dumps(few), json.dumps(uneven), json.dumps({**body, "files": [{}]})):
        manifest.write_text(text)
        with pytest.raises(pl.PathlensError, match=r"index.json.*damaged"):
            Index.open(folder, model)
    with pytest.raises(pl.PathlensError, match="is empty"):
        Index.open(_empty(folder.parent / "nothing yet"), model)
    manifest.unlink()
    with pytest.raises(pl.PathlensError, match="half written"):
        Index.open(folder, model)
    with pytest.raises(pl.PathlensError, match="no index"):
        Index.open(folder / "nowhere", model)


@pytest.mark.parametrize("other", ["roberta", "bert"])
def test_a_whole_vector_file_of_another_index_is_told_apart(folder, model, tmp_path, other):
    """Of another model, or of the same model and other texts: never an explanation of the wrong passage."""
    build(DOCUMENTS[::-1], tmp_path / "other", load(models.encoder(other)), n_steps=2)
    name = "vectors-00000.safetensors"
    (folder / name).write_bytes((tmp_path / "other" / name).read_bytes())
    index = Index.open(folder, model)
    assert [name in line for line in index.verify()] == [True]
    with pytest.warns(UserWarning, match="not the file this index was built with"):
        hits = list(index.search(QUERY, k=5))
    fresh = {hit.document: hit.score for hit in pl.rank(model, QUERY, DOCUMENTS, n_steps=2)}
    assert {hit.document: hit.score for hit in hits} == pytest.approx(fresh, abs=1e-5)
    assert {hit.document for hit in hits if hit.explanation is None} == {0, 1}
    with pytest.raises(pl.PathlensError, match="not the file"):
        index.repair()


def test_embeddings_of_length_zero_are_never_lost_in_silence(tmp_path):
    body, tokenizer = models.encoder("bert")
    nothing = SentenceEncoder(body, tokenizer)
    nothing.head = lambda states, mask, cases: 0.0 * states.mean(1)
    with pytest.raises(pl.PathlensError, match=r"'document 0' has length zero.*similarity='dot'"):
        build(DOCUMENTS[:2], tmp_path / "cosine", nothing, n_steps=2)
    build(DOCUMENTS[:2], tmp_path / "dot", nothing, n_steps=2, similarity="dot")
    index = Index.open(tmp_path / "dot", nothing)
    assert [hit.score for hit in index.search(QUERY, one_sided=True)] == [0.0, 0.0]
    with pytest.raises(pl.PathlensError, match="length zero"):
        index.search(QUERY, similarity="cosine")


def test_bad_input(model, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    for call, words in [
        (lambda: build([], tmp_path / "i", model), "empty"),
        (lambda: build(tmp_path / "empty.txt", tmp_path / "i", model), "no line with text"),
        (lambda: build(DOCUMENTS, tmp_path / "i", model, storage="zip"), "storage must be"),
        (lambda: build(DOCUMENTS, tmp_path / "i", model, storage="strongest", keep=0), "at least 1"),
        (lambda: build(["movie " * 600], tmp_path / "i", model), "document 0 has"),
    ]:
        with pytest.raises(pl.InputError, match=words):
            call()


def test_command_line(minilm, tmp_path):
    from importlib import import_module

    from pathlens.cli import COMMANDS, app

    for name in COMMANDS:
        import_module(f"pathlens.cli.{name}")
    (tmp_path / "d.txt").write_text("Boil the rice in water.\n\nA man plays a guitar.\n")
    run = CliRunner().invoke
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = run(
            app, ["index", "build", str(tmp_path / "d.txt"), str(tmp_path / "i"), "--layer", "6", "--quiet"]
        )
        assert made.exit_code == 0 and "2 documents" in made.output and "kB per passage" in made.output, (
            made.output
        )
        found = run(
            app,
            ["index", "search", str(tmp_path / "i"), "How do I cook rice?", "--json", "-", "--why", "1,2"],
        )
        body = json.loads(found.output)
        assert body["hits"][0]["text"].startswith("Boil") and body["why"]["similarity"] > 0
        assert run(app, ["index", "check", str(tmp_path / "i")]).exit_code == 0
        ranked = run(app, ["rank", "minilm", "How do I cook rice?", str(tmp_path / "d.txt"), "--layer", "6"])
        assert ranked.exit_code == 0 and ranked.output.index("Boil") < ranked.output.index("guitar"), (
            ranked.output
        )
        assert "adds up" in ranked.output
