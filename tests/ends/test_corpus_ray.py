"""Ray on a real cluster of this machine: same rows as local, a worker killed in its task, clusters too small."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pathlens.corpus import Source, run
from pathlens.corpus.cluster import fitting
from pathlens.corpus.shard import shards
from pathlens.errors import InputError
from tests.support.corpora import pathlens, refused, same_rows, saved, table

SIZES = {"batch_size": 8, "rows_per_shard": 32, "n_steps": 8}


def test_workers_that_do_not_fit_are_fewer_or_an_error():
    assert fitting({"CPU": 4.0}, 2, 0) == 2
    with pytest.warns(UserWarning, match="room for 1 workers, not 2"):
        assert fitting({"CPU": 1.0}, 2, 0) == 1
    with pytest.raises(InputError, match="too small.*1 logical CPU"):
        fitting({"CPU": 0.0}, 1, 0)
    with pytest.raises(InputError, match="GPU"):
        fitting({"CPU": 8.0}, 1, 1)
    with pytest.warns(UserWarning, match="room for 4"):
        assert fitting({"CPU": 32.0, "GPU": 2.0}, 8, 0.5) == 4


def test_an_address_where_nobody_answers_is_one_line(tmp_path, tmp_path_factory, monkeypatch, capfd):
    data = table(tmp_path / "t.tsv", 3)
    ask = ["run", saved(tmp_path_factory), data, "--out", tmp_path / "out", "--engine", "ray"]
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1"):
        refused(pathlens(monkeypatch, capfd, *ask, "--address", address), "no Ray cluster answers", address)
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_cannot_be_had_costs_no_rows(tmp_path, tmp_path_factory, monkeypatch):
    """It is looked for before --overwrite deletes anything, and before a new folder is made."""
    from pathlens.corpus import cluster as ours

    model, source = str(saved(tmp_path_factory)), Source(str(table(tmp_path / "t.tsv", 6)), id="name")
    run(model, source, tmp_path / "out", n_steps=2)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    monkeypatch.setattr(ours, "connected", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(ours, "fitting", lambda *_: (_ for _ in ()).throw(InputError("too small")))
    monkeypatch.setattr("ray.available_resources", dict)
    for where in ("out", "new"):
        with pytest.raises(InputError, match="too small"):
            run(model, source, tmp_path / where, n_steps=3, overwrite=True, engine="ray", address="auto")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert not (tmp_path / "new").exists()
    with pytest.raises(InputError, match="gpus must be"):
        run(model, source, tmp_path / "new", engine="ray", gpus=-1)


def descendants(of: int) -> dict[int, str]:
    """Process → title, of everything this process started."""
    parents, titles = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                titles[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue

    def ours(pid: int) -> bool:
        return pid == of or (pid in parents and parents[pid] != pid and ours(parents[pid]))

    return {pid: titles[pid] for pid in parents if pid != of and ours(pid)}


@pytest.fixture
def cluster():
    """Clusters started here end here."""
    import ray

    def start(cpus: int) -> None:
        ray.init(num_cpus=cpus, _node_ip_address="127.0.0.1", include_dashboard=False, log_to_driver=False)

    yield start
    ray.shutdown()


@pytest.mark.slow
def test_two_workers_one_killed_in_its_task_give_the_rows_of_local(cluster, tmp_path, tmp_path_factory, capsys):
    model = str(saved(tmp_path_factory))
    source = Source(str(table(tmp_path / "t.tsv", 600)), id="name")
    run(model, source, tmp_path / "local", **SIZES)
    run(model, source, tmp_path / "ray", limit=64, **SIZES)  # two shards are there: Ray goes on from them
    cluster(2)
    seen: set[int] = set()
    ended = threading.Event()
    killed: list[tuple[int, str, int]] = []

    def kill_one() -> None:
        while not killed:
            at_work = {p: t for p, t in descendants(os.getpid()).items() if t.startswith("ray::Explain")}
            seen.update(at_work)
            busy = [p for p, t in at_work.items() if "explain" in t]
            if len(shards(tmp_path / "ray")) > 3 and busy:
                killed.append((busy[0], at_work[busy[0]], len(shards(tmp_path / "ray"))))
                os.kill(busy[0], signal.SIGKILL)
            time.sleep(0.01)
        while not ended.is_set():  # who takes its place
            seen.update(p for p, t in descendants(os.getpid()).items() if t.startswith("ray::Explain"))
            time.sleep(0.05)

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    made = run(model, source, tmp_path / "ray", engine="ray", workers=2, **SIZES)
    ended.set()
    assert killed, "no worker was killed"
    assert made.reused == 64 and made.tally.rows == 600 and made.tally.failed == 0
    assert same_rows(tmp_path / "ray", tmp_path / "local") == 600
    with capsys.disabled():
        print(
            f"\nkilled in {killed[0][1].strip()!r} after {killed[0][2]} shards; workers seen: {len(seen)}; {made.tally.rows} rows equal to 1e-6, {made.reused} of them found"
        )


@pytest.mark.slow
def test_a_cluster_with_too_few_cpus_gets_fewer_workers_and_one_with_none_an_error(cluster, tmp_path, tmp_path_factory):
    import ray

    model = str(saved(tmp_path_factory))
    source = Source(str(table(tmp_path / "t.tsv", 40)), id="name")
    cluster(0)
    with pytest.raises(InputError, match="too small"):
        run(model, source, tmp_path / "ray", engine="ray", workers=2, **SIZES)
    ray.shutdown()
    cluster(1)
    with pytest.warns(UserWarning, match="room for 1 workers"):
        made = run(model, source, tmp_path / "ray", engine="ray", workers=2, **SIZES)
    assert made.tally.rows == 40 and made.tally.failed == 0


@pytest.mark.slow
def test_the_command_line_starts_a_cluster_and_ends_it(tmp_path, tmp_path_factory):
    model, data = saved(tmp_path_factory), table(tmp_path / "t.tsv", 24)
    command = [sys.executable, "-m", "pathlens", "run", model, data, "--out", tmp_path / "out",
               "--engine", "ray", "--workers", "2", "--n-steps", "3"]  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0 and "24 rows" in done.stdout and "0 failed" in done.stdout, done
    assert "Traceback" not in done.stderr
