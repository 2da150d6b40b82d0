"""What an evaluation found: methods × metrics over texts, with everything needed to redraw it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.errors import InputError, StoreError
from pathlens.explanation.view import Viewable
from pathlens.metrics.bootstrap import DRAWS, Estimate, estimate

SIG_NOTE = (
    "SIG's token score IS leave-one-out (the token put to the baseline, F(x) − F(x̄ⁱ)), and these metrics delete or replace "
    "tokens: they favour sig and leave-one-out by construction"
)
LOWER, HIGHER = "lower", "higher"


@dataclass(frozen=True, eq=False)
class Column:
    """A metric: one number per row of the table and text. `better`: "lower", "higher", or "" where neither is."""

    name: str
    better: str
    values: np.ndarray  # (ways, texts); NaN where it is not defined
    median: bool = False  # summarised by its median, as the papers do with |Δ %|


@dataclass(frozen=True, eq=False)
class Curve:
    """A deletion metric over shares of the tokens."""

    name: str
    better: str
    shares: tuple[float, ...]
    values: np.ndarray  # (ways, texts, shares)


@dataclass(frozen=True, eq=False)
class Randomised:
    """Rank correlation with the true model's scores as layers are drawn anew from the top."""

    stages: tuple[str, ...]
    values: np.ndarray  # (ways, stages, texts)


@dataclass(frozen=True, eq=False)
class Evaluation(Viewable):
    """Rows (`ways`) × metrics (`columns`) over the same texts; draws of the bootstrap are shared, so pairs compare."""

    ways: tuple[str, ...]
    columns: tuple[Column, ...]
    curves: tuple[Curve, ...]
    agreement: np.ndarray  # (ways, ways) mean Spearman over texts
    protocol: str
    references: tuple[str, ...]
    share: float
    texts: int
    seed: int = 0
    draws: int = DRAWS
    randomised: Randomised | None = None
    notes: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise InputError(f"no metric {name!r} here; there are {', '.join(c.name for c in self.columns)}")

    def estimate(self, way: str, column: str) -> Estimate:
        """A cell of the table."""
        found = self.column(column)
        return estimate(found.values[self._row(way)], seed=self.seed, draws=self.draws, median=found.median)

    def difference(self, way: str, other: str, column: str) -> Estimate:
        """Mean of way − other over the same texts: its interval is of paired differences."""
        values = self.column(column).values
        gained = values[self._row(way)] - values[self._row(other)]
        return estimate(gained, seed=self.seed, draws=self.draws)

    def curve(self, way: str, name: str) -> list[Estimate]:
        """One estimate per share."""
        found = next((c for c in self.curves if c.name == name), None)
        if found is None:
            raise InputError(f"no curve {name!r} here; there are {', '.join(c.name for c in self.curves)}")
        own = found.values[self._row(way)]
        return [estimate(own[:, s], seed=self.seed, draws=self.draws) for s in range(own.shape[1])]

    def _row(self, way: str) -> int:
        if way not in self.ways:
            raise InputError(f"no row {way!r} here; there are {', '.join(self.ways)}")
        return self.ways.index(way)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One plain dictionary per cell of the table."""
        for way in self.ways:
            for column in self.columns:
                cell = self.estimate(way, column.name)
                yield {
                    "way": way, "metric": column.name, "better": column.better, "value": cell.value,
                    "low": cell.low, "high": cell.high, "n": cell.n, "protocol": self.protocol,
                }  # fmt: skip

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table, one line per cell; also written to `path`."""
        stream = io.StringIO()
        writer = csv.DictWriter(
            stream, ["way", "metric", "better", "value", "low", "high", "n", "protocol"], lineterminator="\n"
        )
        writer.writeheader()
        for row in self.rows():
            writer.writerow({k: "" if isinstance(v, float) and np.isnan(v) else v for k, v in row.items()})
        if path is not None:
            try:
                Path(path).write_text(stream.getvalue(), encoding="utf-8")
            except OSError as error:
                raise StoreError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
        return stream.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the table, the curves, and every text's own numbers."""
        body: dict[str, Any] = {
            "type": "Evaluation", "ways": list(self.ways), "protocol": self.protocol,
            "references": list(self.references), "share": self.share, "texts": self.texts, "seed": self.seed,
            "draws": self.draws, "notes": list(self.notes), "meta": dict(self.meta),
            "table": [{k: _plain(v) for k, v in row.items()} for row in self.rows()],
            "columns": [
                {"name": c.name, "better": c.better, "median": c.median, "values": _plain(c.values)} for c in self.columns
            ],
            "curves": [
                {"name": c.name, "better": c.better, "shares": list(c.shares), "values": _plain(c.values)}
                for c in self.curves
            ],
            "agreement": _plain(self.agreement),
        }  # fmt: skip
        if self.randomised is not None:
            body["randomised"] = {
                "stages": list(self.randomised.stages), "values": _plain(self.randomised.values),
            }  # fmt: skip
        return body

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Evaluation:
        """What `to_dict` gave."""
        randomised = body.get("randomised")
        return Evaluation(
            ways=tuple(body["ways"]),
            columns=tuple(Column(c["name"], c["better"], _array(c["values"]), c["median"]) for c in body["columns"]),
            curves=tuple(Curve(c["name"], c["better"], tuple(c["shares"]), _array(c["values"])) for c in body["curves"]),
            agreement=_array(body["agreement"]),
            protocol=body["protocol"], references=tuple(body["references"]), share=body["share"],
            texts=body["texts"], seed=body["seed"], draws=body["draws"],
            randomised=None if randomised is None else Randomised(tuple(randomised["stages"]), _array(randomised["values"])),
            notes=tuple(body["notes"]), meta=body["meta"],
        )  # fmt: skip


def joined(parts: Sequence[Evaluation]) -> Evaluation:
    """Evaluations of different texts in the same ways → one; notes that count texts are left to the caller."""
    first = parts[0]
    if any(
        (p.ways, p.protocol, p.references, [c.name for c in p.columns])
        != (first.ways, first.protocol, first.references, [c.name for c in first.columns])
        for p in parts
    ):
        raise InputError("only evaluations with the same rows, metrics, protocol and references can be joined")
    weight = np.array([part.texts for part in parts], dtype=float)
    known = np.stack([part.agreement for part in parts])
    shares = weight[:, None, None] * np.isfinite(known)
    total = shares.sum(0)
    agreement = np.where(total > 0, (np.nan_to_num(known) * shares).sum(0) / np.maximum(total, 1e-9), np.nan)
    return replace(
        first,
        columns=tuple(
            replace(column, values=np.concatenate([part.columns[k].values for part in parts], axis=1))
            for k, column in enumerate(first.columns)
        ),
        curves=tuple(
            replace(curve, values=np.concatenate([part.curves[k].values for part in parts], axis=1))
            for k, curve in enumerate(first.curves)
        ),
        agreement=agreement,
        texts=int(weight.sum()),
        randomised=None,
        notes=tuple(note for note in first.notes if all(note in part.notes for part in parts)),
    )


def _array(values: Any) -> np.ndarray:
    return np.array(values, dtype=float)


def _plain(value: Any) -> Any:
    """NaN is nothing in JSON."""
    if isinstance(value, np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value
