"""Do the matrices mean anything? Pairs of spans, chunks and words that people judged, and sentences that answer a question.

    python experiments/pair_exams.py run --exam spans chunks words --count 200     # goes on where it stopped
    python experiments/pair_exams.py run --exam answers
    python experiments/pair_exams.py table                                          # docs/exams.md, from the rows

The protocol, fixed before the first run: pairs in the order of seed 0, the first `--count` of them; every second one chooses
a threshold (dev), the others are reported (test). Read from a matrix M of units × units in three ways: `sum` (the cells as they
are), `share` (`PairExplanation.shares()`: positive cells over the geometric mean of their row's and column's positive sums), `angle`
(the cosine of the two units' own vectors). Beside them `contextual`: the cosine of the units' mean last hidden states.

spans    Span Similarity Dataset: do two marked spans mean the same? F1 of "not the same".
chunks   iSTS 2016, gold chunks: mutual best chunks above the threshold; the F1 (alignment) of its own evalF1.pl.
words    MultiMWA dev sets, sure and possible links: AUC over all pairs of words; F1 of mutual best words above the threshold.
answers  MultiSpanQA, first half of validation: sentences of a passage by their share of its similarity to the question,
         beside the cosine of the question and the sentence alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from experiments import pair_exam_data as data
from experiments.pair_exam_data import CONFIGS, EXAMS, HERE, ROWS, Exam, order
from pathlens.explanation.pair import Side
from pathlens.explanation.reduce import shares
from pathlens.text.load import load
from pathlens.units.cuts import sentence_spans
from pathlens.vectors.encode import SideEncoder

CHUNK = 20


class Reader:
    """Pairs → units × units under one configuration, read in every way."""

    def __init__(self, config: str) -> None:
        name, choices = CONFIGS[config]
        self.model = load(name)
        self.plain = config == "contextual"
        self.encoder = None if self.plain else SideEncoder.of(self.model, 0, truncation=True, **choices)

    def __call__(self, exams: Sequence[Exam]) -> Iterator[dict[str, np.ndarray]]:
        texts = [text for exam in exams for text in exam.texts]
        sides = self.states(texts) if self.plain else self.vectors(texts)
        for number, exam in enumerate(exams):
            pair = sides[2 * number : 2 * number + 2]
            all_units = [(*units, *others(text, units)) for text, units in zip(exam.texts, exam.units, strict=True)]
            a, b = (pooled(*side, spans, mean=self.plain) for side, spans in zip(pair, all_units, strict=True))
            yield self.readings(a, b, *map(len, exam.units))

    def vectors(self, texts: Sequence[str]) -> list[tuple[np.ndarray, Any]]:
        sides: list[Side] = self.encoder.sides(texts, [self.encoder.any_pair] * len(texts))
        return [(side.vectors / np.linalg.norm(side.embedding), side.offsets) for side in sides]

    def states(self, texts: Sequence[str]) -> list[tuple[np.ndarray, Any]]:
        whole = self.model.sentence_transformer
        states = whole.encode(list(texts), output_value="token_embeddings", batch_size=16)
        offsets = whole.tokenizer(list(texts), return_offsets_mapping=True, truncation=True,
                                  max_length=whole.max_seq_length)["offset_mapping"]  # fmt: skip
        return [(one.cpu().numpy()[: len(units)], units) for one, units in zip(states, offsets, strict=True)]

    def readings(self, a: np.ndarray, b: np.ndarray, rows: int, columns: int) -> dict[str, np.ndarray]:
        lengths = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
        whole = a @ b.T
        by_reading = {"angle": whole / np.where(lengths > 0, lengths, 1.0)}
        if not self.plain:
            by_reading |= {"sum": whole, "share": shares(whole)}
        return {name: matrix[:rows, :columns] for name, matrix in by_reading.items()}


def others(text: str, units: Sequence[data.Span]) -> list[data.Span]:
    """The words outside the units: a share is of everything the text says."""
    return [(s, e) for s, e in data.spaced(text) if not any(s < end and start < e for start, end in units)]


def pooled(vectors: np.ndarray, offsets: Any, spans: Sequence[data.Span], *, mean: bool) -> np.ndarray:
    """Sums (or means) of the tokens in each span."""
    rows = []
    for start, end in spans:
        inside = [i for i, (s, e) in enumerate(offsets) if s < end and start < e and e > s]
        some = vectors[inside] if inside else np.zeros((1, vectors.shape[1]))
        rows.append(some.mean(0) if mean else some.sum(0))
    return np.stack(rows)


def summary(exam: Exam, readings: dict[str, np.ndarray]) -> dict[str, Any]:
    """What is kept of a pair: enough to choose a threshold and to count."""
    if exam.labels:
        return {name: [round(float(m[k, k]), 4) for k in range(len(exam.labels))] for name, m in readings.items()}
    gold, kept = set(exam.gold), {}
    for name, m in readings.items():
        best = [(i, int(m[i].argmax())) for i in range(len(m)) if int(m[:, m[i].argmax()].argmax()) == i]
        kept[name] = {"links": [[i, j, round(float(m[i, j]), 4)] for i, j in best], "auc": auc(m, gold)}
    return kept


def auc(matrix: np.ndarray, gold: set[tuple[int, int]]) -> float | None:
    """How often a pair of units that belongs together stands above one that does not."""
    from pathlens.metrics.statistics import ranks

    wanted = np.array([(i, j) in gold for i in range(matrix.shape[0]) for j in range(matrix.shape[1])])
    yes, no = int(wanted.sum()), int((~wanted).sum())
    if not yes or not no:
        return None
    return round(float((ranks(matrix.ravel())[wanted].sum() - yes * (yes - 1) / 2) / (yes * no)), 4)


def run(args: argparse.Namespace) -> None:
    until = time.time() + 60 * args.minutes
    ROWS.mkdir(parents=True, exist_ok=True)
    for exam in args.exam:
        if exam == "answers":
            answers(args, until)
            continue
        rows = order(EXAMS[exam](args.data))[: args.count]
        for config in args.configs or CONFIGS:
            path = ROWS / f"{exam}-{config.replace(' ', '-')}.jsonl"
            done = len(path.read_text("utf-8").splitlines()) if path.exists() else 0
            reader = Reader(config) if done < len(rows) else None
            while done < len(rows) and time.time() < until:
                some = rows[done : done + CHUNK]
                begun = time.process_time()
                by_reading = [summary(one, m) for one, m in zip(some, reader(some), strict=True)]
                seconds = round((time.process_time() - begun) / len(some), 4)
                with path.open("a", encoding="utf-8") as stream:
                    for one, kept in zip(some, by_reading, strict=True):
                        stream.write(json.dumps({"name": one.name, "cpu": seconds, **kept}) + "\n")
                done += len(some)
                print(exam, config, done, flush=True)


def answers(args: argparse.Namespace, until: float) -> None:
    """Each sentence's part of the passage's similarity to the question; and the sentence alone beside the question."""
    import pathlens as pl

    path = ROWS / "answers.jsonl"
    done = len(path.read_text("utf-8").splitlines()) if path.exists() else 0
    encode = load("minilm").sentence_transformer.encode
    for row in order(data.questions(args.data, sentence_spans))[done : args.count]:
        if time.time() > until:
            return
        begun = time.process_time()
        hit = pl.why("minilm", row.question, [row.passage], unit="sentence")[0]
        seconds = time.process_time() - begun
        given = {tuple(span): score for span, score in zip(hit.explanation.offsets, hit.scores, strict=True)}
        alone = encode([row.question, *(row.passage[s:e] for s, e in row.sentences)], normalize_embeddings=True)
        kept = {"name": row.name, "cpu": round(seconds, 3), "gold": [int(one) for one in row.gold],
                "part": [round(float(given.get(span, 0.0)), 4) for span in row.sentences],
                "alone": [round(float(v @ alone[0]), 4) for v in alone[1:]]}  # fmt: skip
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(kept) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("run", "table"))
    parser.add_argument("--exam", nargs="+", choices=(*EXAMS, "answers"), default=[*EXAMS, "answers"])
    parser.add_argument("--configs", nargs="+", choices=CONFIGS)
    parser.add_argument("--count", type=int, default=100_000, help="pairs of each exam")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop working then; the next run goes on")
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if args.do == "run":
        run(args)
    else:
        from experiments.pair_exam_tables import write

        write(args.data)


if __name__ == "__main__":
    main()
