"""What it costs to begin: importing the library, asking the command for help, explaining one sentence.

The sentence is timed in CPU seconds of the whole process, with the share that its imports take. `--against TREE` (a
worktree of another commit) runs both trees' commands in turns:

    python -m benchmarks.startup --against ../before --out benchmarks/startup.json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, row

IMPORT = "import time, torch; begun = time.perf_counter(); {what}; print(time.perf_counter() - begun)"
COMMAND = "import sys; sys.argv[0] = 'pathlens'; from pathlens.cli import main; main()"
TEXT = "Not really funny, but moving."
OPEN, HELPED = 0.3, 0.4  # seconds: what is shorter is not felt as waiting
HALF = 4.8  # CPU seconds: half of what it took before (startup.json)
HELP, EXPLAIN = ("--help",), ("explain", "sentiment", TEXT)
# what an explanation never calls; 29 modules of torch.distributed come with `import torch`, whoever says it
UNNEEDED = ("torch._dynamo", "torch.distributed", "sympy", "scipy.optimize", "accelerate")
HERE = Path(__file__).resolve().parents[1]


def _inside(what: str, rounds: int) -> float:
    """Seconds of a statement in a fresh interpreter that has torch already."""
    measurements = []
    for _ in range(rounds):
        run = subprocess.run(
            [sys.executable, "-c", IMPORT.format(what=what)], capture_output=True, text=True, check=True
        )
        measurements.append(float(run.stdout))
    return min(measurements)


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def command(arguments: tuple[str, ...], tree: Path = HERE) -> dict[str, float]:
    """Wall and CPU seconds of the command in a fresh process, with a tree's sources."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", COMMAND, *arguments], capture_output=True, check=True, env=_environment(tree))
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"wall": wall, "cpu": after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime}


def imports(arguments: tuple[str, ...], tree: Path = HERE) -> dict[str, Any]:
    """How many modules the command imports, how long that takes, and which of the unneeded ones are among them."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", COMMAND, *arguments],
        capture_output=True, text=True, check=True, env=_environment(tree),
    )  # fmt: skip
    lines = [
        line.removeprefix("import time:").split("|")
        for line in run.stderr.splitlines()
        if line.startswith("import time:")
    ]
    selected = {name.strip(): int(spent) for spent, _, name in lines if spent.strip().isdigit()}
    there = [name for name in UNNEEDED if any(each == name or each.startswith(f"{name}.") for each in selected)]
    return {"modules": len(selected), "seconds": sum(selected.values()) / 1e6, "unneeded": there}


def startup(quick: bool) -> list[Row]:
    """The ratio is the share of the allowance that is used; the least of fresh processes (other work only adds)."""
    rounds = 1 if quick else 5
    opened, used = (_inside(what, rounds) for what in ("import pathlens", "import pathlens; pathlens.explain"))
    helped = min(command(HELP)["wall"] for _ in range(rounds))
    explained = min(command(EXPLAIN)["cpu"] for _ in range(rounds))
    imported = imports(EXPLAIN)["seconds"]
    return [
        row("import pathlens, torch imported already", f"at most {OPEN:g} s", goal=1.0, **_share(opened, OPEN)),
        row("pathlens --help", f"at most {HELPED:g} s", goal=1.0, **_share(helped, HELPED)),
        row("the first use of pathlens.explain (the engine comes in), torch imported already", "no goal", goal=None, **_share(used)),
        row('pathlens explain sentiment "…", CPU seconds of the process', f"at most {HALF:g} s", goal=1.0, **_share(explained, HALF)),
        row("of which imports (python -X importtime)", "no goal", goal=None, **_share(imported)),
    ]  # fmt: skip


def _share(spent: float, allowed: float | None = None) -> dict[str, Any]:
    ratio = None if allowed is None else spent / allowed
    return {"ours": spent, "theirs": allowed, "ratio": ratio, "sense": "at most"}


def in_turns(trees: Mapping[str, Path], rounds: int) -> list[dict[str, Any]]:
    """A row for every command, tree and round; one tree, the other, the first again: what slows the machine slows both."""
    rows = []
    for number in range(rounds):
        for arguments in (HELP, EXPLAIN):
            for name, tree in trees.items():
                load = os.getloadavg()[0]
                took = {key: round(value, 3) for key, value in command(arguments, tree).items()}
                rows.append({"tree": name, "command": arguments[0], "round": number, **took, "load": round(load, 2)})
    for name, tree in trees.items():
        for arguments in (HELP, EXPLAIN):
            seen = imports(arguments, tree)
            rows.append(
                {"tree": name, "command": arguments[0], "imports": {**seen, "seconds": round(seen["seconds"], 3)}}
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True, help="a worktree of the commit before")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "benchmarks" / "startup.json")
    given = parser.parse_args()
    rows = in_turns({"before": given.against.resolve(), "now": HERE}, given.rounds)
    lines = ",\n".join(f"  {json.dumps(each)}" for each in rows)
    given.out.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    for what in ("--help", "explain"):
        for tree in ("before", "now"):
            selected = [each for each in rows if each["tree"] == tree and each["command"] == what and "cpu" in each]
            wall, cpu = (statistics.median(each[key] for each in selected) for key in ("wall", "cpu"))
            print(f"{what:8} {tree:7} median wall {wall:.2f} s, CPU {cpu:.2f} s")


if __name__ == "__main__":
    main()
