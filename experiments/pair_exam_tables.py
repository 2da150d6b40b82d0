"""docs/exams.md from the rows of `pair_exams.py`: thresholds from every second pair, figures from the others."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import pair_exam_data as data
from experiments.pair_exam_data import CONFIGS, EXAMS, HERE, ROWS, order
from pathlens.metrics.statistics import estimate, ranks

PAGE = HERE.parent / "docs" / "exams.md"
Row = dict[str, Any]


def write(folder: Path) -> None:
    """Replace what stands between the page's marks."""
    page = PAGE.read_text("utf-8")
    for name, table in (("spans", spans), ("chunks", chunks), ("words", words), ("answers", answers)):
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        rows = table(folder)
        lines = "\n".join(rows) if len(rows) > 2 else "Not run yet."
        page = mark.sub(lambda m, lines=lines: f"{m[1]}{lines}\n{m[2]}", page)
        print(lines)
    PAGE.write_text(page, encoding="utf-8")


def read(exam: str, config: str) -> list[Row]:
    path = ROWS / f"{exam}-{config.replace(' ', '-')}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def halves(rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return list(rows[::2]), list(rows[1::2])


def f1(chosen: np.ndarray, wanted: np.ndarray) -> float:
    both = float((chosen & wanted).sum())
    return 2 * both / max(1.0, float(chosen.sum() + wanted.sum()))


def above(values: np.ndarray, wanted: np.ndarray) -> float:
    """AUC: how often a wanted one stands above another; one half says nothing."""
    yes, no = int(wanted.sum()), int((~wanted).sum())
    return float((ranks(values)[wanted].sum() - yes * (yes - 1) / 2) / max(1, yes * no))


def best(values: Sequence[float], judged: Callable[[float], float]) -> float:
    """The threshold with the highest figure; the lowest of equals. At most 60 are tried."""
    places = np.unique(np.quantile(values, np.linspace(0, 1, 60))) if len(values) else np.zeros(1)
    return max(places, key=judged)


def readings(rows: Sequence[Row]) -> list[str]:
    return [name for name in ("sum", "share", "angle", "score") if rows and name in rows[0]]


def seconds(rows: Sequence[Row]) -> str:
    return f"{np.mean([row['cpu'] for row in rows]):.2f}"


