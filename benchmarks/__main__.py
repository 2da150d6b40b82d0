"""`python -m benchmarks [ROW …] [--quick] [--fresh]`: measure, show, write benchmarks/rows and README.md.

Rows are kept in benchmarks/rows, one file for each name, with what they were measured on. Those of this very commit are not
measured again, so a run that was stopped goes on where it was; `--fresh` does. With names, only those are measured and shown,
and nothing but their files is written; `--page` then writes the page from all files there are, and says of what commit each is.
Kept rows that the code no longer makes (`current.py`: another name, another goal) are not on the page, and it says so.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch comes in
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
ROOT = Path(__file__).resolve().parents[1]
KEPT, QUICK = Path("benchmarks/rows"), Path("out/bench-quick")


def _processor() -> float:
    """CPU seconds so far of this process and of those it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measured(entry, folder: Path, *, quick: bool, fresh: bool, page: bool = False):
    """The entry's rows (kept ones, or measured now and kept), the seconds spent now, and what they were measured on."""
    from benchmarks.machine import description
    from benchmarks.report import complete

    file = folder / f"{entry.name}.json"
    about = description()
    if file.exists() and not fresh:
        kept = json.loads(file.read_text(encoding="utf-8"))
        current = page or kept["about"]["commit"] == about["commit"]
        if kept.get("quick") is quick and current:  # small work says nothing of large
            return kept["rows"], 0.0, kept["about"]
    begun, cpu = time.perf_counter(), _processor()
    rows = [complete(row) for row in entry.make(quick)]
    spent = time.perf_counter() - begun
    part = file.with_suffix(".part")
    kept = {"rows": rows, "wall_seconds": spent, "cpu_seconds": _processor() - cpu, "quick": quick, "about": about}
    part.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    part.replace(file)
    return rows, spent, about


def _is_kept(file: Path, quick: bool) -> bool:
    return file.exists() and json.loads(file.read_text(encoding="utf-8")).get("quick") is quick


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="*", help="names of rows; none: all of them")
    parser.add_argument("--quick", action="store_true", help="smaller work, within five minutes")
    parser.add_argument("--fresh", action="store_true", help="measure again what is kept of this commit")
    parser.add_argument("--keep", type=Path, help="where measured rows are kept (default: benchmarks/rows)")
    parser.add_argument(
        "--page", action="store_true", help="measure nothing: write the page from the rows that are kept"
    )
    parser.add_argument("--list", action="store_true", help="names of the rows")
    choice = parser.parse_args()
    os.chdir(ROOT)
    from benchmarks.current import outdated
    from benchmarks.table import ENTRIES, find

    if choice.list:
        print("\n".join(entry.name for entry in ENTRIES))
        return 0
    entries = find(choice.rows)

    import torch

    from benchmarks import machine, report

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # sums that do not settle, on purpose, on both sides
    folder = choice.keep or (QUICK if choice.quick else KEPT)
    folder.mkdir(parents=True, exist_ok=True)
    sections: dict[str, list] = {entry.section: [] for entry in entries}
    failed, measured_on, begun = [], {}, time.perf_counter()
    left_out: dict[str, list[str]] = {}
    absent = [
        entry.name for entry in entries if choice.page and not _is_kept(folder / f"{entry.name}.json", choice.quick)
    ]
    fresh = choice.fresh and not choice.page
    for entry in entries:
        if entry.name in absent:
            continue
        try:
            rows, spent, on = measured(entry, folder, quick=choice.quick, fresh=fresh, page=choice.page)
        except Exception:  # one row that fails must not lose the others
            traceback.print_exc()
            failed.append(entry.name)
            continue
        old = outdated(entry, rows) if not spent else []
        sections[entry.section] += [row for row in rows if row not in old]
        if old:
            left_out[entry.name] = [row["work"] for row in old]
        measured_on[entry.name] = on
        print(f"{entry.name}: {'kept' if not spent else f'{spent:.0f} s'}", file=sys.stderr, flush=True)
    if not measured_on:
        print(f"benchmarks: there is nothing to show; no row is kept in {folder}", file=sys.stderr)
        return 1
    report.show([row for rows in sections.values() for row in rows])
    print(f"{(time.perf_counter() - begun) / 60:.1f} minutes in all", file=sys.stderr)
    if failed:
        print(
            f"benchmarks: no figures for {', '.join(failed)}; the errors are above. Nothing was written: the page stays as it "
            "was, and what was measured is kept for the next run",
            file=sys.stderr,
        )
    if not choice.rows and not failed:
        if sections["Growth"]:
            from benchmarks.growth import draw

            draw(sections["Growth"])
        about = machine.together(measured_on)
        if absent:
            about["not measured"] = ", ".join(absent)
        if left_out:
            about["left out, to be measured anew (the code has another name or goal for them by now)"] = "; ".join(
                f"{', '.join(works)} ({name})" for name, works in left_out.items()
            )
        report.write(sections, about, choice.quick)
        print("written: benchmarks/README.md", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
