"""From raw scores to figures: nothing here runs a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.referee.record import Answer, Item
from pathlens.metrics.statistics import Estimate, estimate, ranks


def auc(scores: np.ndarray, wanted: np.ndarray) -> float:
    """How often a wanted word stands above another one; one half says nothing, ties count half."""
    yes, no = int(wanted.sum()), int((~wanted).sum())
    if not yes or not no:
        return float("nan")
    return float((ranks(scores)[wanted].sum() - yes * (yes - 1) / 2) / (yes * no))


def strongest(scores: np.ndarray, k: int) -> np.ndarray:
    """The k words with the highest scores, as marks; of equal ones the first."""
    marks = np.zeros(len(scores), dtype=bool)
    marks[np.argsort(-scores, kind="stable")[:k]] = True
    return marks


def f1(one: np.ndarray, other: np.ndarray) -> float:
    return 2 * float((one & other).sum()) / max(1.0, float(one.sum() + other.sum()))


def with_people(scores: np.ndarray, marks: Sequence[Sequence[int]]) -> tuple[float, float]:
    """AUC and F1 against each person, averaged; as many words are named as people named on average."""
    people = [np.array(each, dtype=bool) for each in marks]
    count = max(1, round(float(np.mean([each.sum() for each in people]))))
    named = strongest(scores, count)
    return float(np.mean([auc(scores, each) for each in people])), float(np.mean([f1(named, each) for each in people]))


def among_people(marks: Sequence[Sequence[int]]) -> tuple[float, float]:
    """The same two figures for people: the others' average stands in for the scores of a method."""
    people = np.array(marks, dtype=float)
    verdicts = []
    for k in range(len(people)):
        others = np.delete(people, k, 0)
        count = max(1, round(float(others.sum(1).mean())))
        wanted = people[k].astype(bool)
        verdicts.append((auc(others.mean(0), wanted), f1(strongest(others.mean(0), count), wanted)))
    means = np.array(verdicts).mean(0)
    return float(means[0]), float(means[1])


def precision(scores: np.ndarray, gold: Sequence[int]) -> float:
    """Of the k strongest words, k as many as were planted: how many are the planted ones?"""
    named = strongest(scores, len(gold))
    return float(named[list(gold)].mean())


Column = Mapping[int, float]  # a figure of every text


def rationale_columns(items: Sequence[Item], answers: Mapping[int, Answer]) -> dict[str, Column]:
    pairs = {i.number: with_people(answers[i.number].scores, i.gold["marks"]) for i in items if i.gold["marks"]}
    return {"AUC": {n: p[0] for n, p in pairs.items()}, "F1": {n: p[1] for n, p in pairs.items()}}


def people_columns(items: Sequence[Item]) -> dict[str, Column]:
    pairs = {i.number: among_people(i.gold["marks"]) for i in items if len(i.gold["marks"]) > 1}
    return {"AUC": {n: p[0] for n, p in pairs.items()}, "F1": {n: p[1] for n, p in pairs.items()}}


def planted_columns(items: Sequence[Item], answers: Mapping[int, Answer]) -> dict[str, Column]:
    """Found among the strongest by sign, by size; for negations, whether the negation itself is among them."""
    columns: dict[str, dict[int, float]] = {"precision at k": {}, "by size": {}}
    for item in items:
        scores, gold = answers[item.number].scores, item.gold["planted"]
        columns["precision at k"][item.number] = precision(scores, gold)
        columns["by size"][item.number] = precision(np.abs(scores), gold)
        pair = answers[item.number].extra.get("pair")
        if pair is not None and len(gold) == 2:
            columns.setdefault("strongest pair", {})[item.number] = float(set(pair) == set(gold))
    return dict(columns)


def mean(column: Column) -> Estimate:
    return estimate(np.array([column[n] for n in sorted(column)]))


def difference(one: Column, other: Column) -> Estimate:
    """Paired over the texts that both have."""
    numbers = sorted(set(one) & set(other))
    return estimate(np.array([one[n] - other[n] for n in numbers]))