def spans(folder: Path) -> list[str]:
    exams = order(EXAMS["spans"](folder))
    lines = ["| method, reference, layer | read by | pairs | AUC | F1, spans that differ | F1, spans alike | CPU seconds a pair |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for config in (*CONFIGS, "lime", "shap"):
        rows = read("spans", config)
        for reading in readings(rows):
            parts = [
                (np.concatenate([r[reading] for r, _ in half]), np.concatenate([e.labels for _, e in half]) == 0)
                for half in halves(list(zip(rows, exams, strict=False)))
                if half
            ]
            if len(parts) < 2:
                continue
            (dev, differ), (test, wanted) = parts
            at = best(dev, lambda t, dev=dev, differ=differ: f1(dev <= t, differ))
            lines.append(f"| {config} | {reading} | {len(rows)} | {above(test, ~wanted):.3f} | {f1(test <= at, wanted):.3f} | {f1(test > at, ~wanted):.3f} | {seconds(rows)} |")  # fmt: skip
    if len(exams):
        differ = np.concatenate([e.labels for e in exams[1::2]]) == 0
        lines.append(
            f"| every span called different | | {len(exams)} | .500 | {f1(np.ones_like(differ), differ):.3f} | .000 | |"
        )
    return lines


def words(folder: Path) -> list[str]:
    gold = [len(e.gold) for e in order(EXAMS["words"](folder))]
    wanted = [set(e.gold) for e in order(EXAMS["words"](folder))]
    lines = [
        "| method, reference, layer | read by | pairs | AUC | F1 | CPU seconds a pair |",
        "|---|---|---|---|---|---|",
    ]
    for config in CONFIGS:
        rows = read("words", config)
        for reading in readings(rows):
            replies = [(row[reading]["links"], wanted[n], gold[n]) for n, row in enumerate(rows)]
            dev, test = halves(replies)
            if not test:
                continue
            at = best([link[2] for links, *_ in dev for link in links], lambda t, dev=dev: link_f1(dev, t))
            links_of_row = np.array(
                [np.nan if row[reading]["auc"] is None else row[reading]["auc"] for row in rows[1::2]]
            )
            told_auc = estimate(links_of_row)
            lines.append(f"| {config} | {reading} | {len(rows)} | {told_auc.value:.3f} [{told_auc.low:.3f}, {told_auc.high:.3f}] | {link_f1(test, at):.3f} | {seconds(rows)} |")  # fmt: skip
    return lines


def link_f1(replies: Sequence[tuple[Any, set[Any], int]], at: float) -> float:
    chosen = [[(i, j) for i, j, value in links if value >= at] for links, *_ in replies]
    right = sum(
        link in wanted for links_of_row, (_, wanted, _) in zip(chosen, replies, strict=True) for link in links_of_row
    )
    return 2 * right / max(1, sum(map(len, chosen)) + sum(count for *_, count in replies))


def chunks(folder: Path) -> list[str]:
    exams = order(EXAMS["chunks"](folder))
    lines = ["| method, reference, layer | read by | pairs | F1 (alignment), evalF1.pl | CPU seconds a pair |",
             "|---|---|---|---|---|"]  # fmt: skip
    for config in CONFIGS:
        rows = read("chunks", config)
        for reading in readings(rows):
            replies = [(row[reading]["links"], exam) for row, exam in zip(rows, exams, strict=False)]
            dev, test = halves(replies)
            if not test:
                continue
            near = [(links, set(exam.gold), len(exam.gold)) for links, exam in dev]
            at = best([link[2] for links, *_ in near for link in links], lambda t, near=near: link_f1(near, t))
            lines.append(f"| {config} | {reading} | {len(rows)} | {official(test, at, folder):.3f} | {seconds(rows)} |")
    return lines


def official(replies: Sequence[tuple[Any, data.Exam]], at: float, folder: Path) -> float:
    """The task's own program on the chunks that were linked."""
    gold, chosen = [], []
    for number, (links, exam) in enumerate(replies):
        left, right = (json.loads(part) for part in exam.source[:2])
        kept = [(i, j) for i, j, value in links if value >= at]
        texts = [[exam.texts[side][s:e] for s, e in exam.units[side]] for side in (0, 1)]
        lines = [_line(left[i], right[j], texts[0][i], texts[1][j], "EQUI", 5) for i, j in kept]
        lines += [_line(c, [0], texts[0][i], "-not aligned-", "NOALI", 0) for i, c in enumerate(left) if i not in {i for i, _ in kept}]  # fmt: skip
        lines += [_line([0], c, "-not aligned-", texts[1][j], "NOALI", 0) for j, c in enumerate(right) if j not in {j for _, j in kept}]  # fmt: skip
        block = re.sub(r'<sentence id="[^"]*"', f'<sentence id="{number + 1}"', exam.source[2])
        gold.append(block)
        written = "\n".join(lines)
        chosen.append(re.sub(r"<alignment>.*?</alignment>", lambda _, written=written: f"<alignment>\n{written}\n</alignment>", block, flags=re.S))  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        for name, blocks in (("gold", gold), ("said", chosen)):
            (Path(place) / name).write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
        command = ["perl", str(folder / "ists" / "evalF1.pl"), f"{place}/gold", f"{place}/said"]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(re.search(r"F1 Ali\s+([0-9.]+)", out).group(1))


def _line(left: Sequence[int], right: Sequence[int], a: str, b: str, kind: str, score: int) -> str:
    return f"{' '.join(map(str, left))} <==> {' '.join(map(str, right))} // {kind} // {score} // {a} <==> {b} "


def answers(folder: Path) -> list[str]:
    path = ROWS / "answers.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    lines = [
        "| sentences by | passages | sentence F1 | precision | recall | CPU seconds a passage |",
        "|---|---|---|---|---|---|",
    ]
    dev, test = halves(rows)
    for name, column in (("their part of the passage's similarity (`unit=\"sentence\"`)", "part"), ("the cosine of each sentence alone", "alone")):  # fmt: skip
        if not test:
            break
        (mine, gold), (other, wanted) = (
            (np.concatenate([relative(r[column]) for r in half]), np.concatenate([r["gold"] for r in half]) == 1)
            for half in (dev, test)
        )
        at = best(mine, lambda t, mine=mine, gold=gold: f1(mine >= t, gold))
        chosen = other >= at
        precision, recall = ((chosen & wanted).sum() / max(1, each.sum()) for each in (chosen, wanted))
        lines.append(f"| {name} | {len(rows)} | {f1(chosen, wanted):.3f} | {precision:.3f} | {recall:.3f} | {seconds(rows) if column == 'part' else ''} |")  # fmt: skip
    if test:
        wanted = np.concatenate([r["gold"] for r in test]) == 1
        lines.append(
            f"| every sentence | {len(rows)} | {f1(np.ones_like(wanted), wanted):.3f} | {wanted.mean():.3f} | 1.000 | |"
        )
    return lines


def relative(values: Sequence[float]) -> np.ndarray:
    """Of the passage's strongest sentence: passages differ in how similar they are at all."""
    top = max(values, default=0.0)
    return np.array(values) / top if top > 0 else np.zeros(len(values))
