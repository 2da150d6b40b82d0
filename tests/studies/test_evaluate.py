"""`pl.evaluate` and `pathlens evaluate`: tables as a person meets them, and mistakes answered in one line."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import pathlens as pl
from experiments.faithfulness_tables import joined
from pathlens.corpus.reading import read_sample
from pathlens.draw import page_of
from pathlens.errors import InputError, StoreError
from pathlens.metrics.evaluate import evaluate
from pathlens.metrics.record import SIG_NOTE, Column, Evaluation
from tests.ends.test_cli import folder, pathlens  # noqa: F401  (a fixture)
from tests.support import models

TEXTS = [*models.TEXTS, "the plot was awful .", "a very good film"]


@pytest.fixture(scope="module")
def result() -> Evaluation:
    return evaluate(
        models.classifier("bert"),
        TEXTS,
        methods=["gradient-x-input", "ig", "sig"],
        baselines=["mask", "pad"],
        reference=["mask", "pad"],
        extra=["infidelity"],
        draws=300,
    )


def test_every_table_has_its_controls_and_says_what_favours_sig(result):
    assert result.contenders == (
        "random", "leave-one-out", "gradient-x-input", "ig, mask", "ig, pad", "sig, mask", "sig, pad",
    )  # fmt: skip
    assert SIG_NOTE in result.notes and result.references == ("mask", "pad")
    assert {"log-odds (mask)", "log-odds (pad)", "comprehensiveness", "sufficiency"} <= {
        column.name for column in result.columns
    }
    assert result.texts == len(TEXTS) and all(c.values.shape == (7, len(TEXTS)) for c in result.columns)


def test_a_cell_is_the_mean_of_its_texts_and_aopc_the_mean_of_its_curve(result):
    for curve in result.curves:
        at = curve.shares.index(0.2)
        assert np.allclose(result.column(curve.name).values, curve.values[..., at])
        assert np.allclose(result.column(f"AOPC {curve.name}").values, curve.values.mean(-1))
    cell = result.estimate("ig, mask", "comprehensiveness")
    assert cell.value == pytest.approx(result.column("comprehensiveness").values[3].mean())
    assert cell.low <= cell.value <= cell.high and cell.n == len(TEXTS)
    gained = result.difference("sig, mask", "ig, mask", "comprehensiveness")
    other = result.estimate("sig, mask", "comprehensiveness")
    assert gained.value == pytest.approx(other.value - cell.value)
    with pytest.raises(InputError, match="no row 'idg'"):
        result.estimate("idg", "comprehensiveness")
    with pytest.raises(InputError, match="no metric"):
        result.estimate("random", "beauty")


def test_the_same_call_gives_the_same_numbers(result):
    again = evaluate(models.classifier("bert"), TEXTS[:2], methods=["sig"], baselines=["pad"], draws=50)
    other = evaluate(models.classifier("bert"), TEXTS[:2], methods=["sig"], baselines=["pad"], draws=50)
    assert again.to_dict() == other.to_dict()
    assert again.references == ("mask",)  # the model's default, named
    moved = evaluate(models.classifier("bert"), TEXTS[:2], methods=["sig"], draws=50, seed=1)
    assert not np.allclose(moved.column("comprehensiveness").values[0], again.column("comprehensiveness").values[0])


def test_a_saved_evaluation_is_read_back_and_parts_join_to_the_whole(result, tmp_path):
    body = json.loads(result.save(tmp_path / "e.json").read_text("utf-8"))
    assert Evaluation.from_dict(body).to_dict() == result.to_dict()
    earlier = {("ways" if name == "contenders" else name): value for name, value in body.items()}
    assert "ways" in earlier and Evaluation.from_dict(earlier).to_dict() == result.to_dict()
    halves = [
        evaluate(models.classifier("bert"), some, methods=["ig", "sig"], baselines=["mask", "pad"],
                 reference=["mask", "pad"], draws=300)
        for some in (TEXTS[:3], TEXTS[3:])
    ]  # fmt: skip
    both = joined(halves)
    assert both.texts == len(TEXTS)
    for name in ("comprehensiveness", "sufficiency", "log-odds (pad)"):
        for way in ("ig, mask", "sig, pad", "leave-one-out"):
            assert both.estimate(way, name).value == pytest.approx(result.estimate(way, name).value, abs=1e-5)
    rows = [result.contenders.index(way) for way in both.contenders if way != "random"]
    assert np.allclose(both.agreement[1:, 1:], result.agreement[np.ix_(rows, rows)], atol=1e-3)
    with pytest.raises(InputError, match="same rows"):
        joined([halves[0], result])


def test_the_table_as_csv(result, tmp_path):
    lines = result.to_csv(tmp_path / "t.csv").read_text("utf-8").splitlines()
    assert result.to_csv().splitlines() == lines and len(lines) == 1 + len(result.contenders) * len(result.columns)
    assert lines[0] == "way,metric,better,value,low,high,n,protocol"
    assert not any("nan" in line for line in lines)
    frame = result.to_dataframe()
    assert list(frame.columns) == lines[0].split(",") and len(frame) == len(result) == len(lines) - 1
    with pytest.raises(StoreError, match="cannot write"):
        result.to_csv(tmp_path / "none" / "t.csv")


def test_the_views_name_rows_reference_and_note(result, tmp_path, capsys):
    result.show(width=180)
    shown = capsys.readouterr().out
    page = result.to_html(tmp_path / "e.html").read_text("utf-8")
    for text in (shown, re.sub(r"<[^>]+>", " ", page)):
        for way in result.contenders:
            assert way in text
        assert "log-odds (mask) ↓" in text and "comprehensiveness ↑" in text
        assert "leave-one-out (the token put to the baseline" in text and "protocol default" in text
        assert "95 % of 300 bootstrap draws" in text
    assert page.count('class="chart"') == len(result.curves) and "http:" not in page
    from pathlens.explanation import store

    assert store.extract(page)["contenders"] == list(result.contenders)
    for name in ("e.png", "e.svg"):
        assert result.to_png(tmp_path / name).stat().st_size > 20_000
    assert b"gradient-x-input" in (tmp_path / "e.svg").read_bytes()


def test_a_metric_stands_where_it_belongs_whatever_its_name(result):
    mine = Column("AOPC of mine", "higher", result.columns[0].values)
    page = page_of(replace(result, columns=(*result.columns, mine)))
    at, over, others = (table.columns for table in page.blocks[:3])
    assert at == over and len(at) == 1 + len(result.curves)
    assert "AOPC of mine ↑" in others


def test_a_text_that_fails_is_left_out_of_every_row_and_told():
    evaluation = evaluate(models.classifier("bert"), ["great !", "", "a bad film"], methods=["sig"], draws=20)
    assert evaluation.texts == 2 and all(c.values.shape[1] == 2 for c in evaluation.columns)
    assert any("1 texts are left out" in note and "text 1" in note for note in evaluation.notes)
    with pytest.raises(InputError, match="no text could be explained"):
        evaluate(models.classifier("bert"), ["", " "], methods=["sig"])


def test_labels_give_the_accuracy():
    evaluation = evaluate(models.classifier("bert"), TEXTS[:3], methods=["sig"], labels=["LABEL_0", 1, "2"], draws=20)
    assert any("names the given label for" in note for note in evaluation.notes)


def test_labels_that_are_none_of_the_models_are_no_accuracy():
    """Stars from 1 to 5 would otherwise count as wrong, or worse, as the class with that number."""
    for labels, words in (
        (["5", 1, "LABEL_0"], "1 of 3 given labels are none of the model's (LABEL_0, LABEL_1, LABEL_2), the first is '5'"),
        ([None, " ", None], "accuracy is not told: no label is given"),
        ([None, 1, "LABEL_0"], "of 2 texts"),
    ):  # fmt: skip
        evaluation = evaluate(models.classifier("bert"), TEXTS[:3], methods=["sig"], labels=labels, draws=20)
        assert any(words in note for note in evaluation.notes), evaluation.notes
    assert any("1 texts have no label" in note for note in evaluation.notes)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"methods": ["ij"]}, "ij: not to be evaluated"),
        ({"protocol": "mine"}, "protocol='mine' is not known; protocols: default, paper"),
        ({"extra": ["beauty"]}, "extra: beauty is not known"),
        ({"unit": "word"}, "unit: metrics delete tokens"),
        ({"baseline": "pad"}, r"use baselines=\["),
        ({"method": "ig"}, r"use methods=\["),
        ({"shares": [0.0, 0.5]}, "shares of the tokens lie above 0"),
        ({"reference": "eos"}, "has no eos token"),
        ({"reference": []}, "reference: name at least one"),
        ({"texts_b": ["one", "two"]}, "texts_b has 2 entries for 1 texts"),
        ({"labels": []}, "labels has 0 entries for 1 texts"),
        ({"texts_b": "two"}, "are lists of texts"),
    ],
)
def test_mistakes_are_answered_in_words(choices, words):
    with pytest.raises(InputError, match=words):
        evaluate(models.classifier("bert"), TEXTS[:1], **{"methods": ["sig"], **choices})


def test_no_texts_and_models_without_probabilities():
    with pytest.raises(InputError, match="no texts"):
        pl.evaluate(models.classifier("bert"), [])
    with pytest.raises(InputError, match="probability of a class"):
        pl.evaluate(models.encoder("bert"), ["the film"], methods=["ig"])


def test_taggers_and_answerers_are_evaluated_too():
    tags = evaluate(models.tagger(), models.TEXTS[::2], methods=["sig"], draws=20)
    assert np.isfinite(tags.column("comprehensiveness").values).all()
    spans = evaluate(
        models.answerer(), ["what was it ?"], ["the film was really very funny ."], methods=["ig", "sig"],
        protocol="paper", draws=20,
    )  # fmt: skip
    assert spans.protocol == "paper" and np.isfinite(spans.column("sufficiency").values).all()


def test_rows_of_a_file_are_a_seeded_sample(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("say,mark\n" + "".join(f"good film {i},{i % 2}\n" for i in range(30)), encoding="utf-8")
    texts, others, labels = read_sample(str(file), "say", None, "mark", limit=5, seed=2)
    assert len(texts) == len(labels) == 5 and others is None
    assert (texts, labels) == read_sample(str(file), "say", None, "mark", limit=5, seed=2)[::2]
    assert texts != read_sample(str(file), "say", limit=5, seed=3)[0]
    assert all(label == str(int(text.split()[-1]) % 2) for text, label in zip(texts, labels, strict=True))


def test_rows_that_are_left_out_are_counted(tmp_path, folder):  # noqa: F811
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "good film"}\n{"text": 3}\n{"text": ""}\n{"text": "bad"}\n')
    with pytest.warns(UserWarning, match="2 of 4 rows .* are left out; the first is row 1: .* holds int"):
        assert read_sample(str(file))[0] == ["good film", "bad"]
    done = pathlens("evaluate", folder, file, "--method", "sig", "--json", "-")
    assert done.returncode == 0 and "2 of 4 rows" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_tables_are_read_as_run_reads_them(tmp_path):
    (tmp_path / "t.csv").write_text('a "good; film;1\nbad;0\n')
    result = read_sample(str(tmp_path / "t.csv"), "0", label="1", separator=";", quoting=False, header=False)
    assert result[0] == ['a "good', "bad"] and result[2] == [" film", "0"]


def test_the_command(folder, tmp_path):  # noqa: F811
    data = tmp_path / "texts.tsv"
    data.write_text("sentence\tlabel\n" + "\n".join(f"{t}\t0" for t in TEXTS) + "\n", encoding="utf-8")
    out = {name: tmp_path / f"e.{name}" for name in ("json", "html", "png", "csv")}
    done = pathlens(
        "evaluate", folder, data, "--text", "sentence", "--label", "label", "--method", "ig,sig",
        "--baseline", "mask,pad", "--limit", "3", "--json", out["json"], "--html", out["html"], "--png", out["png"],
        "--csv", out["csv"],
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout == "" and all(f"wrote {file}" in done.stderr for file in out.values())
    body = json.loads(out["json"].read_text("utf-8"))
    assert body["texts"] == 3 and body["contenders"][2:] == ["ig, mask", "ig, pad", "sig, mask", "sig, pad"]
    assert any("names the given label" in note for note in body["notes"])
    assert all(path.stat().st_size > 500 for path in out.values())
    shown = pathlens("evaluate", folder, data, "--text", "sentence", "--method", "sig", "--limit", "2",
                     "--protocol", "paper")  # fmt: skip
    assert shown.returncode == 0 and "paper protocol" in " ".join(shown.stdout.split()) and shown.stderr == ""


def test_the_command_answers_bad_input_in_one_line(folder, tmp_path):  # noqa: F811
    data, empty = tmp_path / "texts.csv", tmp_path / "empty.csv"
    data.write_text("say\ngood film\n", encoding="utf-8")
    empty.write_text("", encoding="utf-8")
    for arguments, words in (
        ((data, "--text", "review"), "has no column 'review'"),
        ((data, "--text", "say", "--label", "stars"), "has no column 'stars' (--keep, --label); its columns: say"),
        ((empty, "--text", "say"), "is empty"),
        ((tmp_path / "none.csv", "--text", "say"), "there is no file"),
        ((data, "--text", "say", "--method", "shap"), "shap: not to be evaluated"),
    ):
        done = pathlens("evaluate", folder, *arguments)
        assert done.returncode == 2 and done.stdout == ""
        assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
