"""A bar over a run: texts and tokens per second, time left, and how many rows have not settled or failed so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pathlens.corpus.record import Found, Tally

NONE = Tally()


class Bar:
    """`with Bar(total, rows) as tell:` and `tell(tally)` for every batch; for a person at a terminal."""

    def __init__(self, total: int, rows: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.total, self.began, self.seen, self.before = total, 0.0, Tally(), Tally()
        self.bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[line]}"),
            console=Console(stderr=True),
        )

    def __enter__(self) -> Callable[[Tally], None]:
        self.bar.__enter__()
        self.began = time.perf_counter()
        self.task = self.bar.add_task("", total=self.total, line="")
        return self.tell

    def __exit__(self, *details: Any) -> None:
        self.bar.__exit__(*details)

    def tell(self, more: Tally) -> None:
        self.seen = self.seen + more
        if isinstance(more, Found):
            self.before = self.before + more
        self.bar.update(
            self.task,
            completed=self.seen.rows,
            line=line(self.seen, self.total, time.perf_counter() - self.began, self.before),
        )


def line(seen: Tally, total: int, seconds: float, before: Tally = NONE) -> str:
    """What stands beside the bar; rows that were there `before` took no time."""
    rate = (seen.rows - before.rows) / max(seconds, 1e-9)
    left = (total - seen.rows) / rate if rate else 0.0
    minutes, rest = divmod(round(left), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
    clock = clock if rate or seen.rows >= total else "?"  # nothing of this run is done yet
    return (
        f"{rate:.1f} texts/s · {(seen.tokens - before.tokens) / max(seconds, 1e-9):.0f} tokens/s · {clock} left · "
        f"{seen.unconverged} not settled · {seen.failed} failed"
    )
