"""What every result and every study can do: be saved, and be seen in the terminal, as a page, as a picture, as a table."""

from __future__ import annotations

import csv
import io
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from pathlens.checks import as_lists, plain_number
from pathlens.errors import InputError, MissingError
from pathlens.files import write_json, write_text

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")
renderers: dict[str, Callable[[], Any]] = {}
"""What draws, by its name, and how to come by it: the door fills this in, since drawing comes after all that is drawn."""


class Viewable:
    """Base of results and studies. What draws them (`renderers`) is imported when something is drawn, and knows how by type."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values: every field by its name."""
        from pathlens.explanation.store import plain_fields

        return plain_fields(self)

    def save(self, path: str | Path) -> Path:
        """Write JSON, for other programs; `pl.load` opens those that hold results, and says so of the others."""
        return write_json(path, {"study": type(self).__name__, **self.to_dict()})

    def show(self, **options: Any) -> None:
        """Draw in the terminal."""
        renderers["show"]()(self, **options)

    @overload
    def to_html(self, path: None = None, **options: Any) -> str: ...
    @overload
    def to_html(self, path: str | Path, **options: Any) -> Path: ...
    def to_html(self, path: str | Path | None = None, **options: Any) -> str | Path:
        """A self-contained page; with a path it is written there, and the path comes back."""
        page = str(renderers["document"]()(self, path, **options))
        return page if path is None else Path(path)

    def to_png(self, path: str | Path, **options: Any) -> Path:
        """A picture; a path ending in .svg gives SVG, one in .pdf PDF. dark=True: a PNG for dark pages."""
        return Path(renderers["save"]()(self, path, **options))

    def _repr_html_(self) -> str:
        return str(renderers["fragment"]()(self))


def numbered(place: Any, count: int, what: str = "entries") -> Any:
    """A number or a slice as it is, several numbers or a truth value for each entry as a list of numbers; else an error."""
    places = plain_number(as_lists(place))
    if isinstance(places, int | slice):
        return places
    kinds = {type(each) for each in places} if isinstance(places, list) else {None}
    if kinds == {bool} and len(places) == count:
        return [k for k, wanted in enumerate(places) if wanted]
    if kinds <= {int}:
        return places
    came = (
        f"{len(places)} truth values for {count} {what}" if kinds == {bool} else f"{type(place).__name__} {place!r:.60}"
    )
    raise InputError(
        f"{what} are numbered; give a number, a slice, several whole numbers or a truth value for each, got {came}"
    )


def at_places(entries: Sequence[T], place: Any) -> Any:
    """An entry by its number; of a slice, of several numbers or of truth values, all of these."""
    places = numbered(place, len(entries))
    return [entries[k] for k in places] if isinstance(places, list) else entries[places]


class Listed(Generic[T]):
    """A record that is also the list in one of its fields."""

    listed: ClassVar[str]  # the field

    def __len__(self) -> int:
        return len(getattr(self, self.listed))

    def __iter__(self) -> Iterator[T]:
        return iter(getattr(self, self.listed))

    def __getitem__(self, place: Any) -> Any:
        """One, or several: of a slice, of truth values, of a list of numbers."""
        return at_places(getattr(self, self.listed), place)


def defined(rows: Iterable[dict[str, Any]], otherwise: Any) -> list[dict[str, Any]]:
    """Rows with something else where a number is not defined (NaN)."""
    return [
        {name: otherwise if isinstance(value, float) and isnan(value) else value for name, value in row.items()}
        for row in rows
    ]


class TableExport:
    """Whatever has rows: one plain dictionary each, all with the same names."""

    @abstractmethod
    def rows(self) -> Iterable[dict[str, Any]]:
        """One plain dictionary per row."""

    def __len__(self) -> int:
        return sum(1 for _ in self.rows())

    def to_dataframe(self) -> pandas.DataFrame:
        """The rows as a pandas data frame."""
        try:
            import pandas
        except ImportError as error:
            raise MissingError('data frames need pandas: pip install "pathlens[frame]"') from error
        frame = pandas.DataFrame(list(self.rows()))
        frame.attrs = {name: getattr(self, name) for name in ("method", "target", "query") if hasattr(self, name)}
        return frame

    @overload
    def to_csv(self, path: None = None) -> str: ...
    @overload
    def to_csv(self, path: str | Path) -> Path: ...
    def to_csv(self, path: str | Path | None = None) -> str | Path:
        """The rows as CSV, an empty cell for what is not defined; with a path they are written there, and the path comes back."""
        stream, rows = io.StringIO(), defined(self.rows(), "")
        writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return stream.getvalue() if path is None else write_text(path, stream.getvalue())
