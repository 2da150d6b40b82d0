"""`python -m tests.mutants`: try the list, or what has changed of it since its rows were written."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace

from tests.mutants.run import (
    BROKEN,
    GOAL,
    KILLED,
    Stale,
    failing_anyway,
    header,
    marked,
    read_list,
    read_rows,
    sample,
    stale,
    tried,
    write_rows,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="changes tried at once")
    parser.add_argument("--fresh", action="store_true", help="try every one again, whatever rows are there")
    parser.add_argument("--sample", type=int, help="try so many, and write no rows")
    parser.add_argument("--only", help="try those whose file or description this pattern matches")
    asked = parser.parse_args()
    mutants = read_list()
    if wrong := stale(mutants):
        print("\n".join(wrong), file=sys.stderr)
        return 2
    rows = {} if asked.sample else read_rows()
    if asked.fresh:  # they stand until they are tried again
        rows = {what: replace(row, key="") for what, row in rows.items()}
    some = [m for m in mutants if not asked.only or re.search(asked.only, f"{m.file} {m.what}")]
    some = sample(some, asked.sample) if asked.sample else some
    try:
        for row in tried([m for m in some if m.what not in rows or rows[m.what].key != m.key()], asked.jobs, print):
            rows[row.what] = row
            print(f"{row.verdict:9} {row.what}{f'  ({row.by})' if row.by else ''}", flush=True)
            if not asked.sample:
                write_rows(rows, mutants)
    except KeyboardInterrupt:
        return 130
    listed = marked(rows, mutants)
    try:
        anyway = failing_anyway([row for row in listed if not row.old])
    except Stale as error:
        print(f"the tests that killed could not be run without a change (try --fresh):\n{error}", file=sys.stderr)
        return 2
    listed = [replace(row, verdict=BROKEN) if row.by in anyway else row for row in listed]
    size = len(some) if asked.sample else len(mutants)
    count = header(listed, size)
    old = f"; {count['old']} of the rows are of an older source" if count["old"] else ""
    print(f"{count['killed']} of {size} killed ({count['killed'] / max(1, size):.1%}){old}")
    for row in listed:
        if row.verdict != KILLED:
            print(f"  {row.verdict}: {row.what}")
    if asked.sample:
        return int(count["killed"] < size)
    write_rows({row.what: row for row in listed}, mutants)
    return int(count["killed"] < GOAL * size)


if __name__ == "__main__":
    sys.exit(main())
