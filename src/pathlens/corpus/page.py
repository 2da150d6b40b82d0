"""A run as one page: its summary on top, and a part of its explanations below, each drawn."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from pathlens.corpus.folder import results
from pathlens.corpus.summary import summarise
from pathlens.errors import InputError
from pathlens.report import Report

SHOWN = 100  # explanations on a page: more make it slow to open


def report(folder: str | Path, *, title: str | None = None, most: int = SHOWN, **choices: Any) -> Report:
    """The run's first explanations with the summary of all of it above them."""
    from pathlens.draw import corpus

    summary = summarise(folder, **choices)
    found = tuple(islice(results(folder), most))
    if not found:
        raise InputError(f"no row of {str(folder)!r} was explained; `pathlens summary {folder}` says why")
    names = tuple(f"row {result.meta['row']}" for result in found)
    return Report(found, names, title or summary.title, tuple(corpus.articles(summary)), corpus.STYLE)
