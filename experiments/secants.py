"""Are secants as faithful as integrals, and what do they cost? Deletion metrics beside every other method.

    python experiments/secants.py run [--minutes 50]   # rows are written as they come; the same command goes on
    python experiments/secants.py gaps                 # how exact: every text by secants alone, once more (minutes)
    python experiments/secants.py tables               # the tables of docs/secants.md, from the rows that are there

SST-2 dev (none of it in the training data of `sentiment`), Rotten Tomatoes (sentences that are not in SST's training
set), IMDb (whole reviews up to 512 tokens) on `sentiment`, XQuAD on the model of train_qa.py. Samples are seeded; a round
takes a few texts of every set. Raw rows go to experiments/rows/secants, one file a round: a text × a contender, with its
metrics, processor seconds, nodes and relative gap. `gaps` writes gaps.csv there: a text × a baseline.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.train_qa import read, split
from pathlens.engine.explainer import Explainer
from pathlens.metrics.contenders import GRADIENT, Contender, Pair, ScoredText, contenders, score_texts
from pathlens.metrics.deletion import PROTOCOLS
from pathlens.metrics.evaluate import judge
from pathlens.metrics.statistics import Estimate, estimate
from pathlens.path.words.store import PathCache
from pathlens.text.load import load

BASELINES = ("mask", "pad")
METHODS = (GRADIENT, "ig", "sig", "dig", "udig", "secant")
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7)
METRICS = (
    "log-odds (mask)",
    "log-odds (pad)",
    "comprehensiveness",
    "sufficiency",
    "AOPC comprehensiveness",
    "AOPC sufficiency",
)
SEED = 0
BACKGROUND, PER_BASELINE = 5, 10  # expected gradients: texts in the background, Gauss nodes from each
ROWS = Path(__file__).parent / "rows" / "secants"


@dataclass(frozen=True)
class DataSet:
    """`count` texts in all, `each` of them in a round; `nodes` on the paths through words (31 legs)."""

    name: str
    title: str
    count: int
    each: int
    nodes: int = 62


SETS = (
    DataSet("sst2", "SST-2 dev", 400, 20),
    DataSet("rt", "Rotten Tomatoes, without sentences of SST's training set", 200, 10),
    DataSet("xquad", "XQuAD spans, three sentences of each passage", 100, 5, nodes=31),
    DataSet("imdb", "IMDb, whole reviews up to 512 tokens", 100, 2, nodes=31),
)


@dataclass(frozen=True)
class Expected(Contender):
    """Expected gradients: IG from each of several texts of the training set, averaged."""

    background: tuple[str, ...] = ()

    def explainer(self, model: Any, choices: Any) -> Explainer:
        return Explainer(
            model, method="ig", baseline=list(self.background), rule="gauss", n_steps=PER_BASELINE, **choices
        )


def lines(path: Path, encoding: str = "utf-8") -> list[str]:
    return path.read_text(encoding).rstrip("\n").split("\n")


def sentences(data: Path, part: str) -> list[str]:
    return [line.split("\t")[0] for line in lines(data / "sst2-sentences" / f"{part}.tsv")[1:]]


def plain(text: str) -> str:
    """A sentence as it is compared: letters and digits alone, in small letters."""
    return "".join(c for c in text.lower() if c.isalnum())


def texts_of(data: Path, which: DataSet) -> Iterator[Pair]:
    if which.name == "sst2":
        yield from ((text, None) for text in sentences(data, "dev"))
    elif which.name == "rt":
        seen = {plain(text) for part in ("train", "dev") for text in sentences(data, part)}
        for side in ("neg", "pos"):
            every = (line.strip() for line in lines(data / "rt-polarity" / f"rt-polarity.{side}", "cp1252"))
            yield from ((text, None) for text in every if text and plain(text) not in seen)
    elif which.name == "imdb":
        with (data / "imdb" / "texts.csv").open(encoding="utf-8", newline="") as stream:
            yield from ((row["text"].replace("<br />", " "), None) for row in csv.DictReader(stream))
    else:
        yield from ((row["question"], row["context"]) for row in split(read(data))[1])


def sample(data: Path, which: DataSet, model: Any) -> list[Pair]:
    """A seeded sample; texts longer than the model takes are left out."""
    every = list(texts_of(data, which))
    random.Random(SEED).shuffle(every)
    kept: list[Pair] = []
    for pair in every:
        if len(kept) == which.count:
            break
        if which.name != "imdb" or len(model.tokenizer(pair[0])["input_ids"]) <= 512:
            kept.append(pair)
    return kept


def field(data: Path, nodes: int) -> tuple[Contender, ...]:
    """Every contender; words that one text has searched are not searched again."""
    shared = {name: {"rule": "gauss", "n_steps": nodes, "cache": PathCache()} for name in ("dig", "udig")}
    background = tuple(random.Random(1).sample(sentences(data, "train"), BACKGROUND))
    return (*contenders(METHODS, BASELINES, shared), Expected("expected gradients", background=background))


def one_round(
    model: Any, rows: tuple[Contender, ...], pairs: list[Pair], first: int, name: str
) -> list[dict[str, Any]]:
    """Each contender's scores with its processor seconds, then all metrics of all of them."""
    alone: list[dict[int, ScoredText]] = []
    seconds: list[float] = []
    for row in rows:
        started = time.process_time()
        scored, failures = score_texts(model, [row], pairs, reference=BASELINES, seed=SEED)
        seconds.append((time.process_time() - started) / len(pairs))
        alone.append({text.number: text for text in scored})
        for number, error in failures.items():
            print(f"{name} {first + number}, {row.label}: {error}", flush=True)
    together = [
        replace(text, scores=tuple(each[n].scores[0] for each in alone))
        for n, text in alone[0].items()
        if all(n in each for each in alone)
    ]
    table = judge(rows, together, PROTOCOLS["default"], shares=SHARES)
    out = []
    for w, row in enumerate(rows):
        for k, text in enumerate(together):
            cert = text.scores[w].certificate
            values = {metric: round(float(table.column(metric).values[w, k]), 6) for metric in METRICS}
            sums = {"gap": float(f"{cert.relative_gap:.3g}"), "nodes": cert.nodes} if cert is not None else {}
            out.append({"set": name, "text": first + text.number, "tokens": len(text.case), "contender": row.label,
                        "seconds": round(seconds[w], 4), **sums, **values})  # fmt: skip
    return out


