"""How much of a similarity do pairs of words carry, and do the strongest words matter? By reference, on STS-B pairs.

    python experiments/references.py run --model minilm --references quiet mask unk --deletions 300
    python experiments/references.py table

Of every pair: the cosine, what the pairs of words add up to (the core, closed form: (e(a) − e(r_a))·(e(b) − e(r_b)) / lengths),
and the reference cell. Of both texts in turn: the similarity lost when the 30 % strongest words are deleted from the text
(characters cut, tokenised anew), words ranked by their share of the core (secants; `--method ig` for the integral), beside
leave-one-out and random words. Raw rows: experiments/rows/references; settings were chosen on `--split dev`.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pathlens as pl
from pathlens.engine.options import IG, SECANT
from pathlens.text.adapter import Case, Request
from pathlens.text.load import load
from pathlens.units.units import Units, units

HERE = Path(__file__).parent
ROWS = HERE / "rows" / "references"
SHARE = 0.3  # of the words
LEAST = 3  # words of a text that words are deleted from
Pair = tuple[str, str]


def pairs_of(folder: Path, split: str, count: int, seed: int) -> list[Pair]:
    lines = (folder / f"sts-{split}.csv").read_text(encoding="utf-8").splitlines()
    pairs = [(parts[5], parts[6]) for parts in (line.split("\t") for line in lines)]
    random.Random(seed).shuffle(pairs)
    return pairs[:count]


class Study:
    """One model and its pairs: embeddings once, references by length, deletions in batches."""

    def __init__(self, model: Any, pairs: Sequence[Pair]) -> None:
        self.model, self.pairs = model, pairs
        self.texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        self.cases = {text: self.case(text, "zero") for text in self.texts}
        self.e = {text: self.vector(case, case.ends.end) for text, case in self.cases.items()}

    def case(self, text: str, baseline: str) -> Case:
        return self.model.case(text, request=Request(vector=True, baseline=baseline, truncation=True))

    def vector(self, case: Case, rows: torch.Tensor) -> np.ndarray:
        with torch.no_grad():
            return self.model.forward(rows[None], [case], 0)[0].double().numpy()

    def references(self, name: str) -> dict[str, np.ndarray]:
        """e(r) of every text: one run for each length."""
        by_length: dict[int, np.ndarray] = {}
        for text, case in self.cases.items():
            if len(case) not in by_length:
                started = self.case(text, name)
                by_length[len(case)] = self.vector(started, started.ends.start)
        return {text: by_length[len(case)] for text, case in self.cases.items()}

    def cores(self, name: str) -> list[dict[str, Any]]:
        r, rows = self.references(name), []
        for number, (a, b) in enumerate(self.pairs):
            scale = np.linalg.norm(self.e[a]) * np.linalg.norm(self.e[b])
            numbers = self.e[a] @ self.e[b], (self.e[a] - r[a]) @ (self.e[b] - r[b]), r[a] @ r[b]
            named = zip(("cosine", "core", "cell"), (float(each / scale) for each in numbers), strict=True)
            rows.append({"pair": number, "reference": name, **{key: f"{value:.5f}" for key, value in named}})
        return rows

    def both_ways(self, count: int) -> list[tuple[int, str, str]]:
        return [(n, one, other) for n, (a, b) in enumerate(self.pairs[:count]) for one, other in ((a, b), (b, a))]

    def words(self, text: str) -> tuple[Units, list[int]]:
        case = self.cases[text]
        group = units("word", case.tokens, case.offsets, case.segments, case.texts, None)
        return group, [k for k in range(len(group)) if not group.special[k]]

    def shares(self, name: str, method: str, count: int) -> list[np.ndarray]:
        """Each word's share of the core, the other text's part fixed."""
        r = self.references(name)
        explainer = pl.Explainer(self.model, method=SECANT(gives="scores") if method == "secant" else IG(), unit="word",
                                 baseline=name, similarity="dot", truncation=True)  # fmt: skip
        prepared = [
            explainer.asking(explainer.method, target=("scaled", torch.from_numpy(self.e[other] - r[other]))).prepare(
                one
            )
            for _, one, other in self.both_ways(count)
        ]
        solved = explainer.solve(prepared)
        return [each[0].spread().numpy().reshape(-1) for each in solved if not isinstance(each, Exception)]

    def without_each(self, count: int) -> list[np.ndarray]:
        """Leave-one-out: minus the similarity that is left without each word."""
        texts = list(dict.fromkeys(one for _, one, _ in self.both_ways(count)))
        places = [(text, k) for text in texts for k in self.words(text)[1]]
        left = dict(zip(places, self.units([_cut(text, self.words(text)[0], [k]) for text, k in places]), strict=True))
        scores = []
        for _, one, other in self.both_ways(count):
            unit = self.e[other] / np.linalg.norm(self.e[other])
            each = [left.get((one, k)) for k in range(len(self.words(one)[0]))]
            scores.append(np.array([-2.0 if vector is None else -float(vector @ unit) for vector in each]))
        return scores

    def units(self, texts: Sequence[str]) -> np.ndarray:
        """Embeddings of length one, by the encoder's own batches."""
        return self.model.sentence_transformer.encode(texts, batch_size=64, normalize_embeddings=True)

    def deletions(self, name: str, scores: Sequence[np.ndarray], count: int) -> list[dict[str, Any]]:
        wanted = [(way, score) for way, score in zip(self.both_ways(count), scores, strict=True)
                  if len(self.words(way[1])[1]) >= LEAST]  # fmt: skip
        shorter = []
        for (_, one, _), score in wanted:
            group, words = self.words(one)
            gone = sorted(words, key=lambda k: -score[k])[: max(1, round(SHARE * len(words)))]
            shorter.append(_cut(one, group, gone))
        rows = []
        for ((number, one, other), _), vector in zip(wanted, self.units(shorter), strict=True):
            e, o = (self.e[text] / np.linalg.norm(self.e[text]) for text in (one, other))
            rows.append({"pair": number, "reference": name, "lost": f"{float(e @ o - vector @ o):.5f}"})
        return rows


