"""Does a test notice? Small wrong changes to the source, each tried against the tests that should fail with it.

`list.toml` holds the changes. Each is made in a copy of the source, in a process of its own; a change is

    killed    a named test fails with it
    survived  they all pass: a test is missing
    stale     its old text is not in its file exactly once: the list is no longer true of the source
    broken    the tests cannot be collected with it, or it never ends: it shows nothing

Nothing of pathlens is imported here: each process imports the source it is to try.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import json
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SOURCE = ROOT / "src"
LIST, ROWS = HERE / "list.toml", HERE / "rows.json"
GOAL = 0.95  # of the list, killed
SECONDS = 400  # of a processor, not of a clock: a change that takes longer never ends
HEAVY = ("numpy", "scipy.integrate", "torch.func", "transformers", "hypothesis", "pytest", "beartype")
KILLED, SURVIVED, BROKEN = "killed", "survived", "broken"
VERDICTS = {0: SURVIVED, 1: KILLED}  # pytest's exit code; any other: nothing was tried


class Stale(Exception):
    """The list does not fit the source."""


@dataclass(frozen=True)
class Mutant:
    """One wrong change: in `file` (of src/pathlens), `old` becomes `new`, and one of `tests` should fail."""

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def path(self) -> Path:
        return Path("pathlens") / self.file

    def changed(self) -> str:
        """The file with the change in it."""
        path = SOURCE / self.path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if (count := text.count(self.old)) != 1:
            raise Stale(f"{self.what}: the old text is {count} times in {self.file}, not once")
        return text.replace(self.old, self.new)

    def key(self) -> str:
        """Changes with the record, the file it changes and the tests it names: then it must be tried again."""
        parts = [repr(asdict(self)), (SOURCE / self.path).read_text(encoding="utf-8"), *map(body_of, self.tests)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def body_of(test: str) -> str:
    """What a test's function says; nothing where there is none."""
    file, _, name = test.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).exists() else ""
    plain = name.partition("[")[0].rpartition("::")[2]
    matches = re.search(rf"^( *)def {re.escape(plain)}\(.*\n(?:\1 +\S.*\n|\1\).*\n|\s*\n)*", text, flags=re.MULTILINE)
    return matches.group(0) if matches else ""


@dataclass(frozen=True)
class Row:
    """What became of a mutant; `by`: the test that failed; `key`: of which source, which need not be today's (`outdated`)."""

    what: str
    verdict: str
    by: str
    key: str


def read_list() -> tuple[Mutant, ...]:
    records = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return tuple(Mutant(**{**record, "tests": tuple(record["tests"])}) for record in records)


def read_rows() -> dict[str, Row]:
    """Rows by what they are of."""
    body: dict[str, Any] = json.loads(ROWS.read_text(encoding="utf-8")) if ROWS.exists() else {"rows": []}
    return {row["what"]: Row(**row) for row in body["rows"]}


def listed(rows: Mapping[str, Row], mutants: Sequence[Mutant]) -> list[Row]:
    """The rows of these mutants in their order."""
    return [rows[m.what] for m in mutants if m.what in rows]


def outdated(rows: Mapping[str, Row], mutants: Sequence[Mutant]) -> list[Row]:
    """Those of another source, which are to be tried again. Never written down: the next edit would make it false."""
    keys = {m.what: m.key() for m in mutants}
    return [row for row in listed(rows, mutants) if row.key != keys[row.what]]


def header(rows: Sequence[Row], size: int) -> dict[str, Any]:
    """What the rows come to, each at its last trial, beside the size of the list: a change without a row is not killed."""
    killed = [row for row in rows if row.verdict == KILLED]
    share = round(len(killed) / max(size, 1), 4)
    return {"mutants": size, "tried": len(rows), "killed": len(killed), "share": share}


