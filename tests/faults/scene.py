"""Where a fault happens: a work (a command that writes a folder), its undisturbed folder, and what counts of a folder."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from pathlens.corpus import Source, run
from pathlens.vectors.index import Index, build
from tests.support.corpora import table, texts
from tests.support.models import classifier, encoder

QUIET = {  # of the commands alone: the tests that run beside them have their own environment
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_worker_niceness": "0",  # Ray's own 15 lets its workers starve where other things are at work
}
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["pathlens.cli", "pathlens.corpus.execute", "pathlens.vectors.index", "transformers.models.bert.modeling_bert"]
)
PATIENCE = 900.0  # seconds after which whatever is waited for is taken to hang, on a machine that is full too
RAYS_OWN = re.compile(r"^\[.*logging\.cc.*\n+", re.M)  # it says on the error stream that it was told to be quiet
COPY = re.compile(r"(vectors-\d{5})-\d+(?=\.safetensors)")  # written beside a file of other texts
OF_THE_TABLE = ("sha256", "version", "table")  # of a manifest: how often it was written, and under which name
SOON = 0.002  # seconds between two looks


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    rows: int  # of a run, 8 to a shard
    passages: int  # of an index, 256 to a file
    moments: int  # kills, full disks
    bytes: int  # cut or turned
    clients: int  # at once
    requests: int  # for the memory


SIZES = {
    "small": Size(rows=96, passages=300, moments=2, bytes=12, clients=60, requests=300),
    "full": Size(rows=400, passages=700, moments=8, bytes=60, clients=200, requests=2000),
}


class Fails(Exception):
    """The fault did harm."""


def expect(true: Any, words: str) -> None:
    """What must hold, or what went wrong."""
    if not true:
        raise Fails(words)


def until(true: Callable[[], Any], what: str, pause: float = SOON) -> Any:
    """Waits for something to be so; never for ever."""
    end = time.monotonic() + PATIENCE
    while not (result := true()):
        if time.monotonic() > end:
            raise Fails(f"waited {PATIENCE:.0f} s for {what}")
        time.sleep(pause)
    return result


class Command:
    """A command of `pathlens` in a process of its own, forked from one that has imported everything: it starts at once."""

    def __init__(self, arguments: list[str]) -> None:
        self.outputs = tuple(Path(tempfile.mkstemp(prefix="faults-output-")[1]) for _ in range(2))
        start = multiprocessing.get_context("spawn") if "ray" in arguments else FORKS  # gRPC takes no fork
        self.process = start.Process(target=_command, args=(arguments, *map(str, self.outputs)))
        with mock.patch.dict(os.environ, QUIET):  # the first start hands it to the server that forks
            self.process.start()
        self.pid = int(self.process.pid or 0)

    def over(self) -> bool:
        return self.process.exitcode is not None

    def kill(self) -> bool:
        """kill -9; False when it had ended before."""
        self.process.kill()
        return self.end()[0] == -signal.SIGKILL

    def end(self) -> tuple[int | None, str, str]:
        """Exit code, standard output, standard error; a command that does not end is a failure."""
        self.process.join(PATIENCE)
        expect(self.over(), "the command hangs")
        out, err = (RAYS_OWN.sub("", path.read_text()) for path in self.outputs)
        for path in self.outputs:
            path.unlink()
        return self.process.exitcode, out, err

    def well(self) -> str:
        """Its output, when it ended well and said nothing else."""
        code, out, err = self.end()
        expect(code == 0 and not err, f"the command ends with {code}: {err[-300:]}")
        return out

    def line(self, *words: str) -> str:
        """What a refused command said: exit code 2 and one clear line with these words in it."""
        code, _, err = self.end()
        lines = err.strip().splitlines()
        clear = code == 2 and len(lines) == 1 and lines[0].startswith("pathlens: ")
        expect(clear, f"exit code {code}, {len(lines)} lines: {err[-600:]}")
        for word in words:
            expect(word in lines[0], f"{word!r} is not in {lines[0]!r}")
        return shown(lines[0].removeprefix("pathlens: "))


def _command(arguments: list[str], out: str, err: str) -> None:
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY), number)
    sys.argv = ["pathlens", *arguments]
    from pathlens.cli import main

    main()


@dataclass(frozen=True)
class Work:
    """A command that fills a folder; `again` is the same from Python, in this process."""

    name: str
    command: Callable[[Path], list[str]]
    again: Callable[[Path], Any]
    content: Callable[[Path], dict[str, bytes]]  # what must be equal
    read: Callable[[Path], Any]  # as a reader of the folder would; an error where something is damaged
    first: str  # the name of the first file that shows it is at work

    def begun(self, folder: Path) -> bool:
        return (folder / self.first).exists()

    def start(self, folder: Path) -> Command:
        return Command(self.command(folder))

    def finish(self, folder: Path) -> None:
        """Run to the end, or say why not."""
        self.start(folder).well()


@dataclass
class Scene:
    """A folder to break things in."""

    folder: Path
    size: Size
    seed: int = 7
    _kept: dict[str, tuple[Path, float]] = field(default_factory=dict)

    @cached_property
    def chosen(self) -> random.Random:
        return random.Random(self.seed)

    @cached_property
    def models(self) -> dict[str, Path]:
        """A classifier and an encoder as folders."""
        where = {"classifier": classifier("bert"), "encoder": encoder("bert")}
        for name, (model, tokenizer) in where.items():
            model.save_pretrained(self.folder / name)
            tokenizer.save_pretrained(self.folder / name)
        return {name: self.folder / name for name in where}

    @cached_property
    def data(self) -> Path:
        return table(self.folder / "texts.tsv", self.size.rows)

    @cached_property
    def documents(self) -> Path:
        (self.folder / "documents.txt").write_text("\n".join(texts(self.size.passages, seed=3)) + "\n")
        return self.folder / "documents.txt"

    def work(self, name: str) -> Work:
        return self._index() if name == "index" else self._run(name)

    def _run(self, name: str) -> Work:
        steps, sizes = 8, {"batch_size": 8, "rows_per_shard": 8}
        more = {"run": [], "workers": ["--workers", "2"], "ray": ["--engine", "ray", "--workers", "2"]}[name]
        flags = [f for key, value in sizes.items() for f in (f"--{key.replace('_', '-')}", str(value))]

        def command(out: Path) -> list[str]:
            where = [str(self.models["classifier"]), str(self.data), "--out", str(out)]
            return ["run", *where, "--id", "name", "--n-steps", str(steps), *flags, *more]

        def again(out: Path) -> Any:
            source = Source(str(self.data), id="name")
            return run(str(self.models["classifier"]), source, out, n_steps=steps, **sizes)

        return Work(name, command, again, _visible, _read_run, "part-00000.parquet")

    def _index(self) -> Work:
        def command(out: Path) -> list[str]:
            return ["index", "build", str(self.models["encoder"]), str(self.documents), str(out)]

        def again(out: Path) -> Any:
            return build(self.documents, out, str(self.models["encoder"]))

        return Work("index", command, again, _index_content, _read_index, "vectors-00000.safetensors")

    def undisturbed(self, work: Work) -> tuple[Path, float]:
        """The folder of a run nobody disturbed, and the seconds it was at work in it."""
        if work.name not in self._kept:
            folder = self.folder / f"whole-{work.name}"
            process = work.start(folder)
            until(lambda: folder.exists() or process.over(), "the folder")
            started = time.monotonic()
            process.well()
            self._kept[work.name] = folder, time.monotonic() - started
        return self._kept[work.name]

    def equal(self, work: Work, folder: Path, other: Path | None = None) -> tuple[int, int]:
        """(files equal, files); what is lost, more or different is named."""
        wanted, result = work.content(other or self.undisturbed(work)[0]), work.content(folder)
        expect(not (lost := wanted.keys() - result.keys()), f"lost: {sorted(lost)}")
        expect(not (more := result.keys() - wanted.keys()), f"there is more: {sorted(more)}")
        same = [name for name in wanted if wanted[name] == result[name]]
        expect(len(same) == len(wanted), f"different: {sorted(wanted.keys() - set(same))}")
        return len(same), len(wanted)

    def place(self) -> Path:
        """A new name for a folder to be written."""
        return self.folder / f"out-{self.chosen.getrandbits(40):010x}"


def _visible(folder: Path) -> dict[str, bytes]:
    """Every file but locks; what a killed run leaves behind counts."""
    files = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".lock"))
    return {path.name: path.read_bytes() for path in files}


def _index_content(folder: Path) -> dict[str, bytes]:
    """Vector files as they are; the table, whose files have random names, by its numbers; the manifest but for its size."""
    files = _visible(folder)
    index = Index.open(folder)
    numbers = b""
    for part in index.manifest["parts"]:
        for row in sorted(index.table.part(part["part"]), key=lambda row: row.slot):
            numbers += repr((row.part, row.slot, row.document, row.name, row.start, row.text)).encode()
            numbers += np.asarray(row.vector, dtype=np.float32).tobytes()
    expect(index.table.count() == len(index), "the table has other rows too")
    words = {name: value for name, value in index.manifest.items() if name not in OF_THE_TABLE and "bytes" not in name}
    plain = {COPY.sub(r"\1", name): body for name, body in files.items()}
    return {**plain, "index.json": COPY.sub(r"\1", repr(words)).encode(), "table": numbers}


def _read_run(folder: Path) -> None:
    from pathlens.corpus import summarise

    summarise(folder, least=1, speech=False)


def _read_index(folder: Path) -> None:
    from pathlens.errors import StoreError

    for damage in Index.open(folder).verify():
        raise StoreError(damage)


def shown(line: str) -> str:
    """Without what differs from machine to machine."""
    line = re.sub(r"'?/[^\s':]*/(?=[^/\s':]+)", lambda result: "'" if result[0].startswith("'") else "", line)
    line = line.replace(socket.gethostname(), "this machine")
    return re.sub(r"out-[0-9a-f]{10}", "out", re.sub(r"process \d+", "process 1234", line))


def descendants(of: int) -> dict[int, str]:
    """Process → title, of everything a process started."""
    parents, titles = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                titles[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")

    def ours(pid: int) -> bool:
        return pid == of or (pid in parents and parents[pid] != pid and ours(parents[pid]))

    return {pid: titles.get(pid, "") for pid in parents if pid != of and ours(pid)}


def alive(pid: int) -> bool:
    """Is a process there and no zombie?"""
    return state(pid) != "Z"


def state(pid: int) -> str:
    """The letter the kernel has for what a process does: T it stands still, Z it is over, as one that is not there."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "Z"


def mount(*arguments: str) -> None:
    """Whoever may not mount cannot sit this exam: that is said, not passed over."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    expect(done.returncode == 0, f"this machine cannot mount {' '.join(arguments)}: {done.stderr.strip()}")


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Callable[[int], None]]:
    """A file system of so many bytes; gives what makes it larger."""
    folder.mkdir()
    mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield lambda more: mount("-o", f"remount,size={more}", str(folder))
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder as it is, but nobody can write to it any more, not even root."""
    mount("--bind", str(folder), str(folder))
    try:
        mount("-o", "remount,ro,bind", str(folder))
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def copy_of(folder: Path, place: Path) -> Path:
    shutil.copytree(folder, place)
    return place
