"""The rows of a table, and every text's scores under each: methods with baselines, gradient × input, two controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from pathlens.checks import did_you_mean
from pathlens.engine.explainer import Explainer
from pathlens.engine.methods import METHODS
from pathlens.errors import InputError, PathlensError
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.record import Explanation
from pathlens.metrics.deletion import Question, outputs, places
from pathlens.metrics.record import CONTROLS, LEAVE_ONE_OUT, RANDOM
from pathlens.text.adapter import Case, Request, TextModel

KINDS = ("sequence classification", "question answering", "token classification")
GRADIENT = "gradient-x-input"
SCORED = tuple(name for name, entry in METHODS.items() if entry.result is Explanation)  # a score per token
THROUGH_WORDS = tuple(name for name in SCORED if METHODS[name].record().through_words)
TOGETHER = 16  # texts explained in one go; between them the progress moves
Pair = tuple[Any, Any]
Tick = Callable[[Any], None]


@dataclass(frozen=True)
class Contender:
    """One list of scores for every text. `options` are for this method alone."""

    method: str
    baseline: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def label(self) -> str:
        return self.method if self.baseline is None else f"{self.method}, {self.baseline}"

    @property
    def control(self) -> bool:
        return self.method in CONTROLS

    def explainer(self, model: TextModel, choices: Mapping[str, Any]) -> Explainer:
        """Gradient × input is IG from zero with one node at the text: ∇F(x)·x. The metrics are checks enough."""
        choices = {"check": False, **choices}
        if self.method == GRADIENT:
            kept = {name: value for name, value in choices.items() if name not in ("tolerance", "n_steps", "rule")}
            return Explainer(model, method="ig", baseline="zero", rule="right", n_steps=1, **kept)
        return Explainer(model, method=self.method, baseline=self.baseline, **{**choices, **self.options})


def contenders(
    methods: Sequence[str], baselines: Sequence[str | None], options: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Contender, ...]:
    """The controls first, then every method with every baseline (gradient × input has none)."""
    unknown = [name for name in methods if name not in (*CONTROLS, GRADIENT, *SCORED)]
    if unknown:
        raise InputError(
            f"{', '.join(map(str, unknown))}: not to be evaluated; methods with a score per token are "
            f"{', '.join((GRADIENT, *SCORED))}, and the controls {', '.join(CONTROLS)} are always there"
            f"{did_you_mean(str(unknown[0]), (GRADIENT, *SCORED))}"
        )
    rows = [Contender(name) for name in CONTROLS]
    for method in dict.fromkeys(name for name in methods if name not in CONTROLS):
        starts = (None,) if method == GRADIENT else tuple(dict.fromkeys(baselines)) or (None,)
        rows += [Contender(method, baseline, dict((options or {}).get(method, {}))) for baseline in starts]
    return tuple(rows)


@dataclass(frozen=True, eq=False)
class Scores:
    """One row's scores of one text, and whether they add up (where that is claimed)."""

    values: np.ndarray  # (S,)
    certificate: Certificate | None = None


@dataclass(frozen=True, eq=False)
class ScoredText:
    """One text with its scores under every contender."""

    pair: Pair
    number: int  # in the texts as given
    case: Case  # whose score is the number that is explained
    likelihood: Case  # whose score is the log-probability of the same target
    references: Mapping[str, Tensor]  # name → embedding row of a token that stands for nothing
    scores: tuple[Scores, ...]

    @property
    def table(self) -> np.ndarray:
        """(contenders, S)"""
        return np.stack([each.values for each in self.scores])


