"""The records that pass between reading, engines and shards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Source:
    """Where the texts are and how to read them."""

    data: str  # a file, a folder of files, or a hub id
    text: str = "text"  # the column to explain
    text_b: str | None = None  # the second text's column
    id: str | None = None  # a column that names rows; None: the row number
    keep: tuple[str, ...] | None = None  # columns to carry along; None: all others that hold plain values
    encoding: str = "utf-8"
    separator: str | None = None  # None: by the file's name (.csv a comma, .tsv a tab)
    quoting: bool | None = None  # None: by the file's name (.csv yes, .tsv no)
    header: bool = True  # without one, columns are called 0, 1, 2, …
    split: str = "train"  # of a hub data set
    config: str | None = None  # of a hub data set


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the data; `error` says why it cannot be explained."""

    number: int
    id: str
    text: str | None
    text_b: str | None = None
    kept: tuple[str | None, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Batch:
    """Rows that are explained together; all of one shard."""

    shard: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Recipe:
    """How a row is explained: everything a worker needs to begin."""

    model: Any  # a name or folder where workers are to load it; else anything `pl.explain` takes
    choices: Mapping[str, Any] = field(default_factory=dict)
    kept: tuple[str, ...] = ()  # names of the columns carried along

    def explainer(self) -> Any:
        from pathlens.engine.explainer import Explainer

        return Explainer(self.model, **self.choices)


@dataclass(frozen=True)
class Census:
    """What one reading of the whole source found."""

    rows: int
    bad: int  # rows that are no text
    characters: int
    longest: int  # the row with most characters
    kept: tuple[str, ...]  # columns carried along


@dataclass(frozen=True)
class Tally:
    """Counts of explained rows."""

    rows: int = 0
    failed: int = 0
    unconverged: int = 0
    tokens: int = 0
    passes: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.rows + other.rows,
            self.failed + other.failed,
            self.unconverged + other.unconverged,
            self.tokens + other.tokens,
            self.passes + other.passes,
        )


@dataclass(frozen=True)
class Found(Tally):
    """Counts of rows that were there already: no work of this run."""
