"""What an exam asks and what a contender answers: texts, words, scores, as lines of JSON in experiments/rows/referee."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROWS = Path(__file__).resolve().parents[1] / "rows" / "referee"
Span = tuple[int, int]


def words_of(text: str) -> list[Span]:
    """The words of every exam: what stands between blanks. Gold is given for these, and every contender is read at them."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def at_words(text: str, pieces: Iterable[tuple[int, int, float]]) -> np.ndarray:
    """Scores of pieces summed into the words they lie in: what a word did is what its pieces did together."""
    spans = words_of(text)
    scores = np.zeros(len(spans))
    for start, end, value in pieces:
        middle = (start + end) / 2
        for number, (first, last) in enumerate(spans):
            if end > start and first <= middle <= last:
                scores[number] += value
                break
    return scores


@dataclass(frozen=True)
class Item:
    """One text of an exam. `target` is the class that is explained; `gold` is the exam's own."""

    number: int
    text: str
    target: int
    model: str = "sentiment"
    gold: Any = None


@dataclass(frozen=True, eq=False)
class Answer:
    """A contender's scores of one text by words, what they cost, and how far they are from adding up (None: no claim)."""

    number: int
    scores: np.ndarray
    cpu: float
    passes: float  # rows of the model run forward
    gap: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        facts = {"number": self.number, "scores": [float(f"{value:.4g}") for value in self.scores]}
        facts |= {"cpu": round(self.cpu, 4), "passes": round(self.passes, 1)}
        if self.gap is not None:
            facts["gap"] = float(f"{self.gap:.2g}")
        return json.dumps(facts | self.extra, ensure_ascii=False) + "\n"

    @staticmethod
    def read(line: str) -> Answer:
        facts = json.loads(line)
        scores = np.array(facts.pop("scores"), dtype=float)
        known = {key: facts.pop(key, None) for key in ("number", "cpu", "passes", "gap")}
        return Answer(scores=scores, extra=facts, **known)


def file_of(exam: str, contender: str) -> Path:
    return ROWS / exam / (re.sub(r"[^a-z0-9]+", "-", contender.lower()).strip("-") + ".jsonl")


def answers_of(exam: str, contender: str) -> dict[int, Answer]:
    path = file_of(exam, contender)
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {answer.number: answer for answer in map(Answer.read, lines)}


def keep(exam: str, contender: str, answers: Sequence[Answer]) -> None:
    """Added at the end of the contender's file: a run that is stopped goes on behind it."""
    path = file_of(exam, contender)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write("".join(answer.line() for answer in answers))


def missing(exam: str, contender: str, items: Sequence[Item]) -> Iterator[Item]:
    done = answers_of(exam, contender)
    return (item for item in items if item.number not in done)
