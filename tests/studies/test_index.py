"""An index that explains itself: hits add up after rounding, and a damaged part takes nothing else with it."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.text.load import load
from pathlens.text.sentence import SentenceEncoder
from pathlens.vectors.index import Index, build
from tests.support import models
from tests.support.corpora import pathlens, refused

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
    monkeypatch.setattr("pathlens.vectors.build.PER_FILE", 2)
    build(DOCUMENTS, tmp_path / "index", model, tolerance=1e-3)
    return tmp_path / "index"


def _empty(folder):
    folder.mkdir()
    return folder


def test_hits_are_the_ranking_and_add_up_to_the_score(folder, model):
    hits = Index.open(folder, model).search(QUERY, k=5)
    fresh = pl.rank(model, QUERY, DOCUMENTS, method="secant")
    assert [hit.document for hit in hits] == [hit.document for hit in fresh]
    for a, b in zip(hits, fresh, strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-6)
        assert a.explanation.certificate.converged
        assert abs(a.explanation.full_matrix.sum() - a.score) < 1e-3 * max(abs(a.score), 0.1)
        assert a.explanation.tokens_b == (*b.explanation.tokens_b, "(remainder)")
        assert np.abs(a.explanation.full_matrix[:, :-1] - b.explanation.full_matrix).max() < 3e-3  # 16 bits
    why = hits.why(0, 4)
    assert why.full_matrix.sum() == pytest.approx(hits[0].score - hits[4].score, abs=1e-3)


def test_equal_documents_stand_in_the_order_given_wherever_their_vectors_come_from(model, tmp_path):
    documents = [DOCUMENTS[1], DOCUMENTS[3], DOCUMENTS[1], DOCUMENTS[3]]
    build(documents, tmp_path, model, n_steps=2)
    vectors = pl.encode(model, documents, n_steps=2)
    orders = [
        [hit.document for hit in ranking]
        for ranking in (
            pl.rank(model, QUERY, documents, n_steps=2),
            pl.rank(model, QUERY, vectors, n_steps=2),
            Index.open(tmp_path, model).search(QUERY, one_sided=True),
        )
    ]
    assert orders[0] == orders[1] == orders[2] and orders[0] in ([0, 2, 1, 3], [1, 3, 0, 2])


def test_one_sided_search_sums_exactly_whatever_was_rounded_or_left_out(folder, model, tmp_path):
    full = Index.open(folder, model)
    made = build(DOCUMENTS, tmp_path / "small", model, storage="strongest", keep=2)
    small = Index.open(tmp_path / "small", model)
    assert 0 < made["bytes_per_document"] < full.manifest["bytes_per_document"]
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
        hits = index.search(QUERY, k=5)
    assert len(hits) == 5
    assert {hit.document for hit in hits if hit.explanation is None} == {2, 3}
    fresh = {hit.document: hit.score for hit in pl.rank(model, QUERY, DOCUMENTS, top=1)}
    assert all(hit.score == pytest.approx(fresh[hit.document], abs=1e-5) for hit in hits)
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
    words = [line for line in index.verify() if "table of embeddings" in line]
    assert words or _fails(index)
    assert not any(".rs" in line for line in words), "where it happened in the store's source is no help"
    index.repair()
    assert Index.open(folder, model).verify() == []
    assert [hit.score for hit in Index.open(folder, model).search(QUERY, one_sided=True)] == before


def _fails(index) -> bool:
    try:
        index.search(QUERY, one_sided=True)
    except pl.PathlensError as error:
        return "missing or damaged" in str(error)
    return False


def test_half_written_foreign_and_other_versions_are_refused(folder, model):
    with pytest.raises(pl.InputError, match="another model"):
        Index.open(folder, load(models.encoder("roberta")))
    manifest = folder / "index.json"
    body = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**body, "format": 99}))
    with pytest.raises(pl.PathlensError, match=r"another version.*build it again"):
        Index.open(folder, model)
    few = {name: body[name] for name in ("format", "model", "parts")}
    uneven = {**body, "passages": 7}
    for text in ("{half", "[1, 2]", json.dumps(few), json.dumps(uneven), json.dumps({**body, "parts": [{}]})):
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


def test_embeddings_of_length_zero_are_never_lost_in_silence(tmp_path):
    body, tokenizer = models.encoder("bert")
    nothing = SentenceEncoder(body, tokenizer)
    nothing.head = lambda states, mask, cases: 0.0 * states.mean(1)
    with pytest.raises(pl.PathlensError, match=r"'document 0' has length zero.*similarity='dot'"):
        build(DOCUMENTS[:2], tmp_path / "cosine", nothing, n_steps=2)
    faint = SentenceEncoder(body, tokenizer)
    faint.head = lambda states, mask, cases: 1e-25 * states.mean(1)
    with pytest.raises(pl.PathlensError, match="too short for 32 bits"):
        build(DOCUMENTS[:2], tmp_path / "faint", faint, n_steps=2)
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


def test_command_line(minilm, tmp_path, monkeypatch, capfd):
    (tmp_path / "d.txt").write_text("Boil the rice in water.\n\nA man plays a guitar.\n")
    texts, index = tmp_path / "d.txt", tmp_path / "i"

    def run(*arguments):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pathlens(monkeypatch, capfd, *arguments)

    code, out, _ = run("index", "build", "minilm", texts, index, "--layer", "6", "--quiet")
    assert code == 0 and "2 documents" in out and "kB per document" in out, out
    body = json.loads(run("index", "search", index, "How do I cook rice?", "--json", "-", "--why", "1,2")[1])
    assert body["hits"][0]["text"].startswith("Boil") and body["why"]["similarity"] > 0
    assert run("index", "check", index)[0] == 0
    code, out, _ = run("rank", "minilm", "How do I cook rice?", texts, "--layer", "6")
    assert code == 0 and out.index("Boil") < out.index("guitar") and "adds up" not in out, (
        out
    )  # said only where it does not
    for words in (["index", "search", index, "rice"], ["rank", "minilm", "rice", texts]):
        assert json.loads(run(*words, "--one-sided", "--why", "1,2", "--json", "-")[1])["why"]["scores"]
    refused(run("index", "search", index, "rice", "--model", "sentiment"), "another model")


def test_a_build_that_fails_leaves_the_old_index_whole(folder, model):
    before = [hit.score for hit in Index.open(folder, model).search(QUERY, one_sided=True)]
    for documents, choices, words in [
        (DOCUMENTS, {"unit": "nonsense"}, "unknown"),
        (DOCUMENTS, {"layer": 99}, "layer=99"),
        (DOCUMENTS, {"foo": 1}, "foo: not an option"),
        ([*DOCUMENTS[:4], 5], {}, "document 4"),
        ([*DOCUMENTS[:4], " "], {}, "document 4: text is empty"),
        (None, {}, "must be a list of texts"),
        (DOCUMENTS, {"store": "foo://nowhere", "layer": 1}, "cannot open a table"),
    ]:
        with pytest.raises(pl.PathlensError, match=words):
            build(documents, folder, model, **choices)
        index = Index.open(folder, model)
        assert index.verify() == [] and [hit.score for hit in index.search(QUERY, one_sided=True)] == before


def test_a_build_of_other_texts_keeps_only_the_files_whose_texts_are_the_same(folder, model):
    """As many texts as before, one of them another: its file is made anew, the others stay."""
    before = {file.name: file.read_bytes() for file in folder.glob("vectors-*.safetensors")}
    changed = [*DOCUMENTS[:3], "who plays the guitar ?", DOCUMENTS[4]]
    build(changed, folder, model, tolerance=1e-3)
    after = {file.name: file.read_bytes() for file in folder.glob("vectors-*.safetensors")}
    made = [name for name in after if after[name] != before.get(name)]
    assert len(after) == len(before) == 3 and len(made) == 1 and made[0].startswith("vectors-00001")
    assert {hit.text for hit in Index.open(folder, model).search(QUERY, one_sided=True)} == set(changed)


def test_files_of_others_are_left_alone(model, tmp_path):
    mine = tmp_path / "vectors-mine.safetensors"
    mine.write_bytes(b"mine")
    build(DOCUMENTS[:2], tmp_path, model, n_steps=1)
    assert mine.read_bytes() == b"mine"


def test_another_baseline_of_numbers_is_another_making(model, tmp_path):
    """Vectors of an earlier build are kept only when they were made the same way."""
    generator = torch.Generator().manual_seed(0)
    gathered = []
    for _ in range(2):
        build(DOCUMENTS[:2], tmp_path, model, n_steps=2, baseline=torch.randn(32, generator=generator))
        hit = Index.open(tmp_path, model).search(QUERY, 1, one_sided=True)[0]
        gathered.append(hit.explanation.certificate.f_baseline)
    assert abs(gathered[0] - gathered[1]) > 1e-3


@pytest.mark.parametrize("how", ["another index", "numbers turned"])
def test_a_table_with_other_numbers_is_found_out(folder, model, tmp_path, how):
    """The store keeps no checksum: a row that lost its place would never be found, and nobody would know."""
    before = [hit.document for hit in Index.open(folder, model).search(QUERY, 2)]
    if how == "another index":
        build(["bad acting", "what ?", "i never", "who is it", "the man"], tmp_path / "other", model, n_steps=1)
        shutil.rmtree(folder / "table")
        shutil.copytree(tmp_path / "other" / "table", folder / "table")
    else:
        data = max((folder / "table").rglob("*.lance"), key=lambda f: f.stat().st_size if f.is_file() else 0)
        raw = bytearray(data.read_bytes())
        row = pl.Vectors.load(folder / "vectors-00001.safetensors").embeddings[1].astype(np.float32).tobytes()
        at = bytes(raw).index(row)
        raw[at + 3 : at + len(row) : 4] = bytes(byte ^ 0x80 for byte in row[3::4])
        data.write_bytes(bytes(raw))
    index = Index.open(folder, model)
    named = [line for line in index.verify() if "not those written" in line or "rows of" in line]
    assert ["part 1 " in line for line in named] == ([False, True, False] if how == "another index" else [True])
    with pytest.raises(pl.PathlensError, match=r"changed by someone else, or is damaged.*index repair"):
        index.search(QUERY, 5)
    index.repair()
    assert [hit.document for hit in Index.open(folder, model).search(QUERY, 2)] == before


def test_a_manifest_with_a_wrong_character_is_damaged(folder, model):
    manifest = folder / "index.json"
    whole = manifest.read_text()
    manifest.write_text(whole.replace('"layer": 0', '"layer": 1'))
    with pytest.raises(pl.PathlensError, match=r"index.json.*damaged.*checksum"):
        Index.open(folder, model)


def test_a_damaged_vector_file_says_what_to_do_with_an_index(folder, model):
    victim = folder / "vectors-00001.safetensors"
    victim.unlink()
    index = Index.open(folder, model)
    (line,) = index.verify()
    assert victim.name in line and "index build" in line and "pl.encode" not in line
    with pytest.raises(pl.PathlensError, match="'BertModel', which cannot be found by that name.*--model"):
        Index.open(folder).search(QUERY)
    with pytest.raises(pl.InputError, match="the query: text is empty"):
        index.search("")


def test_size_counts_a_table_that_lives_elsewhere_and_names_long_files(model, tmp_path):
    here = build(DOCUMENTS, tmp_path / "here", model, n_steps=1)
    there = build(DOCUMENTS, tmp_path / "there", model, n_steps=1, store=str(tmp_path / "table"))
    assert there["bytes"] == pytest.approx(here["bytes"], rel=0.02)
    assert here["bytes_per_document"] == here["bytes"] / 5
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "long.md").write_text("movie " * 600)
    for chunk, words in ((False, r"'long.md' has 602 tokens.*--chunk"), (True, "'long.md' has one sentence")):
        with pytest.raises(pl.InputError, match=words):
            build(tmp_path / "texts", tmp_path / "i", model, chunk=chunk)


def test_each_side_keeps_its_own_baseline(model, tmp_path):
    build(DOCUMENTS[:2], tmp_path, model, unit=("token", "sentence"), baseline=("pad", "zero"))
    index = Index.open(tmp_path, model)
    both, single = (index.search(QUERY, 1, one_sided=flag)[0].explanation for flag in (False, True))
    assert both.meta["baseline"] == "pad | zero" and single.meta["baseline"] == "zero"
    text = both.meta["texts"][1]
    direct = pl.explain(model, QUERY, text, unit=("token", "sentence"), baseline=("pad", "zero"))
    assert np.abs(both.full_matrix[:, :-1] - direct.full_matrix).max() < 3e-3


def test_a_query_may_have_a_prompt_of_its_own(tmp_path):
    """Models that read queries and documents by different prompts."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    body, tokenizer = models.encoder("bert")
    for part in (body, tokenizer):
        part.save_pretrained(tmp_path / "body")
    parts = [Transformer(str(tmp_path / "body"), max_seq_length=32), Pooling(32, pooling_mode="mean")]
    model = SentenceTransformer(modules=parts, prompts={"query": "what : ", "document": "the film : "})
    build(DOCUMENTS[:2], tmp_path / "index", model, prompt_name="document", n_steps=2)
    hit = Index.open(tmp_path / "index", model).search(QUERY, 1, one_sided=True, prompt_name="query")[0]
    a, b = (
        model.encode([text], prompt_name=name, convert_to_tensor=True)
        for text, name in ((QUERY, "query"), (hit.text, "document"))
    )
    assert hit.score == pytest.approx(float(torch.cosine_similarity(a, b)), abs=1e-5)
    cut = SentenceTransformer(modules=[parts[0], Pooling(32, pooling_mode="cls")])
    with pytest.raises(pl.InputError, match="another model"):
        Index.open(tmp_path / "index", cut)