def write_rows(rows: Mapping[str, Row], mutants: Sequence[Mutant]) -> None:
    """Every row of the list's changes, tried today or before: a run that is stopped loses none."""
    known = listed(rows, mutants)
    lines = ",\n".join(f"  {json.dumps(asdict(row), ensure_ascii=False)}" for row in known)
    fresh = ROWS.with_suffix(".part")
    head = json.dumps(header(known, len(mutants)))[:-1]
    fresh.write_text(f'{head}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")
    fresh.replace(ROWS)


def stale(mutants: Sequence[Mutant]) -> list[str]:
    """What is wrong with the list."""
    wrong = []
    for mutant in mutants:
        try:
            compile(mutant.changed(), mutant.file, "exec")
        except (Stale, SyntaxError) as error:
            wrong.append(str(error))
        wrong += [f"{mutant.what}: there is no test {test}" for test in mutant.tests if not body_of(test)]
    names = [mutant.what for mutant in mutants]
    return wrong + [f"{name}: twice in the list" for name in dict.fromkeys(names) if names.count(name) > 1]


def sample(mutants: Sequence[Mutant], count: int) -> list[Mutant]:
    """So many of them, others whenever the list changes, and no others before."""
    return random.Random(LIST.read_text(encoding="utf-8")).sample(list(mutants), count)


def linked(folder: Path, source: Path, but: Path | None = None) -> None:
    """A folder with links to every file of another, but for one."""
    for place in source.rglob("*"):
        here = folder / place.relative_to(source)
        if place.is_dir():
            here.mkdir(parents=True, exist_ok=True)
        elif place.relative_to(source) != but:
            here.parent.mkdir(parents=True, exist_ok=True)
            here.symlink_to(place)


@cache
def compiled() -> Path:
    """The source as it is, with what Python makes of it: each process then compiles the one file it has changed."""
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    linked(folder, SOURCE)
    if (pid := os.fork()) == 0:
        sys.dont_write_bytecode = False
        sys.path[:0] = [str(folder), str(ROOT)]
        __import__("tests.conftest")
        for module in ("engine.explainer", "vectors.index", "corpus.execute", "metrics.evaluate", "studies"):
            __import__(f"pathlens.{module}")
        os._exit(0)
    os.waitpid(pid, 0)
    return folder


def _try(folder: Path, mutant: Mutant | None, asked: Sequence[str]) -> int:
    """In a process of its own: the tests' exit code; those that fail are written down."""
    import pytest

    class Note:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                with (folder / "by").open("a", encoding="utf-8") as file:
                    file.write(f"{report.nodeid}\n")

    copy = folder / "src"
    linked(copy, compiled(), but=mutant.path if mutant else None)
    if mutant is not None:
        (copy / mutant.path).write_text(mutant.changed(), encoding="utf-8")
    os.chdir(ROOT)
    sys.path[:0] = [str(copy), str(ROOT)]
    settings = {"PYTHONPATH": f"{copy}{os.pathsep}{ROOT}", "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "examples")}
    os.environ.update(settings)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    quiet = ["-q", "--tb=short", "--hypothesis-seed=0", f"--basetemp={folder / 'tmp'}"]
    quiet += [
        f"-pno:{plugin}" for plugin in ("cacheprovider", "schemathesis", "unraisableexception", "threadexception")
    ]
    code = int(pytest.main([*quiet, *asked], plugins=[Note()]))
    import pathlens

    return code if str(pathlens.__file__).startswith(str(copy)) else 99


def start(folder: Path, mutant: Mutant | None, asked: Sequence[str]) -> int:
    """The process that tries it."""
    pid = os.fork()
    if pid:
        return pid
    code = 98
    try:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = _try(folder, mutant, asked)
    finally:
        sys.stdout.flush()
        os._exit(code)


def row_of(folder: Path, mutant: Mutant, key: str, status: int) -> Row:
    code = os.waitstatus_to_exitcode(status)
    by = (folder / "by").read_text(encoding="utf-8").strip() if (folder / "by").exists() else ""
    verdict = VERDICTS.get(code, BROKEN)
    if verdict == KILLED and not by:  # nothing ran: the tests could not be collected
        verdict = BROKEN
    return Row(mutant.what, verdict, by if verdict == KILLED else "", key)


def tried(mutants: Sequence[Mutant], jobs: int, show: Callable[[str], None]) -> Iterator[Row]:
    """Each mutant's row, as it is found; so many at once."""
    if mutants:
        _warm()
    todo, at_work = list(mutants), {}
    while todo or at_work:
        while todo and len(at_work) < jobs:
            folder = tempfile.TemporaryDirectory()
            mutant = todo.pop(0)
            key = mutant.key()  # of what is tried: somebody may edit it meanwhile
            at_work[start(Path(folder.name), mutant, ["-x", *mutant.tests])] = folder, mutant, key
        pid, status = os.wait()
        folder, mutant, key = at_work.pop(pid)
        row = row_of(Path(folder.name), mutant, key, status)
        if row.verdict == BROKEN:
            show((Path(folder.name) / "log").read_text(encoding="utf-8", errors="replace")[-1500:])
        folder.cleanup()
        yield row


def failing_anyway(rows: Sequence[Row]) -> set[str]:
    """Tests that killed a mutant and fail without any change too: they have shown nothing."""
    tests = list(dict.fromkeys(row.by for row in rows if row.verdict == KILLED))
    if not tests:
        return set()
    _warm()
    with tempfile.TemporaryDirectory() as folder:
        _, status = os.waitpid(start(Path(folder), None, tests), 0)
        if os.waitstatus_to_exitcode(status) == 0:
            return set()
        noted, log = Path(folder) / "by", (Path(folder) / "log").read_text(encoding="utf-8", errors="replace")
        if not noted.exists():  # a test has another name by now: nothing can be said of any
            raise Stale(f"{log[-1500:]}\n(the process ended with {os.waitstatus_to_exitcode(status)})")
        print(log[:5000], file=sys.stderr)  # why they fail: nobody else will see it
        return set(noted.read_text(encoding="utf-8").splitlines())


def _warm() -> None:
    """What every process needs, once for all: they are forked from here, and import pathlens themselves."""
    import torch

    torch.set_num_threads(1)
    for module in HEAVY:
        __import__(module)
    for plugin in entry_points(group="pytest11"):
        plugin.load()
    from tests.support import models

    for make in (models.classifier, models.encoder):
        make("bert")
    compiled()
    gc.freeze()  # nothing of this is looked at again in each of them
