"""The exams: which texts, which model, what is the truth."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import transformers

from experiments.referee import planted
from experiments.referee.record import Item, words_of
from pathlens.text.builtin import minilm_folder
from pathlens.text.load import load

DISAGREEMENT = 400
SEED = 0
FOLDER = Path("out") / "referee"


@dataclass(frozen=True)
class Exam:
    name: str
    title: str
    items: Callable[[Path], list[Item]]


@lru_cache(maxsize=1)
def sentiment_folder() -> Path:
    """The built-in classifier as an ordinary folder, for those who load models from folders."""
    folder = FOLDER / "sentiment"
    if not (folder / "config.json").exists():
        model = load("sentiment")
        config = transformers.AutoConfig.from_pretrained(minilm_folder(), num_labels=2)
        config.id2label, config.label2id = dict(model.module.config.id2label), dict(model.module.config.label2id)
        plain = transformers.BertForSequenceClassification(config)
        wanted = model.module.state_dict()
        unknown = plain.load_state_dict(wanted, strict=False)
        if unknown.unexpected_keys or any("position_ids" not in key for key in unknown.missing_keys):
            raise RuntimeError(f"the classifier does not fit its class: {unknown}")
        plain.save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(minilm_folder()).save_pretrained(folder)
    return folder


@lru_cache(maxsize=16)
def plain_model(name: str) -> tuple[Any, Any]:
    """A model and its tokenizer as transformers gives them."""
    folder = sentiment_folder() if name == "sentiment" else FOLDER / name
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def folder_of(name: str) -> Path:
    return sentiment_folder() if name == "sentiment" else FOLDER / name


def predicted(name: str, texts: Sequence[str], size: int = 32) -> list[int]:
    model, tokenizer = plain_model(name)
    classes: list[int] = []
    with torch.no_grad():
        for low in range(0, len(texts), size):
            batch = tokenizer(list(texts[low : low + size]), padding=True, return_tensors="pt")
            classes += model(**batch).logits.argmax(-1).tolist()
    return classes


def rationales(data: Path) -> list[Item]:
    """All 263 sentences in which people marked the words that made them say positive or negative."""
    lines = (data / "sst-rationales" / "sst-rationales.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    names = plain_model("sentiment")[0].config.label2id
    items = []
    for number, (row, target) in enumerate(
        zip(rows, predicted("sentiment", [row["sentence"] for row in rows]), strict=True)
    ):
        count = len(words_of(row["sentence"]))
        marks = [
            marks
            for label, marks in zip(row["labels"], row["marks"], strict=True)
            if names.get(label) == target and len(marks) == count and 0 < sum(marks) < count
        ]
        items.append(
            Item(number, row["sentence"], target, gold={"marks": marks, "right": names[row["original"]] == target})
        )
    return items


def sst2(data: Path) -> list[Item]:
    """400 sentences of SST-2 dev, the ones of the deletion study, for where methods disagree."""
    lines = (data / "sst2-sentences" / "dev.tsv").read_text("utf-8").rstrip("\n").split("\n")[1:]
    texts = [line.split("\t")[0] for line in lines]
    random.Random(SEED).shuffle(texts)
    texts = texts[:DISAGREEMENT]
    return [
        Item(number, text, target)
        for number, (text, target) in enumerate(zip(texts, predicted("sentiment", texts), strict=True))
    ]


def planted_items(kind: str) -> Callable[[Path], list[Item]]:
    return lambda data: planted.items(kind, data, FOLDER, predicted)


EXAMS = (
    Exam("rationales", "words people marked as the reason", rationales),
    Exam("sst2", "where methods disagree", sst2),
    *(Exam(f"planted-{kind}", f"planted: {rule.title}", planted_items(kind)) for kind, rule in planted.RULES.items()),
)
