"""A bounded queue: jobs wait, work, are done, failed or called off."""

from __future__ import annotations

import queue
import secrets
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pathlens.errors import PathlensError
from pathlens.serve.limits import Cancelled, Limits, Meter

WAITING, WORKING, DONE, FAILED, CANCELLED = "waiting", "working", "done", "failed", "cancelled"
OVER = (DONE, FAILED, CANCELLED)


class Full(Exception):
    """Too many jobs are waiting."""


@dataclass(eq=False)
class Job:
    """One piece of work and how far it is."""

    kind: str
    work: Callable[[Meter], Any]
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    state: str = WAITING
    meter: Meter = field(default_factory=Meter)
    result: Any = None
    error: str = ""
    internal: bool = False  # the error is ours, not the request's
    warnings: list[str] = field(default_factory=list)
    started: float = 0.0
    seconds: float = 0.0
    over: threading.Event = field(default_factory=threading.Event, repr=False)

    def to_dict(self, ahead: int = 0) -> dict[str, Any]:
        """What a client may know."""
        running = time.perf_counter() - self.started if self.state == WORKING else self.seconds
        return {"id": self.id, "kind": self.kind, "state": self.state, "points": self.meter.points, "stage": self.meter.stage,
                "ahead": ahead, "seconds": round(running, 3), "error": self.error or None, "warnings": self.warnings}  # fmt: skip

    def run(self) -> None:
        """Work, and keep what came of it. Nothing of the request goes into a log."""
        self.state, self.started = WORKING, time.perf_counter()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self.result = self.work(self.meter)
            self.warnings = list(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)))
            state = DONE
        except Cancelled:
            state, self.error = CANCELLED, "called off"
        except PathlensError as error:
            state, self.error = FAILED, str(error)
        except Exception as error:
            told = (str(error).strip() or "no message").splitlines()[0][:300]
            state, self.error, self.internal = FAILED, f"{type(error).__name__}: {told}", True
        self.seconds = time.perf_counter() - self.started
        self.state = state
        self.over.set()


class Jobs:
    """Workers over a bounded queue; finished jobs are kept for a while."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._queue: queue.Queue[Job] = queue.Queue(limits.waiting)
        self._known: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()
        for number in range(limits.workers):
            threading.Thread(target=self._work, name=f"pathlens-{number}", daemon=True).start()

    def put(self, kind: str, work: Callable[[Meter], Any]) -> Job:
        """A new job at the end of the queue; `Full` when there is no room."""
        job = Job(kind, work)
        try:
            self._queue.put_nowait(job)
        except queue.Full as error:
            raise Full from error
        with self._lock:
            self._known[job.id] = job
            over = [name for name, each in self._known.items() if each.state in OVER]
            for name in over[: max(0, len(over) - self.limits.kept)]:
                del self._known[name]
        return job

    def get(self, name: str) -> Job | None:
        """A job by its id."""
        with self._lock:
            return self._known.get(name)

    def ahead(self, job: Job) -> int:
        """How many wait before it."""
        if job.state != WAITING:
            return 0
        with self._lock:
            waiting = [each for each in self._known.values() if each.state == WAITING]
        return waiting.index(job) if job in waiting else 0

    def cancel(self, job: Job) -> None:
        """Call a job off: at once while it waits, before its next pass while it works."""
        job.meter.stop()
        if job.state == WAITING:
            job.state, job.error = CANCELLED, "called off"
            job.over.set()

    def counts(self) -> dict[str, int]:
        """How many wait and work."""
        with self._lock:
            states = [job.state for job in self._known.values()]
        return {WAITING: states.count(WAITING), WORKING: states.count(WORKING)}

    def _work(self) -> None:
        shared = False
        while True:
            job = self._queue.get()
            if not shared:  # with the first job, not at start: a page need not wait for torch
                import torch

                torch.set_num_threads(max(1, torch.get_num_threads() // self.limits.workers))
                shared = True
            if job.state == WAITING:
                job.run()
