"""The table of faults, and the runner: one row for every fault and place."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.faults import folders as f
from tests.faults import server as s
from tests.faults.scene import SIZES, Scene

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "experiments/rows/faults.jsonl"
PAGE = ROOT / "docs/corpus.md"
HEADS = {
    "folders": ("what breaks", "where", "times", "equal to the undisturbed", "what is said"),
    "server": ("what happens", "to", "times", "what was counted", "what is said"),
}
MARK = "<!-- faults: {} -->"


@dataclass(frozen=True)
class Question:
    """One fault at one place."""

    part: str  # which table it stands in
    fault: str
    place: str  # what a reader calls the place
    happen: f.Fault
    about: str  # what `happen` is told: a work, or how


def _of(fault: str, happen: f.Fault, *places: tuple[str, str], part: str = "folders") -> list[Question]:
    return [Question(part, fault, place, happen, about) for place, about in places]


RUN, INDEX, SERVE = ("run", "run"), ("index build", "index"), ("serve", "")
QUESTIONS: tuple[Question, ...] = (
    *_of("kill -9", f.killed, RUN, ("run --workers 2", "workers"), INDEX, ("the driver of run --engine ray", "ray")),
    *_of(
        "kill -9", f.worker_killed, ("a worker of run --workers 2", "workers"), ("a worker of run --engine ray", "ray")
    ),
    *_of("the disk fills", f.disk_full, RUN, INDEX),
    *_of("the folder turns read-only", f.turned_read_only, RUN, INDEX),
    *_of("two into one folder", f.two_at_once, RUN, INDEX),
    *_of("the input changes between stop and resume", f.run_changed, RUN),
    *_of("the input changes between stop and resume", f.index_changed, INDEX),
    *_of("a file cut short, or one bit of it turned", f.damaged, RUN, INDEX),
    *_of("the model raises on some texts", f.run_moody, ("run", "raises")),
    *_of("the model gives NaN on some texts", f.run_moody, ("run", "nan")),
    *_of("the model raises on some texts", f.index_moody, ("index build", "raises")),
    *_of("the model gives NaN on some texts", f.index_moody, ("index build", "nan")),
    *_of("many clients at once", s.crowd, SERVE, part="server"),
    *_of("bodies too large, lengths that lie", s.too_large, SERVE, part="server"),
    *_of("senders that send slowly, or nothing", s.slow_senders, SERVE, part="server"),
    *_of("foreign origins and host names", s.foreigners, SERVE, part="server"),
    *_of("deep JSON", s.deep, SERVE, part="server"),
    *_of("several targets where one is taken", s.several_targets, SERVE, part="server"),
    *_of("clients that leave: their work stops", s.leavers, SERVE, part="server"),
    *_of("SIGTERM in the middle", s.stopped, SERVE, part="server"),
    *_of("request after request", s.memory, SERVE, part="server"),
    *_of("bound to an address others reach", s.reachable, ("serve --host 0.0.0.0", ""), part="server"),
)


@dataclass(frozen=True)
class Row:
    """What one question came to."""

    part: str
    fault: str
    place: str
    size: str
    state: str  # "held" or "failed"
    times: int = 0
    equal: str = ""
    line: str = ""  # what a person read; of a failure, what went wrong
    seconds: float = 0.0


def asked(question: Question, size: str, folder: Path) -> Row:
    """One question in a folder of its own."""
    started = time.perf_counter()
    known = (question.part, question.fault, question.place, size)
    try:
        outcome = question.happen(Scene(folder, SIZES[size]), question.about)
    except Exception as error:
        return Row(*known, "failed", line=f"{type(error).__name__}: {error}", seconds=time.perf_counter() - started)
    return Row(*known, "held", outcome.times, outcome.equal, outcome.line, round(time.perf_counter() - started, 1))


def kept() -> list[Row]:
    """The rows of the last exam."""
    return [Row(**json.loads(line)) for line in ROWS.read_text(encoding="utf-8").splitlines()] if ROWS.exists() else []


def sit(size: str, wanted: Sequence[str] = ()) -> int:
    """The whole exam, or the questions with one of these words in them; gives how many failed. Each row is kept at once."""
    failed = 0
    for question in QUESTIONS:
        if wanted and not any(word in f"{question.part} {question.fault} {question.place}" for word in wanted):
            continue
        folder = Path(tempfile.mkdtemp(prefix="faults-"))
        try:
            row = asked(question, size, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        failed += row.state == "failed"
        print(f"{'✓' if row.state == 'held' else '✗'} {row.fault} · {row.place} · {row.times} × · {row.equal} · "
              f"{row.seconds:.0f} s\n    {row.line}", flush=True)  # fmt: skip
        keep(row)
    return failed


def keep(row: Row) -> None:
    """Into the file, in the order of the questions, and onto the page."""
    known = {(each.part, each.fault, each.place): each for each in (*kept(), row)}
    rows = [known[name] for q in QUESTIONS if (name := (q.part, q.fault, q.place)) in known]
    ROWS.write_text("".join(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in rows), encoding="utf-8")
    for part in HEADS:
        mark = MARK.format(part)
        before, _, after = PAGE.read_text(encoding="utf-8").split(mark)
        PAGE.write_text(f"{before}{mark}\n{table(rows, part)}\n\n{mark}{after}", encoding="utf-8")


def table(rows: Sequence[Row], part: str) -> str:
    """As a page has it."""
    lines = [f"| {' | '.join(HEADS[part])} |", "|---|---|---|---|---|"]
    for row in (each for each in rows if each.part == part):
        equal = row.equal if row.state == "held" else "**failed**"
        lines.append(f"| {row.fault} | `{row.place}` | {row.times} | {equal} | {row.line.replace('|', '¦')} |")
    return "\n".join(lines)