def run(choice: argparse.Namespace) -> None:
    ends = time.time() + 60 * choice.minutes
    models = {"sentiment": load("sentiment")}
    rows = {which.name: field(choice.data, which.nodes) for which in SETS}
    ROWS.mkdir(parents=True, exist_ok=True)
    samples = {}
    for which in (each for each in SETS if each.name in choice.only):
        samples[which.name] = sample(choice.data, which, models["sentiment"])
    part, parts = choice.share
    for number in range(part, max(-(-which.count // which.each) for which in SETS), parts):
        for which in (each for each in SETS if each.name in choice.only):
            pairs = samples[which.name][number * which.each : (number + 1) * which.each]
            place = ROWS / f"{which.name}-{number:03}.jsonl"
            if place.exists() or not pairs:
                continue
            if time.time() > ends:
                print("the minutes are over; the same command goes on", flush=True)
                return
            if which.name == "xquad" and "qa" not in models:
                models["qa"] = load(choice.qa)
            started = time.time()
            model = models["qa" if which.name == "xquad" else "sentiment"]
            estimates = one_round(model, rows[which.name], pairs, number * which.each, which.name)
            draft = place.with_suffix(".part")
            draft.write_text("".join(json.dumps(row) + "\n" for row in estimates), encoding="utf-8")
            draft.replace(place)
            print(f"{which.name} {number}: {len(pairs)} texts, {time.time() - started:.0f} s", flush=True)


def gaps(choice: argparse.Namespace) -> None:
    """The relative gap of every text of the study, and whether it took a second look in float64 (more than three passes)."""
    models, rows = {"sentiment": load("sentiment")}, ["set,text,baseline,change,relative gap,passes"]
    for which in (each for each in SETS if each.name in choice.only):
        pairs = sample(choice.data, which, models["sentiment"])
        if which.name == "xquad" and "qa" not in models:
            models["qa"] = load(choice.qa)
        for base in BASELINES:
            explainer = Explainer(models["qa" if which.name == "xquad" else "sentiment"], method="secant", baseline=base,
                                  check=False)  # fmt: skip
            for number, result in enumerate(explainer.run(pairs)):
                if isinstance(result, Exception):
                    raise result
                cert = result.certificate
                change = abs(cert.f_input - cert.f_baseline)
                rows.append(f"{which.name},{number},{base},{change:.6g},{cert.relative_gap:.3g},{cert.passes}")
    ROWS.mkdir(parents=True, exist_ok=True)
    (ROWS / "gaps.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def exactness() -> list[str]:
    """The table of gaps.csv."""
    if not (ROWS / "gaps.csv").exists():
        return []
    rows = list(csv.DictReader(lines(ROWS / "gaps.csv")))
    table = head(["set", "explanations", "median relative gap", "worst", "over 1e-5", "taken in float64"])
    for which in SETS:
        of_set = [row for row in rows if row["set"] == which.name]
        title = which.title.split(",")[0]
        if not of_set:  # the question answerer is trained by a script of its own: the study's rows, a look in float64 is not in them
            of_set = [
                {"relative gap": each["gap"]} for each in stored(which.name) if each["contender"].startswith("secant")
            ]
            title += " (as in the study)"
        if of_set:
            sizes = [float(row["relative gap"]) for row in of_set]
            passes = [int(row["passes"]) for row in of_set if "passes" in row]
            again = sum(count > min(passes) for count in passes) if passes else "·"
            table.append(line_of([title, str(len(sizes)), f"{np.median(sizes):.1e}", f"{max(sizes):.1e}",
                                  str(sum(size > 1e-5 for size in sizes)), str(again)]))  # fmt: skip
    words = (
        "Every text from both baselines, taken anew with a second look in float64 where rounding shows; XQuAD's are those of the study, "
        "as is the column of gaps in the tables below: of the code before that look."
    )
    return ["### How exact", "", words, "", *table, ""]


def stored(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(ROWS.glob(f"{name}-*.jsonl")) for line in lines(file)]


PAGE = Path(__file__).resolve().parents[1] / "docs" / "secants.md"
BEGIN, END = (
    "<!-- made by experiments/secants.py: do not edit below -->",
    "<!-- made by experiments/secants.py: end -->",
)
LOWER = ("log-odds (mask)", "log-odds (pad)", "sufficiency", "AOPC sufficiency")  # metrics where less is better


def line_of(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def head(cells: Sequence[str]) -> list[str]:
    return [line_of(cells), "|---" * len(cells) + "|"]


@dataclass(frozen=True)
class Study:
    """All rows of one data set: `values[contender][metric]` over the same texts."""

    title: str
    lengths: list[int]
    rows: dict[str, list[dict[str, Any]]]

    @staticmethod
    def read(which: DataSet) -> Study | None:
        estimates = stored(which.name)
        texts = sorted({each["text"] for each in estimates})
        at = {(each["contender"], each["text"]): each for each in estimates}
        names = list(dict.fromkeys(each["contender"] for each in estimates))
        rows = {name: [at[name, text] for text in texts] for name in names}
        return Study(which.title, [each["tokens"] for each in rows[names[0]]], rows) if estimates else None

    def values(self, name: str, metric: str) -> np.ndarray:
        return np.array([each[metric] for each in self.rows[name]])

    def better(self, ours: str, other: str, metric: str) -> Estimate:
        """The paired difference, turned so that more is better for `ours`."""
        sign = -1.0 if metric in LOWER else 1.0
        return estimate(sign * (self.values(ours, metric) - self.values(other, metric)))

    def means(self) -> list[str]:
        lines = head(["", *METRICS, "CPU s", "worst relative gap", "nodes"])
        for name, of_name in self.rows.items():
            gaps, nodes = ([each[key] for each in of_name if key in each] for key in ("gap", "nodes"))
            cost = [f"{np.mean([each['seconds'] for each in of_name]):.2f}", f"{max(gaps):.0e}" if gaps else "·",
                    f"{np.mean(nodes):.0f}" if nodes else "·"]  # fmt: skip
            lines.append(line_of([name, *(f"{self.values(name, m).mean():.3f}" for m in METRICS), *cost]))
        return lines

    def differences(self, base: str) -> list[str]:
        ours = f"secant, {base}"
        lines = head([f"{ours} against", *METRICS])
        for name in self.rows:
            if name not in (ours, "random"):
                lines.append(line_of([name, *(_cell(self.better(ours, name, m)) for m in METRICS)]))
        return lines


def _cell(estimates: Estimate) -> str:
    """Bold where the interval leaves zero out: then the sign can be believed."""
    mark = "**" if estimates.low > 0 or estimates.high < 0 else ""
    return f"{mark}{estimates.value:+.3f}{mark} [{estimates.low:+.3f}, {estimates.high:+.3f}]"


def verdicts(studies: Sequence[Study]) -> list[str]:
    """Against each method from the same baseline: on how many metrics of all sets are secants better, level, worse?"""
    lines = head(
        ["against, same baseline", *(f"{study.title.split(',')[0]}, n = {len(study.lengths)}" for study in studies)]
    )
    for name in ("ig", "sig", "dig", "udig", GRADIENT, "expected gradients", "leave-one-out"):
        cells = []
        for study in studies:
            pairs = [(f"secant, {base}", f"{name}, {base}") for base in BASELINES]
            known = [(o, t if t in study.rows else name) for o, t in pairs]
            estimates = [study.better(ours, other, m) for ours, other in known for m in METRICS]
            won, lost = sum(e.low > 0 for e in estimates), sum(e.high < 0 for e in estimates)
            cells.append(f"{won} · {len(estimates) - won - lost} · {lost}")
        lines.append(line_of([name, *cells]))
    return lines


def tables(choice: argparse.Namespace) -> None:
    """The page's tables, written between its two marks from the rows that are there."""
    studies = [study for study in map(Study.read, SETS) if study is not None]
    lines = [BEGIN, "", "### Better · level · worse", "", *verdicts(studies), "", *exactness()]
    for study in studies:
        count, tokens = len(study.lengths), study.lengths
        lines += [
            f"### {study.title}",
            "",
            f"n = {count}, {min(tokens)} to {max(tokens)} tokens, mean {np.mean(tokens):.0f}.",
            "",
        ]
        lines += [*study.means(), ""]
        for base in BASELINES:
            lines += [*study.differences(base), ""]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + "\n".join([*lines, END]) + rest.partition(END)[2], encoding="utf-8")
    print(f"wrote {PAGE.name} from " + ", ".join(f"{len(study.lengths)} texts of {study.title}" for study in studies))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "gaps", "tables"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--qa", type=Path, default=Path("out/qa"), help="the model of train_qa.py")
    parser.add_argument("--minutes", type=float, default=50.0)
    parser.add_argument("--only", nargs="+", choices=[s.name for s in SETS], default=[s.name for s in SETS])
    parser.add_argument("--share", nargs=2, type=int, default=(0, 1), metavar=("I", "N"), help="every Nth round from I")
    choice = parser.parse_args()
    torch.set_num_threads(1)
    {"run": run, "gaps": gaps, "tables": tables}[choice.what](choice)


if __name__ == "__main__":
    main()
