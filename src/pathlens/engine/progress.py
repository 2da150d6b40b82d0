"""A bar over texts; over the points of the path when there is one text alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PATIENCE = 2.0  # seconds before a bar appears: what is over sooner needs none


class Progress:
    """A bar, or nothing. Called with a text's job when it is done; `points` watches a job on its way."""

    def __init__(self, total: int | None, show: bool) -> None:
        self.total, self.show = total, show
        self.seen: dict[int, tuple[int, int]] = {}  # job -> (points done, points asked for so far)

    def __enter__(self) -> Progress:
        if self.show:
            from tqdm.auto import tqdm

            alone = self.total == 1
            total, unit = (None, "point") if alone else (self.total, "text")
            self.bar = tqdm(total=total, unit=unit, leave=not alone, delay=PATIENCE)
        return self

    def __call__(self, job: Any) -> None:
        if self.show and self.total != 1:
            self.bar.update(1)

    def advance(self, count: int, note: str = "", *, skipped: bool = False) -> None:
        """So many more texts, and a word on how they went; those `skipped` took no time, so they do not make it look fast."""
        if self.show:
            self.bar.set_postfix_str(note, refresh=False)
            if skipped:
                self.bar.n, self.bar.initial, self.bar.last_print_n = (
                    each + count for each in (self.bar.n, self.bar.initial, self.bar.last_print_n)
                )
                self.bar.refresh()
            else:
                self.bar.update(count)

    @property
    def points(self) -> Callable[[Any], None] | None:
        """For a single text: how many of the points asked for so far are done. A further round asks for more."""
        return self._points if self.show and self.total == 1 else None

    def _points(self, job: Any) -> None:
        self.seen[id(job)] = job.done, job.asked
        done, asked = (sum(column) for column in zip(*self.seen.values(), strict=True))
        self.bar.total = asked
        self.bar.update(done - self.bar.n)

    def __exit__(self, *_: object) -> None:
        if self.show:
            self.bar.close()