def _cut(text: str, group: Units, gone: Sequence[int]) -> str:
    for start, end in sorted((group.offsets[k] for k in gone), reverse=True):
        text = text[:start] + text[end:]
    return " ".join(text.split()) or "."


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    model = load(args.model)
    study = Study(model, pairs_of(args.data, args.split, args.pairs, args.seed))
    ROWS.mkdir(parents=True, exist_ok=True)
    cores, losses = [], []
    draw = random.Random(args.seed)
    if args.deletions:
        alone = study.without_each(args.deletions)
        losses += study.deletions("leave-one-out", alone, args.deletions)
        losses += study.deletions("random", [np.array([draw.random() for _ in each]) for each in alone], args.deletions)
    for name in args.references:
        cores += study.cores(name)
        if args.deletions:
            shares = study.shares(name, args.method, args.deletions)
            losses += study.deletions(name, shares, args.deletions)
        stem = f"{args.name or args.model}-{args.split}-{args.method}"
        write(ROWS / f"{stem}-cores.csv", cores)
        write(ROWS / f"{stem}-deletions.csv", losses)
        print(name, "done", flush=True)
    table(args)


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def table(args: argparse.Namespace) -> None:
    """What docs/siamese.md shows, from the raw rows."""
    print(
        "| model, split, method | reference | pairs | cell | core (cosine) | mean \\|core − cosine\\| | correlation | lost, 30 % |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for file in sorted(ROWS.glob("*-cores.csv")):
        stem = file.name.removesuffix("-cores.csv")
        lost: dict[str, list[float]] = defaultdict(list)
        if (beside := file.with_name(f"{stem}-deletions.csv")).exists():
            for row in csv.DictReader(beside.open(encoding="utf-8")):
                lost[row["reference"]].append(float(row["lost"]))
        by_name: dict[str, list[list[float]]] = defaultdict(list)
        for row in csv.DictReader(file.open(encoding="utf-8")):
            by_name[row["reference"]].append([float(row[key]) for key in ("cosine", "core", "cell")])
        for name, numbers in by_name.items():
            cosine, core, cell = np.array(numbers).T
            off, together = np.abs(core - cosine).mean(), np.corrcoef(core, cosine)[0, 1]
            print(
                f"| {stem.replace('-', ', ')} | {name} | {len(core)} | {cell.mean():.3f} | {core.mean():.3f} ({cosine.mean():.3f}) | "
                f"{off:.3f} | {together:.3f} | {_mean(lost, name)} |"
            )
        for name in ("leave-one-out", "random"):
            print(f"| {stem.replace('-', ', ')} | {name} | | | | | | {_mean(lost, name)} |")


def _mean(lost: dict[str, list[float]], name: str) -> str:
    """The mean, and where it is a reference's its difference from leave-one-out with two standard errors."""
    if not lost[name]:
        return ""
    mean, alone = float(np.mean(lost[name])), lost["leave-one-out"]
    if name in ("leave-one-out", "random") or len(alone) != len(lost[name]):
        return f"{mean:.3f}"
    apart = np.array(lost[name]) - np.array(alone)
    return f"{mean:.3f} ({apart.mean():+.3f} ± {2 * apart.std(ddof=1) / len(apart) ** 0.5:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("run", "table"))
    parser.add_argument("--model", default="minilm", help="a built-in name or a folder")
    parser.add_argument("--name", help="what the rows call a folder's model")
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data" / "stsbenchmark")
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--deletions", type=int, default=0, help="of so many pairs, words are deleted")
    parser.add_argument("--references", nargs="+", default=["quiet", "mask", "unk"])
    parser.add_argument("--method", choices=("secant", "ig"), default="secant")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    (run if args.do == "run" else table)(args)


if __name__ == "__main__":
    main()
