"""What the exams of pairs are made of: spans with the same meaning or not, chunks and words that people aligned, answers in sentences."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROWS = HERE / "rows" / "pair-exams"
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> model, and the choices of the explainer
    "secant quiet 0": ("minilm", {"method": "secant"}),
    "secant mask 0": ("minilm", {"method": "secant", "baseline": "mask"}),
    "secant exact 0": ("minilm-exact", {"method": "secant"}),
    "secant quiet 3": ("minilm", {"method": "secant", "layer": 3}),
    "secant quiet 5": ("minilm", {"method": "secant", "layer": 5}),
    "ij quiet 3": ("minilm", {"method": "ij", "layer": 3, "tolerance": 1e-2}),
    "contextual": ("minilm", {}),
}
Span = tuple[int, int]


@dataclass(frozen=True)
class Exam:
    """One pair of texts: the units of both as characters, and which of them belong together."""

    name: str
    texts: tuple[str, str]
    units: tuple[tuple[Span, ...], tuple[Span, ...]]
    gold: tuple[tuple[int, int], ...] = ()  # units that people aligned
    labels: tuple[int, ...] = ()  # of the k-th unit of both: 1 the same meaning, 0 not
    source: tuple[str, ...] = field(default=(), repr=False)  # of a file that goes on to another program


def order(exams: list[Any]) -> list[Any]:
    """By seed 0, so that the first n are a fair sample."""
    random.Random(0).shuffle(exams)
    return exams


def spans(folder: Path) -> list[Exam]:
    """Span Similarity Dataset: {{spans}} marked in both sentences, in the same order."""
    exams = []
    lines = (folder / "span-similarity" / "span_similarity_dataset_v1.0.0.tsv").read_text("utf-8").splitlines()
    for number, line in enumerate(lines[1:]):
        premise, hypothesis, labels, _ = line.split("\t")
        (a, units_a), (b, units_b) = unmarked(premise), unmarked(hypothesis)
        marks = tuple(int(label) for label in labels.split(","))
        if len(units_a) == len(units_b) == len(marks):
            exams.append(Exam(f"span-{number}", (a, b), (units_a, units_b), labels=marks))
    return exams


def unmarked(text: str) -> tuple[str, tuple[Span, ...]]:
    plain, units = "", []
    for k, part in enumerate(re.split(r"\{\{|\}\}", text)):
        if k % 2:
            units.append((len(plain), len(plain) + len(part)))
        plain += part
    return plain, tuple(units)


def words(folder: Path) -> list[Exam]:
    """MultiMWA's development sets; sure and possible links both count, as its authors score them."""
    exams = []
    for name in ("mtref", "wiki"):
        for line in (folder / "word-alignment" / f"{name}-dev.tsv").read_text("utf-8").splitlines():
            cells = line.split("\t")
            a, b = cells[1].strip(), cells[3].strip()
            links = f"{cells[7]} {cells[8] if len(cells) > 8 else ''}".split()
            gold = tuple(tuple(map(int, link.split("-"))) for link in links if re.fullmatch(r"\d+-\d+", link))
            exams.append(Exam(f"{name}-{cells[0]}", (a, b), (spaced(a), spaced(b)), gold=gold))
    return exams


def spaced(text: str) -> tuple[Span, ...]:
    return tuple((matches.start(), matches.end()) for matches in re.finditer(r"\S+", text))


def chunks(folder: Path) -> list[Exam]:
    """iSTS with gold chunks: every chunk that stands in an alignment, aligned or not; a unit is the tokens of one chunk."""
    exams = []
    for name in ("headlines", "images", "answers-students"):
        text = (folder / "ists" / f"STSint.input.{name}.wa").read_text("utf-8", errors="replace")
        for number, block in enumerate(re.findall(r"<sentence.*?</sentence>", text, flags=re.S)):
            exams.append(_chunked(f"{name}-{number}", block))
    return exams


def _chunked(name: str, block: str) -> Exam:
    sides = []
    for tag in ("source", "translation"):
        listed = re.search(rf"<{tag}>\n(.*?)</{tag}>", block, flags=re.S).group(1).splitlines()
        sides.append([line.split(" ", 1)[1].rsplit(" :", 1)[0].strip() for line in listed if line.strip()])
    text = tuple(" ".join(side) for side in sides)
    places = tuple(spaced_as(side) for side in sides)
    units: tuple[list, list] = ([], [])
    gold = []
    for line in re.search(r"<alignment>\n(.*?)</alignment>", block, flags=re.S).group(1).splitlines():
        if "<==>" not in line:
            continue
        left, right = line.split(" // ")[0].split("<==>")
        matches = []
        for side, cell in enumerate((left, right)):
            numbers = tuple(int(n) for n in cell.split() if int(n) > 0)
            if numbers and numbers not in units[side]:
                units[side].append(numbers)
            matches.append(units[side].index(numbers) if numbers else None)
        if None not in matches:
            gold.append(tuple(matches))
    spans = tuple(
        tuple((places[side][chunk[0] - 1][0], places[side][chunk[-1] - 1][1]) for chunk in units[side])
        for side in (0, 1)
    )
    kept = [json.dumps(units[0]), json.dumps(units[1]), block]
    return Exam(name, text, spans, gold=tuple(gold), source=tuple(kept))


def spaced_as(tokens: list[str]) -> tuple[Span, ...]:
    """Where each token stands when they are joined by blanks."""
    matches, at = [], 0
    for token in tokens:
        matches.append((at, at + len(token)))
        at += len(token) + 1
    return tuple(matches)


@dataclass(frozen=True)
class Question:
    """A question, a passage cut at sentences, and which sentences hold an answer."""

    name: str
    question: str
    passage: str
    sentences: tuple[Span, ...]
    gold: tuple[bool, ...]


def questions(folder: Path, cut) -> list[Question]:
    """MultiSpanQA, first half of validation; `cut` finds the sentences of a text."""
    data = json.loads((folder / "multispanqa" / "valid-first-half.json").read_text("utf-8"))["data"]
    matches = []
    for row in data:
        passage = " ".join(row["context"])
        places = spaced_as(row["context"])
        answers = [place for place, label in zip(places, row["label"], strict=True) if label != "O"]
        sentences = tuple(cut(passage))
        gold = tuple(any(start < b and a < end for a, b in answers) for start, end in sentences)
        matches.append(Question(row["id"], " ".join(row["question"]), passage, sentences, gold))
    return matches


EXAMS = {"spans": spans, "chunks": chunks, "words": words}
