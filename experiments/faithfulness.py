"""The papers' faithfulness tables, in a version that runs on one core: log-odds, comprehensiveness, sufficiency.

    python experiments/faithfulness.py run [--minutes 50]     # rows are written as they come; the same command goes on
    python experiments/faithfulness.py check                  # do fewer nodes change the tables? 20 texts, both ways
    python experiments/faithfulness.py steadiness             # max-sensitivity, stability, randomised layers, WAE
    python experiments/faithfulness.py tables                 # CSV, Markdown, pages and pictures of what is there

SST-2 test, Rotten Tomatoes and IMDb on `sentiment`, XQuAD on the model of train_qa.py; random, leave-one-out,
gradient × input, IG, DIG, UDIG and SIG, the last four from mask and from pad; both protocols, log-odds with both
references. Samples are seeded. A round takes a few texts of every data set, so that a run that is stopped has all four.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments import faithfulness_tables as tables
from experiments.train_qa import read, split
from pathlens.metrics.contenders import GRADIENT, THROUGH_WORDS, Contender, Pair, contenders, score_texts
from pathlens.metrics.deletion import PROTOCOLS
from pathlens.metrics.evaluate import evaluate, judge
from pathlens.metrics.extras import Trial, add_extras
from pathlens.metrics.record import Evaluation
from pathlens.path.words.store import PathCache
from pathlens.text.load import load

BASELINES = ("mask", "pad")
METHODS = (GRADIENT, "ig", "dig", "udig", "sig")
# Fixed nodes instead of a tolerance: two Gauss nodes on each of the 31 legs; from pad, where the path is rougher, four.
# `check` says what that changes, the tables say how far the sums miss.
NODES = {name: {"rule": "gauss", "n_steps": 62} for name in ("dig", "udig")} | {"ig": {"tolerance": 1e-2}}
FROM_PAD = 124
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7)  # of the curves: every further one is as dear as a method
SEED = 0


@dataclass(frozen=True)
class DataSet:
    """`count` texts in all, `each` of them in a round."""

    name: str
    title: str
    count: int
    each: int
    longest: int | None = None  # words kept of a text


SETS = (
    DataSet("sst2", "SST-2 test", 300, 10),
    DataSet("rt", "Rotten Tomatoes", 150, 5),
    DataSet("imdb", "IMDb, the first 60 words", 60, 2, 60),
    DataSet("xquad", "XQuAD spans, three sentences of each passage", 60, 2),
)


def sample(data: Path, which: DataSet) -> list[tuple[str, str | None, str | None]]:
    """(text, second text, label) of a seeded sample."""
    rows = list({"sst2": _sst2, "rt": _rotten, "imdb": _imdb, "xquad": _xquad}[which.name](data, which))
    return random.Random(SEED).sample(rows, min(which.count, len(rows)))


def _sst2(data: Path, which: DataSet) -> Iterator[tuple[str, None, str]]:
    for line in (data / "sst2-sentences" / "test.tsv").read_text("utf-8").rstrip("\n").split("\n")[1:]:
        text, label = line.split("\t")
        yield text, None, label


def _rotten(data: Path, which: DataSet) -> Iterator[tuple[str, None, str]]:
    for side, label in (("neg", "0"), ("pos", "1")):
        body = (data / "rt-polarity" / f"rt-polarity.{side}").read_text("cp1252")
        yield from ((line.strip(), None, label) for line in body.split("\n") if line.strip())


def _imdb(data: Path, which: DataSet) -> Iterator[tuple[str, None, str]]:
    with (data / "imdb" / "texts.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            words = row["text"].replace("<br />", " ").split()
            yield " ".join(words[: which.longest]), None, str(int(row["label"] == "positive"))


def _xquad(data: Path, which: DataSet) -> Iterator[tuple[str, str, None]]:
    """The held-out questions, with their passages as the model was trained on them."""
    for row in split(read(data))[1]:
        yield row["question"], row["context"], None


def model_for(which: DataSet, choice: argparse.Namespace) -> Any:
    return load(choice.qa if which.name == "xquad" else "sentiment")


def run(choice: argparse.Namespace) -> None:
    """Round after round, until everything is there or the minutes are over. A second one at a time leaves at once."""
    choice.out.mkdir(parents=True, exist_ok=True)
    with (choice.out / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("another run is at work in this folder", flush=True)
            return
        _rounds(choice)


def _rounds(choice: argparse.Namespace) -> None:
    ends = time.time() + 60 * choice.minutes
    rows = affordable()
    models: dict[str, Any] = {}
    samples = {which.name: sample(choice.data, which) for which in SETS}
    for number in range(max(-(-which.count // which.each) for which in SETS)):
        for which in (each for each in SETS if each.name in choice.only):
            texts = samples[which.name][number * which.each : (number + 1) * which.each]
            place = choice.out / which.name / f"{number:03}.json"
            if place.exists() or not texts:
                continue
            if time.time() > ends:
                print("the minutes are over; the same command goes on", flush=True)
                return
            if which.name == "xquad" and not (choice.qa / "config.json").exists():
                print("no question answerer yet: experiments/train_qa.py makes one", flush=True)
                continue
            if which.name not in models:
                models[which.name] = model_for(which, choice)
            started, cpu = time.time(), time.process_time()
            body = one_round(models[which.name], rows, texts)
            body["seconds"], body["cpu_seconds"] = time.time() - started, time.process_time() - cpu
            _write(place, body)
            print(f"{which.name} {number}: {len(texts)} texts, {body['seconds']:.0f} s", flush=True)


def affordable() -> tuple[Contender, ...]:
    """The rows with the nodes above; a word met in an earlier round is not searched again."""
    shared = {name: {**NODES[name], "cache": PathCache()} for name in THROUGH_WORDS}
    return tuple(
        replace(row, options={**row.options, "n_steps": FROM_PAD})
        if row.method in THROUGH_WORDS and row.baseline == "pad"
        else row
        for row in contenders(METHODS, BASELINES, NODES | shared)
    )


def one_round(model: Any, rows: Any, texts: list[tuple[str, str | None, str | None]]) -> dict[str, Any]:
    """Scores once, both protocols from them."""
    pairs: list[Pair] = [(text, other) for text, other, _ in texts]
    scored, failed = score_texts(model, rows, pairs, reference=BASELINES, seed=SEED)
    evaluations = {name: judge(rows, scored, PROTOCOLS[name], shares=SHARES) for name in PROTOCOLS}
    evaluations["default"] = add_extras(evaluations["default"], Trial(model, rows, scored, seed=SEED), ("infidelity",))
    right = [int(str(t.case.target) == texts[t.number][2]) for t in scored if texts[t.number][2] is not None]
    return {
        "tokens": [len(t.case) for t in scored],
        "left_out": {str(n): str(error) for n, error in failed.items()},
        "right": right,
        **{name: each.to_dict() for name, each in evaluations.items()},
    }


def _write(place: Path, body: dict[str, Any]) -> None:
    """Whole or not at all: a stopped run leaves no half file."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(".part")
    draft.write_text(json.dumps(body), encoding="utf-8")
    draft.replace(place)


