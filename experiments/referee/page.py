"""docs/referee.md's tables from the rows: what stands between the marks is written by `python -m experiments.referee tables`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.referee import judge
from experiments.referee.exams import EXAMS
from experiments.referee.own import JUDGE
from experiments.referee.record import Answer, Item, answers_of, words_of
from pathlens.metrics.statistics import Estimate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "referee.md"
OURS = "secant, mask"  # the row the others are compared with
NEGATIONS = {"not", "n't", "no", "never", "nothing", "hardly", "neither", "nor", "without", "nobody", "none", "barely"}
CONTRASTS = {"but", "however", "although", "though", "yet", "despite", "while", "still", "instead", "rather"}
Answers = Mapping[str, Mapping[int, Answer]]
Columns = Callable[[Sequence[Item], Mapping[int, Answer]], Mapping[str, judge.Column]]


def line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [line(head), "|---" * len(head) + "|", *map(line, rows)]


def shown(figure: Estimate, sign: bool = False) -> str:
    mark = "**" if sign and (figure.low > 0 or figure.high < 0) else ""
    form = "+.3f" if sign else ".3f"
    return f"{mark}{figure.value:{form}}{mark} [{figure.low:{form}}, {figure.high:{form}}]"


def cost(answers: Mapping[int, Answer]) -> list[str]:
    gaps = [a.gap for a in answers.values() if a.gap is not None]
    return [
        f"{np.median(gaps):.0e}, worst {max(gaps):.0e}" if gaps else "no claim",
        f"{np.mean([a.cpu for a in answers.values()]):.2f}",
        f"{np.mean([a.passes for a in answers.values()]):.0f}",
    ]


def exam_table(
    items: Sequence[Item], rows: Answers, columns: Columns, first: Sequence[Sequence[str]] = ()
) -> list[str]:
    """A contender a line, best first: its figures, the paired difference from ours, does it add up, what it costs."""
    numbers = {item.number for item in items}
    whole = {
        name: columns(items, given_answers) for name, given_answers in rows.items() if numbers <= set(given_answers)
    }
    if not whole:
        return ["Not run yet."]
    names = list(dict.fromkeys(key for each in whole.values() for key in each))
    main = names[0]
    order = sorted(whole, key=lambda name: -judge.mean(whole[name][main]).value)
    lines = []
    for name in order:
        scores = whole[name]
        figures = [shown(judge.mean(scores[key])) if key in scores else "·" for key in names]
        against = (
            "·" if name == OURS or OURS not in whole else shown(judge.difference(scores[main], whole[OURS][main]), True)
        )
        lines.append([name, *figures, against, *cost(rows[name])])

    head = ["", *names, f"{main}, difference from {OURS}", "adds up (relative gap)", "CPU s", "passes"]
    return table(head, [*first, *lines])


def rationales(items: Sequence[Item], rows: Answers) -> list[str]:
    people = judge.people_columns(items)
    human = [
        "people among themselves",
        shown(judge.mean(people["AUC"])),
        shown(judge.mean(people["F1"])),
        "·",
        "·",
        "·",
        "·",
    ]
    asked = [item for item in items if item.gold["marks"]]
    right = [item for item in asked if item.gold["right"]]
    lines = [
        f"{len(asked)} of {len(items)} sentences (the others have nobody who gave the model's answer and marked some, not "
        f"all, of the words), {sum(len(item.gold['marks']) for item in asked)} markings; the model agrees with the "
        f"treebank on {len(right)} of the {len(asked)}.",
        "",
    ]
    return lines + exam_table(asked, rows, judge.rationale_columns, [human])


def planted(items: Sequence[Item], rows: Answers) -> list[str]:
    shares = sorted({(item.gold["seed"], item.gold["accuracy"]) for item in items})
    percentages = ", ".join(f"{100 * share:.1f} %" for _, share in shares)
    return [
        f"{len(items)} texts; the models are right on {percentages} of the held-out ones.",
        "",
        *exam_table(items, rows, judge.planted_columns),
    ]


def plain_words(text: str) -> list[str]:
    return [re.sub(r"^\W+|\W+$", "", text[a:b]).lower() for a, b in words_of(text)]


def disagreement(items: Sequence[Item], rows: Answers) -> list[str]:
    """How often two methods name another strongest word; what those texts have in common; who is right there."""
    judged = answers_of("sst2", JUDGE.name)
    numbers = [item.number for item in items]
    if not set(numbers) <= set(judged):
        return ["Not run yet."]
    whole = {
        name: given_answers
        for name, given_answers in rows.items()
        if set(numbers) <= set(given_answers) and name != "random"
    }
    top = {
        name: np.array([int(given_answers[n].scores.argmax()) for n in numbers])
        for name, given_answers in whole.items()
    }
    names = list(top)
    lines = ["How often two of them name another strongest word, %:", ""]
    lines += table(
        ["", *names],
        [[a, *(f"{100 * (top[a] != top[b]).mean():.0f}" if a != b else "·" for b in names)] for a in names],
    )
    lost = {name: np.array([judged[n].scores[k] for n, k in zip(numbers, top[name], strict=True)]) for name in names}
    best = np.array([judged[n].scores.max() for n in numbers])
    split = np.array([len({int(top[name][k]) for name in names}) > 1 for k in range(len(numbers))])
    tokens = [plain_words(item.text) for item in items]
    traits = {
        "words": np.array([len(words) for words in tokens], dtype=float),
        "with a negation": np.array(
            [bool(NEGATIONS & set(words)) or any(w.endswith("n't") for w in words) for words in tokens], float
        ),
        "with a word of contrast": np.array([bool(CONTRASTS & set(words)) for words in tokens], float),
    }
    lines += [
        "",
        f"On {split.sum()} of {len(numbers)} texts they do not all name the same word. What those have in common:",
        "",
    ]
    lines += table(
        ["", "all agree", "some disagree"],
        [[name, f"{values[~split].mean():.2f}", f"{values[split].mean():.2f}"] for name, values in traits.items()],
    )
    lines += [
        "",
        "Who is right there: the probability of the model's answer that deleting the named word takes away, mean over those texts:",
        "",
    ]
    from pathlens.metrics.statistics import estimate

    order = sorted(names, key=lambda name: -lost[name][split].mean())
    rows_out = []
    for name in order:
        other = estimate((lost[name] - lost[OURS])[split]) if OURS in lost and name != OURS else None
        rows_out.append([name, shown(estimate(lost[name][split])), shown(other, True) if other else "·"])
    rows_out.append(["the word whose deletion takes most", shown(estimate(best[split])), "·"])
    return lines + table(["", "lost", f"difference from {OURS}"], rows_out)


def write(data: Path, contenders: Sequence[str]) -> None:
    page = PAGE.read_text("utf-8")
    for exam in EXAMS:
        rows = {name: answers_of(exam.name, name) for name in contenders}
        rows = {name: given_answers for name, given_answers in rows.items() if given_answers}
        items = exam.items(data) if rows else []
        make = {"rationales": rationales, "sst2": disagreement}.get(exam.name, planted)
        lines = make(items, rows) if rows else ["Not run yet."]
        mark = re.compile(rf"(<!-- {exam.name} -->\n).*?(<!-- end -->)", re.S)
        if not mark.search(page):
            raise SystemExit(f"{PAGE.name} has no place for {exam.name}")
        page = mark.sub(lambda m, lines=lines: m[1] + "\n".join(lines) + "\n" + m[2], page)
    PAGE.write_text(page, encoding="utf-8")
