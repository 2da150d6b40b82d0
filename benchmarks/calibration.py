"""How far an error estimate may be trusted, and where the first nodes go: the driver on sampled gradients of real texts.

Trust was chosen on SST-2's training sentences and eight prompts; test sentences and other prompts check it. A text's
gradient is sampled once (benchmarks/rules.py, the reference is Gauss with 512 nodes, token by token) and may be kept.

    python -m benchmarks.calibration --split test --texts 40 [--keep out/profiles]

writes benchmarks/calibration.json: per text its tokens, the nodes taken, the largest token's error and the largest
estimate, both over the bound; now, and as it was before (estimates as they are, the line cut in three wherever it moves).
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Row, row
from benchmarks.rules import Profile, drive, sampled
from benchmarks.texts import DATA
from pathlens.integrate import adaptive
from pathlens.text.load import load

FILE = Path(__file__).with_name("calibration.json")
POINTS = 160  # enough for a reference to 1e-6 of the change
PROMPTS = {
    "prompts": "The capital of France is|Two plus two is|The movie was not funny, it was|The sun rises in the|"
    "Snow is white and grass is|Once upon a time|The doctor works in a|Please close the",
    "fresh prompts": "The largest planet in the solar system is|She forgot her umbrella, so she got|My brother is older than my|"
    "The chef added salt to the|In winter the lake is covered with|He was tired, but he could not",
}


@contextmanager
def as_before() -> Iterator[None]:
    """Estimates as they are, and the same first cells for everyone."""
    kept = adaptive.LEAST_TRUST, adaptive.REST
    adaptive.LEAST_TRUST, adaptive.REST = 1.0, 0.0
    try:
        yield
    finally:
        adaptive.LEAST_TRUST, adaptive.REST = kept


def texts_of(split: str, count: int) -> list[str]:
    if split in PROMPTS:
        return PROMPTS[split].split("|")[:count]
    lines = (DATA / "sst2-sentences" / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
    column = lines[0].split("\t").index("sentence")
    texts = [line.split("\t")[column] for line in lines[1:]]
    random.Random(7).shuffle(texts)
    return texts[:count]


def profiles(split: str, count: int, keep: Path | None = None) -> list[Profile]:
    texts, model, collected = texts_of(split, count), None, []
    for number, text in enumerate(texts):
        file = keep and keep / f"{split.replace(' ', '-')}-{number}.npy"
        if file is None or not file.exists():
            model = model or load("smollm" if split in PROMPTS else "sentiment")
            value = sampled(model, text, POINTS)
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                np.save(file, value)
        collected.append(Profile.known(value if file is None else np.load(file)))
    return collected


def rows_of(split: str, count: int, keep: Path | None = None) -> list[dict[str, Any]]:
    rows = []
    for profile in profiles(split, count, keep):
        nodes, error, _, estimate = drive(profile)
        with as_before():
            before = drive(profile)
        rows.append(
            {
                "split": split,
                "tokens": profile.value.shape[1],
                "nodes": nodes,
                "error": round(error, 4),
                "estimate": round(estimate, 4),
                "nodes_before": before[0],
                "error_before": round(before[1], 4),
            }
        )
    return rows


def summary(rows: list[dict[str, Any]]) -> str:
    column = {name: np.array([each[name] for each in rows]) for name in rows[0] if name != "split"}
    return (
        f"{rows[0]['split']}, {len(rows)} texts: {column['nodes'].mean():.1f} nodes (before: {column['nodes_before'].mean():.1f}); "
        f"error over the bound, median {np.median(column['error']):.3f}, worst {column['error'].max():.2f} "
        f"(before: {np.median(column['error_before']):.3f}, {column['error_before'].max():.2f}); over the bound: "
        f"{int((column['error'] > 1).sum())}"
    )


def decoder_nodes(quick: bool) -> list[Row]:
    """Nodes on prompts that nothing was chosen on."""
    rows = rows_of("fresh prompts", 1 if quick else 6)
    now, before = (float(np.mean([each[name] for each in rows])) for name in ("nodes", "nodes_before"))
    worst = tuple(max(each[name] for each in rows) * 1e-3 for name in ("error", "error_before"))
    return [
        row(
            f"IG of the next token, `smollm`, {len(rows)} fresh prompts, 1e-3: {now:.0f} nodes on average",
            f"the same without trust and without a look where the output rests: {before:.0f} nodes; the ratio is of nodes",
            goal=2.0,
            ours=0.0,
            theirs=None,
            errors=worst,
            ratio=before / now,
            holds=worst[0] <= 1e-3,
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", required=True, help="train, dev, test, 'prompts' or 'fresh prompts'")
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--keep", type=Path, help="a folder for the sampled gradients")
    choice = parser.parse_args()
    rows = rows_of(choice.split, choice.texts, choice.keep)
    others = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []
    kept = [each for each in others if each["split"] != choice.split] + rows
    FILE.write_text("[\n" + ",\n".join(json.dumps(each) for each in kept) + "\n]\n", encoding="utf-8")
    print(summary(rows))


if __name__ == "__main__":
    main()