def check(choice: argparse.Namespace) -> None:
    """The same texts with the nodes of `run` and with the default tolerance of 1e-3."""
    texts = [text for text, _, _ in sample(choice.data, SETS[0])[: choice.texts]]
    model, pairs = load("sentiment"), [(text, None) for text in texts]
    both: dict[str, Evaluation] = {}
    for name, rows in (("fewer", affordable()), ("1e-3", contenders(METHODS, BASELINES))):
        scored, _ = score_texts(model, rows, pairs, reference=BASELINES, seed=SEED)
        both[name] = judge(rows, scored, PROTOCOLS["default"], shares=SHARES)
        _write(choice.out / "check" / f"{name}.json", both[name].to_dict())
    lines = [f"{choice.texts} SST-2 texts, default protocol: nodes of `run` − tolerance 1e-3 (paired)"]
    fewer, exact = both["fewer"], both["1e-3"]
    for way in fewer.contenders:
        for column in fewer.columns[:4]:
            change = (
                column.values[fewer.contenders.index(way)]
                - exact.column(column.name).values[exact.contenders.index(way)]
            )
            lines.append(f"{way:18} {column.name:20} mean {change.mean():+.5f}  largest {np.abs(change).max():.4f}")
    _report(choice.out / "check.txt", lines)


def steadiness(choice: argparse.Namespace) -> None:
    """What needs many explanations of the same text: a small sample, mask alone."""
    texts = [text for text, _, _ in sample(choice.data, SETS[0])[: choice.texts]]
    evaluations = evaluate("sentiment", texts, methods=METHODS, baselines=("mask",), method_options=NODES, seed=SEED,
                     extra=("wae", "max-sensitivity", "stability", "randomisation"))  # fmt: skip
    _write(choice.out / "steadiness.json", evaluations.to_dict())
    tables.steadiness(evaluations, choice.out)


def _report(place: Path, lines: list[str]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines), flush=True)


def write_tables(choice: argparse.Namespace) -> None:
    for which in SETS:
        parts = [json.loads(file.read_text("utf-8")) for file in sorted((choice.out / which.name).glob("*.json"))]
        if parts:
            tables.write(replace(which), parts, choice.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "check", "steadiness", "tables"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("out/faithfulness"))
    parser.add_argument("--qa", type=Path, default=Path("out/qa"), help="the model of train_qa.py")
    parser.add_argument("--minutes", type=float, default=50.0)
    parser.add_argument("--texts", type=int, default=20, help="of check and steadiness")
    parser.add_argument("--only", nargs="+", choices=[s.name for s in SETS], default=[s.name for s in SETS])
    parser.add_argument("--threads", type=int, default=1)
    choice = parser.parse_args()
    torch.set_num_threads(choice.threads)
    {"run": run, "check": check, "steadiness": steadiness, "tables": write_tables}[choice.what](choice)


if __name__ == "__main__":
    main()
