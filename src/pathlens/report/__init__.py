"""Many explanations → one self-contained page that can be filtered, sorted, and loaded again.

>>> from pathlens.report import Report
>>> Report.of(["a.json", "b.json"]).to_html("report.html")
>>> pl.load("report.html")     # the same results, as a list
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.draw import page_of
from pathlens.draw.blocks import Bar, Bars, Block, Explorer, Listing, Page, Panels, Proof
from pathlens.draw.evaluations import features
from pathlens.draw.results import COLORS
from pathlens.errors import InputError
from pathlens.explanation.base import Result
from pathlens.explanation.store import load, many_to_dict
from pathlens.explanation.view import Viewable
from pathlens.types import brief

SUFFIXES = (".json", ".html")
TOP = 5
PANELS, MOST_BARS = 4, 24  # of a picture: the targets met most often, and bars in all
HINT = "click a heading to sort, a row to see its explanation"
COLUMNS = (  # (name, key, is it a number)
    ("", "number", True), ("method", "method", False), ("model", "model", False), ("explains", "target", False),
    ("text", "text", False), ("the model says", "headline", False), ("output", "output", True),
    ("change", "change", True), ("strongest", "top", False),
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Report(Viewable):
    """Many results and where each came from."""

    results: tuple[Result, ...]
    sources: tuple[str, ...]
    title: str = "report"
    above: tuple[Block, ...] = ()  # what stands above the list: a corpus's summary

    def __repr__(self) -> str:
        return brief(self, repr(self.title), f"{len(self.results)} results")

    @staticmethod
    def of(given: Iterable[Any], *, title: str = "report", tell: Any = None) -> Report:
        """Results, files that `save` or `to_html` wrote, or folders of such files."""
        named: list[tuple[Result, str]] = []
        for item in _files(given):
            if tell is not None:
                tell(item)
            loaded, name = (item, "") if isinstance(item, Result) else (load(item), Path(item).name)
            named += [(result, name) for result in (loaded if isinstance(loaded, list) else [loaded])]
        if not named:
            raise InputError("nothing to report: give saved explanations (.json or .html), or folders of them")
        results, sources = zip(*named, strict=True)
        return Report(results, sources, title)

    def __len__(self) -> int:
        return len(self.results)

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary per result."""
        both = enumerate(zip(self.results, self.sources, strict=True), 1)
        return [{"number": k, "source": source, **_row(result)} for k, (result, source) in both]

    def words(self) -> dict[str, dict[str, tuple[float, int]]]:
        """What is explained → unit → (mean score, how often), over results that have scores; case is folded.

        Scores for different targets, models or methods are never averaged: what raises one lowers another.
        """
        sums: dict[str, dict[str, list[float]]] = {}
        for result, asked in zip(self.results, self._questions(), strict=True):
            special = getattr(result, "special", ())
            for k, score in enumerate(getattr(result, "scores", ())):
                if not (special and special[k]):
                    unit = result.tokens[k].lower().strip()  # type: ignore[attr-defined]
                    sums.setdefault(asked, {}).setdefault(unit, []).append(float(score))
        means = lambda units: {name: (float(np.mean(each)), len(each)) for name, each in units.items()}  # noqa: E731
        return {asked: means(units) for asked, units in sums.items()}

    def _questions(self) -> list[str]:
        """What each result explains, with as much of method and model as the results differ in."""
        rows = [_row(result) for result in self.results]
        telling = [key for key in ("model", "method") if len({row[key] for row in rows}) > 1]
        return [" · ".join([*(row[key] for key in telling if row[key]), row["target"]]) for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `pl.load` of the saved file gives the results back."""
        return many_to_dict(self.results, title=self.title, sources=list(self.sources), rows=self.rows())

    def to_page(self) -> Page:
        """A list to filter, sort and open; in the terminal a table, as a picture the units with the largest scores."""
        rows, pages = self.rows(), tuple(map(page_of, self.results))
        list_of_all = Explorer(COLUMNS, ("method", "model", "target"), tuple(rows), pages, title=HINT)
        altered = sum(bool(result.altered) for result in self.results)
        loose = sum(not result.certificate.converged and not result.altered for result in self.results)
        notes: tuple[str, ...] = (f"{loose} of {len(self)} have not settled within their tolerance",) if loose else ()
        checked = [result.check for result in self.results if result.check is not None and result.check.applies]
        wrong = sum(not check.agrees for check in checked)
        notes += (f"{wrong} of {len(checked)} checked: the model does not do what the scores predict",) if wrong else ()
        notes += (f"{altered} of {len(self)} were altered after they were made",) if altered else ()
        table = features(self.results)
        picture = table.blocks if table is not None else (self._strongest(),)
        legend = f"{COLORS}." if table is None else f"{table.proof.legend}. {COLORS}."
        title, blocks = f"{self.title}: {len(self)} explanations", (*picture, self._listing(rows), list_of_all)
        more: dict[str, Any] = {"notes": notes, "proof": Proof(legend), "data": self.to_dict, "kind": "report"}
        return Page(title, blocks=(*self.above, *blocks), **more)

    def _listing(self, rows: Sequence[Mapping[str, Any]]) -> Listing:
        cells = tuple(
            (str(row["number"]), row["method"], row["target"], row["text"], row["headline"],
             f"{row['change']:+.4g}", row["top"])
            for row in rows
        )  # fmt: skip
        marks = tuple(row["mark"] for row in rows)
        columns = ("", "method", "explains", "text", "the model says", "change", "strongest")
        return Listing(columns, cells, marks, where=("terminal",))

    def _strongest(self) -> Panels:
        """For everything that is explained, the units with the largest mean |score|."""
        means = self.words()
        often = sorted(means, key=lambda asked: -sum(count for _, count in means[asked].values()))[:PANELS]
        panels = []
        for asked in often:
            strongest = sorted(means[asked].items(), key=lambda item: -abs(item[1][0]))
            some = strongest[: max(MOST_BARS // len(often), 1)]
            bars = tuple(Bar(f"{name} ×{count}" if count > 1 else name, mean) for name, (mean, count) in some)
            panels.append(Bars(bars, axis="mean score", title=asked))
        return Panels(tuple(panels), common=True, where=("figure",))


def _files(given: Iterable[Any]) -> Sequence[Any]:
    """Folders opened; a file's arrays beside it (.safetensors) are not results."""
    files: list[Any] = []
    for item in given:
        if isinstance(item, str | Path) and Path(item).is_dir():
            inside = sorted(file for file in Path(item).iterdir() if file.suffix in SUFFIXES)
            if not inside:
                raise InputError(f"the folder {str(item)!r} holds no saved explanation (.json or .html)")
            files += inside
        else:
            files.append(item)
    return files


def _row(result: Result) -> dict[str, Any]:
    proof, origin, altered = result.certificate, result.origin, result.altered
    settled = proof.converged and not altered
    texts = [str(text) for text in origin.texts if text]
    top = ", ".join(" ".join([*map(str, names), f"{score:+.3g}"]) for *names, score in result.top(TOP) if score)
    return {
        "method": result.method, "target": result.target, "model": origin.model,
        "baseline": origin.baseline, "text": " | ".join(texts), "headline": result.about[-1] or result.headline, "output": proof.f_input,
        "change": proof.f_input - proof.f_baseline, "gap": proof.gap, "relative_gap": proof.relative_gap,
        "nodes": proof.nodes, "converged": settled, "mark": "✓" if settled else "✗ altered" if altered else "✗", "top": top,
    }  # fmt: skip
