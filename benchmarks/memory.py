"""Peak memory of each method at 32, 128 and 512 tokens, beside the budget it was given.

Nodes are as many as fill a batch (2048 tokens at once on a processor): more go through in further batches. Word paths have
their authors' settings. The budget covers a batch; the result's own sums come on top (see `memory_budget`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from benchmarks.measure import Row, row
from benchmarks.subprocess_run import measured
from benchmarks.texts import of_length
from pathlens.text.load import load

BUDGET = 1 << 30
TOKENS = (32, 128, 512)
UNITS = 16
METHODS: dict[str, tuple[str, dict[str, Any], str]] = {  # method -> model, its choices, and what they are in words
    "secant": ("sentiment", {}, "one pass"),
    "ig": ("sentiment", {"n_steps": 64}, "64 nodes"),
    "sig": ("sentiment", {}, "every token"),
    "dig": ("sentiment", {"preset": "dig-greedy", "rule": "left"}, "authors' settings"),
    "udig": ("sentiment", {"preset": "udig-maxcount", "rule": "left"}, "authors' settings"),
    "idg": ("sentiment", {"n_steps": 64}, "64 nodes"),
    "ih": ("sentiment", {"n_steps": 2}, f"2 nodes, {UNITS} units"),
    "vaig": ("minilm", {"n_steps": 2}, f"2 nodes, {UNITS} units"),
    "ij": ("minilm", {"n_steps": 2}, f"2 nodes, {UNITS} units by 6 tokens"),
}


def spans(text: str, count: int) -> list[tuple[int, int]]:
    """The text cut into `count` units of about as many words."""
    ends = [place for place, sign in enumerate(text) if sign == " "] + [len(text)]
    cuts = [0] + [ends[round(len(ends) * (i + 1) / count) - 1] for i in range(count)]
    return list(pairwise(cuts))


def call(method: str, choices: dict[str, Any], text: str) -> dict[str, Any]:
    choices = {"method": method, "memory_budget": BUDGET, **choices}
    units = spans(text, UNITS)
    if method in ("ih", "vaig"):
        choices["unit"] = units
    if method != "ij":
        return {"text": text, "choices": choices}
    choices["unit"] = {"sides": [units, "token"]}
    return {"text": text, "text_b": "Someone makes music.", "choices": choices}


def memory(quick: bool) -> list[Row]:
    sizes = TOKENS[:1] if quick else TOKENS
    tokenizer = load("sentiment")
    texts = [of_length(tokenizer, size) for size in sizes]
    rows = []
    for model in ("sentiment", "minilm"):
        methods = [name for name, (needs, *_) in METHODS.items() if needs == model]
        calls = [call(name, METHODS[name][1], text) for name in methods for text in texts]
        measurements = iter(measured(model, calls))
        for name in methods:
            measured_peaks = [next(measurements) for _ in sizes]
            peaks = {str(size): one["peak"] for size, one in zip(sizes, measured_peaks, strict=True)}
            worst = max(peaks.values())
            shown = ", ".join(f"{peak / 2**20:.0f} at {size}" for size, peak in peaks.items())
            rows.append(
                row(
                    f"{name} ({METHODS[name][2]}): peak memory, MiB: {shown} tokens",
                    f"a budget of {BUDGET >> 20} MiB",
                    goal=1.0,
                    ours=sum(one["seconds"] for one in measured_peaks),
                    theirs=None,
                    ratio=worst / BUDGET,
                    sense="at most",
                    peaks=peaks,
                    budget=BUDGET,
                    method=name,
                    why="the planner counts what a reverse pass keeps; what a kernel needs besides comes on top",
                )
            )
    return rows
