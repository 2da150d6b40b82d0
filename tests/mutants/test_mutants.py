"""The list of wrong changes is true of the source as it is, its rows say what became of each, and a sample is killed again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.mutants.run import GOAL, KILLED, LIST, ROOT, read_list, read_rows, sample, stale

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
    """A record without a row was never tried; `make mutants` tries what is missing or has changed."""
    mutants, rows = {mutant.what for mutant in read_list()}, read_rows()
    assert set(rows) == mutants, f"run make mutants: {sorted(mutants ^ set(rows))}"
    killed = [row for row in rows.values() if row.verdict == KILLED]
    assert len(killed) >= GOAL * len(mutants), [row.what for row in rows.values() if row.verdict != KILLED]
