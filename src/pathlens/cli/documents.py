"""Documents as the command line takes them: a folder, a file with one a line, every row of a table, standard input."""

from __future__ import annotations

import os
from pathlib import Path

from pathlens.cli.options import read_text
from pathlens.errors import InputError
from pathlens.explanation.base import shortened

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")


def is_table(path: str | Path) -> bool:
    """By its name, also where it is compressed."""
    return str(path).lower().removesuffix(".gz").endswith(TABLES)


def read_documents(documents: str, column: str) -> dict[str, str]:
    """Name → text. `column`: of a table."""
    from pathlens.vectors.documents import read_documents as of_files

    if is_table(documents):
        return read_table(documents, column)
    if documents == "-":
        lines = [line.strip() for line in read_text("-").split("\n")]
        return {f"line {number}": line for number, line in enumerate(lines, 1) if line}
    return dict(zip(*of_files(documents), strict=True))


def read_table(path: str | Path, column: str) -> dict[str, str]:
    """The rows of a table that hold a text, named by their numbers from 1; those that hold none are left out."""
    from pathlens.corpus.formats import Source
    from pathlens.corpus.reading import rows

    name = Path(path).name
    read = list(rows(Source(str(path), column, keep=())))
    texts = {f"{name}:{row.number + 1}": row.text for row in read if row.error is None and row.text}
    if not texts:
        raise InputError(f"{str(path)!r} has no row with a text" + (f"; the first: {read[0].error}" if read else ""))
    return texts


def read_sources(files: list[Path], column: str) -> dict[str, str]:
    """Sources by the names of their files; every row of a table is one."""
    each: list[tuple[str, str]] = []
    for file in files:
        if not os.path.exists(file):
            raise InputError(
                f"--source takes a file, and there is none called {shortened(str(file), 200)!r}; write the source into one, or in "
                "Python: pl.answer(model, question, [source, …])"
            )
        whole = not is_table(file)
        each += [(file.name, file.read_text(encoding="utf-8-sig"))] if whole else read_table(file, column).items()
    named = [name for name, _ in each]
    return {name if named.count(name) == 1 else f"{name} ({k})": text for k, (name, text) in enumerate(each, 1)}
