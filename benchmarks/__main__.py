"""`python -m benchmarks [ROW …] [--quick] [--fresh]`: measure, show, write results.json and README.md.

A row measured once for a commit is kept in out/bench/COMMIT, so a run that was stopped goes on where it was; `--fresh`
measures again, `--keep FOLDER` names another place (rows of several commits then stand side by side, and the page says
which). With names, only those rows are measured and shown, and nothing but the kept rows is written.
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
KEPT = Path("out/bench")


def _processor() -> float:
    """CPU seconds so far of this process and of those it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measured(entry, folder: Path, *, quick: bool, fresh: bool):
    """The entry's rows (kept ones, or measured now and kept), the seconds spent now, and what they were measured on."""
    from benchmarks.machine import description
    from benchmarks.report import complete

    file = folder / f"{entry.name}.json"
    if file.exists() and not fresh:
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept.get("quick") is quick:  # small work says nothing of large
            return kept["rows"], 0.0, kept["about"]
    begun, cpu, about = time.perf_counter(), _processor(), description()
    rows = [complete(row) for row in entry.make(quick)]
    spent = time.perf_counter() - begun
    part = file.with_suffix(".part")
    kept = {"rows": rows, "wall_seconds": spent, "cpu_seconds": _processor() - cpu, "quick": quick, "about": about}
    part.write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")
    part.replace(file)
    return rows, spent, about


def _is_kept(file: Path, quick: bool) -> bool:
    return file.exists() and json.loads(file.read_text(encoding="utf-8")).get("quick") is quick


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="*", help="names of rows; none: all of them")
    parser.add_argument("--quick", action="store_true", help="smaller work, within five minutes")
    parser.add_argument("--fresh", action="store_true", help="measure again what is kept of this commit")
    parser.add_argument("--keep", type=Path, help="where measured rows are kept (default: out/bench/COMMIT)")
    parser.add_argument(
        "--page", action="store_true", help="measure nothing: write the page from the rows that are kept"
    )
    parser.add_argument("--list", action="store_true", help="names of the rows")
    choice = parser.parse_args()
    os.chdir(ROOT)
    from benchmarks.table import ENTRIES, find

    if choice.list:
        print("\n".join(entry.name for entry in ENTRIES))
        return 0
    entries = find(choice.rows)

    import torch

    from benchmarks import machine, report

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # sums that do not settle, on purpose, on both sides
    about = machine.description()
    folder = choice.keep or KEPT / f"{about['commit']}{'-quick' if choice.quick else ''}"
    folder.mkdir(parents=True, exist_ok=True)
    sections: dict[str, list] = {entry.section: [] for entry in entries}
    failed, measured_on, begun = [], {}, time.perf_counter()
    absent = [
        entry.name for entry in entries if choice.page and not _is_kept(folder / f"{entry.name}.json", choice.quick)
    ]
    fresh = choice.fresh and not choice.page
    for entry in entries:
        if entry.name in absent:
            continue
        try:
            rows, spent, on = measured(entry, folder, quick=choice.quick, fresh=fresh)
        except Exception:  # one row that fails must not lose the others
            traceback.print_exc()
            failed.append(entry.name)
            continue
        sections[entry.section] += rows
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
        report.write(sections, about, choice.quick)
        print("written: benchmarks/results.json, benchmarks/README.md", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
