"""The list of wrong changes is true of the source as it is, its rows say what became of each, and a sample is killed again."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.mutants import run
from tests.mutants.run import (
    GOAL,
    KILLED,
    LIST,
    ROOT,
    ROWS,
    body_of,
    header,
    outdated,
    read_list,
    read_rows,
    sample,
    stale,
)

SAMPLE = 9


def test_the_list_fits_the_source():
    """A change whose old text is gone shows nothing: mend its record in tests/mutants/list.toml."""
    mutants = read_list()
    assert len(mutants) >= 80 and not stale(mutants), "\n".join(stale(mutants))


def test_a_sample_hangs_on_the_list_alone():
    mutants = read_list()
    chosen = sample(mutants, SAMPLE)
    assert chosen == sample(mutants, SAMPLE) and len({mutant.what for mutant in chosen}) == SAMPLE
    assert "[[mutant]]" in LIST.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_sample_is_killed():
    """In a process of its own, which has not imported pathlens."""
    command = [sys.executable, "-m", "tests.mutants", "--sample", str(SAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{SAMPLE} of {SAMPLE} killed" in done.stdout


def test_the_rows_cover_the_list_and_enough_are_killed():
    """A record without a row was never tried. A row of an older source stands until `make mutants` tries it again: an edit of
    the source is no failure, a figure that leaves something out is. The file says nothing of which are old, here or in a row:
    keys say it to whoever asks (`--show`)."""
    mutants, rows = read_list(), read_rows()
    names = {mutant.what for mutant in mutants}
    assert set(rows) == names, f"run make mutants: {sorted(names ^ set(rows))}"
    count = header(list(rows.values()), len(mutants))
    body = json.loads(ROWS.read_text(encoding="utf-8"))
    assert {name: value for name, value in body.items() if name != "rows"} == count
    assert count["killed"] >= GOAL * len(mutants), [row.what for row in rows.values() if row.verdict != KILLED]
    assert all(body_of(row.by) for row in rows.values() if row.verdict == KILLED), "killed by a test that is gone"


def test_a_run_that_is_stopped_loses_no_row(tmp_path, monkeypatch):
    """After one change is tried, what was known of the others is still there; what fits no more is known by its key."""
    mutants = read_list()[:4]
    monkeypatch.setattr(run, "ROWS", tmp_path / "rows.json")
    keys = [mutants[0].key(), "older", "older"]  # the fourth has no row
    before = {m.what: run.Row(m.what, KILLED, m.tests[0], key) for m, key in zip(mutants, keys, strict=False)}
    run.write_rows(before, mutants)
    again = run.Row(mutants[2].what, run.SURVIVED, "", mutants[2].key())
    run.write_rows({**read_rows(), again.what: again}, mutants)
    assert [row.what for row in outdated(read_rows(), mutants)] == [mutants[1].what]
    head = json.loads(run.ROWS.read_text(encoding="utf-8"))
    known = {name: head[name] for name in ("mutants", "tried", "killed", "share")}
    assert known == {"mutants": 4, "tried": 3, "killed": 2, "share": 0.5} and len(head["rows"]) == 3


def test_which_rows_are_old_is_worked_out_from_the_source_as_it_is(tmp_path, monkeypatch):
    """Written while it was today's, a row is old as soon as the file it changes is another."""
    mutant = next(m for m in read_list() if m.file == "quadrature/rules.py")
    (tmp_path / mutant.path).parent.mkdir(parents=True)
    (tmp_path / mutant.path).write_text((run.SOURCE / mutant.path).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(run, "SOURCE", tmp_path)
    monkeypatch.setattr(run, "ROWS", tmp_path / "rows.json")
    run.write_rows({mutant.what: run.Row(mutant.what, KILLED, mutant.tests[0], mutant.key())}, [mutant])
    assert not outdated(read_rows(), [mutant])
    with (tmp_path / mutant.path).open("a", encoding="utf-8") as file:
        file.write("\n")
    assert [row.what for row in outdated(read_rows(), [mutant])] == [mutant.what]
