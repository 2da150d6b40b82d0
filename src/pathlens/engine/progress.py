"""A bar over texts, with the points of their paths; of one text alone these are counted; or a line that says for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Thread
from typing import Any

PATIENCE = 2.0  # seconds before a bar appears: what is over sooner needs none


class Progress:
    """A bar, or nothing. Called with a text's job when it is done; `points` hears of points of the path on the way.

    Inside another that is shown it draws nothing and tells that one: texts that end in there are ahead of its own count, which
    catches up with them. So whatever takes an integral moves the bar that a person sees.
    """

    def __init__(self, total: int | None, show: bool) -> None:
        self.total, self.asked = total, show
        self.points_done, self.ahead, self.note = 0, 0, ""  # points of all texts; texts drawn and not yet counted
        self.bar: Any = None
        self.outer: Progress | None = None

    def __enter__(self) -> Progress:
        self.outer = _SHOWN.get()
        if self.asked and self.outer is None:
            from tqdm.auto import tqdm

            # how many points a single text takes is known at its end alone: they are counted, out of no total
            total, unit = (None, " points") if self.total == 1 else (self.total, "text")
            self.bar = tqdm(total=total, unit=unit, leave=self.total != 1, delay=PATIENCE, miniters=0)
            self.before = _SHOWN.set(self)
        return self

    def __call__(self, job: Any) -> None:
        """One text more; of a bar inside another, one that is ahead of the other's count."""
        if self.bar is not None:
            self.advance(1, self.note)
        elif self.outer is not None:
            self.outer.early()

    def early(self) -> None:
        """A text has ended that will be counted later, with those it is worked on together."""
        if self.total is None or self.bar.n < self.total:
            self.ahead += 1
            self.draw(1)

    def advance(self, count: int, note: str = "", *, skipped: bool = False) -> None:
        """So many more texts, and a word on how they went; those `skipped` took no time, so they do not make it look fast."""
        if self.bar is None:
            return
        self.note = note
        if skipped:
            self.bar.n, self.bar.initial, self.bar.last_print_n = (
                each + count for each in (self.bar.n, self.bar.initial, self.bar.last_print_n)
            )
            self._say()
            self.bar.refresh()
        else:
            counted = min(self.ahead, count)
            self.ahead -= counted
            self.draw(count - counted)

    @property
    def points(self) -> Callable[[int], None] | None:
        """Told how many points of the path are done, batch by batch; None where nobody looks."""
        return self._points if self.bar is not None else self.outer and self.outer.points

    def _points(self, count: int) -> None:
        self.points_done += count
        self.draw(0)

    def draw(self, texts: int) -> None:
        """So many texts more, and whatever else is to be said."""
        alone = self.total == 1
        self._say()
        self.bar.update(self.points_done - self.bar.n if alone else texts)

    def _say(self) -> None:
        points = f"{self.points_done:,} points" if self.points_done and self.total != 1 else ""
        self.bar.set_postfix_str(", ".join(filter(None, (self.note, points))), refresh=False)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            _SHOWN.reset(self.before)
            self.bar.close()


_SHOWN: ContextVar[Progress | None] = ContextVar("the bar that is shown", default=None)


def shown() -> Progress | None:
    """The bar that a person sees, if there is one."""
    return _SHOWN.get()


@contextmanager
def elapsed(what: str) -> Iterator[Callable[[str], None]]:
    """A line that says what is done and for how long, above whatever bars there are; and a function that changes it."""
    from tqdm.auto import tqdm

    line = tqdm(desc=what, bar_format="{desc} … {elapsed}", leave=False, delay=PATIENCE, miniters=0)
    over = Event()

    def tick() -> None:
        while not over.wait(0.2):
            line.update(0)

    shown = Thread(target=tick, daemon=True)
    shown.start()
    try:
        yield lambda words: line.set_description_str(words, refresh=False)
    finally:
        over.set()
        shown.join()
        line.close()
