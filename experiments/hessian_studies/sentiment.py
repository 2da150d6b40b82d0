"""The paper's sentences: "not bad", "painfully funny", adjectives that pile up; a transformer beside a small CNN.

Explained is the logit for positive minus that for negative, from the mask (transformer) or padding (CNN).
Over many phrases: negation.py.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

import pathlens as pl
from experiments.hessian_studies.cnn import accuracy, train_cnn
from experiments.hessian_studies.writing import Folder

GROWING = ("bad", "terrible", "awful", "horrible")


def difference(logits: Any) -> Any:
    return logits[:, 1] - logits[:, 0]


def run(out: Path, *, quick: bool = False, data: Path = Path("../shared/data")) -> None:
    folder = Folder(out, "sentiment")
    models, reached = both_models(data, quick=quick)
    folder.say("\n".join([reached, *probes(folder, models)]))


def both_models(data: Path, *, quick: bool) -> tuple[dict[str, Any], str]:
    """The transformer, and the CNN trained here, with a line that says how good it became."""
    texts, labels = pairs_of(data / "sst2-sentences" / "train.tsv")
    cnn = train_cnn(texts[:1500] if quick else texts, labels[:1500] if quick else labels, epochs=2 if quick else 6)
    held = pairs_of(data / "sst2-sentences" / "dev.tsv")
    models = {"transformer": pl.Explainer("sentiment").model, "cnn": cnn}
    return models, f"CNN: accuracy {accuracy(cnn, *held):.3f} on SST-2 dev."


def pairs_of(file: Path) -> tuple[list[str], list[int]]:
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    return [row[0] for row in rows], [int(row[1]) for row in rows]


def explain(kind: str, model: Any, texts: list[str], **choice: Any) -> list[Any]:
    """As many nodes as 2 % need; the CNN through softplus, with at most 64: its max-pooling keeps its kinks, so no
    count settles it, and the gap says what that costs."""
    choices = {"target": difference} if kind == "transformer" else {"softplus": 10.0, "max_nodes": 64}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pl.explain(model, texts, method="ih", unit="word", tolerance=0.02, **choices, **choice)


def between(result: Any, first: str, second: str) -> float:
    """Γ of two words, both halves."""
    names = [token.lower() for token in result.tokens]
    return float(2 * result.matrix[names.index(first), names.index(second)])


def probes(folder: Folder, models: dict[str, Any]) -> list[str]:
    texts = ["This movie was bad", "This movie was not bad", "a painfully funny ode to bad behavior"]
    growing = ["A movie", *(f"A {', '.join(GROWING[:k])} movie" for k in range(1, 5))]
    rows, lines = [], []
    for kind, model in models.items():
        results = explain(kind, model, texts + growing)
        bad, not_bad, painful = results[:3]
        index = [token.lower() for token in painful.tokens].index("painfully")
        lines.append(
            f"{kind}: output for 'bad' {bad.certificate.f_input:+.2f}, 'not bad' {not_bad.certificate.f_input:+.2f}; "
            f"Γ(not, bad) {between(not_bad, 'not', 'bad'):+.3f}; painfully alone {painful.matrix[index, index]:+.3f}, "
            f"painfully × funny {between(painful, 'painfully', 'funny'):+.3f}."
        )
        for k, result in enumerate(results[4:], start=1):
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
            "" if row["adjective_adjective"] is None else f", adjective × adjective {row['adjective_adjective']:+.3f}"
        )
        lines.append(f"  {row['model']}, {row['adjectives']} adjectives: output {row['output']:+.2f}, adjective × noun "
                     f"{row['adjective_noun']:+.3f}{other}")  # fmt: skip
    return lines
