"""Which settings make the path integral of a decoder settle? sink × baseline × score × layer on `smollm`.

Round 1 tries every setting on 4 short prompts with at most 64 nodes. Round 2 takes every setting that is one choice away
from the default (held end-of-text, mean embedding, log-probability, layer 2) to all prompts with at most 128 nodes. Round 3
takes the best of round 1 to all prompts with the usual ceiling of 512; what they settled with 128 nodes or fewer is counted
too, so that both rounds compare. Round 4 takes secants, at the word embeddings, to all prompts: they have no nodes. The score is that of the predicted next token; a result has settled when its certificate says so:
gap and every token's error estimate within 1e-3 of the output's change. Rows are written as they come, and a run that
was stopped goes on where it was.

    python experiments/decoders.py --out out/decoders [--minutes 60] [--best 3] [--rounds 1 2 3 4] [--table]
    python experiments/decoders.py --out experiments/rows/decoders --rounds 4
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pathlens as pl
from experiments.decoder_prompts import PROMPTS, SHORT
from pathlens.text.load import load

END, TURN = "<|endoftext|>", "<|im_start|>"
NODES = {1: 64, 2: 128, 3: 512, 4: 512}  # at most, in each round


@dataclass(frozen=True)
class Setting:
    sink: str | None
    baseline: str
    score: str
    layer: int
    method: str = "ig"

    @property
    def key(self) -> str:
        plain = f"{self.sink or 'none'} | {self.baseline} | {self.score} | {self.layer}"
        return plain if self.method == "ig" else f"{plain} | {self.method}"


def first_round() -> list[Setting]:
    """One choice at a time away from (held end-of-text, mean embedding, log-probability), at the embeddings and deeper."""
    crossed = [
        *((sink, "mean", layer) for sink in (END, TURN, None) for layer in (0, 2)),
        *((END, baseline, layer) for baseline in (END, "zero") for layer in (0, 2)),
        *((None, baseline, 0) for baseline in (END, "zero")),
        *((sink, "mean", 1) for sink in (END, TURN)),
        (END, "mean", 4),
    ]
    plain = [Setting(sink, baseline, "logprob", layer) for sink, baseline, layer in crossed]
    other = [Setting(END, "mean", "logit", layer) for layer in (0, 2, 4)]
    return [*plain, *other, *(Setting(END, "mean", "prob", layer) for layer in (0, 2))]


def one_away() -> list[Setting]:
    """The default with one choice changed, the choices least like it first."""
    return [
        Setting(None, "mean", "logprob", 2),
        Setting(TURN, "mean", "logprob", 2),
        Setting(END, "zero", "logprob", 2),
        Setting(END, END, "logprob", 2),
        Setting(END, "mean", "logprob", 0),
        Setting(END, "mean", "logit", 2),
        Setting(END, "mean", "logprob", 1),
    ]


SECANTS = [Setting(END, baseline, score, 0, "secant") for baseline in ("zero", "mean") for score in ("prob", "logprob")]


class Rows:
    """One line per (round, setting, prompt), written at once."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "rows.jsonl"
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        once = {(row["round"], row["key"], row["text"]): row for row in map(json.loads, lines)}
        self.rows = list(once.values())

    def has(self, round_: int, setting: Setting, text: str) -> bool:
        return any((r["round"], r["key"], r["text"]) == (round_, setting.key, text) for r in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        with self.file.open("a") as stream:
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")

    def of(self, round_: int, setting: Setting) -> list[dict[str, Any]]:
        return [r for r in self.rows if (r["round"], r["key"]) == (round_, setting.key)]


def measure(model: Any, setting: Setting, text: str, round_: int) -> dict[str, Any]:
    started, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = pl.explain(
            model,
            text,
            method=setting.method,
            **({} if setting.sink == model.sink else {"sink": setting.sink}),  # a chat begins with its own
            baseline=setting.baseline,
            score=setting.score,
            layer=setting.layer,
            max_nodes=NODES[round_],
        )
    cert = result.certificate
    change = abs(cert.f_input - cert.f_baseline)
    return {
        "round": round_,
        "key": setting.key,
        **asdict(setting),
        "text": text,
        "tokens": len(result.tokens),
        "target": result.target,
        "change": cert.f_input - cert.f_baseline,
        "gap": cert.gap,
        "relative_gap": cert.relative_gap,
        "relative_error": max(cert.error_estimate) / change if change else 0.0,
        "top": str(result.tokens[int(abs(result.scores).argmax())]),
        "settled": cert.converged,
        "nodes": cert.nodes,
        "cpu": time.process_time() - cpu,
        "seconds": time.perf_counter() - started,
    }


def run(model: Any, rows: Rows, round_: int, settings: Iterable[Setting], texts: list[str], until: float) -> bool:
    """False when the time was up."""
    for setting in settings:
        for text in texts:
            if rows.has(round_, setting, text):
                continue
            if time.monotonic() > until:
                return False
            rows.add(measure(model, setting, text, round_))
    return True


def summary(measured: list[dict[str, Any]]) -> dict[str, Any]:
    middle = lambda name: statistics.median(r[name] for r in measured)  # noqa: E731
    return {
        "prompts": len(measured),
        "settled": sum(r["settled"] for r in measured),
        "early": sum(r["settled"] and r["nodes"] <= NODES[2] for r in measured),
        "nodes": middle("nodes"),
        "cpu": middle("cpu"),
        "gap": middle("relative_gap"),
        "worst": max(r["relative_gap"] for r in measured),
        "error": middle("relative_error"),
    }


def ranked(rows: Rows, round_: int, settings: Iterable[Setting]) -> list[tuple[Setting, dict[str, Any]]]:
    """Most settled first, then the fewest nodes, then the smallest median error."""
    known = [(s, summary(measured)) for s in settings if (measured := rows.of(round_, s))]
    return sorted(
        known, key=lambda each: (-each[1]["settled"] / each[1]["prompts"], each[1]["nodes"], each[1]["error"])
    )


def cell(token: str) -> str:
    return token.replace("|", "\\|")


def table(lines: list[tuple[Setting, dict[str, Any]]]) -> str:
    head = (
        "| held first token | baseline | score | layer | settled | with 128 nodes | nodes, median | CPU s, median | "
        "relative gap, median / worst | largest share's error, median |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    return "\n".join(
        [
            head,
            *(
                f"| {cell(s.sink or 'none')} | {cell(s.baseline)} | {s.score} | {s.layer} | {t['settled']} of {t['prompts']} | {t['early']} | {t['nodes']:.0f} | "
                f"{t['cpu']:.1f} | {t['gap']:.1e} / {t['worst']:.1e} | {t['error']:.1e} |"
                for s, t in lines
            ),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/decoders"))
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--best", type=int, default=3)
    parser.add_argument("--rounds", type=int, nargs="*", default=[1, 2, 3, 4], choices=[1, 2, 3, 4])
    parser.add_argument("--table", action="store_true", help="only write the tables of the rows there are")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    rows = Rows(options.out)
    settings = first_round()
    if not options.table:
        model = load("smollm")
        texts = [text for _, text in PROMPTS]
        plan = {1: (settings, SHORT), 2: (one_away(), texts), 4: (SECANTS, texts)}
        for round_ in options.rounds:
            if round_ == 3:
                plan[3] = ([s for s, _ in ranked(rows, 1, settings)[: options.best]], texts)
            run(model, rows, round_, *plan[round_], until)
    text = "\n\n".join(
        f"Round {number}, {'secants' if number == 4 else f'at most {NODES[number]} nodes'}\n\n{table(lines)}"
        for number in NODES
        if (lines := ranked(rows, number, SECANTS if number == 4 else settings))
    )
    (options.out / "tables.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
