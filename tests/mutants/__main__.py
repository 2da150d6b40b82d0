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
    known = {} if asked.fresh or asked.sample else read_rows()
    rows = {m.what: known[m.what] for m in mutants if m.what in known and known[m.what].key == m.key()}
    some = [m for m in mutants if not asked.only or re.search(asked.only, f"{m.file} {m.what}")]
    some = sample(some, asked.sample) if asked.sample else some
    try:
        for row in tried([m for m in some if m.what not in rows], asked.jobs, print):
            rows[row.what] = row
            print(f"{row.verdict:9} {row.what}{f'  ({row.by})' if row.by else ''}", flush=True)
            if not asked.sample:
                write_rows([rows[m.what] for m in mutants if m.what in rows])
    except KeyboardInterrupt:
        return 130
    try:
        anyway = failing_anyway(list(rows.values()))
    except Stale as error:
        print(f"the tests that killed could not be run without a change (try --fresh):\n{error}", file=sys.stderr)
        return 2
    rows = {what: replace(row, verdict=BROKEN) if row.by in anyway else row for what, row in rows.items()}
    killed = [row for row in rows.values() if row.verdict == KILLED]
    print(f"{len(killed)} of {len(rows)} killed ({len(killed) / max(1, len(rows)):.1%})")
    for row in rows.values():
        if row.verdict != KILLED:
            print(f"  {row.verdict}: {row.what}")
    if asked.sample:
        return int(len(killed) < len(rows))
    write_rows([rows[m.what] for m in mutants if m.what in rows])
    return int(len(killed) < GOAL * len(rows))


if __name__ == "__main__":
    sys.exit(main())
