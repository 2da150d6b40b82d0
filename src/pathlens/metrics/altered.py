"""A model whose texts are changed after they are prepared: rows nudged, tokens dropped, the target pinned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pathlens.text.adapter import Case, Request, TextModel, Wrapped

Change = Callable[[Case, tuple[Any, Any]], Case]


class Altered(Wrapped):
    """The same model; every case goes through `change(case, (text, text_b))`. The target is chosen before that."""

    def __init__(self, model: TextModel, change: Change) -> None:
        super().__init__(model)
        self.change = change

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        return self.change(super().case(text, text_b, request=request), (text, text_b))
