"""Faults of what is written: a run, an index, a run on Ray. Each gives an outcome, or says what harm was done."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pathlens.corpus import Source, run
from pathlens.corpus.shard import read_rows
from pathlens.errors import PathlensError
from pathlens.vectors.index import build
from tests.faults.scene import (
    PATIENCE,
    Command,
    Fails,
    Scene,
    Work,
    alive,
    copy_of,
    descendants,
    expect,
    read_only,
    shown,
    small_disk,
    state,
    until,
)  # fmt: skip
from tests.support.corpora import texts
from tests.support.models import classifier, encoder


@dataclass(frozen=True)
class Outcome:
    """What a fault came to, when it did no harm."""

    times: int  # how often it was done
    equal: str  # what was held against the undisturbed
    line: str = ""  # the one line a person reads


Fault = Callable[[Scene, str], Outcome]


def _equal(scene: Scene, work: Work, folder: Path, other: Path | None = None) -> str:
    same, of = scene.equal(work, folder, other)
    return f"{same} of {of} files"


def killed(scene: Scene, name: str) -> Outcome:
    """kill -9 at any moment: the same command goes on. What the command had started ends with it."""
    work, folder = scene.work(name), scene.place()
    _, seconds = scene.undisturbed(work)
    kills, wanted = (
        0,
        scene.size.moments if name in ("run", "index") else scene.size.moments // 2,
    )  # others start slowly
    while kills < wanted:
        process = work.start(folder)
        until(lambda: folder.exists() or process.over(), "the folder")  # noqa: B023
        time.sleep(scene.chosen.uniform(0, 2 * seconds / (scene.size.moments + 2)))
        started = descendants(process.pid)
        if process.kill():
            kills += 1
            until(lambda: not any(map(alive, started)), "what it had started to end", 0.05)  # noqa: B023
        else:  # it was done before: begin anew
            shutil.rmtree(folder)
    work.finish(folder)
    return Outcome(kills, _equal(scene, work, folder))


def worker_killed(scene: Scene, name: str) -> Outcome:
    """kill -9 of a worker over its task: another takes its place, and the run ends well.

    Once in a run: a batch that takes two workers down is cut in two, and its sums are then rounded otherwise.
    """
    work, title = scene.work(name), {"ray": "ray::Explain", "workers": "spawn_main"}[name]
    scene.undisturbed(work)
    kills, wanted = 0, max(1, scene.size.moments // 4)
    while kills < wanted:
        folder = scene.place()
        process = work.start(folder)
        until(lambda: work.begun(folder) or process.over(), "the first shard")  # noqa: B023
        time.sleep(scene.chosen.uniform(0, 0.2))
        busy = [pid for pid, line in descendants(process.pid).items() if title in line]
        if busy and not process.over():
            with contextlib.suppress(ProcessLookupError):
                os.kill(scene.chosen.choice(sorted(busy)), signal.SIGKILL)
                kills += 1
        process.well()
        equal = _equal(scene, work, folder)
    return Outcome(kills, equal)


def disk_full(scene: Scene, name: str) -> Outcome:
    """A disk of so many bytes: one line, and the same command goes on when there is room."""
    work = scene.work(name)
    whole, _ = scene.undisturbed(work)
    needed = sum(-(-path.stat().st_size // 4096) * 4096 for path in whole.rglob("*") if path.is_file())
    times = max(1, scene.size.moments // 4)
    for _ in range(times):
        disk = scene.place()
        with small_disk(disk, int(needed * scene.chosen.uniform(0.2, 0.8))) as enlarge:
            line = work.start(disk / "out").line("No space left")
            enlarge(20 * needed + 2**20)
            work.finish(disk / "out")
            equal = _equal(scene, work, disk / "out")
    return Outcome(times, equal, line)


TRIES = 20  # a machine may be so quick that a work is over before it is stopped


def in_the_middle(scene: Scene, work: Work, folder: Path) -> tuple[Command, Path]:
    """A command that has written its first file and stands still (SIGSTOP), and its folder: this one, or a new one where
    the command was over before it could be stopped."""
    for _ in range(TRIES):
        process = work.start(folder)
        until(lambda: work.begun(folder) or process.over(), "the first file")  # noqa: B023
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGSTOP)
            until(lambda: process.over() or state(process.pid) in "TZ", "the command to stand still")  # noqa: B023
        if not process.over() and state(process.pid) == "T":
            return process, folder
        process.well()
        folder = scene.place()
    raise Fails(f"{TRIES} times over before it could be stopped")


def turned_read_only(scene: Scene, name: str) -> Outcome:
    """Read-only before the start and in the middle: one line each, and the same command goes on when it is writable."""
    work, folder = scene.work(name), scene.place()
    scene.undisturbed(work)
    folder.mkdir()
    with read_only(folder):
        work.start(folder).line("Read-only file system")
    for _ in range(TRIES):
        process, folder = in_the_middle(scene, work, folder)
        with read_only(folder):
            os.kill(process.pid, signal.SIGCONT)
            process.process.join(PATIENCE)
        if process.process.exitcode == 0:  # nothing was left to be written when it was stopped: then all is there
            process.well()
            scene.equal(work, folder)
            folder = scene.place()
            continue
        line = process.line("Read-only file system")
        work.finish(folder)
        return Outcome(2, _equal(scene, work, folder), line)
    raise Fails(f"{TRIES} times over before the folder was read-only")


def two_at_once(scene: Scene, name: str) -> Outcome:
    """Two into one folder: the second is refused, the first is not hurt."""
    work = scene.work(name)
    scene.undisturbed(work)
    first, folder = in_the_middle(scene, work, scene.place())  # at work for as long as the second one looks
    try:
        line = work.start(folder).line("another")
    finally:
        os.kill(first.pid, signal.SIGCONT)
    first.well()
    return Outcome(1, _equal(scene, work, folder), line)


def stopped(scene: Scene, work: Work) -> Path:
    """A folder that is begun and not finished."""
    while True:
        folder = scene.place()
        process = work.start(folder)
        until(lambda: work.begun(folder) or process.over(), "the first file")  # noqa: B023
        if process.kill():
            return folder


def run_changed(scene: Scene, name: str) -> Outcome:
    """Other data than at the start: refused and nothing touched; the old data again, and it goes on."""
    work, usual = scene.work(name), scene.data.read_text()
    scene.undisturbed(work)
    head, *rows = usual.splitlines()
    word = rows[0].split("\t")[1]
    changes = {
        "a text": [rows[0].replace(word, f"{word} film", 1), *rows[1:]],
        "a row more": ["n\tgood film\tx", *rows],
        "a row less": rows[1:],
        "a column": [rows[0][:-1] + "q", *rows[1:]],
    }
    folder = stopped(scene, work)
    before = work.content(folder)
    try:
        for lines in changes.values():
            scene.data.write_text("\n".join([head, *lines]) + "\n")
            line = work.start(folder).line("--overwrite")
            left = {key: value for key, value in before.items() if not key.endswith(".tmp")}
            expect(work.content(folder) == left, "the folder was touched")
    finally:
        scene.data.write_text(usual)
    work.finish(folder)
    return Outcome(len(changes), _equal(scene, work, folder), line)


def index_changed(scene: Scene, name: str) -> Outcome:
    """Other documents than at the start: the index is that of the new ones, and nothing of the old."""
    work, usual = scene.work(name), scene.documents.read_text()
    folder, fresh = stopped(scene, work), scene.place()
    lines = usual.splitlines()
    try:
        scene.documents.write_text("\n".join(["great film", *lines[2:]]) + "\n")
        work.finish(folder)
        work.finish(fresh)
    finally:
        scene.documents.write_text(usual)
    return Outcome(1, _equal(scene, work, folder, fresh))


def damaged(scene: Scene, name: str) -> Outcome:
    """One byte turned, or a file cut short: whoever reads says so in one line; the same command mends it."""
    work = scene.work(name)
    whole, _ = scene.undisturbed(work)
    folder = copy_of(whole, scene.place())
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] not in ".")
    noticed = 0
    for turn in range(scene.size.bytes):
        path = files[turn % len(files)] if turn < len(files) else scene.chosen.choice(files)
        body = bytearray(path.read_bytes())
        if not body:
            continue
        at, cut = scene.chosen.randrange(len(body)), turn % 3 == 2
        if cut:
            del body[at:]
        else:
            body[at] ^= 1 << scene.chosen.randrange(8)
        path.write_bytes(body)
        what = f"{path.relative_to(folder)} {'cut at' if cut else 'turned at'} {at}"
        try:
            work.read(folder)
            same = work.content(folder) == work.content(whole)  # a byte nobody reads: the table's own files have some
            expect(same and name == "index", f"{what}: nobody noticed")
        except PathlensError as error:
            expect(len(str(error).splitlines()) == 1, f"{what}: {error}")
            noticed, line = noticed + 1, shown(str(error))
        try:
            work.again(folder)
            equal = _equal(scene, work, folder)
        except Exception as error:
            raise type(error)(f"{what}: {error}") from error
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] not in ".")
    return Outcome(noticed, equal, line)


BAD = "!"  # in none of the generated texts


def moody(pair: tuple[Any, Any], how: str) -> tuple[Any, Any]:
    """A model that raises, or gives NaN, wherever it reads one word; `how` may be "well" too: the same class, and no fault."""
    model, tokenizer = copy.deepcopy(pair)
    bad = tokenizer.convert_tokens_to_ids(BAD)

    class Moody(type(model)):  # type: ignore[misc]
        def forward(self, input_ids: Any = None, **more: Any) -> Any:
            result = super().forward(input_ids=input_ids, **more)
            if how != "well" and (input_ids == bad).any():
                if how == "raises":
                    raise RuntimeError("out of luck")
                rows = (input_ids == bad).any(1)
                for key, value in result.items():
                    result[key] = torch.where(rows.reshape(-1, *[1] * (value.ndim - 1)), torch.nan, value)
            return result

    model.__class__ = Moody
    return model, tokenizer


def run_moody(scene: Scene, how: str) -> Outcome:
    """A model that fails on some rows: those have their error, all others are those of the model that does not."""
    rows = [f"{text} {BAD}" if k % 7 == 3 else text for k, text in enumerate(texts(scene.size.rows, seed=5))]
    (scene.folder / f"{how}.txt").write_text("\n".join(rows) + "\n")
    source, sizes = Source(str(scene.folder / f"{how}.txt")), {"batch_size": 8, "rows_per_shard": 8, "n_steps": 8}
    good, bad = scene.place(), scene.place()
    model, tokenizer = copy.deepcopy(classifier("bert"))
    pair = model.double(), tokenizer  # rows beside one that fails are packed otherwise, and then rounded otherwise
    run(moody(pair, "well"), source, good, **sizes)  # rows name the model's class
    made = run(moody(pair, how), source, bad, **sizes)
    wanted, lines = list(read_rows(good)), list(read_rows(bad))
    expect(len(wanted) == len(lines) == len(rows), "rows are lost or doubled")
    failed = [row for row in lines if row["error"]]
    expect([row["text"] for row in failed] == [t for t in rows if BAD in t], "other rows fail than should")
    others = [(one, two) for one, two in zip(wanted, lines, strict=True) if not two["error"]]
    exact = sum(one == two for one, two in others)
    for name in ("scores", "f_input", "f_baseline"):
        close = [np.allclose(one[name], two[name], rtol=0, atol=1e-12) for one, two in others]
        expect(all(close), f"a row beside one that fails is different: {name}")
    expect(made.tally.failed == len(failed), "the count of failed rows is wrong")
    return Outcome(
        len(failed), f"{len(others)} of {len(others)} rows to 1e-12, {exact} byte for byte", shown(failed[0]["error"])
    )


def index_moody(scene: Scene, how: str) -> Outcome:
    """A model that fails on one document: one line that names it, and the index that was there stays as it was."""
    folder = scene.place()
    documents = texts(40, seed=9)
    build(documents, folder, encoder("bert"))
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    spoilt = [*documents[:17], f"good {BAD}", *documents[17:]]
    try:
        build(spoilt, folder, moody(encoder("bert"), how))
        expect(False, "nobody noticed")
    except PathlensError as error:
        line = str(error)
    expect(len(line.splitlines()) == 1 and "document 17" in line, line)
    expect(
        {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before, "the old index is hurt"
    )
    return Outcome(1, f"{len(before)} of {len(before)} files", shown(line))
