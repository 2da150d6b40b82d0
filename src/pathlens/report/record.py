"""Results side by side: what each explains, whether it adds up, its strongest units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.errors import InputError
from pathlens.explanation.record import Result
from pathlens.explanation.store import load, many_to_dict
from pathlens.files import write_json

SUFFIXES = (".json", ".html")
TOP = 5
PANELS = 4  # of a picture: the targets met most often


@dataclass(frozen=True, eq=False)
class Report:
    """Many results and where each came from."""

    results: tuple[Result, ...]
    sources: tuple[str, ...]
    title: str = "report"
    articles: tuple[Any, ...] = ()  # parts of the page that stand above the list: a corpus's summary
    style: str = ""  # what those need

    @staticmethod
    def of(given: Iterable[Any], *, title: str = "report", tell: Any = None) -> Report:
        """Results, files that `save` or `to_html` wrote, or folders of such files."""
        results: list[Result] = []
        sources: list[str] = []
        for item in _files(given):
            if tell is not None:
                tell(item)
            found = item if isinstance(item, Result) else load(item)
            name = "" if isinstance(item, Result) else Path(item).name
            for result in found if isinstance(found, list) else [found]:
                results.append(result)
                sources.append(name)
        if not results:
            raise InputError("nothing to report: give saved explanations (.json or .html), or folders of them")
        return Report(tuple(results), tuple(sources), title)

    def __len__(self) -> int:
        return len(self.results)

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary per result."""
        return [
            {"number": k, "source": source, **_row(result)}
            for k, (result, source) in enumerate(zip(self.results, self.sources, strict=True), 1)
        ]

    def words(self) -> dict[str, dict[str, tuple[float, int]]]:
        """What is explained → unit → (mean score, how often), over results that have scores; case is folded.

        Scores for different targets, models or methods are never averaged: what raises one lowers another.
        """
        sums: dict[str, dict[str, list[float]]] = {}
        for result, asked in zip(self.results, self._questions(), strict=True):
            for token, score, special in _scored(result):
                if not special:
                    sums.setdefault(asked, {}).setdefault(token.lower().strip(), []).append(score)
        return {
            asked: {name: (float(np.mean(values)), len(values)) for name, values in units.items()}
            for asked, units in sums.items()
        }

    def _questions(self) -> list[str]:
        """What each result explains, with as much of method and model as the results differ in."""
        rows = [_row(result) for result in self.results]
        telling = [key for key in ("model", "method") if len({row[key] for row in rows}) > 1]
        return [" · ".join([*(row[key] for key in telling if row[key]), row["target"]]) for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `pl.load` of the saved file gives the results back."""
        return many_to_dict(self.results, title=self.title, sources=list(self.sources), rows=self.rows())

    def save(self, path: str | Path) -> Path:
        """Write JSON."""
        return write_json(path, self.to_dict())

    def listing(self) -> Any:
        """The rows as a table to draw."""
        from pathlens.draw.listing import Listing

        rows = tuple(
            (str(row["number"]), row["method"], row["target"], row["text"], f"{row['change']:+.4g}",
             f"{row['gap']:.1g}", row["top"])
            for row in self.rows()
        )  # fmt: skip
        marks = tuple("✓" if result.certificate.converged else "✗" for result in self.results)
        loose = marks.count("✗")
        notes = (f"{loose} of {len(marks)} have not settled within their tolerance",) if loose else ()
        columns = ("", "method", "explains", "text", "change", "gap", "strongest")
        return Listing(f"{self.title}: {len(self)} explanations", columns, rows, marks, notes=notes)

    def show(self) -> None:
        """Print the table."""
        from pathlens.draw import listing

        listing.show(self.listing())

    def to_html(self, path: str | Path | None = None) -> str:
        """A page with a filter, sortable columns, and every explanation drawn."""
        from pathlens.report.page import page

        return page(self, path)

    def to_png(self, path: str | Path, most: int = 24) -> Path:
        """For everything that is explained the units with the largest mean |score|, as bars; rows of one table as
        a summary of its features. `most`: bars in all."""
        from pathlens.draw import figure
        from pathlens.draw.features import Table

        if (table := Table.of(self.results)) is not None:
            title = f"{self.title}: {len(self)} rows"
            return figure.write(figure.summary(table.values, table.scores, table.names, title=title), path)
        found = self.words()
        if not found:
            raise InputError("no result here has scores of single units, so there are no bars to draw")
        often = sorted(found, key=lambda asked: -sum(count for _, count in found[asked].values()))
        panels = {}
        for asked in often[:PANELS]:
            each = max(most // min(len(often), PANELS), 1)
            strongest = sorted(found[asked].items(), key=lambda item: -abs(item[1][0]))[:each]
            named = {f"{name} ×{count}" if count > 1 else name: mean for name, (mean, count) in strongest}
            panels[asked] = named
        title = f"{self.title}: mean score by unit"
        return figure.write(figure.bars_in_panels(panels, title=title), path)


def _files(given: Iterable[Any]) -> Sequence[Any]:
    """Folders opened; a file's arrays beside it (.safetensors) are not results."""
    found: list[Any] = []
    for item in given:
        if isinstance(item, str | Path) and Path(item).is_dir():
            inside = sorted(file for file in Path(item).iterdir() if file.suffix in SUFFIXES)
            if not inside:
                raise InputError(f"the folder {str(item)!r} holds no saved explanation (.json or .html)")
            found += inside
        else:
            found.append(item)
    return found


def _row(result: Result) -> dict[str, Any]:
    proof, meta = result.certificate, result.meta
    texts = [str(text) for text in (meta.get("texts") or [meta.get("text", "")]) if text]
    top = ", ".join(" ".join([*map(str, names), f"{score:+.3g}"]) for *names, score in result.top(TOP))  # type: ignore[attr-defined]
    return {
        "method": result.method, "target": result.target, "model": str(meta.get("model", "")),
        "baseline": str(meta.get("baseline", "")), "text": " | ".join(texts), "output": proof.f_input,
        "change": proof.f_input - proof.f_baseline, "gap": proof.gap, "relative_gap": proof.relative_gap,
        "nodes": proof.nodes, "converged": proof.converged, "top": top,
    }  # fmt: skip


def _scored(result: Any) -> Iterable[tuple[str, float, bool]]:
    if not hasattr(result, "scores"):
        return []
    special = result.special or (False,) * len(result.tokens)
    return zip(result.tokens, map(float, result.scores), special, strict=True)
