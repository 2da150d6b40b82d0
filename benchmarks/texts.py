"""Texts of the rows: SST-2 sentences as they are, and cut to a length."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from pathlens.errors import InputError

DATA = Path(os.environ.get("PATHLENS_DATA", "../shared/data"))


@cache
def sentences() -> tuple[str, ...]:
    """SST-2's development sentences, cased, in their order."""
    file = DATA / "sst2-sentences" / "dev.tsv"
    if not file.exists():
        raise InputError(f"there is no {file}; point at the data: make bench DATA=<folder>, or PATHLENS_DATA")
    lines = file.read_text(encoding="utf-8").splitlines()
    column = lines[0].split("\t").index("sentence")
    return tuple(line.split("\t")[column] for line in lines[1:])


def tokens_in(model: Any, text: str) -> int:
    return len(model.tokenizer(text)["input_ids"])


def of_length(model: Any, count: int, *, skip: int = 0) -> str:
    """Running SST-2 text of exactly `count` tokens; begins at sentence `skip`, or at the next where words allow it."""
    tried = (_up_to(model, count, first) for first in range(skip, skip + 60))
    return next((text for text in tried if tokens_in(model, text) == count), _up_to(model, count, skip))


def _up_to(model: Any, count: int, skip: int) -> str:
    """The most whole words from sentence `skip` on that have at most `count` tokens."""
    words = " ".join(sentences()[skip : skip + 80]).split()
    low, high = 1, min(len(words), count)
    while low < high:  # the largest number of words that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens_in(model, " ".join(words[:middle])) <= count else (low, middle - 1)
    return " ".join(words[:low])
