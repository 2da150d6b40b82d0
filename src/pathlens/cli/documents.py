"""Documents as the command line takes them: a folder, a file with one a line, every row of a table, standard input."""

from __future__ import annotations

import os
from pathlib import Path

from pathlens.cli.options import read_text, warnings_as_lines
from pathlens.errors import InputError
from pathlens.explanation.base import shortened
from pathlens.files import read_text as read_file

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")


def is_table(path: str | Path) -> bool:
    """By its name, also where it is compressed."""
    return str(path).lower().removesuffix(".gz").endswith(TABLES)


def read_documents(documents: str, column: str) -> dict[str, str]:
    """Name → text. `column`: of a table."""
    from pathlens.vectors.documents import read_documents as of_files

    if documents == "-":
        lines = [line.strip() for line in read_text("-").split("\n")]
        return {f"line {number}": line for number, line in enumerate(lines, 1) if line}
    with warnings_as_lines():
        return read_table(documents, column) if is_table(documents) else dict(zip(*of_files(documents), strict=True))


def read_table(path: str | Path, column: str) -> dict[str, str]:
    """The rows of a table that hold a text, named by their numbers from 1; those that hold none are counted."""
    from pathlens.corpus.formats import Source
    from pathlens.corpus.reading import readable

    name = Path(path).name
    return {f"{name}:{row.number + 1}": row.text or "" for row in readable(Source(str(path), column, keep=()))}


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
        with warnings_as_lines():
            each += [(file.name, read_file(file))] if whole else read_table(file, column).items()
    named = [name for name, _ in each]
    return {name if named.count(name) == 1 else f"{name} ({k})": text for k, (name, text) in enumerate(each, 1)}
