"""Time and peak memory of calls, each in a fresh process that holds the loaded model and nothing else.

A helper process loads a model, takes no derivative, and forks once per call: the child's peak beyond what it began with is
the call's own. `python -m benchmarks.subprocess_run` reads one JSON list of calls and prints one JSON line for each.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def measured(model: str, calls: list[dict[str, Any]]) -> list[dict[str, float]]:
    """`seconds` (CPU, of the last of `times` calls) and `peak` bytes of every call {text, text_b?, choices, times?}."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.subprocess_run", model],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode or len(lines) != len(calls):
        raise RuntimeError(f"a call in a process of its own failed: {run.stderr.strip().splitlines()[-1:]}")
    return lines


def _one(model: Any, call: dict[str, Any]) -> dict[str, float]:
    import pathlens as pl

    choices = {name: _spans(value) if name == "unit" else value for name, value in call["choices"].items()}
    few = {**choices, **({"unit": "token"} if isinstance(call["text"], str) and "unit" in choices else {})}
    pl.explain(
        model, "A word.", call.get("text_b"), **few
    )  # libraries that come in with the first call are not the call's
    before = resident()
    for _ in range(call.get("times", 1)):
        begun = time.process_time()
        pl.explain(model, call["text"], call.get("text_b"), **choices)
        spent = time.process_time() - begun
    return {"seconds": spent, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before}


def resident() -> int:
    """Bytes this process holds now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # elsewhere the peak so far
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _spans(unit: Any) -> Any:
    """JSON has no tuples; a pair of units is one per side."""
    if isinstance(unit, dict) and "sides" in unit:
        return tuple(_spans(side) for side in unit["sides"])
    return [tuple(span) for span in unit] if isinstance(unit, list) else unit


def main() -> None:
    warnings.simplefilter("ignore")
    import torch

    from pathlens.engine.explain import explain  # noqa: F401  # before the fork: its packages belong to no call
    from pathlens.text.load import load

    torch.set_num_threads(1)
    model = long_minilm() if sys.argv[1] == "minilm" else load(sys.argv[1])
    for call in json.load(sys.stdin):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                print(json.dumps(_one(model, call)), flush=True)
                os._exit(0)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(1)


def long_minilm() -> Any:
    """MiniLM with all of its 512 positions (its published setting cuts at 256)."""
    from sentence_transformers import SentenceTransformer

    from pathlens.text.builtin import minilm_folder
    from pathlens.text.sentence import SentenceTransformerEncoder

    body = SentenceTransformer(str(minilm_folder()), device="cpu")
    body.max_seq_length = 512
    return SentenceTransformerEncoder(body, name="minilm, 512 tokens")


if __name__ == "__main__":
    main()
