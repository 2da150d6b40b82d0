"""Negation and saturation as numbers: how often an interaction does what the paper's examples show.

Decided before running. A polar word is one that the treebank itself labels off neutral; an interaction *flips* it
when Γ(negator, word) has the opposite sign of that label. Two adjectives that both push down *saturate* when their
interaction pushes back, Γ(X, Y) > 0 in "a X, Y movie". Rows are written as they come; `--resume` goes on with them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import regex

from experiments.hessian_studies.sentiment import both_models, explain
from experiments.hessian_studies.writing import Folder, Rows, interval
from pathlens.units.parse import pipeline

NEGATORS = ("not", "never", "hardly")
BAD = (
    "bad terrible awful horrible dreadful poor dull boring weak silly stupid lame bland tedious ugly messy cheap flat "
    "sloppy painful"
).split()
AT_ONCE = 8  # texts explained together, and lost together when a run is stopped
COLUMNS = ("model", "first", "second", "expected", "gamma", "output", "relative_gap", "converged")


@dataclass(frozen=True)
class Phrase:
    """Two words of a text, and the sign that the claim expects of their interaction."""

    text: str
    first: str
    second: str
    expected: int
    places: tuple[int, int]  # of the two words among the text's own words


def run(out: Path, *, quick: bool = False, data: Path = Path("../shared/data"), resume: bool = False,
        templates: int | None = None) -> None:  # fmt: skip
    """`templates`: only so many of the 20 × 19 pairs of adjectives, in an order drawn once and for all."""
    folder = Folder(out, "negation")
    models, reached = both_models(data, quick=quick)
    negated = negated_phrases(data)
    piled = piled_adjectives()[: 6 if quick else templates]
    lines = [reached]
    for name, title, phrases in (
        ("negation", "not/never/hardly + polar word: the interaction flips the word in", negated[:15] if quick else negated),
        ("saturation", "'a X, Y movie': the adjectives push back against each other in", piled),
    ):  # fmt: skip
        measurements = measured(Rows(folder.path(f"{name}.csv"), COLUMNS, resume=resume), models, phrases)
        lines += [f"{title} (n = {len(phrases)})", *summary(measurements)]
        if name == "negation" and (words := adjectives(phrases)):
            members = [row for row in measurements if row["second"] in words]
            count = len({(row["first"], row["second"]) for row in members})
            lines += [f"of these, those whose second word spaCy tags as an adjective (n = {count})", *summary(members)]
    folder.say("\n".join(lines))


def negated_phrases(data: Path) -> list[Phrase]:
    """Every pair of words in the treebank that starts with a negator and ends with a word labelled off neutral."""
    measurements: dict[tuple[str, str], int] = {}
    for file in sorted((data / "sst-trees").glob("*.txt")):
        for line in file.read_text(encoding="utf-8").splitlines():
            leaves = [(int(label), word.lower()) for label, word in regex.findall(r"\((\d) ([^()\s]+)\)", line)]
            for (_, first), (label, word) in itertools.pairwise(leaves):
                if first in NEGATORS and label != 2 and word.isalpha():
                    measurements[first, word] = 1 if label > 2 else -1
    return [Phrase(f"{a} {b}", a, b, -sign, (0, 1)) for (a, b), sign in sorted(measurements.items())]


def adjectives(phrases: Sequence[Phrase]) -> set[str]:
    """The second words that are adjectives in "it is not …" (empty where no spaCy model is installed)."""
    nlp = pipeline()
    if nlp is None:
        return set()
    return {p.second for p in phrases if nlp(f"It is {p.first} {p.second}.")[3].pos_ == "ADJ"}


def piled_adjectives(seed: int = 0) -> list[Phrase]:
    """Every ordered pair of two of the 20 adjectives, shuffled: the first n of them are a fair sample."""
    every = [Phrase(f"a {a}, {b} movie", a, b, 1, (1, 3)) for a in BAD for b in BAD if a != b]
    return [every[k] for k in np.random.default_rng(seed).permutation(len(every))]


def measured(rows: Rows, models: dict[str, Any], phrases: Sequence[Phrase]) -> list[dict[str, Any]]:
    """Γ of every phrase in both models. Only the first word's row is asked for: one product a node."""
    known = {(row["model"], row["first"], row["second"]) for row in rows}
    for kind, model in models.items():
        missing = [phrase for phrase in phrases if (kind, phrase.first, phrase.second) not in known]
        for first in range(0, len(missing), AT_ONCE):
            rows.extend(_explained(kind, model, missing[first : first + AT_ONCE]))
    wanted = {(phrase.first, phrase.second) for phrase in phrases}
    return [row for row in rows if (row["model"] in models and (row["first"], row["second"]) in wanted)]


def _explained(kind: str, model: Any, phrases: Sequence[Phrase]) -> Iterator[dict[str, Any]]:
    special = int(kind == "transformer")  # [CLS] stands before the words
    place, other = (special + each for each in phrases[0].places)
    results = explain(kind, model, [phrase.text for phrase in phrases], interaction_index=place)
    for phrase, result in zip(phrases, results, strict=True):
        assert result.tokens[place] == phrase.first and result.tokens[other] == phrase.second
        proof = result.certificate
        yield {
            "model": kind,
            "first": phrase.first,
            "second": phrase.second,
            "expected": phrase.expected,
            "gamma": 2 * float(result.matrix[place, other]),
            "output": proof.f_input,
            "relative_gap": proof.relative_gap,
            "converged": int(proof.converged),
        }


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The share of interactions with the expected sign, by model, and the difference paired by phrase."""
    lines, held = [], {}
    for kind in dict.fromkeys(row["model"] for row in rows):
        members = [row for row in rows if row["model"] == kind]
        held[kind] = {(r["first"], r["second"]): float(r["gamma"]) * int(r["expected"]) > 0 for r in members}
        low, mean, high = interval(np.array(list(held[kind].values()), dtype=float))
        strength = np.mean([float(r["gamma"]) * int(r["expected"]) for r in members])
        settled = np.mean([int(r["converged"]) for r in members])
        lines.append(
            f"  {kind}: {mean:.3f} [{low:.3f}, {high:.3f}], mean Γ in the expected direction {strength:+.3f}; "
            f"{settled:.0%} converged"
        )
    if len(held) == 2:
        first, second = held.values()
        both = np.array([float(first[key]) - float(second[key]) for key in first if key in second])
        low, mean, high = interval(both)
        lines.append(f"  {' minus '.join(held)}, paired: {mean:+.3f} [{low:+.3f}, {high:+.3f}]")
    return lines
