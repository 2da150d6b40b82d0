"""What a request may ask for, and the meter that counts what it does."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of one server."""

    characters: int = 20_000  # of one text
    units: int = 512  # tokens of one text
    nodes: int = 512
    documents: int = 64  # of one ranking
    waiting: int = 16  # jobs in the queue
    workers: int = 1  # jobs at work at once
    kept: int = 64  # finished jobs that can still be fetched
    body: int = 400_000  # bytes of a request


class Cancelled(BaseException):
    """The user called the work off. Not an `Exception`: nothing on the way may swallow it."""


class Meter:
    """Counts the points a job has evaluated, and stops it when told to."""

    def __init__(self) -> None:
        self.points = 0
        self.stage = ""  # what is waited for before any point: a model on its way
        self._stop = threading.Event()

    def stop(self) -> None:
        self._stop.set()

    def count(self, rows: int) -> None:
        """Called before every pass."""
        if self._stop.is_set():
            raise Cancelled
        self.points += rows
