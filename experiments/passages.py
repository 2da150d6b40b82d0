"""Which retrieved passage made the answer? Questions over three made-up passages, the answer in exactly one.

    python experiments/passages.py [--questions 50] [--methods secant sig ig] [--model smollm] [--out experiments/rows/passages]
    python experiments/passages.py --questions 80 --seed 1 --out experiments/rows/passages-fresh --methods secant secant-mean \
        secant-moving secant-moving-mean

Towns and people are invented, so the answer cannot come from anywhere but its passage; the other two passages say the
same sort of thing of other names. The prompt goes through the model's own chat template, the assistant's turn is begun
("They are"), and the target is the right answer's tokens. A question counts when the passage with the answer has the
highest score of the three. The passages alone move, everything else of the prompt is held.

What is asked otherwise is joined to a method's name: `secant-moving` lets all of the prompt move, `secant-mean` starts from the
mean embedding, `ig-contrast` asks why the answer and not what the next passage says in its place, which takes away what all
three passages do alike. One row per question and method goes to rows.jsonl as it is found: a run that was stopped goes on
where it ended. findings.txt has the shares with Wilson's 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pathlens as pl
from pathlens.text.load import load

MEMORY = 2 << 30  # bytes of a batch
SYSTEM = "Use the passages."
COLORS = "red blue green yellow white black orange purple".split()
CROPS = "rice wheat corn beans apples grapes potatoes onions".split()
JOBS = "baker pilot painter doctor farmer teacher lawyer singer".split()
ANIMALS = "lion wolf horse bear fox snake tiger goat".split()
STUFFS = "gold silver iron copper wood glass stone clay".split()
MONTHS = "January March April May June July October December".split()
DRINKS = "tea coffee milk water juice wine beer soup".split()
KINDS = (  # (passage, question, how the answer begins, what it may be)
    ("The towers of {x} are painted {v}.", "What color are the towers of {x}?", "They are", COLORS),
    ("Farmers near {x} mostly grow {v}.", "What do farmers near {x} grow?", "They grow", CROPS),
    ("{x} has worked as a {v} for years.", "What is the job of {x}?", "{x} is a", JOBS),
    ("The flag of {x} shows a {v}.", "Which animal is on the flag of {x}?", "It shows a", ANIMALS),
    ("The old bell of {x} is made of {v}.", "What is the bell of {x} made of?", "It is made of", STUFFS),
    ("The festival of {x} is held in {v}.", "When is the festival of {x}?", "It is held in", MONTHS),
    ("People in {x} drink {v} at dawn.", "What do people in {x} drink at dawn?", "They drink", DRINKS),
)
STARTS = "Vel Tar Os Mir Kal Zen Bro Lun Fen Dra Pol Nar".split()
ENDS = "mora kin dell vash ton rik lund pesh gar bury sole nik".split()


@dataclass(frozen=True)
class Question:
    """Three passages, one of which has the answer."""

    passages: tuple[str, str, str]
    question: str
    stem: str
    answer: str
    at: int  # which passage has it
    other: str = ""  # what the next passage says in its place

    def chat(self, rest: str = "held") -> Any:
        user = "\n\n".join([*self.passages, self.question])
        messages = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": user},
            {"role": "assistant", "content": self.stem},
        ]
        return pl.chat(messages, passages=self.passages, rest=rest)


def questions(count: int, seed: int) -> list[Question]:
    """The same ones for the same seed; the answer is in each place equally often."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        passage, question, stem, values = KINDS[number % len(KINDS)]
        names = [a + b for a, b in zip(draw.sample(STARTS, 3), draw.sample(ENDS, 3), strict=True)]
        drawn_values = draw.sample(values, 3)
        at = number % 3
        texts = tuple(passage.format(x=x, v=v) for x, v in zip(names, drawn_values, strict=True))
        made.append(
            Question(
                texts,
                question.format(x=names[at]),
                stem.format(x=names[at]),
                " " + drawn_values[at],
                at,
                " " + drawn_values[(at + 1) % 3],
            )
        )
    return made


