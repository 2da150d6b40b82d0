"""Results of many texts: a list that can also be shown, tabled and put on a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar, overload

from pathlens.explanation.base import Result
from pathlens.explanation.view import TableExport, Viewable, renderers

R = TypeVar("R")  # a `Result`


class Results(list[R], TableExport, Viewable):
    """The results of several texts, in their order. A plain list in everything a list can do."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of every result, each with its number (from 0) and what it explains."""
        for number, result in enumerate(self._each()):
            for row in result.rows():
                yield {"result": number, "target": result.target, **row}

    def _each(self) -> Iterator[Result]:
        return (result for result in self if isinstance(result, Result))

    def show(self, **options: Any) -> None:
        """Draw each in the terminal, one below the other."""
        for result in self._each():
            result.show(**options)

    @property
    def report(self) -> Any:
        """One page with a table of all results, to be sorted and filtered."""
        return renderers["Report"]().of(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `pl.load` gives back."""
        body: dict[str, Any] = self.report.to_dict()
        return body

    @overload
    def to_html(self, path: None = None, **options: Any) -> str: ...
    @overload
    def to_html(self, path: str | Path, **options: Any) -> Path: ...
    def to_html(self, path: Any = None, **options: Any) -> str | Path:
        """One self-contained page for all; with a path it is written there, and the path comes back."""
        page: str | Path = self.report.to_html(path, **options)
        return page

    def to_png(self, path: str | Path, **options: Any) -> Path:
        """The words that counted most over all texts."""
        return Path(self.report.to_png(path, **options))

    def _repr_html_(self) -> str:
        return str(self.report._repr_html_()) if self else repr(self)

    @overload
    def __getitem__(self, place: SupportsIndex) -> R: ...
    @overload
    def __getitem__(self, place: slice) -> Results[R]: ...
    def __getitem__(self, place: Any) -> Any:
        """One result; of a slice, the same kind of list."""
        chosen = super().__getitem__(place)
        return Results(chosen) if isinstance(place, slice) else chosen

    def __repr__(self) -> str:
        first = [repr(each) for each in self[:2]] + (["…"] if len(self) > 2 else [])
        return f"<Results of {len(self)}: {', '.join(first)}>" if self else "<Results: none>"
