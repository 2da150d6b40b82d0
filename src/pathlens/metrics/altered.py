"""A model whose texts are changed after they are prepared: rows nudged, tokens dropped, the target pinned."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pathlens.text.adapter import Case, Request, TextModel

Change = Callable[[Case, tuple[Any, Any]], Case]


class Altered(TextModel):
    """The same model; every case goes through `change(case, (text, text_b))`. The target is chosen before that."""

    def __init__(self, model: TextModel, change: Change) -> None:
        self.inner, self.change = model, change
        self.kind, self.name, self.options = model.kind, model.name, model.options
        self.similarity = model.similarity

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        return self.change(self.inner.case(text, text_b, request=request), (text, text_b))

    @property
    def dtype_name(self) -> str:
        return self.inner.dtype_name

    def quiet(self) -> AbstractContextManager[None]:
        return self.inner.quiet()
