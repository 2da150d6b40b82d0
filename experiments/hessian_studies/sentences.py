"""Twenty sentences of SST-2 dev as they come, at the default settings: does the matrix add up, row by row?

The sentences are drawn once (seed 0), not chosen: long and hard ones are among them. Rows are written as they come;
`--resume` goes on with them.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np

import pathlens as pl
from experiments.hessian_studies.sentiment import pairs_of
from experiments.hessian_studies.writing import Folder, Rows

COLUMNS = (
    "number", "tokens", "change", "nodes", "converged", "gap", "relative_gap", "row_gap", "row_share", "estimate_share",
    "asymmetry", "largest_entry", "seconds",
)  # fmt: skip


def run(out: Path, *, quick: bool = False, data: Path = Path("../shared/data"), resume: bool = False) -> None:
    folder = Folder(out, "sentences")
    texts, _ = pairs_of(data / "sst2-sentences" / "dev.tsv")
    drawn = np.random.default_rng(0).choice(len(texts), 20, replace=False)[: 2 if quick else None]
    rows = Rows(folder.path("sentences.csv"), COLUMNS, resume=resume)
    known = {int(row["number"]) for row in rows}
    explainer = pl.Explainer("sentiment", method="ih")
    for number in sorted(map(int, drawn), key=lambda k: len(texts[k])):
        if number not in known:
            rows.extend([one(explainer, number, texts[number])])
    column = lambda name: np.array([float(row[name]) for row in rows])  # noqa: E731
    settled = column("converged")
    folder.say(
        f"{len(settled)} sentences of SST-2 dev, {column('tokens').min():.0f} to {column('tokens').max():.0f} tokens, tolerance "
        f"1e-3: {int(settled.sum())} converged, with {column('nodes').min():.0f} to {column('nodes').max():.0f} nodes (median "
        f"{np.median(column('nodes')):.0f}). Largest |Γ − Γᵀ| {column('asymmetry').max():.1e} with entries up to "
        f"{column('largest_entry').max():.2f}; worst row gap {column('row_gap').max():.1e} (as a share of the output's change "
        f"{column('row_share').max():.1e}); worst total gap {column('gap').max():.1e} (relative {column('relative_gap').max():.1e})."
    )


def one(explainer: pl.Explainer, number: int, text: str) -> dict[str, float]:
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = explainer(text)
    proof = result.certificate
    change = abs(proof.f_input - proof.f_baseline)
    return {
        "number": number,
        "tokens": len(result.tokens),
        "change": change,
        "nodes": proof.nodes,
        "converged": int(proof.converged),
        "gap": proof.gap,
        "relative_gap": proof.relative_gap,
        "row_gap": max(proof.rows),
        "row_share": max(proof.rows) / change,
        "estimate_share": max(proof.error_estimate) / change,
        "asymmetry": result.meta["asymmetry"],
        "largest_entry": float(np.abs(result.matrix).max()),
        "seconds": time.process_time() - started,
    }
