"""What it costs to begin: importing the library, asking the command for help."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.measure import Row, row

IMPORT = "import time, torch; begun = time.perf_counter(); {what}; print(time.perf_counter() - begun)"


def _inside(what: str, rounds: int) -> float:
    """Seconds of a statement in a fresh interpreter that has torch already."""
    found = []
    for _ in range(rounds):
        run = subprocess.run(
            [sys.executable, "-c", IMPORT.format(what=what)], capture_output=True, text=True, check=True
        )
        found.append(float(run.stdout))
    return min(found)


def _command(arguments: list[str], rounds: int) -> float:
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        subprocess.run(arguments, capture_output=True, check=True)
        found.append(time.perf_counter() - begun)
    return min(found)


def startup(quick: bool) -> list[Row]:
    """The ratio is the share of the allowance that is used; wall time, the least of fresh processes (other work only adds)."""
    rounds = 1 if quick else 5
    command = Path(sys.executable).with_name("pathlens")
    figures = (
        ("import pathlens, torch imported already", 0.3, _inside("import pathlens", rounds), 1.0),
        ("pathlens --help", 1.0, _command([str(command), "--help"], rounds), 1.0),
        ("the first use of pathlens.explain (the engine comes in), torch imported already", None, _inside("import pathlens; pathlens.explain", rounds), None),
    )  # fmt: skip
    return [
        row(
            work,
            "no goal" if allowed is None else f"at most {allowed:g} s",
            goal=goal,
            ours=spent,
            theirs=allowed,
            ratio=None if allowed is None else spent / allowed,
            sense="at most",
        )
        for work, allowed, spent, goal in figures
    ]
