"""What an evaluation found: methods × metrics over texts, with everything needed to redraw it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from pathlens.errors import InputError
from pathlens.explanation.view import TableExport, Viewable, defined
from pathlens.metrics.statistics import DRAWS, Estimate, estimate
from pathlens.types import brief

SIG_NOTE = (
    "SIG's token score IS leave-one-out (the token put to the baseline, F(x) − F(x̄ⁱ)), and these metrics delete or replace "
    "tokens: they favour sig and leave-one-out by construction"
)
LOWER, HIGHER = "lower", "higher"
RANDOM, LEAVE_ONE_OUT = "random", "leave-one-out"
CONTROLS = (RANDOM, LEAVE_ONE_OUT)  # rows that are always there, and never the best


@dataclass(frozen=True, eq=False)
class Column:
    """A metric: one number per row of the table and text. `better`: "lower", "higher", or "" where neither is."""

    name: str
    better: str
    values: np.ndarray  # (contenders, texts); NaN where it is not defined
    median: bool = False  # summarised by its median, as the papers do with |Δ %|
    curve: str = ""  # the curve it is read from, by name: at the table's share of the tokens
    over_shares: bool = False  # its mean over all shares instead (AOPC)


@dataclass(frozen=True, eq=False)
class Curve:
    """A deletion metric over shares of the tokens."""

    name: str
    better: str
    shares: tuple[float, ...]
    values: np.ndarray  # (contenders, texts, shares)


@dataclass(frozen=True, eq=False)
class Randomised:
    """Rank correlation with the true model's scores as layers are drawn anew from the top."""

    stages: tuple[str, ...]
    values: np.ndarray  # (contenders, stages, texts)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(TableExport, Viewable):
    """Rows (`contenders`) × metrics (`columns`) over the same texts; draws of the bootstrap are shared, so pairs compare."""

    contenders: tuple[str, ...]
    columns: tuple[Column, ...]
    curves: tuple[Curve, ...]
    agreement: np.ndarray  # (contenders, contenders) mean Spearman over texts
    protocol: str
    references: tuple[str, ...]
    share: float
    texts: int
    seed: int = 0
    draws: int = DRAWS
    randomised: Randomised | None = None
    notes: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        metrics = f"{len(self.columns)} metrics"
        return brief(self, ", ".join(self.contenders), metrics, f"{self.texts} texts", f"protocol {self.protocol}")

    def column(self, name: str) -> Column:
        return _named(self.columns, name, "metric")

    def estimate(self, contender: str, column: str) -> Estimate:
        """A cell of the table."""
        metric = self.column(column)
        return estimate(metric.values[self._row(contender)], seed=self.seed, draws=self.draws, median=metric.median)

    def difference(self, contender: str, other: str, column: str) -> Estimate:
        """Mean of contender − other over the same texts: its interval is of paired differences."""
        values = self.column(column).values
        gained = values[self._row(contender)] - values[self._row(other)]
        return estimate(gained, seed=self.seed, draws=self.draws)

    def curve(self, contender: str, name: str) -> list[Estimate]:
        """One estimate per share."""
        shares = _named(self.curves, name, "curve").values[self._row(contender)].T
        return [estimate(share, seed=self.seed, draws=self.draws) for share in shares]

    def _row(self, contender: str) -> int:
        if contender not in self.contenders:
            raise InputError(f"no row {contender!r} here; there are {', '.join(self.contenders)}")
        return self.contenders.index(contender)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One plain dictionary per cell of the table."""
        for contender in self.contenders:
            for column in self.columns:
                cell = self.estimate(contender, column.name)
                yield {
                    "way": contender, "metric": column.name, "better": column.better, "value": cell.value,
                    "low": cell.low, "high": cell.high, "n": cell.n, "protocol": self.protocol,
                }  # fmt: skip

    def __len__(self) -> int:
        return len(self.contenders) * len(self.columns)  # counted without drawing every cell's interval

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the table, the curves, and every text's own numbers; NaN is nothing in JSON."""
        return {"type": "Evaluation", **super().to_dict(), "table": defined(self.rows(), None)}

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Evaluation:
        """What `to_dict` gave."""
        body = {"contenders": body.get("ways"), **body}  # earlier files call them ways
        randomised = body.get("randomised")
        kept: dict[str, Any] = {f.name: body[f.name] for f in fields(Evaluation) if f.name in body}
        kept |= {name: tuple(body[name]) for name in ("contenders", "references", "notes")}
        kept["columns"] = tuple(Column(**{**c, "values": _array(c["values"])}) for c in body["columns"])
        curves = [
            {**each, "shares": tuple(each["shares"]), "values": _array(each["values"])} for each in body["curves"]
        ]
        kept["curves"] = tuple(Curve(**each) for each in curves)
        kept["agreement"] = _array(body["agreement"])
        if randomised is not None:
            kept["randomised"] = Randomised(tuple(randomised["stages"]), _array(randomised["values"]))
        return Evaluation(**kept)


def _named(things: Sequence[Any], name: str, what: str) -> Any:
    for thing in things:
        if thing.name == name:
            return thing
    raise InputError(f"no {what} {name!r} here; there are {', '.join(thing.name for thing in things)}")


def _array(values: Any) -> np.ndarray:
    return np.array(values, dtype=float)
