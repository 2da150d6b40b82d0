"""The sum of secants on every architecture that is tried, backwards and forwards: a row each, the largest gap of two texts.

    python experiments/secant_architectures.py         # writes experiments/rows/secant-architectures.csv

`backwards` and `forwards` are relative to the largest of |F(x)|, |F(b)| and |F(x) − F(b)|; `of the change` is the larger of the two
relative to |F(x) − F(b)| alone, as a certificate has it. Where that is over 1e-5 the model is taken in float64, as the library does,
and `in float64` is what is left. Models are tiny and random, their weights large enough that nothing in them is nearly linear; `line`
names operations without a rule, which are integrated along their own line.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pathlens.engine.finer import EXACT  # noqa: E402
from pathlens.integrand.secant import watching_integrated  # noqa: E402
from pathlens.text.network import in_double  # noqa: E402
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
    model = tried.build(name)
    number, start, end = tried.entered(name, model)
    with watching_integrated() as line:
        gaps, of_change = tried.gaps(number, start, end)
    left = ""
    if of_change > EXACT:
        with in_double(model, most=sys.maxsize):
            left = f"{tried.gaps(number, start.double(), end.double())[1]:.1e}"
    shown = {**gaps, "of the change": of_change}
    about = {"in float64": left, "line": " ".join(line)}
    return {"kind": kind, "name": name, **{column: f"{gap:.1e}" for column, gap in shown.items()}, **about}


def main() -> None:
    rows = [row(kind, name) for kind, names in KINDS.items() for name in names]
    with FILE.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for kind in KINDS:
        some = [each for each in rows if each["kind"] == kind]
        worst = {
            way: max(some, key=lambda each: float(each[way])) for way in ("backwards", "forwards", "of the change")
        }
        shown = ", ".join(f"{way} {each[way]} ({each['name']})" for way, each in worst.items())
        print(f"{kind}: {len(some)} architectures, largest gap {shown}")
    again = [each for each in rows if each["in float64"]]
    if again:
        last = max(again, key=lambda each: float(each["in float64"]))
        print(f"{len(again)} over {EXACT:g} of the change; in float64 {last['in float64']} at most ({last['name']})")


if __name__ == "__main__":
    main()
