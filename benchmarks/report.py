"""Rows → the terminal's table and the page README.md."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import FIELDS, Row, met
from benchmarks.table import ENTRIES

FOLDER = Path(__file__).parent
PICTURE = "../docs/images/growth.png"
INTRO = """# Measured

Written by `make bench`; a run that was stopped goes on, so rows can be of several commits (named below). `ratio` is their
time over ours, above 1 ours is quicker, except where a row names a share, a peak or an exponent: then it is that. Both
sides ran on the same model and texts, in turns; seconds are CPU seconds of one thread, medians of repeats (the 50 prompts
at everyone's defaults ran once, and a point of a growth curve is the second of two calls). The error beside a time is what
that time bought: the largest error of any score, for IG relative to the output's change, against a finer run of the same
integral (for IG ten times finer, otherwise by nodes); where it is another, a line below the table says so. A goal counts as
met only if what the row says of errors and of equal scores is so as well. Ratios hang on the processor: where torch's own
products leave its widest instructions alone (AVX512 in some), the weights that we lay out go through more than twice as
quickly; rows of one processor are to be compared. The check of belief, one forward pass that no peer
makes, is left out of what is timed.
"""
ABOUT = {
    "Beside the peers and the definitions": "captum, time-interpret and inseq are the installed packages. What exists as a "
    "paper's formula only is its literal transcription, the same that the tests use as slow twin; only "
    "IDG's integrals in one batch are written for this table alone, beside the twin's.",
    "Close to the limit": "Ratio: the share of the machine's own float32 matrix-product rate that the loop reaches.",
    "Growth": f"Ratio: the fitted exponent; goal: the expected one and 0.15 for what a fit may be off by.\n\n![growth]({PICTURE})",
    "Memory": "Ratio: the worst peak over the budget, in a fresh process beyond the loaded model. For ih at "
    "512 tokens one direction at one point is the least there is, and takes most of this budget.",
    "Start-up": "Ratio: the share of the allowance that is used; wall time, the least of several fresh processes.",
}


def number(value: float | None, digits: int = 3) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1e5 or abs(value) < 1e-2:
        return f"{value:.1e}"
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:.0f}"


def verdict(row: Row) -> str:
    return {True: "met", False: "**missed**", None: ""}[met(row)]


def goal(row: Row) -> str:
    if row["goal"] is None:
        return ""
    return f"{'≤' if row.get('sense') == 'at most' else '≥'} {number(row['goal'])}"


def cells(row: Row) -> list[str]:
    return [
        row["work"],
        row["against"],
        number(row["ratio"]),
        goal(row),
        number(row["ours_seconds"]),
        number(row["theirs_seconds"]),
        number(row["ours_error"], 2),
        number(row["theirs_error"], 2),
        verdict(row),
    ]


HEAD = ("work", "against", "ratio", "goal", "ours, s", "theirs, s", "our error", "their error", "")


def show(rows: Sequence[Row]) -> None:
    """The terminal's table: ours above theirs in a cell."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_lines=True)
    for name in ("work", "against"):
        table.add_column(name, ratio=1)
    for name in ("ratio", "goal", "seconds", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        work, against, ratio, wanted, ours, theirs, error, other, _ = cells(row)
        colour = {True: "green", False: "red", None: None}[met(row)]
        table.add_row(work, against, ratio, wanted, f"{ours}\n{theirs}", f"{error}\n{other}", style=colour)
    Console().print(table)


def plain(value: Any) -> Any:
    """JSON has no NaN and no numpy numbers."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def complete(row: Row) -> Row:
    """Every row with the same fields first, and whether its goal is met."""
    missing = [name for name in FIELDS if name not in row]
    if missing:
        raise ValueError(f"a row lacks {', '.join(missing)}: {row}")
    first = {name: row[name] for name in FIELDS}
    return plain({**first, **{name: value for name, value in row.items() if name not in FIELDS}, "met": met(row)})


def kept(folder: Path = FOLDER / "rows", names: Sequence[str] = ()) -> list[Row]:
    """Every row that is kept, in the table's order; with names, of those alone."""
    files = [folder / f"{entry.name}.json" for entry in ENTRIES if not names or entry.name in names]
    return [row for file in files if file.exists() for row in json.loads(file.read_text(encoding="utf-8"))["rows"]]


def page(sections: Mapping[str, Sequence[Row]], about: Mapping[str, str], quick: bool) -> str:
    """README.md, from the same rows."""
    lines = [INTRO]
    if quick:
        lines.append("**A quick run**: smaller work, one round. `make bench` measures in full.\n")
    lines += [f"- {name}: {value}" for name, value in about.items()] + [""]
    every = [row for rows in sections.values() for row in rows]
    missed = [row for row in every if met(row) is False]
    goals = [row for row in every if met(row) is not None]
    lines.append(f"{len(goals) - len(missed)} of {len(goals)} goals are met.\n")
    for section, rows in sections.items():
        if not rows:
            continue
        lines += [f"## {section}\n", ABOUT[section], ""]
        lines += ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells(row)) + " |" for row in rows]
        notes: dict[str, list[str]] = {}  # what is said once may be of several rows
        for row in rows:
            if row.get("note"):
                notes.setdefault(row["note"], []).append(row["work"].split(",")[0])
        lines += ["", *(f"- {'; '.join(dict.fromkeys(of))}: {note}." for note, of in notes.items()), ""]
    if missed:
        lines += ["## What was missed, and why\n"]
        lines += [
            f"- {row['work']} ({row['against']}): {number(row['ratio'])}, goal {goal(row)}. "
            f"{_sentence(row.get('why') or 'no reason is known yet')}"
            for row in missed
        ]
        lines.append("")
    return "\n".join(line.rstrip(" ") for line in lines).rstrip() + "\n"


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + "."


def write(sections: Mapping[str, Sequence[Row]], about: Mapping[str, str], quick: bool, folder: Path = FOLDER) -> None:
    (folder / "README.md").write_text(page(sections, about, quick), encoding="utf-8")
