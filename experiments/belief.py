"""How often does the model do what the scores predict? The check of belief on SST-2, and what its answer is worth.

For every text and method: the check (the strongest three units at the baseline together: predicted and actual change), and,
from SIG's scores, which are leave-one-out, how far each score is from what leaving that one word out does. If the check says
something, scores are further off where it disagrees.

    python experiments/belief.py run [--texts 400] [--data FOLDER]     rows, one by one; may be stopped and goes on
    python experiments/belief.py table                                   the table of docs/adding-up.md, from the rows

Rows: experiments/rows/belief.csv.
"""

from __future__ import annotations

import argparse
import csv
import re
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ROWS = HERE / "rows" / "belief.csv"
PAGE = HERE.parent / "docs" / "adding-up.md"
METHODS = ("sig", "secant", "ig", "udig")
TEXTS = 400
BATCH = 20
COLUMNS = (
    "text",
    "method",
    "units",
    "predicted",
    "actual",
    "allowed",
    "weight",
    "agrees",
    "settled",
    "apart",
    "correlation",
)


def texts(data: Path, count: int) -> list[str]:
    """The first of SST-2's dev split, in the file's order; the file has no quoting."""
    lines = (data / "sst2-sentences" / "dev.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n")[1:]
    return [line.split("\t")[0] for line in lines[:count]]


def run(data: Path, count: int, methods: tuple[str, ...]) -> None:
    import pathlens as pl
    from pathlens.text.load import load

    model, wanted = load("sentiment"), texts(data, count)
    rows = known()
    explainers = {method: pl.Explainer(model, method=method) for method in methods}
    todo = [n for n in range(len(wanted)) if any((n, method) not in rows for method in methods)]
    for start in range(0, len(todo), BATCH):
        some = todo[start : start + BATCH]
        results = {method: explainer([wanted[n] for n in some]) for method, explainer in explainers.items()}
        for place, number in enumerate(some):
            alone = results["sig"][place].scores
            rows |= {(number, method): row_of(number, each[place], alone) for method, each in results.items()}
        keep(rows)


def row_of(number: int, result, alone: np.ndarray) -> dict[str, object]:
    """`apart`: Σ|score − leave-one-out| over Σ|leave-one-out| of the real tokens; `correlation`: of the two."""
    from pathlens.metrics.statistics import spearman

    check, real = result.check, ~np.array(result.special)
    scores, alone = result.scores[real], alone[real]
    apart = float(np.abs(scores - alone).sum() / max(np.abs(alone).sum(), 1e-12))
    return {
        "text": number, "method": result.method, "units": len(check.units), "predicted": f"{check.predicted:.4f}",
        "actual": f"{check.actual:.4f}", "allowed": f"{check.allowed:.4f}",
        "weight": f"{np.sort(np.abs(scores))[-len(check.units) :].sum() if check.units else 0:.4f}",
        "agrees": int(check.agrees) if check.applies else "", "settled": int(result.settled), "apart": f"{apart:.3f}",
        "correlation": f"{spearman(scores, alone):.3f}",
    }  # fmt: skip


def known() -> dict[tuple[int, str], dict[str, object]]:
    if not ROWS.exists():
        return {}
    with ROWS.open(encoding="utf-8", newline="") as stream:
        return {(int(row["text"]), row["method"]): dict(row) for row in csv.DictReader(stream)}


def keep(rows: dict[tuple[int, str], dict[str, object]]) -> None:
    with ROWS.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows, key=lambda key: (METHODS.index(key[1]), key[0])))


def table(rows: dict[tuple[int, str], dict[str, object]]) -> str:
    """One line per method: how often it disagrees, and how far scores are from leave-one-out on either side."""
    lines = [
        "| method | texts checked | disagrees | with the opposite sign | \\|predicted − actual\\| / larger, median | "
        "scores apart from leave-one-out, where it agrees / disagrees | rank correlation with leave-one-out, agrees / disagrees |",
        "|---|---|---|---|---|---|---|",
    ]
    for method in METHODS:
        every = [row for (_, name), row in rows.items() if name == method and row["agrees"] not in ("", None)]
        if not every:
            continue
        predicted, actual, apart, order = (
            np.array([float(str(row[name])) for row in every])
            for name in ("predicted", "actual", "apart", "correlation")
        )
        agrees = np.array([int(str(row["agrees"])) for row in every], dtype=bool)
        larger = np.maximum(np.maximum(np.abs(predicted), np.abs(actual)), 1e-9)
        both = (
            "by definition 0"
            if method == "sig"
            else " / ".join(f"{np.median(apart[k]):.2f}" for k in (agrees, ~agrees))
        )
        rho = (
            "by definition 1"
            if method == "sig"
            else " / ".join(f"{np.nanmedian(order[k]):.2f}" for k in (agrees, ~agrees))
        )
        lines.append(
            f"| `{method}` | {len(every)} | {(~agrees).sum()} ({(~agrees).mean():.0%}) | "
            f"{((predicted * actual < 0) & ~agrees).sum()} | {np.median(np.abs(predicted - actual) / larger):.2f} | {both} | {rho} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--methods", nargs="+", default=["sig", "secant", "ig"], choices=METHODS)
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    asked = parser.parse_args()
    if asked.what == "run":
        run(asked.data, asked.texts, tuple(dict.fromkeys(["sig", *asked.methods])))  # the measure of the others
    made = table(known())
    print(made)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        re.sub(
            r"(<!-- belief -->\n).*?(<!-- /belief -->)", lambda m: f"{m[1]}\n{made}\n\n{m[2]}", page, flags=re.DOTALL
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
