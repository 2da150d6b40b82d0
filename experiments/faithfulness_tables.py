"""What experiments/faithfulness.py found → CSV, Markdown, a page and pictures, and answers to its questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.errors import InputError
from pathlens.metrics.record import Evaluation
from pathlens.metrics.statistics import Estimate

SHOWN = ("log-odds (mask)", "log-odds (pad)", "comprehensiveness", "sufficiency")
QUESTIONS = (
    ("UDIG against IG, same baseline", "udig, {}", "ig, {}"),
    ("DIG against IG, same baseline", "dig, {}", "ig, {}"),
    ("SIG against IG, same baseline", "sig, {}", "ig, {}"),
    ("SIG against leave-one-out by deletion", "sig, {}", "leave-one-out"),
)


def together(parts: list[dict[str, Any]], protocol: str) -> Evaluation:
    return joined([Evaluation.from_dict(part[protocol]) for part in parts])


def write(which: Any, parts: list[dict[str, Any]], out: Path) -> None:
    """Everything of one data set."""
    lines = [f"## {which.title}: n = {sum(part['default']['texts'] for part in parts)}", "", *_about(parts), ""]
    for protocol in ("default", "paper"):
        evaluation = together(parts, protocol)
        name = out / f"{which.name}-{protocol}"
        evaluation.to_csv(f"{name}.csv")
        evaluation.to_html(f"{name}.html")
        evaluation.to_png(f"{name}.png")
        lines += [f"**{protocol} protocol** (k = 20 %)", "", *markdown(evaluation, SHOWN), ""]
        lines += [*differences(evaluation), ""]
        if protocol == "default":
            rest = [c.name for c in evaluation.columns if c.name not in SHOWN]
            lines += [
                "AOPC (mean over k = 10, 20, 30, 50 and 70 %), completeness, infidelity:",
                "",
                *markdown(evaluation, rest),
                "",
            ]
            lines += ["rank agreement of mask and pad per method: " + _named(baseline_sensitivity(evaluation)), ""]
            lines += ["mean rank agreement (Spearman) between rows:", "", *agreement(evaluation), ""]
    text = "\n".join(lines)
    (out / f"{which.name}.md").write_text(text + "\n", encoding="utf-8")
    print(text)


def _about(parts: list[dict[str, Any]]) -> list[str]:
    tokens = [count for part in parts for count in part["tokens"]]
    right = [each for part in parts for each in part["right"]]
    left = sum(len(part["left_out"]) for part in parts)
    seconds, cpu = (sum(part[name] for part in parts) for name in ("seconds", "cpu_seconds"))
    remarks = [f"tokens with special ones: mean {np.mean(tokens):.1f}, longest {max(tokens)}; {left} texts left out; "
            f"{seconds:.0f} s on a busy core ({cpu:.0f} s of processor time)"]  # fmt: skip
    if right:
        remarks.append(f"the model is right on {sum(right)} of {len(right)} ({np.mean(right):.3f})")
    return remarks


def markdown(evaluation: Evaluation, columns: Any) -> list[str]:
    """Rows × metrics with 95 % intervals."""
    arrows = {"lower": " ↓", "higher": " ↑", "": ""}
    heads = [name + arrows[evaluation.column(name).better] for name in columns]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for way in evaluation.contenders:
        cells = [cell(evaluation.estimate(way, name)) for name in columns]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return lines


def cell(value: Estimate, sign: bool = False) -> str:
    if value.n == 0:
        return "·"
    digits = 3 if max(abs(value.value), abs(value.low), abs(value.high)) < 10 else 1
    plus = "+" if sign else ""
    return f"{value.value:{plus}.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"


def differences(evaluation: Evaluation) -> list[str]:
    """Paired differences over the same texts: the questions, in numbers."""
    asked = [
        (f"{title}: {base}", one.format(base), other.format(base))
        for title, one, other in QUESTIONS
        for base in ("mask", "pad")
    ]
    asked += [(f"mask against pad, {m}", f"{m}, mask", f"{m}, pad") for m in ("ig", "dig", "udig", "sig")]
    lines = ["| paired difference | " + " | ".join(SHOWN) + " |", "|---" * (len(SHOWN) + 1) + "|"]
    for title, one, other in asked:
        if one in evaluation.contenders and other in evaluation.contenders:
            cells = [cell(evaluation.difference(one, other, name), sign=True) for name in SHOWN]
            lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return lines


def agreement(evaluation: Evaluation) -> list[str]:
    lines = ["| | " + " | ".join(evaluation.contenders) + " |", "|---" * (len(evaluation.contenders) + 1) + "|"]
    for a, way in enumerate(evaluation.contenders):
        lines.append(f"| {way} | " + " | ".join(f"{value:.2f}" for value in evaluation.agreement[a]) + " |")
    return lines


def steadiness(evaluation: Evaluation, out: Path) -> None:
    """Max-sensitivity, stability, WAE, and rank correlation as layers are drawn anew."""
    lines = [f"## Steadiness, SST-2 test, n = {evaluation.texts}, mask baseline", ""]
    names = [c.name for c in evaluation.columns if c.name in ("WAE", "max-sensitivity", "stability", "gap Δ %, median")]
    lines += [*markdown(evaluation, names), ""]
    if evaluation.randomised is not None:
        stages = evaluation.randomised.stages
        lines += ["Rank correlation with the true model's scores, layers drawn anew from the top down to:", ""]
        lines += ["| | " + " | ".join(stages) + " |", "|---" * (len(stages) + 1) + "|"]
        for w, way in enumerate(evaluation.contenders):
            correlations = evaluation.randomised.values[w]
            if np.isfinite(correlations).any():
                lines.append(f"| {way} | " + " | ".join(f"{v:.2f}" for v in np.nanmean(correlations, axis=1)) + " |")
    text = "\n".join(lines)
    (out / "steadiness.md").write_text(text + "\n", encoding="utf-8")
    print(text)


def joined(parts: Sequence[Evaluation]) -> Evaluation:
    """Evaluations of different texts in the same ways → one; notes that count texts are left to the caller."""
    first = parts[0]
    if any(
        (p.contenders, p.protocol, p.references, [c.name for c in p.columns])
        != (first.contenders, first.protocol, first.references, [c.name for c in first.columns])
        for p in parts
    ):
        raise InputError("only evaluations with the same rows, metrics, protocol and references can be joined")
    weight = np.array([part.texts for part in parts], dtype=float)
    known = np.stack([part.agreement for part in parts])
    shares = weight[:, None, None] * np.isfinite(known)
    total = shares.sum(0)
    agreement = np.where(total > 0, (np.nan_to_num(known) * shares).sum(0) / np.maximum(total, 1e-9), np.nan)
    return replace(
        first,
        columns=tuple(
            replace(column, values=np.concatenate([part.columns[k].values for part in parts], axis=1))
            for k, column in enumerate(first.columns)
        ),
        curves=tuple(
            replace(curve, values=np.concatenate([part.curves[k].values for part in parts], axis=1))
            for k, curve in enumerate(first.curves)
        ),
        agreement=agreement,
        texts=int(weight.sum()),
        randomised=None,
        notes=tuple(note for note in first.notes if all(note in part.notes for part in parts)),
    )


def baseline_sensitivity(evaluation: Evaluation) -> dict[str, float]:
    """Per method, the mean rank agreement of its rows with different baselines: 1 means the baseline does not matter."""
    groups: dict[str, list[int]] = {}
    for number, label in enumerate(evaluation.contenders):
        groups.setdefault(label.split(", ")[0], []).append(number)
    return {
        method: float(np.nanmean([evaluation.agreement[a, b] for a in correlations for b in correlations if a < b]))
        for method, correlations in groups.items()
        if len(correlations) > 1
    }


def _named(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())
