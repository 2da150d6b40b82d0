"""The list of wrong changes is true of the source as it is, its rows say what became of each, and a sample is killed again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.mutants.run import LIST, ROOT, read_list, sample, stale

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
