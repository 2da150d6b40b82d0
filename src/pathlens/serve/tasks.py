"""A bounded queue of tasks: they wait, work, are done, failed or called off; and what one may ask for."""

from __future__ import annotations

import queue
import secrets
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pathlens.serve.words import Trouble, of_error
from pathlens.types import MAX_NODES

WAITING, WORKING, DONE, FAILED, CANCELLED = "waiting", "working", "done", "failed", "cancelled"
OVER = (DONE, FAILED, CANCELLED)
CALLED_OFF, STOPPED, FORGOTTEN = "called off", "the server is being stopped", "called off: nobody asked for it any more"
NONE = Trouble()
PATIENCE = 300.0  # seconds after which a job nobody asks for is called off; a page asks every second
BOUNDS = {"characters": 20_000, "nodes": MAX_NODES, "documents": 64}  # of one text, one integral, one ranking


@dataclass(frozen=True)
class ServerLimits:
    """Bounds of one server."""

    units: int = 512  # tokens of one text
    waiting: int = 16  # tasks in the queue
    kept: int = 64  # finished tasks that can still be fetched
    body: int = 400_000  # bytes of a request


class Cancelled(BaseException):
    """The user called the work off. Not an `Exception`: nothing on the way may swallow it."""


@dataclass(eq=False)
class Meter:
    """Counts the points a task has evaluated, and stops it when asked to."""

    points: int = 0
    stage: str = ""  # what is waited for before any point: a model on its way
    block: tuple[int, int] | None = None  # where a long pass is, and how many blocks it has
    stopped: str = ""  # why it is to stop
    asked: float | None = None  # when a client that does not wait asked for it last

    def ask(self) -> None:
        self.asked = time.monotonic()

    def count(self, rows: int) -> None:
        """Called before every pass."""
        if self.asked is not None and time.monotonic() - self.asked > PATIENCE:
            self.stopped = self.stopped or FORGOTTEN
        if self.stopped:
            raise Cancelled
        self.points += rows

    def enter(self, block: int, of: int) -> None:
        """Called at every block of a long pass."""
        self.block = (block, of)
        self.count(0)


@dataclass(eq=False)
class Task:
    """One piece of work and how far it is; a job, to a client."""

    kind: str
    work: Callable[[Meter], Any]
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    state: str = WAITING
    meter: Meter = field(default_factory=Meter)
    result: Any = None
    trouble: Trouble = NONE
    warnings: list[str] = field(default_factory=list)
    started: float = 0.0
    seconds: float = 0.0
    over: threading.Event = field(default_factory=threading.Event, repr=False)
    calls: list[Callable[[], Any]] = field(default_factory=list, repr=False)

    def then(self, call: Callable[[], Any]) -> None:
        """Called, from any thread and perhaps twice, when the task is over."""
        self.calls.append(call)
        if self.over.is_set():
            call()

    def end(self, state: str, trouble: Trouble = NONE) -> None:
        self.state, self.trouble = state, trouble
        self.over.set()
        for call in self.calls:
            with suppress(RuntimeError):  # the loop that waited is closed
                call()

    def to_dict(self, ahead: int = 0) -> dict[str, Any]:
        """What a client may know."""
        running = time.perf_counter() - self.started if self.state == WORKING else self.seconds
        return {
            **{name: getattr(self, name) for name in ("id", "kind", "state", "warnings")},
            "points": self.meter.points,
            "stage": self.meter.stage,
            "block": self.meter.block,
            "ahead": ahead,
            "seconds": round(running, 3),
            "error": self.trouble.detail or None,
            **{name: value for name, value in self.trouble.to_dict().items() if name != "detail"},
        }

    def run(self) -> None:
        """Work, and keep what came of it. Nothing of the request goes into a log."""
        self.state, self.started = WORKING, time.perf_counter()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self.result = self.work(self.meter)
            self.warnings = list(dict.fromkeys(_plain(w) for w in caught if issubclass(w.category, UserWarning)))
            state, trouble = DONE, NONE
        except Cancelled:
            state, trouble = CANCELLED, Trouble(self.meter.stopped)
        except Exception as error:
            state, trouble = FAILED, of_error(error)
        self.seconds = time.perf_counter() - self.started
        self.end(state, trouble)


def _plain(caught: warnings.WarningMessage) -> str:
    """A warning for a person at the page, in the words that its kind has for them."""
    return getattr(caught.category, "plain", None) or str(caught.message)


class TaskQueue:
    """One task at a time from a bounded queue; finished ones are kept for a while."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self._queue: queue.Queue[Task] = queue.Queue(limits.waiting)
        self._known: dict[str, Task] = {}
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._work, name="pathlens", daemon=True).start()

    def put(self, kind: str, work: Callable[[Meter], Any]) -> Task:
        """A new task at the end of the queue; `queue.Full` when there is no room."""
        task = Task(kind, work)
        if self._closed:
            raise queue.Full
        self._queue.put_nowait(task)
        with self._lock:
            self._known[task.id] = task
            over = [name for name, each in self._known.items() if each.state in OVER]
            for name in over[: max(0, len(over) - self.limits.kept)]:
                del self._known[name]
        return task

    def get(self, name: str) -> Task | None:
        """A task by its id."""
        with self._lock:
            return self._known.get(name)

    def ahead(self, task: Task) -> int:
        """How many wait before it."""
        with self._lock:
            waiting = [each for each in self._known.values() if each.state == WAITING]
        return waiting.index(task) if task in waiting else 0

    def cancel(self, task: Task, why: str = CALLED_OFF) -> None:
        """Call a task off: at once while it waits, before its next pass while it works."""
        task.meter.stopped = why
        if task.state == WAITING:
            task.end(CANCELLED, Trouble(why))

    def close(self) -> None:
        """Call everything off, and take nothing more."""
        self._closed = True
        with self._lock:
            open_ones = [task for task in self._known.values() if task.state not in OVER]
        for task in open_ones:
            self.cancel(task, STOPPED)

    def counts(self) -> dict[str, int]:
        """How many wait and work."""
        with self._lock:
            states = [task.state for task in self._known.values()]
        return {WAITING: states.count(WAITING), WORKING: states.count(WORKING)}

    def _work(self) -> None:
        while True:
            task = self._queue.get()
            if task.state == WAITING:
                task.run()
