"""The sum of secants on every architecture that is tried, backwards and forwards: a row each, the largest gap of two texts.

    python experiments/secant_architectures.py         # writes experiments/rows/secant-architectures.csv

A gap is relative to the largest of |F(x)|, |F(b)| and |F(x) − F(b)|. Models are tiny and random, their weights large enough that
nothing in them is nearly linear; `line` names operations without a rule, which are integrated along their own line.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pathlens.integrand.batch import Batch  # noqa: E402
from pathlens.integrand.secant import SecantScores, SecantVectors, watching_integrated  # noqa: E402
from tests.support import architectures as tried  # noqa: E402

KINDS = {
    "encoder": tried.ENCODERS,
    "decoder": tried.DECODERS,
    "mixture": tried.MIXTURES,
    "recurrent": tried.RECURRENT,
    "encoder–decoder": tried.TRANSLATORS,
}
FILE = ROOT / "experiments" / "rows" / "secant-architectures.csv"


def row(kind: str, name: str) -> dict[str, str]:
    number, start, end = tried.entered(name)
    with torch.no_grad():
        f_start, f_end = number(start).double(), number(end).double()
    size = torch.stack([f_start.abs(), f_end.abs(), (f_end - f_start).abs()]).amax(0)
    members, gaps = torch.eye(tried.LENGTH)[None].expand(2, -1, -1), {}
    with watching_integrated() as line:
        for way, integrand, score in (
            ("backwards", SecantScores(), number),
            ("forwards", SecantVectors(), lambda x: number(x)[:, None, None]),
        ):
            values = integrand(Batch(score, end, end - start, members, torch.ones(2), start=start)).reshape(2, -1)
            gaps[way] = float(((values[:, 2:].double().sum(1) - (f_end - f_start)).abs() / size).max())
    return {"kind": kind, "name": name, **{way: f"{gap:.1e}" for way, gap in gaps.items()}, "line": " ".join(line)}


def main() -> None:
    rows = [row(kind, name) for kind, names in KINDS.items() for name in names]
    with FILE.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for kind in KINDS:
        some = [each for each in rows if each["kind"] == kind]
        worst = {way: max(some, key=lambda each: float(each[way])) for way in ("backwards", "forwards")}
        shown = ", ".join(f"{way} {each[way]} ({each['name']})" for way, each in worst.items())
        print(f"{kind}: {len(some)} architectures, largest gap {shown}")


if __name__ == "__main__":
    main()
