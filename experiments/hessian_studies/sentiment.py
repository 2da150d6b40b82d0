"""Negation, "painfully funny", saturation: a transformer beside a small convolutional net.

Explained is the logit for positive minus that for negative, from the mask (transformer) or padding (CNN). Decided
before running: a polar word is one that the treebank itself labels off neutral; an interaction *flips* it when
Γ(negator, word) has the opposite sign of that label.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import regex

import pathlens as pl
from experiments.hessian_studies.cnn import accuracy, train_cnn
from experiments.hessian_studies.writing import Folder, interval

NEGATORS = ("not", "never", "hardly")
GROWING = ("bad", "terrible", "awful", "horrible")
BAD = (
    "bad terrible awful horrible dreadful poor dull boring weak silly stupid lame bland tedious ugly messy cheap flat "
    "sloppy painful"
).split()
NOUNS = (
    "movie film picture story plot script comedy drama thriller show sequel remake tale cast performance ending scene "
    "effort idea project"
).split()


def difference(logits: Any) -> Any:
    return logits[:, 1] - logits[:, 0]


def run(out: Path, *, quick: bool = False, data: Path = Path("../shared/data")) -> None:
    folder = Folder(out, "sentiment")
    texts, labels = pairs_of(data / "sst2-sentences" / "train.tsv")
    cnn = train_cnn(
        texts[:1500] if quick else texts, labels[:1500] if quick else labels, epochs=2 if quick else 6
    )
    held = pairs_of(data / "sst2-sentences" / "dev.tsv")
    models = {"transformer": pl.Explainer("sentiment").model, "cnn": cnn}
    lines = [f"CNN: accuracy {accuracy(cnn, *held):.3f} on SST-2 dev."]
    lines += probes(folder, models)
    lines += negation(folder, models, data, limit=15 if quick else None)
    lines += saturation(folder, models, size=3 if quick else 20)
    folder.say("\n".join(lines))


def pairs_of(file: Path) -> tuple[list[str], list[int]]:
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    return [row[0] for row in rows], [int(row[1]) for row in rows]


def explain(kind: str, model: Any, texts: list[str], **choice: Any) -> list[Any]:
    """As many nodes as 2 % need; the CNN through softplus, with at most 64: its max-pooling keeps its kinks, so no
    count settles it, and the gap says what that costs."""
    own = {"target": difference} if kind == "transformer" else {"softplus": 10.0, "max_nodes": 64}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pl.explain(model, texts, method="ih", unit="word", tolerance=0.02, **own, **choice)


def between(result: Any, first: str, second: str) -> float:
    """Γ of two words, both halves."""
    names = [token.lower() for token in result.tokens]
    return float(2 * result.matrix[names.index(first), names.index(second)])


def probes(folder: Folder, models: dict[str, Any]) -> list[str]:
    texts = ["This movie was bad", "This movie was not bad", "a painfully funny ode to bad behavior"]
    growing = ["A movie", *(f"A {', '.join(GROWING[:k])} movie" for k in range(1, 5))]
    rows, lines = [], []
    for kind, model in models.items():
        found = explain(kind, model, texts + growing)
        bad, not_bad, painful = found[:3]
        index = [token.lower() for token in painful.tokens].index("painfully")
        lines.append(
            f"{kind}: output for 'bad' {bad.certificate.f_input:+.2f}, 'not bad' {not_bad.certificate.f_input:+.2f}; "
            f"Γ(not, bad) {between(not_bad, 'not', 'bad'):+.3f}; painfully alone {painful.matrix[index, index]:+.3f}, "
            f"painfully × funny {between(painful, 'painfully', 'funny'):+.3f}."
        )
        for k, result in enumerate(found[4:], start=1):
            noun = np.mean([between(result, word, "movie") for word in GROWING[:k]])
            several = [between(result, a, b) for i, a in enumerate(GROWING[:k]) for b in GROWING[:i]]
            rows.append({"model": kind, "adjectives": k, "output": result.certificate.f_input, "adjective_noun": float(noun),
                         "adjective_adjective": float(np.mean(several)) if several else None})  # fmt: skip
            if kind == "transformer" and k == 4:
                result.to_png(folder.path("growing.png"))
        if kind == "transformer":
            not_bad.to_png(folder.path("not_bad.png"))
            painful.to_png(folder.path("painfully_funny.png"))
    folder.table("growing.csv", rows)
    for row in rows:
        other = (
            ""
            if row["adjective_adjective"] is None
            else f", adjective × adjective {row['adjective_adjective']:+.3f}"
        )
        lines.append(f"  {row['model']}, {row['adjectives']} adjectives: output {row['output']:+.2f}, adjective × noun "
                     f"{row['adjective_noun']:+.3f}{other}")  # fmt: skip
    return lines


def negated_phrases(data: Path) -> list[tuple[str, str, int]]:
    """(negator, word, polarity −1 or 1): every pair in the treebank whose second word is labelled off neutral."""
    found: dict[tuple[str, str], int] = {}
    for file in sorted((data / "sst-trees").glob("*.txt")):
        for line in file.read_text(encoding="utf-8").splitlines():
            leaves = [
                (int(label), word.lower()) for label, word in regex.findall(r"\((\d) ([^()\s]+)\)", line)
            ]
            for (_, first), (label, word) in itertools.pairwise(leaves):
                if first in NEGATORS and label != 2 and word.isalpha():
                    found[first, word] = 1 if label > 2 else -1
    return [(first, word, sign) for (first, word), sign in sorted(found.items())]


def negation(folder: Folder, models: dict[str, Any], data: Path, *, limit: int | None) -> list[str]:
    """Only the negator's row is asked for: one product a node."""
    phrases = negated_phrases(data)[:limit]
    rows, lines = [], [f"{len(phrases)} distinct phrases not/never/hardly + polar word:"]
    flips: dict[str, list[float]] = {}
    for kind, model in models.items():
        places = 0 if kind == "cnn" else 1  # after [CLS]
        results = explain(
            kind, model, [f"{first} {word}" for first, word, _ in phrases], interaction_index=places
        )
        flips[kind] = []
        for (first, word, sign), result in zip(phrases, results, strict=True):
            gamma = 2 * float(result.matrix[places, places + 1])
            flips[kind].append(float(gamma * sign < 0))
            rows.append({"model": kind, "negator": first, "word": word, "polarity": sign, "gamma": gamma,
                         "output": result.certificate.f_input})  # fmt: skip
        low, mean, high = interval(np.array(flips[kind]))
        lines.append(f"  {kind}: the interaction flips the word in {mean:.3f} [{low:.3f}, {high:.3f}]")
    low, mean, high = interval(np.array(flips["transformer"]) - np.array(flips["cnn"]))
    lines.append(f"  transformer minus CNN, paired: {mean:+.3f} [{low:+.3f}, {high:+.3f}]")
    folder.table("negation.csv", rows)
    return lines


def saturation(folder: Folder, models: dict[str, Any], *, size: int) -> list[str]:
    """ "a X, Y movie": do two adjectives that both push down push back against each other (Γ > 0)? X ≠ Y."""
    texts = [(a, b) for a in BAD[:size] for b in BAD[:size] if a != b]
    rows, lines = [], [f"saturation, 'a X, Y {NOUNS[0]}' over {len(texts)} pairs of adjectives:"]
    for kind, model in models.items():
        place = 1 if kind == "cnn" else 2
        results = explain(kind, model, [f"a {a}, {b} {NOUNS[0]}" for a, b in texts], interaction_index=place)
        gamma = [2 * float(result.matrix[place, place + 2]) for result in results]
        rows += [
            {"model": kind, "first": a, "second": b, "gamma": g}
            for (a, b), g in zip(texts, gamma, strict=True)
        ]
        low, mean, high = interval(np.array([g > 0 for g in gamma], dtype=float))
        lines.append(
            f"  {kind}: Γ(X, Y) > 0 in {mean:.3f} [{low:.3f}, {high:.3f}], mean Γ {np.mean(gamma):+.3f}"
        )
    folder.table("saturation.csv", rows)
    return lines
