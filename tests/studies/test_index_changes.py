"""An index that grows, shrinks and is interfered with: readers see what was written last as a whole, and sums hold."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import pathlens as pl
from pathlens.files import content_sum
from pathlens.text.load import load
from pathlens.vectors import build as building
from pathlens.vectors import table as tables
from pathlens.vectors.index import Index, build
from tests.support import models

DOCUMENTS = {
    "a": "the movie was really funny .",
    "b": "a man plays guitar .",
    "c": "it is a great plot",
    "d": "a funny movie",
    "e": "bad acting",
}
QUERY = "a funny film"
STORAGES = list(building.STORAGES)


@pytest.fixture(scope="module")
def model():
    return load(models.encoder("bert"))


@pytest.fixture
def few(monkeypatch):
    """Two passages a part."""
    for name in ("PER_FILE", "PER_PART"):
        monkeypatch.setattr(building, name, 2)


def scores(model, documents) -> dict[str, float]:
    ranking = pl.rank(model, QUERY, list(documents.values()), method="secant", top=1)
    return {list(documents)[hit.document]: hit.score for hit in ranking}


def scores_in(index, **how) -> dict[str, float]:
    return {hit.name: hit.score for hit in index.search(QUERY, 9, **how)}


@pytest.mark.parametrize("storage", STORAGES)
def test_every_storage_finds_the_same_and_adds_up(model, tmp_path, few, storage):
    made = build(DOCUMENTS, tmp_path, model, storage=storage, keep=3 if storage in building.KEEP else None)
    index = Index.open(tmp_path, model)
    assert scores_in(index) == pytest.approx(scores(model, DOCUMENTS), abs=1e-6) and index.verify() == []
    for single in (None, True, False):
        for hit in index.search(QUERY, 9, one_sided=single):
            whole = hit.explanation.full_matrix.sum() if single is False else None
            total = whole if whole is not None else hit.scores.sum() + hit.certificate.f_baseline
            if single is None and storage != "plain":
                total = hit.explanation.full_matrix.sum()
            assert total == pytest.approx(hit.score, abs=1e-5) and hit.certificate.converged
    assert (storage == "plain") == (not list(tmp_path.glob("vectors-*"))), "a plain index stores no explanation"
    assert made["documents"] == 5 and {"text", "vector"} <= set(index.table.open().schema.names)


def test_vectors_in_four_bits_read_like_the_whole_ones(model, tmp_path):
    for storage in ("full", "compact"):
        build(DOCUMENTS, tmp_path / storage, model, storage=storage)
    full, small = (Index.open(tmp_path / storage, model).search(QUERY, 5) for storage in ("full", "compact"))
    for a, b in zip(full, small, strict=True):
        assert a.name == b.name and a.tokens == b.tokens
        off = np.abs(a.scores[:-1] - b.scores[:-1])
        assert off.max() < 0.15 * np.abs(a.scores).max()
        assert b.scores.sum() + b.explanation.full_matrix[:, 0].sum() == pytest.approx(b.score, abs=1e-6)


@pytest.mark.parametrize("storage", ["plain", "full", "compact"])
def test_documents_come_change_and_go_by_id(model, tmp_path, few, storage):
    build(DOCUMENTS, tmp_path, model, storage=storage)
    index, other = Index.open(tmp_path, model), Index.open(tmp_path, model)  # two processes
    changed = {**DOCUMENTS, "b": "what a great movie", "f": "the plot is funny", "it's": "it is bad"}
    index.add({"f": changed["f"], "it's": changed["it's"]})
    index.update({"b": changed["b"]})
    index.delete(["c", "e"])
    wanted = {name: text for name, text in changed.items() if name not in ("c", "e")}
    for each in (index, other, Index.open(tmp_path, model)):
        assert scores_in(each) == pytest.approx(scores(model, wanted), abs=1e-6) and each.verify() == []
    assert {hit.name: hit.text for hit in index.search(QUERY, 9)} == wanted
    assert index.manifest["documents"] == len(index) == 5
    assert len({hit.document for hit in index.search(QUERY, 9)}) == 5, "every document has a number of its own"
    for change, words in [
        (lambda: index.add({"a": "again"}), "'a' is in the index already"),
        (lambda: index.update({"c": "gone"}), "no document 'c'"),
        (lambda: index.delete("nobody"), "no document 'nobody'"),
        (lambda: index.delete(list(wanted)), "all documents"),
        (lambda: index.add({"x": 5}), "'x': an index holds texts"),
        (lambda: index.add({"x": " "}), "'x': text is empty"),
    ]:
        with pytest.raises(pl.InputError, match=words):
            change()
    assert scores_in(Index.open(tmp_path, model)) == scores_in(index)


def test_a_repaired_table_leaves_out_what_was_deleted(model, tmp_path, few):
    build(DOCUMENTS, tmp_path, model)
    index = Index.open(tmp_path, model)
    index.delete("a")
    before = scores_in(index)
    shutil.rmtree(tmp_path / "table")
    broken = Index.open(tmp_path, model)
    with pytest.raises(pl.PathlensError, match=r"table of embeddings.*missing or damaged.*repair"):
        broken.search(QUERY)
    broken.repair()
    assert scores_in(Index.open(tmp_path, model)) == pytest.approx(before, abs=1e-6) and "a" not in before
    assert Index.open(tmp_path, model).verify() == []


def test_a_change_that_is_interrupted_was_never_there(model, tmp_path, few, monkeypatch):
    """Killed between the table and the manifest: readers go by the manifest, and the next change undoes the rest."""
    build(DOCUMENTS, tmp_path, model, storage="plain")
    index, before = Index.open(tmp_path, model), None
    before = scores_in(index)

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(building, "write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            index.delete("a")
    again = Index.open(tmp_path, model)
    assert again.table.count() == 4 and scores_in(again) == before
    again.add({"f": "the plot is funny"})
    assert set(scores_in(again)) == {*DOCUMENTS, "f"} and again.verify() == []


@pytest.mark.parametrize("storage", ["plain", "full", "compact"])
def test_an_interrupted_build_goes_on_and_the_old_index_stays(model, tmp_path, few, monkeypatch, storage):
    build({"old": "a man plays guitar ."}, tmp_path, model, storage=storage)
    write, done = building.IndexWriter.write, []

    def dies_at_the_third(self, number, *rest):
        if number == 2:
            raise KeyboardInterrupt
        done.append(number)
        return write(self, number, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(building.IndexWriter, "write", dies_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            build(DOCUMENTS, tmp_path, model, storage=storage)
    assert list(scores_in(Index.open(tmp_path, model))) == ["old"]
    with monkeypatch.context() as patch:
        patch.setattr(building.IndexWriter, "write", lambda self, n, *rest: done.append(n) or write(self, n, *rest))
        build(DOCUMENTS, tmp_path, model, storage=storage)
    assert done == [0, 1, 2], "finished parts are kept"
    build(DOCUMENTS, tmp_path / "whole", model, storage=storage)
    assert scores_in(Index.open(tmp_path, model)) == scores_in(Index.open(tmp_path / "whole", model))
    assert Index.open(tmp_path, model).verify() == [] and not (tmp_path / building.JOURNAL).exists()


def test_a_build_of_other_documents_takes_nothing_of_an_interrupted_one(model, tmp_path, few, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(building.IndexWriter, "complete", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            build(DOCUMENTS, tmp_path, model, storage="plain")
    with pytest.raises(pl.PathlensError, match="half written.*finished files are kept"):
        Index.open(tmp_path, model)
    other = {**DOCUMENTS, "c": "what is it"}  # the second part differs
    build(other, tmp_path, model, storage="plain")
    assert scores_in(Index.open(tmp_path, model)) == pytest.approx(scores(model, other), abs=1e-6)


@pytest.mark.parametrize("how", ["deleted", "edited", "added"])
def test_a_table_that_someone_else_changed_is_said_in_a_line_and_taken_back(model, tmp_path, few, how):
    build(DOCUMENTS, tmp_path, model, storage="plain")
    before, table = scores_in(Index.open(tmp_path, model)), Index.open(tmp_path, model).table.open()
    if how == "deleted":
        table.delete("name = 'c'")
    elif how == "edited":
        table.update(where="name = 'c'", values={"text": "something else"})
    else:
        table.add(table.search().limit(1).to_arrow().select(table.schema.names))
    index = Index.open(tmp_path, model)
    with pytest.raises(pl.PathlensError, match=r"changed by someone else.*index check.*index repair") as caught:
        index.search(QUERY)
    assert "\n" not in str(caught.value)
    (line,) = index.verify()
    assert ("part 0" if how == "added" else "part 1") in line
    index.repair()
    assert scores_in(Index.open(tmp_path, model)) == before and Index.open(tmp_path, model).verify() == []


def test_a_table_that_was_only_tidied_is_accepted(model, tmp_path, few):
    build(DOCUMENTS, tmp_path, model, storage="plain")
    table = Index.open(tmp_path, model).table.open()
    table.create_scalar_index("name")
    index = Index.open(tmp_path, model)
    with pytest.raises(pl.PathlensError, match="changed by someone else"):
        index.search(QUERY)
    index.repair()
    assert scores_in(Index.open(tmp_path, model)) == pytest.approx(scores(model, DOCUMENTS), abs=1e-6)


def test_a_text_that_is_not_the_vectors_is_never_explained(model, tmp_path):
    """The numbers of one text and the words of another: the model's own similarity does not match the store's."""
    build(DOCUMENTS, tmp_path, model, storage="plain")
    index = Index.open(tmp_path, model)
    index.table.open().update(where="name = 'd'", values={"text": "a man plays guitar ."})
    manifest = tmp_path / "index.json"
    body = {**index.manifest, "version": index.table.version}
    manifest.write_text(json.dumps({**body, "sha256": content_sum(body)}))
    with pytest.raises(pl.PathlensError, match=r"of 'd', and the model .* of the text that stands there"):
        Index.open(tmp_path, model).search(QUERY)


def test_an_index_of_an_earlier_format_is_refused_in_a_line(model, tmp_path):
    (tmp_path / "index.json").write_text(json.dumps({"format": 4, "versions": {"pathlens": "0.1.0"}, "rows": []}))
    with pytest.raises(pl.PathlensError, match=r"another version.*index format 4.*build it again") as caught:
        Index.open(tmp_path, model)
    assert "\n" not in str(caught.value)


def test_neighbours_come_from_the_stores_own_index_and_equal_the_exact_ones(model, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "NEIGHBOURS_FROM", 300)
    monkeypatch.setattr("pathlens.vectors.index.NEIGHBOURS_FROM", 300)
    words = "a the movie film plot funny great bad man plays guitar acting really was is it".split()
    draw = np.random.default_rng(0)
    texts = {f"d{n}": " ".join(draw.choice(words, 5)) for n in range(400)}
    build(texts, tmp_path, model, storage="plain")
    index = Index.open(tmp_path, model)
    (ann,) = index.table.open().list_indices()
    assert ann.num_indexed_rows == 400
    near, exact = index.search(QUERY, 10), index.search(QUERY, 10, exact=True)
    assert [hit.score for hit in near] == pytest.approx([hit.score for hit in exact], abs=1e-6)
    index.add({"new": QUERY})
    assert index.search(QUERY, 1)[0].name == "new" and index.verify() == []


def test_opening_reads_no_row(model, tmp_path, monkeypatch):
    build(DOCUMENTS, tmp_path, model, storage="plain")
    for name in ("open", "part", "nearest", "connect"):
        monkeypatch.setattr(tables.Table, name, lambda *a, **b: pytest.fail("the table was read"))
    assert len(Index.open(tmp_path, model)) == 5
