"""Every contender sits every exam; a run that is stopped goes on where it was.

python -m experiments.referee run [--quick] [--only ours|peers] [--exams rationales …] [--minutes 60]
python -m experiments.referee tables
"""

from __future__ import annotations

import argparse
import time
from itertools import groupby
from pathlib import Path

import torch

from experiments.referee import page
from experiments.referee.exams import EXAMS, Exam
from experiments.referee.own import JUDGE, OURS, TOGETHER
from experiments.referee.peers import PEERS
from experiments.referee.record import keep, missing

QUICK = 12  # texts of every exam


def sit(exam: Exam, contender, items, ends: float) -> None:
    """A few texts of one model at a time, written as they come."""
    size = 60 if contender in PEERS else TOGETHER  # a peer's process starts anew each time
    for _, group in groupby(missing(exam.name, contender.name, items), key=lambda item: item.model):
        some = list(group)
        for low in range(0, len(some), size):
            if time.time() > ends:
                raise SystemExit("the minutes are over; the same command goes on")
            begun = time.time()
            keep(exam.name, contender.name, contender(some[low : low + size]))
            print(
                f"{exam.name}, {contender.name}: {low + len(some[low : low + size])} of {len(some)}, {time.time() - begun:.0f} s",
                flush=True,
            )


def run(choice: argparse.Namespace) -> None:
    ends = time.time() + 60 * choice.minutes
    field = (OURS if choice.only != "peers" else ()) + (PEERS if choice.only != "ours" else ())
    for exam in EXAMS:
        if exam.name not in choice.exams:
            continue
        items = exam.items(choice.data)[: QUICK if choice.quick else None]
        for contender in (*((JUDGE,) if exam.name == "sst2" and choice.only != "peers" else ()), *field):
            try:
                sit(exam, contender, items, ends)
            except RuntimeError as error:  # a peer that does not run is named with its reason, the others go on
                print(f"{exam.name}, {contender.name} does not run: {error}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "tables"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} texts of every exam")
    parser.add_argument("--only", choices=("ours", "peers"))
    parser.add_argument(
        "--exams", nargs="+", choices=[exam.name for exam in EXAMS], default=[exam.name for exam in EXAMS]
    )
    choice = parser.parse_args()
    torch.set_num_threads(1)
    if choice.what == "run":
        run(choice)
    page.write(choice.data, [*(row.name for row in OURS), *(peer.name for peer in PEERS)])


if __name__ == "__main__":
    main()