def measure(model: Any, number: int, asked: Question, method: str, choices: dict[str, Any]) -> dict[str, Any]:
    started = time.process_time()
    name, *how = method.split("-")
    choices = choices | ({"contrast": asked.other} if "contrast" in how else {})
    choices |= {"baseline": "mean"} if "mean" in how else {}
    prompt = asked.chat(rest="moving" if "moving" in how else "held")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unsettled ones are counted in the row
        result = pl.explain(model, prompt, method=name, unit="passage", target=asked.answer, **choices)
    scores = dict(zip(result.tokens, map(float, result.scores), strict=True))
    three = [scores[f"passage {k}"] for k in (1, 2, 3)]
    certificate = result.certificate
    return {
        "number": number,
        "method": method,
        "layer": result.meta["layer"],
        "baseline": result.meta["baseline"],
        "answer": asked.answer,
        "at": asked.at,
        "most": int(np.argmax(three)),
        "found": int(np.argmax(three)) == asked.at,
        "scores": scores,
        "f_input": certificate.f_input,
        "f_baseline": certificate.f_baseline,
        "total": certificate.total,
        "gap": certificate.gap,
        "relative_gap": certificate.relative_gap,
        "largest_error": max(certificate.error_estimate, default=0.0),
        "converged": certificate.converged,
        "nodes": certificate.nodes,
        "passes": certificate.passes,
        "seconds": round(time.process_time() - started, 2),  # of the processor
    }


def own_answer(model: Any, asked: Question) -> dict[str, Any]:
    """What the model itself says next, and the length of the prompt."""
    ids = model.tokenizer(asked.chat().prompt(model.tokenizer).text, return_tensors="pt")
    count = ids["input_ids"].shape[1]
    written = model.module.generate(**ids, max_new_tokens=len(asked.answer.split()), do_sample=False)
    return {"said": model.tokenizer.decode(written[0, count:]), "tokens": count}


def wilson(hits: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval for a share."""
    if count == 0:
        return math.nan, math.nan
    share, spread = hits / count, z * z / count
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    return middle - half, middle + half


def summary(rows: list[dict[str, Any]]) -> str:
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        right = [row for row in mine if row["right"]]
        settled = [row for row in mine if row["converged"]]
        lines.append(f"{method} (layer {mine[0]['layer']}, baseline {mine[0]['baseline']}), {len(mine)} questions")
        for name, group in (("all", mine), ("settled", settled), ("the model's own next word is the answer", right)):
            hits = sum(row["found"] for row in group)
            low, high = wilson(hits, len(group))
            share = hits / len(group) if group else math.nan
            lines.append(
                f"  passage with the answer carries the most, {name}: {hits} of {len(group)} = {share:.2f}, "
                f"95 % interval {low:.2f} to {high:.2f}"
            )
        gaps = [row["relative_gap"] for row in mine]
        lines.append(
            f"  relative gap median {np.median(gaps):.1e}, worst {max(gaps):.1e}; settled {len(settled)} of {len(mine)}; "
            f"nodes median {np.median([row['nodes'] for row in mine]):.0f}, CPU seconds median "
            f"{np.median([row['seconds'] for row in mine]):.1f}; prompt {min(row['tokens'] for row in mine)} to "
            f"{max(row['tokens'] for row in mine)} tokens"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm")
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--methods", nargs="+", default=["secant", "sig", "ig"])
    parser.add_argument(
        "--layer", type=int, help="of integrals (default: the model's own); sig takes words away, at layer 0"
    )
    parser.add_argument("--score", default="logprob", choices=("logprob", "logit", "prob"))
    parser.add_argument("--max-nodes", type=int, default=512)
    parser.add_argument("--tolerance", type=float, default=1e-2, help="passages are told apart long before 1e-3")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this long; a later run goes on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("experiments/rows/passages"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "rows.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    seen = {(row["method"], row["number"]): row for row in rows}
    by_number = {row["number"]: row for row in rows}
    model, asked = load(given.model), questions(given.questions, given.seed)
    choices: dict[str, Any] = {
        "score": given.score,
        "max_nodes": given.max_nodes,
        "tolerance": given.tolerance,
        "memory_budget": MEMORY,
    }

    def at(method: str) -> dict[str, Any]:
        layer = 0 if method == "sig" else given.layer
        return {} if layer is None else {"layer": layer}

    started = time.monotonic()
    with file.open("a", encoding="utf-8") as stream:
        for method in given.methods:
            for number, question in enumerate(asked):
                if (method, number) in seen or time.monotonic() - started > 60 * given.minutes:
                    continue
                known = by_number.get(number) or own_answer(model, question)
                reply = {"said": known["said"], "tokens": known["tokens"]}
                row = {**measure(model, number, question, method, choices | at(method)), **reply}
                row["right"] = row["said"].strip() == question.answer.strip()
                by_number[number] = row
                rows.append(row)
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
                stream.flush()
    findings = summary(rows)
    (given.out / "findings.txt").write_text(findings + "\n", encoding="utf-8")
    print(findings)


if __name__ == "__main__":
    main()
