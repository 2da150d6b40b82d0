"""The rows of a table: a method with a baseline, gradient × input, and two controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pathlens.errors import InputError
from pathlens.explanation.record import Explanation
from pathlens.metrics.variants import Question, Variant, outputs, places
from pathlens.text.adapter import Case, TextModel
from pathlens.types import Certificate

RANDOM, LEAVE_ONE_OUT, GRADIENT = "random", "leave-one-out", "gradient-x-input"
CONTROLS = (RANDOM, LEAVE_ONE_OUT)
SCORED = ("ig", "sig", "dig", "udig")  # methods that give one score per token
THROUGH_WORDS = ("dig", "udig")
TOGETHER = 16  # texts explained in one go; between them the progress moves
Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Way:
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

    def explainer(self, model: TextModel, choices: Mapping[str, Any]) -> Any:
        """An `Explainer` for this row. Gradient × input is IG from zero with one node at the text: ∇F(x)·x."""
        from pathlens.engine.explainer import Explainer

        if self.method == GRADIENT:
            kept = {name: value for name, value in choices.items() if name not in ("tolerance", "n_steps", "rule")}
            return Explainer(model, method="ig", baseline="zero", rule="right", n_steps=1, **kept)
        return Explainer(model, method=self.method, baseline=self.baseline, **{**choices, **self.options})


def ways(
    methods: Sequence[str], baselines: Sequence[str | None], options: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Way, ...]:
    """The controls first, then every method with every baseline (gradient × input has none)."""
    known = (*CONTROLS, GRADIENT, *SCORED)
    unknown = [name for name in methods if name not in known]
    if unknown:
        raise InputError(
            f"{', '.join(map(str, unknown))}: not to be evaluated; methods with a score per token are "
            f"{', '.join((GRADIENT, *SCORED))}, and the controls {', '.join(CONTROLS)} are always there"
        )
    found = [Way(name) for name in CONTROLS]
    for method in dict.fromkeys(name for name in methods if name not in CONTROLS):
        own = dict((options or {}).get(method, {}))
        each = (None,) if method == GRADIENT else tuple(dict.fromkeys(baselines)) or (None,)
        found += [Way(method, baseline, own) for baseline in each]
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Scores:
    """One row's scores of one text, and whether they add up (where that is claimed)."""

    values: np.ndarray  # (S,)
    certificate: Certificate | None = None


def explained(
    way: Way,
    model: TextModel,
    pairs: Sequence[Pair],
    choices: Mapping[str, Any],
    tick: Callable[[Any], None] | None = None,
) -> list[Scores | Exception]:
    """A method's scores of every text; what cannot be explained is its error. `tick` hears of every text done."""
    explainer = way.explainer(model, choices)
    found: list[Scores | Exception] = []
    for start in range(0, len(pairs), TOGETHER):
        results = explainer.run(pairs[start : start + TOGETHER])
        found += [each if isinstance(each, Exception) else _checked(each, way) for each in results]
        for each in results if tick is not None else ():
            tick(each)
    return found


def _checked(result: Any, way: Way) -> Scores | Exception:
    if not isinstance(result, Explanation):
        return InputError(f"{result.method} gives no score per token here")
    sums = None if way.method == GRADIENT else result.certificate  # one node at the text claims no sum
    return Scores(np.asarray(result.scores, dtype=float), sums)


def random_scores(case: Case, seed: int, number: int) -> Scores:
    """Uniform noise; the same text of the same run always gets the same."""
    values = np.random.default_rng([seed, number]).uniform(-1, 1, len(case))
    values[list(case.special)] = 0.0
    return Scores(values)


def leave_one_out(cases: Sequence[Case]) -> list[Scores]:
    """F(x) − F(x without token i, re-packed), for every token that may go; 0 for the others."""
    questions, owners = [], []
    for number, case in enumerate(cases):
        every = tuple(range(len(case)))
        questions.append(Question(case, Variant(every)))
        owners.append((number, -1))
        for i in deletable(case):
            questions.append(Question(case, Variant(every[:i] + every[i + 1 :])))
            owners.append((number, i))
    values = outputs(questions)
    found = [np.zeros(len(case)) for case in cases]
    whole = 0.0
    for (number, i), value in zip(owners, values, strict=True):
        if i < 0:
            whole = value
        else:
            found[number][i] = whole - value
    return [Scores(each) for each in found]


def deletable(case: Case) -> list[int]:
    """Real tokens whose loss leaves a text and an output."""
    if len(case) == 1:
        return []
    return [i for i, flag in enumerate(case.special) if not flag and i not in places(case)]
