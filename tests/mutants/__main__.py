"""`python -m tests.mutants`: try the list, or what has changed of it since its rows were written."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.mutants.run import (
    BROKEN,
    GOAL,
    KILLED,
    Mutant,
    Row,
    Stale,
    failing_anyway,
    header,
    listed,
    outdated,
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
    parser.add_argument(
        "--show", action="store_true", help="try none: what the rows come to, and how many are of today's source"
    )
    asked = parser.parse_args()
    mutants = read_list()
    if wrong := stale(mutants):
        print("\n".join(wrong), file=sys.stderr)
        return 2
    rows = {} if asked.sample else read_rows()
    some = [m for m in mutants if not asked.only or re.search(asked.only, f"{m.file} {m.what}")]
    some = sample(some, asked.sample) if asked.sample else some
    if asked.show:
        return shown(rows, mutants)
    if asked.fresh:  # they stand until they are tried again
        rows |= {row.what: replace(row, key="") for row in listed(rows, some)}
    try:
        for row in tried([m for m in some if m.what not in rows or rows[m.what].key != m.key()], asked.jobs, print):
            rows[row.what] = row
            print(f"{row.verdict:9} {row.what}{f'  ({row.by})' if row.by else ''}", flush=True)
            if not asked.sample:
                write_rows(rows, mutants)
    except KeyboardInterrupt:
        return 130
    old = {row.what for row in outdated(rows, mutants)}
    try:
        anyway = failing_anyway([row for row in listed(rows, mutants) if row.what not in old])
    except Stale as error:
        again = "run this again; where a test has another name by now, with --fresh and --only"
        print(f"the tests that killed could not be run without a change ({again}):\n{error}", file=sys.stderr)
        return 2
    rows = {what: replace(row, verdict=BROKEN) if row.by in anyway else row for what, row in rows.items()}
    if not asked.sample:
        write_rows(rows, mutants)
    return shown(rows, some if asked.sample else mutants, 1.0 if asked.sample else GOAL)


def shown(rows: Mapping[str, Row], mutants: Sequence[Mutant], goal: float = GOAL) -> int:
    """Says what the rows come to; 1 where too few are killed."""
    known, old = listed(rows, mutants), outdated(rows, mutants)
    count = header(known, len(mutants))
    also = f"; {len(old)} of the rows are of an older source" if old else ""
    print(f"{count['killed']} of {len(mutants)} killed ({count['killed'] / max(1, len(mutants)):.1%}){also}")
    for row in known:
        if row.verdict != KILLED:
            print(f"  {row.verdict}: {row.what}")
    return int(count["killed"] < goal * len(mutants))


if __name__ == "__main__":
    sys.exit(main())