def score_texts(
    model: TextModel,
    rows: Sequence[Contender],
    pairs: Sequence[Pair],
    *,
    reference: str | Sequence[str] | None = None,
    seed: int = 0,
    choices: Mapping[str, Any] | None = None,
    tick: Tick | None = None,
) -> tuple[list[ScoredText], dict[int, Exception]]:
    """Every text's scores under every contender. A text that fails under one is left out of all: rows stay paired."""
    choices = dict(choices or {})
    if model.kind not in KINDS:
        raise InputError(
            f"evaluation needs the probability of a class, an answer or a tag; {model.name!r} is {model.plain_kind}"
        )
    request = request_of(model, choices)
    cases: dict[int, tuple[Case, Case]] = {}
    failures: dict[int, Exception] = {}
    columns: list[dict[int, Scores]] = []
    controls: dict[str, Callable[[Sequence[int]], list[Scores]]] = {
        RANDOM: lambda some: [random_scores(cases[n][0], seed, n) for n in some],
        LEAVE_ONE_OUT: lambda some: leave_one_out([cases[n][0] for n in some]),
    }
    with model.quiet():
        for n, pair in enumerate(pairs):
            try:
                likelihood = model.case(*pair, request=replace(request, score="logprob"))
                cases[n] = model.case(*pair, request=request), likelihood
            except PathlensError as error:
                failures[n] = error
        references = _reference_rows(model, pairs[min(cases)], reference, request) if cases else {}
        for contender in rows:
            numbers = [n for n in cases if n not in failures]
            if contender.control:
                results = list(_in_turn(controls[contender.method], numbers, tick))
            else:
                results = explained(contender, model, [pairs[n] for n in numbers], choices, tick)
            failures |= {n: e for n, e in zip(numbers, results, strict=True) if isinstance(e, Exception)}
            columns.append({n: s for n, s in zip(numbers, results, strict=True) if isinstance(s, Scores)})
    good = {n: tuple(column[n] for column in columns) for n in cases if n not in failures}
    texts = [ScoredText(pairs[n], n, *cases[n], references, scores) for n, scores in good.items()]
    if not texts:
        raise InputError(f"no text could be explained; the first error: {next(iter(failures.values()))}")
    return texts, failures


def request_of(model: TextModel, choices: Mapping[str, Any]) -> Request:
    """What these choices ask of the model itself, whatever the method: its output at the word embeddings."""
    return Explainer(model, **choices).of_one_target("evaluate").choices.request()


def explained(
    contender: Contender, model: TextModel, pairs: Sequence[Pair], choices: Mapping[str, Any], tick: Tick | None = None
) -> list[Scores | Exception]:
    """A method's scores of every text; what cannot be explained is its error. `tick` hears of every text done."""
    scores: list[Scores | Exception] = []
    for result in _in_turn(contender.explainer(model, choices).run, pairs, tick):
        if isinstance(result, Explanation):
            sums = None if contender.method == GRADIENT else result.certificate  # one node at the text claims no sum
            scores.append(Scores(np.asarray(result.scores, dtype=float), sums))
        else:
            error = isinstance(result, Exception)
            scores.append(result if error else InputError(f"{result.method} gives no score per token here"))
    return scores


def _in_turn(solve: Callable[[Sequence[Any]], Sequence[Any]], texts: Sequence[Any], tick: Tick | None) -> Iterator[Any]:
    """What `solve` makes of the texts, a few at a time."""
    for start in range(0, len(texts), TOGETHER):
        for result in solve(texts[start : start + TOGETHER]):
            yield result
            if tick is not None:
                tick(result)


def random_scores(case: Case, seed: int, number: int) -> Scores:
    """Uniform noise; the same text of the same run always gets the same."""
    values = np.random.default_rng([seed, number]).uniform(-1, 1, len(case))
    values[list(case.special)] = 0.0
    return Scores(values)


def leave_one_out(cases: Sequence[Case]) -> list[Scores]:
    """F(x) − F(x without token i, re-packed), for every token that may go; 0 for the others."""
    questions = []
    for case in cases:
        every = tuple(range(len(case)))
        questions.append(Question(case, every))
        questions += [Question(case, every[:i] + every[i + 1 :]) for i in deletable(case)]
    values = iter(outputs(questions))
    scores = []
    for case in cases:
        one, whole = np.zeros(len(case)), next(values)
        for i in deletable(case):
            one[i] = whole - next(values)
        scores.append(Scores(one))
    return scores


def deletable(case: Case) -> list[int]:
    """Real tokens whose loss leaves a text and an output."""
    if len(case) == 1:
        return []
    return [i for i, flag in enumerate(case.special) if not flag and i not in places(case)]


def _reference_rows(
    model: TextModel, pair: Pair, reference: str | Sequence[str] | None, request: Request
) -> dict[str, Tensor]:
    """Name → embedding row of the tokens that stand for nothing in log-odds."""
    rows = {}
    for name in [reference] if reference is None or isinstance(reference, str) else reference:
        case = model.case(*pair, request=replace(request, baseline=name))
        rows[case.baseline] = case.ends.start[int((~case.ends.held).nonzero()[0])]
    return rows
