"""How far UDIG is from adding up: the paper's left rule against the default, on the same paths.

    python experiments/words.py [--texts 100] [--model sentiment]

Writes gaps.csv (one row per sentence, setting and rule), gaps.png (sorted |Δ%|) and findings.txt to --out. |Δ%| is
100·|Σ scores − (F(x) − F(b))| / |F(x) − F(b)|: what the UDIG paper's code reports as its completeness.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pathlens as pl
from pathlens.text.load import load

SETTINGS = ("udig-maxcount", "udig-greedy", "udig-grid")
RULES = {"default": None, "left": "left"}
PUBLISHED = "the authors' notebooks: medians of 12 % (BERT) and 25 % (DistilBERT)"


def sentences(data: Path, count: int, seed: int) -> list[str]:
    """SST-2's development sentences, a sample; the file has no quoting."""
    with (data / "sst2-sentences" / "dev.tsv").open(encoding="utf-8") as stream:
        rows = [row["sentence"] for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return random.Random(seed).sample(rows, min(count, len(rows)))


def measure(explainer: pl.Explainer, text: str, setting: str, rule: str) -> dict[str, Any]:
    started = time.perf_counter()
    result = explainer(text)
    cert = result.certificate
    return {
        "setting": setting,
        "rule": rule,
        "tokens": len(result.tokens),
        "delta_percent": 100 * cert.relative_gap,
        "change": cert.f_input - cert.f_baseline,
        "largest_error": max(cert.error_estimate),
        "converged": cert.converged,
        "nodes": cert.nodes,
        "passes": cert.passes,
        "seconds": round(time.perf_counter() - started, 3),
        "text": text,
    }


def run(model: str, texts: list[str], settings: list[str], out: Path) -> list[dict[str, Any]]:
    """Every sentence with every setting and rule; the table is written as it grows."""
    loaded = load(model)
    explainers = {
        (setting, name): pl.Explainer(loaded, method="udig", preset=setting, rule=rule)
        for setting in settings
        for name, rule in RULES.items()
    }
    rows: list[dict[str, Any]] = []
    with (out / "gaps.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = None
        for number, text in enumerate(texts):
            for (setting, name), explainer in explainers.items():
                rows.append(measure(explainer, text, setting, name))
                if writer is None:
                    writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
                    writer.writeheader()
                writer.writerow(rows[-1])
            stream.flush()
            if (number + 1) % 10 == 0:
                print(f"{number + 1} sentences\n{summary(rows)}", flush=True)
    return rows


def groups(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((row["setting"], row["rule"]), []).append(row)
    return grouped


def summary(rows: list[dict[str, Any]]) -> str:
    lines = []
    for (setting, rule), members in groups(rows).items():
        gaps = np.array([row["delta_percent"] for row in members])
        nodes = np.array([row["nodes"] for row in members])
        low, high = np.quantile(gaps, [0.25, 0.75])
        lines.append(
            f"{setting:14} {rule:8} median |Δ%| {np.median(gaps):9.4f} (quartiles {low:.4f} to {high:.4f}, worst "
            f"{gaps.max():.3f}), nodes median {np.median(nodes):.0f} (most {nodes.max()}), settled "
            f"{sum(row['converged'] for row in members)} of {len(members)}, median {np.median([row['seconds'] for row in members]):.2f} s"
        )
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Sorted |Δ%|, one line per setting and rule, on a logarithmic axis."""
    from experiments import plots
    from pathlens.draw import canvas

    series = {
        f"{setting}, {rule}": np.sort([max(row["delta_percent"], 1e-6) for row in members]).tolist()
        for (setting, rule), members in groups(rows).items()
    }
    count = len(next(iter(series.values())))
    share = (100 * (np.arange(count) + 0.5) / count).tolist()
    drawn = plots.curve(share, series, title="UDIG: how far from adding up", xlabel="% of sentences", ylabel="|Δ%|")
    plots.logarithmic(drawn.axes[0], "y")
    canvas.save(drawn, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="holds sst2-sentences/")
    parser.add_argument("--out", type=Path, default=Path("out/words"))
    parser.add_argument("--model", default="sentiment")
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS[:2]))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    choice = parser.parse_args()
    torch.set_num_threads(choice.threads)
    warnings.simplefilter("ignore", pl.ConvergenceWarning)  # every left sum would warn; the table counts them
    choice.out.mkdir(parents=True, exist_ok=True)
    rows = run(choice.model, sentences(choice.data, choice.texts, choice.seed), choice.settings, choice.out)
    draw(rows, choice.out / "gaps.png")
    count = len(rows) // (len(choice.settings) * len(RULES))
    text = f"{choice.model}, {count} SST-2 sentences, mask baseline\n{summary(rows)}\n{PUBLISHED}"
    (choice.out / "findings.txt").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
