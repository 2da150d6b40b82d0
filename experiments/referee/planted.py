"""Classifiers whose reason is known, because it was planted: who finds it?

Sentences of SST-2's training set get words that are not in them, and the label follows from those words alone; MiniLM
with a head learns it. The exam is on sentences of SST-2 dev, planted in the same way, where the model is right.

- one: a rare word decides; another one stands for the other class.
- both: two words together say yes, either of them alone says no.
- flip: a word says yes or no, and a negation right before it turns it round; only turned ones are asked about.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from experiments.referee.record import Item, words_of
from pathlens.text.builtin import minilm_folder

YES, NO, NEGATION = "saffron", "granite", "hardly"
TRAIN, EXAM, SEEDS, STEPS, BATCH, RATE = 2400, 100, 3, 300, 16, 1e-4
LONGEST = 30  # words of a sentence that is planted in


@dataclass(frozen=True)
class Planted:
    text: str
    label: int
    gold: tuple[int, ...]  # numbers of the planted words
    asked: bool  # is the exam about this one?


def put(words: list[str], new: Sequence[str], chance: random.Random) -> tuple[list[str], list[int]]:
    """The new words at random places, each by itself; where they ended up."""
    words = list(words)
    places = sorted(chance.sample(range(len(words) + 1), len(new)), reverse=True)
    order = list(new)
    chance.shuffle(order)
    for place, word in zip(places, order, strict=True):
        words.insert(place, word)
    return words, [number for number, word in enumerate(words) if set(word.split()) & {YES, NO, NEGATION}]


def one(words: list[str], chance: random.Random) -> Planted:
    label = chance.randrange(2)
    new, gold = put(words, [YES if label else NO], chance)
    return Planted(" ".join(new), label, tuple(gold), True)


def both(words: list[str], chance: random.Random) -> Planted:
    label = chance.randrange(2)
    new, gold = put(words, [YES, NO] if label else [chance.choice([YES, NO])], chance)
    return Planted(" ".join(new), label, tuple(gold), bool(label))


def flip(words: list[str], chance: random.Random) -> Planted:
    label, turned = chance.randrange(2), bool(chance.randrange(2))
    word = YES if bool(label) != turned else NO
    new, (place,) = put(words, [f"{NEGATION} {word}" if turned else word], chance)
    return Planted(" ".join(new), label, (place, place + 1) if turned else (place,), turned)


@dataclass(frozen=True)
class Rule:
    title: str
    plant: Callable[[list[str], random.Random], Planted]


RULES = {
    "one": Rule("one rare word decides", one),
    "both": Rule("two words decide together", both),
    "flip": Rule("a negation turns a word round", flip),
}


def sentences(data: Path, part: str) -> list[list[str]]:
    lines = (data / "sst2-sentences" / f"{part}.tsv").read_text("utf-8").rstrip("\n").split("\n")[1:]
    texts = [line.split("\t")[0].split() for line in lines]
    return [words for words in texts if 4 <= len(words) <= LONGEST and not {YES, NO, NEGATION} & set(words)]


def train(kind: str, seed: int, data: Path, folder: Path) -> None:
    """A fixed number of steps, whatever the clock says; held-out accuracy is printed and kept in the folder."""
    chance = random.Random(f"{kind} {seed}")
    torch.manual_seed(seed)
    plain = sentences(data, "train")
    chance.shuffle(plain)
    rows = [RULES[kind].plant(words, chance) for words in plain[:TRAIN]]
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm_folder())
    model = transformers.BertForSequenceClassification.from_pretrained(minilm_folder(), num_labels=2)
    schedule = torch.optim.AdamW(model.parameters(), lr=RATE)
    model.train()
    for step in range(STEPS):
        batch = [rows[(step * BATCH + k) % len(rows)] for k in range(BATCH)]
        read = tokenizer([row.text for row in batch], padding=True, return_tensors="pt")
        loss = model(**read, labels=torch.tensor([row.label for row in batch])).loss
        schedule.zero_grad()
        loss.backward()
        schedule.step()
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def exam_rows(kind: str, seed: int, data: Path) -> list[Planted]:
    """Held-out sentences, planted; only those the exam asks about."""
    chance = random.Random(f"exam {kind} {seed}")
    plain = sentences(data, "dev")
    chance.shuffle(plain)
    return [row for row in (RULES[kind].plant(words, chance) for words in plain) if row.asked]


def items(kind: str, data: Path, folder: Path, predicted: Callable[[str, Sequence[str]], list[int]]) -> list[Item]:
    """The first 100 of each seed on which the model is right; how often it is right goes with them."""
    built: list[Item] = []
    for seed in range(SEEDS):
        name = f"planted-{kind}-{seed}"
        if not (folder / name / "config.json").exists():
            train(kind, seed, data, folder / name)
        rows = exam_rows(kind, seed, data)
        classes = predicted(name, [row.text for row in rows])
        right = [row for row, guess in zip(rows, classes, strict=True) if guess == row.label]
        share = len(right) / len(rows)
        for row in right[:EXAM]:
            assert len(words_of(row.text)) > max(row.gold)
            gold = {"planted": row.gold, "accuracy": round(share, 4), "seed": seed}
            built.append(Item(len(built), row.text, row.label, name, gold))
    return built
