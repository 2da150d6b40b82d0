"""Where tables, pictures and paragraphs go."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Folder:
    """One experiment's folder: CSV tables, PNG pictures, and a paragraph (also printed)."""

    def __init__(self, out: Path, name: str) -> None:
        self.name = name
        self.folder = Path(out) / name
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        return self.folder / name

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        with self.path(name).open("w", newline="") as stream:
            writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    def bars(self, name: str, values: Mapping[str, float], title: str) -> None:
        from experiments import plots
        from pathlens.draw import canvas

        canvas.save(plots.bars(values, title=title), self.path(name))

    def lines(
        self, name: str, x: Sequence[float], series: Mapping[str, Sequence[float]], *, log: str = "", **words: str
    ) -> None:
        """One line per series; `log` names the logarithmic axes ("x", "y", "xy")."""
        from experiments import plots
        from pathlens.draw import canvas

        drawn = plots.curve(x, series, **words)
        drawn.axes[0].set(**{f"{axis}scale": "log" for axis in log})
        canvas.save(drawn, self.path(name))

    def say(self, text: str) -> None:
        self.path("findings.txt").write_text(text + "\n", encoding="utf-8")
        print(f"\n== {self.name}\n{text}\n", flush=True)


class Rows:
    """A table that is written row by row, so that a long run can be stopped and resumed; every value a string."""

    def __init__(self, file: Path, columns: Sequence[str], *, resume: bool) -> None:
        self.file, self.columns = file, list(columns)
        self._rows: list[dict[str, Any]] = []
        if resume and file.exists():
            with file.open(newline="") as stream:
                self._rows = list(csv.DictReader(stream))
        with file.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, fieldnames=self.columns)
            writer.writeheader()
            writer.writerows(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def extend(self, rows: Iterable[Mapping[str, Any]]) -> None:
        new = [{name: str(row[name]) for name in self.columns} for row in rows]
        with self.file.open("a", newline="") as stream:
            csv.DictWriter(stream, fieldnames=self.columns).writerows(new)
        self._rows += new


def interval(values: np.ndarray, *, draws: int = 2000, seed: int = 0) -> tuple[float, float, float]:
    """Low, mean, high: the 95 % bootstrap interval of the mean."""
    values = np.asarray(values, dtype=float)
    if len(values) == 0:
        return float("nan"), float("nan"), float("nan")
    sample = np.random.default_rng(seed).choice(values, (draws, len(values))).mean(1)
    low, high = np.quantile(sample, [0.025, 0.975])
    return float(low), float(values.mean()), float(high)
