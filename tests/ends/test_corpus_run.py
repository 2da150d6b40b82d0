"""Runs: rows as `pl.explain` gives them, folders that go on after anything, refusals that say what differs."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pathlens as pl
from pathlens.corpus import Source, is_run, plan, results, run
from pathlens.corpus.folder import MANIFEST, locked
from pathlens.corpus.schema import COLUMNS, VERSION, Tally, schema
from pathlens.corpus.shard import read_facts, read_rows, shard_path, shards
from pathlens.errors import InputError, ModelError, StoreError
from tests.support.corpora import pathlens, refused, same_rows, saved, table, texts
from tests.support.models import classifier

SIZES = {"batch_size": 4, "rows_per_shard": 8}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(saved(tmp_path_factory))


@pytest.fixture(scope="module")
def twenty(tmp_path_factory):
    """Twenty rows, and a run over them: three shards of 8, 8 and 4."""
    where = tmp_path_factory.mktemp("twenty")
    source = Source(str(table(where / "t.tsv", 20)), id="name")
    run(str(saved(tmp_path_factory)), source, where / "out", n_steps=3, **SIZES)
    return source, where / "out"


def names(folder):
    return {path.name for path in shards(folder)}


def test_rows_are_what_explain_gives(model, twenty):
    _, folder = twenty
    rows = list(read_rows(folder))
    assert [row["id"] for row in rows] == [f"n{k}" for k in range(20)]
    assert [row["row"] for row in rows] == list(range(20)) and [row["label"] for row in rows[:3]] == ["x", "y", "z"]
    explainer = pl.Explainer(model, n_steps=3)
    for row, result in zip(rows[:3], explainer.run((text, None) for text in texts(20)[:3]), strict=True):
        np.testing.assert_allclose(row["scores"], result.scores, atol=1e-6)
        assert tuple(row["tokens"]) == result.tokens and row["target"] == result.target
        assert row["converged"] == result.certificate.converged
        assert row["total"] == pytest.approx(sum(row["scores"]), abs=1e-9)


KINDS = [
    ("classifier", "ig", {}), ("classifier", "sig", {}), ("classifier", "ih", {}), ("classifier", "idg", {}),
    ("classifier", "udig", {"n_steps": None, "steps": 2, "neighbours": 5}), ("encoder", "ij", {"pooling": "mean"}),
    ("encoder", "vaig", {"pooling": "mean"}),
]  # fmt: skip


@pytest.mark.parametrize("kind, method, more", KINDS, ids=[method for _, method, _ in KINDS])
def test_a_row_turns_back_into_the_very_result(kind, method, more, tmp_path, tmp_path_factory):
    where = saved(tmp_path_factory, kind)
    pairs = [json.dumps({"a": a, "b": b}) for a, b in zip(texts(3, 1, 4), texts(3, 2, 4), strict=True)]
    (tmp_path / "t.jsonl").write_text("\n".join(pairs))
    choices = {"method": method, "n_steps": 3, **more}
    source = Source(str(tmp_path / "t.jsonl"), text="a", text_b="b" if method == "ij" else None)
    made = run(str(where), source, tmp_path / "out", **choices)
    assert made.tally.failed == 0, [row["error"] for row in read_rows(tmp_path / "out")]
    given = [json.loads(each) for each in pairs]
    chosen = {name: value for name, value in choices.items() if value is not None}
    expected = pl.Explainer(str(where), **chosen).run([(g["a"], g["b"] if method == "ij" else None) for g in given])
    for result, wanted in zip(results(tmp_path / "out"), expected, strict=True):
        one, two = result.to_dict(), wanted.to_dict()
        for body in (one, two):
            for name in ("seconds", "versions", "row", "id", "texts", "text"):
                body["meta"].pop(name, None)
        for name, value in two.items():
            if name in ("scores", "matrix", "full_matrix", "vectors", "f_input", "f_baseline"):
                np.testing.assert_allclose(np.array(one[name], float), np.array(value, float), atol=1e-6)
            elif name not in ("certificate", "similarity", "nodes", "plain", "check", "seal"):
                assert one[name] == value, name
        assert result.altered == "" and one["check"]["units"] == two["check"]["units"]
        assert one["check"]["actual"] == pytest.approx(two["check"]["actual"], abs=1e-6)
        assert one["certificate"]["gap"] == pytest.approx(two["certificate"]["gap"], abs=1e-6)
        assert len(result.top(2)) == len(wanted.top(2)) and result.meta["texts"][0] in {g["a"] for g in given}
        result.to_html()


def test_words_of_a_row_are_those_of_the_result(model, tmp_path):
    (tmp_path / "t.txt").write_text("the movie was not-really funny , but moving .\n")
    run(model, Source(str(tmp_path / "t.txt")), tmp_path / "out", n_steps=3)
    (row,) = read_rows(tmp_path / "out")
    (result,) = results(tmp_path / "out")
    sums: dict[int, float] = {}
    for word, score in zip(row["words"], row["scores"], strict=True):
        if word >= 0:
            sums[word] = sums.get(word, 0.0) + score
    by_word = result.words()
    plain = [score for score, special in zip(by_word.scores, by_word.special, strict=True) if not special]
    np.testing.assert_allclose([sums[word] for word in sorted(sums)], plain, atol=1e-12)


def test_a_bad_row_is_a_row_with_its_error(model, tmp_path, monkeypatch, capfd):
    long = " ".join(["movie"] * 600)
    (tmp_path / "t.jsonl").write_text(
        f'{{"text": "great !"}}\n{{"text": 3}}\n{{"text": "{long}"}}\n{{"text": "bad"}}\n'
    )
    done = pathlens(monkeypatch, capfd, "run", model, tmp_path / "t.jsonl", "--out", tmp_path / "out")
    assert done[0] == 0 and "2 explained" in done[1] and "2 failed" in done[1] and done[2] == "", done
    rows = list(read_rows(tmp_path / "out"))
    assert [row["error"] is None for row in rows] == [True, False, False, True]
    assert "int" in rows[1]["error"] and "TooLongError" in rows[2]["error"] and rows[2]["scores"] is None


def test_going_on_keeps_what_is_whole_and_redoes_what_is_not(model, twenty, tmp_path):
    source, reference = twenty
    run(model, source, tmp_path, n_steps=3, limit=17, **SIZES)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    first, second = (shard_path(tmp_path, k) for k in range(2))
    second.write_bytes(before[second.name][:-40])  # half written: the footer is gone
    damaged = bytearray(before[first.name])
    damaged[200] ^= 255  # a byte the disk lost; the footer is whole
    first.write_bytes(damaged)
    (tmp_path / ".part-00001.parquet.12345.tmp").write_bytes(b"left behind by a kill")
    assert read_facts(first) is None and read_facts(second) is None
    again = run(model, source, tmp_path, n_steps=3, limit=17, **SIZES)
    assert again.reused == 1 and again.tally.rows == 17, "the third shard, of one row, was whole"
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before, "the very same bytes"
    assert not list(tmp_path.glob(".*.tmp"))
    grown = run(model, source, tmp_path, n_steps=3, **SIZES)  # without the limit: the last shard grows
    assert (grown.reused, grown.tally.rows) == (16, 20)
    assert same_rows(tmp_path, reference) == 20


def test_a_number_that_the_disk_changed_is_noticed_by_the_shards_checksum(model, twenty, tmp_path, monkeypatch):
    """Stored plainly, so that no decompression stumbles: the file reads as well as before, with another score in it."""
    whole = pq.write_table
    plain = {"compression": "none", "use_dictionary": False}
    monkeypatch.setattr(pq, "write_table", lambda *given, **more: whole(*given, **{**more, **plain}))
    source, _ = twenty
    run(model, source, tmp_path, n_steps=3, limit=4, **SIZES)
    file = shard_path(tmp_path, 0)
    score = next(read_rows(tmp_path))["scores"][1]
    body, stored = file.read_bytes(), np.array(score, dtype="<f8").tobytes()
    assert body.count(stored) == 1 and read_facts(file) is not None
    file.write_bytes(body.replace(stored, np.array(score + 1, dtype="<f8").tobytes()))
    assert pq.read_table(file)["scores"][0].as_py()[1] == score + 1, "Parquet alone reads it"
    assert read_facts(file) is None
    with pytest.raises(StoreError, match="damaged"):
        next(read_rows(tmp_path))
    assert run(model, source, tmp_path, n_steps=3, limit=4, **SIZES).reused == 0 and file.read_bytes() == body


def test_rows_that_did_not_settle_are_counted(model, twenty, tmp_path):
    source, folder = twenty
    rows = list(read_rows(folder))
    loose = sum(not row["converged"] for row in rows)
    again = run(model, source, folder, n_steps=3, **SIZES)
    assert 0 < loose == again.tally.unconverged and again.reused == 20


def test_another_run_in_the_same_folder_is_refused_and_nothing_is_hurt(
    model, twenty, tmp_path_factory, monkeypatch, capfd
):
    source, folder = twenty
    before = {path.name: path.read_bytes() for path in shards(folder)}
    ask = [source.data, "--out", folder, "--id", "name", "--batch-size", 4, "--rows-per-shard", 8]
    other = tmp_path_factory.mktemp("other")
    weights, tokenizer = classifier("bert", labels=2)
    weights.save_pretrained(other)
    tokenizer.save_pretrained(other)
    same = ["run", model, *ask, "--n-steps", 3]
    refused(pathlens(monkeypatch, capfd, "run", other, *ask, "--n-steps", 3), "another run", "model")
    refused(pathlens(monkeypatch, capfd, *same[:-1], 4), "another run", "n_steps was 3, now 4")
    refused(pathlens(monkeypatch, capfd, *same, "--method", "sig"), "method", "sig")
    refused(pathlens(monkeypatch, capfd, *same, "--keep", "label", "--keep", "name"), "differ")
    refused(pathlens(monkeypatch, capfd, *same, "--limit", 5), "20 rows and now there are 5")
    assert {path.name: path.read_bytes() for path in shards(folder)} == before
    done = pathlens(monkeypatch, capfd, *same)
    assert done[0] == 0 and "20 were there already" in done[1], done


def test_changed_weights_and_changed_data_are_noticed(twenty, tmp_path, tmp_path_factory):
    import torch
    import transformers

    where = saved(tmp_path_factory)
    data = table(tmp_path / "t.tsv", 10)
    source = Source(str(data))
    run(str(where), source, tmp_path / "out", n_steps=3, **SIZES)
    lines = data.read_text().splitlines()
    data.write_text("\n".join([*lines[:-1], lines[-1].replace(lines[-1].split("\t")[1], "great film")]) + "\n")
    with pytest.raises(InputError, match="data has changed"):
        run(str(where), source, tmp_path / "out", n_steps=3, **SIZES)
    data.write_text("\n".join([*lines[:-1], lines[-1][:-1] + "q"]) + "\n")  # its label alone
    with pytest.raises(InputError, match="data has changed"):
        run(str(where), source, tmp_path / "out", n_steps=3, **SIZES)
    data.write_text("\n".join(lines) + "\n")
    module = transformers.AutoModelForSequenceClassification.from_pretrained(where)
    with torch.no_grad():
        module.classifier.bias[0] += 1e-3
    with pytest.raises(InputError, match="weights"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(where)
        run((module, tokenizer), source, tmp_path / "out", n_steps=3, **SIZES)


def test_overwrite_begins_anew(model, twenty, tmp_path):
    source, _ = twenty
    run(model, source, tmp_path, n_steps=2, **SIZES)
    made = run(model, source, tmp_path, n_steps=3, limit=5, overwrite=True, **SIZES)
    assert (made.reused, made.tally.rows) == (0, 5) and names(tmp_path) == {"part-00000.parquet"}
    whole = (tmp_path / MANIFEST).read_bytes()
    (tmp_path / MANIFEST).write_text("{damaged")
    for others in ({"n_steps": 4, "limit": 5}, {"n_steps": 3, "limit": 4}):  # another run, or less of it: nobody knows
        with pytest.raises(StoreError, match="overwrite"):
            run(model, source, tmp_path, **others, **SIZES)
    assert run(model, source, tmp_path, n_steps=3, limit=5, **SIZES).reused == 5, "its shards know whose they are"
    assert (tmp_path / MANIFEST).read_bytes() == whole
    assert run(model, source, tmp_path, n_steps=3, limit=5, overwrite=True, **SIZES).reused == 0


def test_shares_of_several_machines_make_one_run(model, twenty, tmp_path):
    source, reference = twenty
    one = run(model, source, tmp_path, n_steps=3, shard=(0, 2), **SIZES)
    assert names(tmp_path) == {"part-00000.parquet", "part-00002.parquet"} and one.tally.rows == 12
    assert run(model, source, tmp_path, n_steps=3, shard=(1, 2), **SIZES).tally.rows == 8
    assert same_rows(tmp_path, reference) == 20


def test_overwriting_one_share_leaves_the_others_alone(model, twenty, tmp_path):
    source, reference = twenty
    for share in ((0, 2), (1, 2)):
        run(model, source, tmp_path, n_steps=3, shard=share, overwrite=True, **SIZES)
    assert same_rows(tmp_path, reference) == 20
    with locked(tmp_path, (0, 2)), pytest.raises(InputError, match="another share is writing"):
        run(model, source, tmp_path, n_steps=4, shard=(1, 2), overwrite=True, **SIZES)
    assert same_rows(tmp_path, reference) == 20
    run(model, source, tmp_path, n_steps=4, shard=(1, 2), overwrite=True, **SIZES)
    assert names(tmp_path) == {"part-00001.parquet"}, "another run: nothing of the old one stays"


def test_two_runs_into_one_folder_are_refused_and_a_dead_ones_lock_is_not(model, twenty, tmp_path):
    source, _ = twenty
    holder = f"import sys; sys.path.insert(0, '.')\nfrom pathlib import Path\nfrom pathlens.corpus.folder import locked\nwith locked(Path({str(tmp_path)!r}), (0, 1)):\n print('held', flush=True)\n sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match=f"another run is writing.*process {process.pid}"):
            run(model, source, tmp_path, n_steps=3, limit=2)
        with pytest.raises(InputError, match="another run"), locked(tmp_path, (1, 2)):
            pass  # a share meets the whole
    finally:
        process.kill()
        process.wait()
    assert run(model, source, tmp_path, n_steps=3, limit=2).tally.rows == 2


def test_shares_of_one_division_may_run_at_once(tmp_path):
    with locked(tmp_path, (0, 2)), locked(tmp_path, (1, 2)):
        with pytest.raises(InputError), locked(tmp_path, (0, 2)):
            pass
        with pytest.raises(InputError), locked(tmp_path, (0, 3)):
            pass


def test_a_full_disk_is_one_line_and_the_run_goes_on_afterwards(model, twenty, tmp_path):
    """The file system refuses to write more than a few kB into a file: what a full disk does."""
    source, reference = twenty
    ask = [sys.executable, "-m", "pathlens", "run", model, source.data, "--id", "name", "--out", str(tmp_path),
           "--n-steps", "3", "--batch-size", "4", "--rows-per-shard", "8"]  # fmt: skip
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # noqa: E731
    done = subprocess.run(
        ask, capture_output=True, text=True, preexec_fn=limit, env={**os.environ, "TQDM_DISABLE": "1"}
    )
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2 and len(lines) == 1 and "cannot write" in lines[0] and "goes on" in lines[0], done
    assert not shards(tmp_path) and not list(tmp_path.glob(".*.tmp")) and is_run(tmp_path)
    run(model, source, tmp_path, n_steps=3, **SIZES)
    assert same_rows(tmp_path, reference) == 20


def test_a_disk_that_fills_up_in_the_middle_keeps_what_is_done(model, twenty, tmp_path, monkeypatch):
    source, reference = twenty
    real, written = os.fsync, []

    def fsync(handle):
        if str(os.readlink(f"/proc/self/fd/{handle}")).find("part-00001") >= 0:
            written.append(handle)
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreError, match="No space left on device.*1 finished shards are whole"):
        run(model, source, tmp_path, n_steps=3, **SIZES)
    assert written and names(tmp_path) == {"part-00000.parquet"} and not list(tmp_path.glob(".*.tmp"))
    monkeypatch.undo()
    assert run(model, source, tmp_path, n_steps=3, **SIZES).reused == 8
    assert same_rows(tmp_path, reference) == 20


def test_the_files_are_plain(twenty):
    """pandas, polars and DuckDB open the folder with no help from us."""
    import duckdb
    import pandas
    import polars

    _, folder = twenty
    frame = pandas.read_parquet(folder)
    assert len(frame) == 20 and frame["scores"][0].sum() == pytest.approx(frame["total"][0])
    frame = polars.read_parquet(folder / "*.parquet")
    assert frame.explode(["tokens", "scores"]).filter(polars.col("tokens") == "movie").height > 0
    sums = duckdb.sql(
        f"select label, avg(list_sum(scores) - total) from '{folder}/*.parquet' group by label"
    ).fetchall()
    assert len(sums) == 3 and all(abs(value) < 1e-9 for _, value in sums)
    simple = {pa.types.is_primitive, pa.types.is_string, pa.types.is_boolean}

    def plain(kind):
        return plain(kind.value_type) if pa.types.is_list(kind) else any(test(kind) for test in simple)

    assert all(plain(kind) for kind in COLUMNS.values())


def test_columns_of_the_data_never_hide_ours():
    names = schema(("label", "target", "text")).names
    assert names[-3:] == ["label", "data_target", "data_text"] and len(set(names)) == len(names)
    names = schema(("", "Text", "data_text", "text", "label", "Label")).names[-6:]
    assert names[0] == "unnamed" and names[5] == "data_Label"
    assert (
        len({name.lower() for name in schema(("", "Text", "data_text", "text", "label", "Label")).names})
        == len(COLUMNS) + 6
    )
    assert names[2] == "data_text" and names[4] == "label", "a name that can stay does"


def test_the_manifest_says_how_the_run_was_made(model, twenty):
    _, folder = twenty
    body = json.loads((folder / MANIFEST).read_text())
    assert body["corpus"] == VERSION and body["choices"] == {"n_steps": 3, "method": "ig"} and body["rows"] == 20
    assert len(body["fingerprint"]) == 16 and set(body["versions"]) == {"pathlens", "torch", "transformers", "numpy"}
    assert body["source"]["text"] == "text" and body["kept"] == ["label"]
    assert pq.read_schema(shard_path(folder, 0)).metadata


def test_the_plan_foretells_the_run(model, twenty, tmp_path, monkeypatch, capfd):
    source, folder = twenty
    foretold = plan(model, source, tmp_path / "none", n_steps=3, **SIZES)
    rows = list(read_rows(folder))
    assert foretold.rows == 20 and not (tmp_path / "none").exists()
    assert foretold.passes == pytest.approx(sum(row["passes"] for row in rows), rel=0.05)
    assert foretold.tokens == pytest.approx(sum(len(row["tokens"]) for row in rows), rel=0.1)
    assert foretold.memory > 50 * 2**20 and foretold.seconds > 0 and foretold.disk > 0
    done = plan(model, source, folder, n_steps=3, **SIZES)
    assert (done.done, done.passes, done.tokens, done.seconds, done.disk) == (20, 0, 0, 0, 0)
    assert plan(model, source, folder, n_steps=3, overwrite=True, **SIZES).done == 0
    assert plan(model, source, folder, n_steps=3, shard=(1, 2), **SIZES).done == 8, "of this share"
    with pytest.raises(InputError, match="another run.*n_steps was 3, now 4"):
        plan(model, source, folder, n_steps=4, **SIZES)
    with pytest.raises(InputError, match="workers must be"):
        plan(model, source, tmp_path / "none", workers=0)
    with pytest.raises(InputError, match="add --engine ray"):
        plan(model, source, tmp_path / "none", gpus=1)
    ask = ["run", model, source.data, "--out", tmp_path / "none", "--n-steps", 3, "--dry-run"]
    code, output, _ = pathlens(monkeypatch, capfd, *ask)
    assert code == 0 and not (tmp_path / "none").exists()
    for word in ("20 texts", "tokens", "passes", "time", "memory", "disk"):
        assert word in output


def test_the_bar_counts_what_matters(model, tmp_path, capfd, monkeypatch):
    """Rows that were there already move the bar, and do not make it look fast."""
    monkeypatch.setattr("pathlens.engine.progress.PATIENCE", 0.0)
    rows = ["great !", "", *texts(6)]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in rows))
    source, facts = Source(str(tmp_path / "t.jsonl")), []
    run(model, source, tmp_path / "out", n_steps=3, limit=4, batch_size=4, rows_per_shard=4)
    capfd.readouterr()
    sizes = {"batch_size": 2, "rows_per_shard": 4}
    run(model, source, tmp_path / "out", n_steps=3, show_progress=True, tell=facts.append, **sizes)
    unsettled = [each.unconverged for each in facts]
    assert [each.rows for each in facts] == [4, 6, 8] and all(isinstance(each, Tally) for each in facts)
    lines = capfd.readouterr().err.replace("\r", "\n").strip().splitlines()
    assert "8/8" in lines[-1] and f"{unsettled[-1]} not settled, 1 failed" in lines[-1], lines
    skipped = next(line for line in lines if "4/8" in line)
    assert "?" in skipped, "nothing of this run is done yet, so there is no rate"


def test_a_wrong_argument_of_the_model_is_told_before_the_first_row(model, tmp_path):
    (tmp_path / "t.csv").write_text("text\n" + "\n".join(texts(4)) + "\n")
    with pytest.raises(InputError, match="nobody"):
        run(model, Source(str(tmp_path / "t.csv")), tmp_path / "out", target="nobody")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["RuntimeError", "InputError", "Unexpected"])
def test_a_broken_model_is_one_error_not_one_in_every_row(model, twenty, tmp_path, monkeypatch, name):
    """Whatever the model's own exception is called: also like one of the library's."""
    source, _ = twenty
    error = type(name, (Exception,), {})("broken")
    monkeypatch.setattr(pl.Explainer, "run", lambda self, pairs, **_: [error] * len(pairs))
    with pytest.raises(ModelError, match=f"every text of the first batch fails alike.*{name}: broken"):
        run(model, source, tmp_path, n_steps=3)
    assert not shards(tmp_path)


def test_an_argument_that_fails_on_every_text_is_one_line_and_hurts_no_run(model, twenty, tmp_path):
    """It is noticed in the first batch; until then nothing is written, and --overwrite deletes nothing."""
    source, reference = twenty
    run(model, source, tmp_path, n_steps=3, **SIZES)
    for overwrite, where in ((True, tmp_path), (False, tmp_path / "new")):
        with pytest.raises(InputError, match="neighbours=5000"):
            run(model, source, where, method="dig", neighbours=5000, overwrite=overwrite, **SIZES)
    assert same_rows(tmp_path, reference) == 20 and not is_run(tmp_path / "new")
    assert run(model, source, tmp_path, n_steps=3, **SIZES).reused == 20


@pytest.mark.slow
def test_workers_give_the_same_rows_and_one_that_dies_is_replaced(model, twenty, tmp_path):
    source, _ = twenty
    killed: list[int] = []

    def kill_one() -> None:
        import time

        while not killed:
            mine = [int(pid) for pid in os.popen(f"pgrep -P {os.getpid()} -f multiprocessing.spawn").read().split()]
            if mine and shards(tmp_path):
                os.kill(mine[0], 9)
                killed.append(mine[0])
            time.sleep(0.02)

    data = table(tmp_path.with_name("many.tsv"), 200)
    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    source = replace(source, data=str(data))
    made = run(model, source, tmp_path, n_steps=3, workers=2, **SIZES)
    assert killed and made.tally.rows == 200 and made.tally.failed == 0
    run(model, source, tmp_path.with_name("alone"), n_steps=3, **SIZES)
    assert same_rows(tmp_path, tmp_path.with_name("alone")) == 200


class Deadly(pl.ToyModel, os.PathLike):
    """A toy that takes its process down over one text; a path too, so that workers may have it."""

    name = "deadly"

    def __fspath__(self):
        return "deadly"

    def case(self, text, text_b=None, *, request):
        if "deadly" in text and multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), 9)
        return super().case(text, text_b, request=request)


@pytest.mark.slow
def test_a_row_that_kills_its_worker_is_found_and_the_others_are_explained(tmp_path):
    rows = [*texts(5), "a deadly text", *texts(6, seed=1)]
    (tmp_path / "t.txt").write_text("\n".join(rows))
    made = run(Deadly(), Source(str(tmp_path / "t.txt")), tmp_path / "out", n_steps=2, workers=2, batch_size=3)
    assert (made.tally.rows, made.tally.failed) == (12, 1)
    errors = {row["text"]: row["error"] for row in read_rows(tmp_path / "out") if row["error"]}
    assert list(errors) == ["a deadly text"] and "died 2 times" in errors["a deadly text"]


@pytest.mark.slow
def test_memory_stays_flat():
    """A process of its own explains 6 000 rows: after the first tenth it does not grow (100 000: benchmarks/corpus.py)."""
    command = [sys.executable, "benchmarks/corpus.py", "memory", "--rows", "6000"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
    content = json.loads(done.stdout.strip().splitlines()[-1])
    assert content["MiB_grown"] < 40, content


def test_files_of_others_are_never_deleted(model, twenty, tmp_path):
    """Other programs call their files part-00000.parquet too; and a run may be the data of the next."""
    source, reference = twenty
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    pq.write_table(pa.table({"text": ["good film"]}), theirs / "part-00000.parquet")
    with pytest.raises(InputError, match="holds no run"):
        run(model, source, theirs, overwrite=True, n_steps=3, **SIZES)
    assert pq.read_table(theirs / "part-00000.parquet").num_rows == 1
    ours = tmp_path / "ours"
    run(model, source, ours, n_steps=3, **SIZES)
    with pytest.raises(InputError, match="the data itself is in"):
        run(model, Source(str(ours)), ours, overwrite=True, n_steps=2, **SIZES)
    pq.write_table(pa.table({"text": ["good film"]}), ours / "part-mine.parquet")
    assert run(model, source, ours, overwrite=True, n_steps=3, **SIZES).reused == 0
    assert (ours / "part-mine.parquet").exists() and same_rows(ours, reference) == 20
    assert run(model, Source(str(reference)), tmp_path / "next", n_steps=2, limit=3).tally.rows == 3


@pytest.mark.slow
def test_workers_leave_in_good_order(model, twenty, tmp_path):
    """Killed ones leave semaphores behind, and Python says so on standard error after the run."""
    source, reference = twenty
    ask = [sys.executable, "-m", "pathlens", "run", model, source.data, "--id", "name", "--out", tmp_path,
           "--n-steps", "3", "--batch-size", "4", "--rows-per-shard", "8", "--workers", "2"]  # fmt: skip
    done = subprocess.run(list(map(str, ask)), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0 and done.stderr == "" and "20 explained" in done.stdout, done
    assert same_rows(tmp_path, reference) == 20