@pytest.mark.parametrize("baseline", ["given a text of words", "the default", "pad", None])
def test_a_query_has_the_baseline_of_the_build(minilm, tmp_path, baseline):
    """Whatever words a baseline's text begins with: it is no name of the format."""
    build(DOCUMENTS[:2], tmp_path, minilm, baseline=baseline)
    hit = Index.open(tmp_path, minilm).search(QUERY, 1)[0]
    direct = pl.explain(minilm, QUERY, hit.explanation.meta["texts"][1], baseline=baseline, method="secant")
    assert hit.explanation.meta["baseline"] == direct.meta["baseline"]
    assert np.abs(hit.explanation.full_matrix[:, :-1] - direct.full_matrix).max() < 3e-3  # 16 bits


@pytest.mark.parametrize(
    "named, method", [({}, "secant"), ({"max_nodes": 64}, "ij"), ({"rule": "midpoint", "n_steps": 2}, "ij")]
)
def test_an_index_is_of_integrals_where_nodes_are_named(model, tmp_path, named, method):
    build(DOCUMENTS[:2], tmp_path, model, tolerance=0.5, **named)
    assert Index.open(tmp_path, model).search(QUERY, 1)[0].explanation.method == method


def test_an_index_of_secants_is_searched_by_secants(model, tmp_path):
    build(DOCUMENTS[:3], tmp_path, model, method="secant")
    for hit in Index.open(tmp_path, model).search(QUERY, 3):
        direct = pl.explain(model, QUERY, hit.explanation.meta["texts"][1], method="secant")
        assert hit.explanation.method == "secant" and hit.explanation.certificate.converged
        rows = hit.explanation.full_matrix.sum(1)  # what 16 bits lose of a document's token is in the remainder
        assert np.abs(rows - direct.full_matrix.sum(1)).max() < 1e-5
        assert np.abs(hit.explanation.full_matrix[:, :-1] - direct.full_matrix).max() < 3e-3
