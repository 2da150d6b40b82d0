"""How a ratio is measured: both sides in one run, alternating, medians, with the error of both sides beside it.

Seconds are CPU seconds of this process with one torch thread: other work on the machine then decides less.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

FIELDS = ("work", "against", "ratio", "goal", "ours_seconds", "theirs_seconds", "ours_error", "theirs_error")
Row = dict[str, Any]
EQUAL = 1e-4  # scores that differ by less than this share of the largest are the same scores in float32


@dataclass(frozen=True)
class Both:
    """Medians of the rounds, and what the last round gave."""

    ours_seconds: float
    theirs_seconds: float
    ours: Any
    theirs: Any

    @property
    def ratio(self) -> float:
        return self.theirs_seconds / self.ours_seconds


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of one call, and its value."""
    begun = time.process_time()
    value = work()
    return time.process_time() - begun, value


def in_turns(rounds: int, *sides: Callable[[], Any]) -> tuple[list[float], list[Any]]:
    """One side, the next, …, the first again: what slows the machine for a while slows all. Medians, last values."""
    spent: list[list[float]] = [[] for _ in sides]
    last: list[Any] = [None for _ in sides]
    for _ in range(rounds):
        for number, side in enumerate(sides):
            took, last[number] = seconds(side)
            spent[number].append(took)
    return [statistics.median(times) for times in spent], last


def alternate(rounds: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> Both:
    """Ours, theirs, ours, theirs, …"""
    (fast, slow), (mine, other) = in_turns(rounds, ours, theirs)
    return Both(fast, slow, mine, other)


def in_pieces(
    pieces: Sequence[Any], *sides: Callable[[Any], list[Any]], rounds: int = 1
) -> tuple[list[float], list[list[Any]]]:
    """Long work cut in pieces, the sides taking turns on each: medians of a round's seconds, the last round's results."""
    rounds_spent = []
    for _ in range(rounds):
        spent = [0.0 for _ in sides]
        results: list[list[Any]] = [[] for _ in sides]
        for piece in pieces:
            for number, side in enumerate(sides):
                took, values = seconds(lambda side=side, piece=piece: side(piece))
                spent[number] += took
                results[number] += values
        rounds_spent.append(spent)
    return [statistics.median(times) for times in zip(*rounds_spent, strict=True)], results


def row(
    work: str,
    against: str,
    *,
    goal: float | None,
    ours: float,
    theirs: float | None,
    errors: tuple[float | None, float | None] = (None, None),
    **more: Any,
) -> Row:
    """A row of the table. More fields: `ratio` where it is not theirs/ours, `sense`, `why` (when the goal is missed),
    `holds` (False: what the row says of errors or equal scores is not so, and no speed makes up for it)."""
    return {
        "work": work,
        "against": against,
        "ratio": theirs / ours if ours and theirs else None,
        "goal": goal,
        "ours_seconds": ours,
        "theirs_seconds": theirs,
        "ours_error": errors[0],
        "theirs_error": errors[1],
        **more,
    }


def met(row: Row) -> bool | None:
    """Is the goal reached? None: the row has none, it stands beside one that has."""
    if row["goal"] is None or row["ratio"] is None:
        return None
    if not row.get("holds", True):
        return False
    if row.get("sense") == "at most":
        return bool(row["ratio"] <= row["goal"])
    return bool(row["ratio"] >= row["goal"])


def largest_difference(results: Any, wanted: Any) -> float:
    return float(np.abs(np.asarray(results) - np.asarray(wanted)).max())


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of log value against log size: value ~ size^exponent."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
