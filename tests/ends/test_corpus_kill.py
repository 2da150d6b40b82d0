"""kill -9 at random moments: the same command goes on, nothing is lost, nothing is twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from pathlens.corpus.folder import read_facts, shards
from tests.support.corpora import same_rows, saved, table

ENV = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
ROWS, KILLS = 800, 10


def command(model, data, out):
    return [sys.executable, "-m", "pathlens", "run", model, data, "--out", out, "--id", "name",
            "--batch-size", "8", "--rows-per-shard", "8", "--n-steps", "8"]  # fmt: skip


@pytest.mark.slow
def test_ten_kills_and_the_rows_are_those_of_an_uninterrupted_run(tmp_path, tmp_path_factory, capsys):
    model, data = str(saved(tmp_path_factory)), str(table(tmp_path / "t.tsv", ROWS))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(model, data, str(whole)), check=True, env=ENV, capture_output=True)
    marks = sorted(path.stat().st_mtime for path in shards(whole))
    each = (marks[-1] - marks[0]) / len(marks)  # seconds a shard takes
    chosen = random.Random(7)
    gathered: list[int] = []
    while len(gathered) < KILLS:
        process = subprocess.Popen(
            command(model, data, str(killed)), env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        before = len(shards(killed)) if killed.exists() else 0
        wanted = before + chosen.randint(1, ROWS // 8 // (KILLS + 2))  # shards, not seconds: never the last one
        while process.poll() is None and (not killed.exists() or len(shards(killed)) < wanted):
            time.sleep(0.001)  # until it is at work: a kill while Python starts would prove little
        time.sleep(chosen.uniform(0, each))  # anywhere in the work on the next one
        process.send_signal(signal.SIGKILL)
        _, output = process.communicate()
        assert process.returncode == -signal.SIGKILL, (process.returncode, output)
        gathered.append(len(shards(killed)))
        assert all(read_facts(path) is not None for path in shards(killed)), "whatever has a shard's name is whole"
    done = subprocess.run(command(model, data, str(killed)), check=True, env=ENV, capture_output=True, text=True)
    assert f"{ROWS} rows" in done.stdout and "were there already" in done.stdout
    assert gathered == sorted(gathered) and gathered[0] > 0 and gathered[-1] < len(shards(whole)), (
        "no shard was lost by a kill"
    )
    assert same_rows(killed, whole) == ROWS
    exact = sum((killed / path.name).read_bytes() == path.read_bytes() for path in shards(whole))
    assert exact == len(shards(whole)), "a run that was stopped and one that was not are the same file by file"
    assert not list(killed.glob(".*.tmp"))
    with capsys.disabled():
        print(f"\n{KILLS} kills, shards after each: {gathered} of {len(shards(whole))}; {ROWS} rows equal to 1e-6, "
              f"{exact} shards equal byte for byte")  # fmt: skip
