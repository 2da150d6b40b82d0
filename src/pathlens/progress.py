"""A bar over texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Progress:
    """A bar over texts, or nothing."""

    def __init__(self, total: int | None, show: bool) -> None:
        self.total, self.show = total, show

    def __enter__(self) -> Callable[[Any], None]:
        if not self.show:
            return lambda job: None
        from tqdm.auto import tqdm

        self.bar = tqdm(total=self.total, unit="text")
        return lambda job: self.bar.update(1)

    def __exit__(self, *_: object) -> None:
        if self.show:
            self.bar.close()
