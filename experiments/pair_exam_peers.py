"""LIME and SHAP on the spans exam, beside `pair_exams.py`: what did each word of one sentence do to the similarity with the other?

    python experiments/pair_exam_peers.py --count 60        # lime and shap must be importable: an environment of their own

Both explain the cosine of MiniLM with one sentence fixed, words by the peers' own splitting, once for each side; a span's score
is the mean over its words, and of a pair of spans the mean of both sides. `--samples` similarities are asked for a side (LIME's
num_samples, SHAP's max_evals). The same pairs in the same order, seconds beside the scores.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from experiments import pair_exam_data as data
from experiments.pair_exam_data import HERE, ROWS, order
from pathlens.text.load import load


class Cosine:
    """Similarities of many texts with one."""

    def __init__(self, encode, other: str) -> None:
        self.encode, self.other = encode, encode([other], normalize_embeddings=True)[0]

    def __call__(self, texts) -> np.ndarray:
        return self.encode([str(text) or "." for text in texts], normalize_embeddings=True, batch_size=64) @ self.other


def lime_words(text: str, similar: Cosine, samples: int) -> list[tuple[int, int, float]]:
    from lime.lime_text import LimeTextExplainer

    explainer = LimeTextExplainer(bow=False, random_state=0, split_expression=r"\W+")
    places = [(m.start(), m.end()) for m in re.finditer(r"\w+", text)]

    def both(texts):
        s = similar(texts)
        return np.stack([1 - s, s], axis=1)

    weights = explainer.explain_instance(text, both, num_features=len(places), num_samples=samples, labels=(1,))
    return [(*places[k], weight) for k, weight in weights.as_map()[1] if k < len(places)]


def shap_words(text: str, similar: Cosine, samples: int) -> list[tuple[int, int, float]]:
    import shap

    explained = shap.Explainer(similar, shap.maskers.Text(r"\W+"), seed=0)([text], max_evals=samples, silent=True)
    weights, at = [], 0
    for part, value in zip(explained.data[0], explained.values[0], strict=True):
        start = text.find(part.strip(), at) if part.strip() else at
        weights.append((start, start + len(part.strip()), float(value)))
        at = max(at, start + len(part.strip()))
    return weights


def span_score(words: list[tuple[int, int, float]], span: data.Span) -> float:
    inside = [value for start, end, value in words if start < span[1] and span[0] < end]
    return float(np.mean(inside)) if inside else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    args = parser.parse_args()
    torch.set_num_threads(1)
    until, encode = time.time() + 60 * args.minutes, load("minilm").sentence_transformer.encode
    rows = order(data.spans(args.data))[: args.count]
    ROWS.mkdir(parents=True, exist_ok=True)
    for name, words in (("lime", lime_words), ("shap", shap_words)):
        path = ROWS / f"spans-{name}.jsonl"
        done = len(path.read_text("utf-8").splitlines()) if path.exists() else 0
        for exam in rows[done:]:
            if time.time() > until:
                break
            begun = time.process_time()
            sides = [words(exam.texts[k], Cosine(encode, exam.texts[1 - k]), args.samples) for k in (0, 1)]
            seconds = time.process_time() - begun
            scores = [
                round(float(np.mean([span_score(sides[k], exam.units[k][n]) for k in (0, 1)])), 4)
                for n in range(len(exam.labels))
            ]
            with path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"name": exam.name, "cpu": round(seconds, 3), "score": scores}) + "\n")


if __name__ == "__main__":
    main()
