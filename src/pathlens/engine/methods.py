"""The table: a method is a path, a rule, an integrand, and what is made of the sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from pathlens.errors import InputError
from pathlens.integrand import Coordinates, Directional, Gradient, Hessian, Integrand, Jacobian, Outputs
from pathlens.path.line import line
from pathlens.path.staircase import prefix
from pathlens.path.token_lines import moving_units, token_lines
from pathlens.path.words.options import PATH_OPTIONS, SEARCHES, WORD_OPTIONS, chosen_way, through_words
from pathlens.text.adapter import Case
from pathlens.types import Ends, Route
from pathlens.units.groups import Units

RULES = ("adaptive", "gauss", "midpoint", "trapezoid", "left", "right", "split")
ALONG_WORDS = RULES[:-1]  # split-step moves units one at a time: a path of its own


@dataclass(frozen=True)
class Settings:
    """How exactly to integrate; names as in `pl.explain`."""

    tolerance: float = 1e-3
    n_steps: int | None = None
    rule: str | None = None
    ceiling: int = 512
    options: Mapping[str, Any] = field(default_factory=dict)


PathMaker = Callable[[Ends, Tensor, Mapping[str, Any]], Route]


@dataclass(frozen=True)
class Method:
    """A line of the table."""

    name: str
    title: str
    path: PathMaker
    integrand: Callable[[Mapping[str, Any]], Integrand]
    finish: str  # the name of a function in `finish`
    paper: str
    vector: bool = False  # explains a vector output
    sides: int = 1  # 2: each text has a path of its own
    rules: tuple[str, ...] = RULES
    rule: str = "adaptive"
    options: tuple[str, ...] = ()  # options of its own, besides everyone's
    telescopes: bool = False  # token scores are differences of outputs
    by_output: bool = False  # gives a continuation's output tokens one by one, not only their sum

    def through_words(self, options: Mapping[str, Any]) -> str | None:
        """`"dig"` or `"udig"` where the path goes through words, else None."""
        chosen = options.get("path") if "path" in self.options else self.name
        return chosen if isinstance(chosen, str) and chosen in SEARCHES else None


def _line(ends: Ends, units: Tensor, options: Mapping[str, Any]) -> Route:
    return line(ends)


def _sequential(ends: Ends, units: Tensor, options: Mapping[str, Any]) -> Route:
    context = options.get("context", "full")
    if context not in ("full", "prefix"):
        raise InputError(f'context must be "full" (the paper) or "prefix" (left to right), got {context!r}')
    return token_lines(ends, units) if context == "full" else prefix(ends, units)


def _share(options: Mapping[str, Any]) -> Integrand:
    return Coordinates() if options.get("coordinates") else Gradient()


def chosen_mode(options: Mapping[str, Any]) -> str:
    mode = options.get("mode", "auto")
    if mode not in ("auto", "forward", "reverse"):
        raise InputError(f'mode must be "auto" (whichever takes fewer products), "forward" or "reverse", got {mode!r}')
    return mode


def _product(options: Mapping[str, Any]) -> Integrand:
    return Jacobian() if options.get("coordinates") else Directional(chosen_mode(options))


def _straight(ends: Ends, units: Tensor, options: Mapping[str, Any]) -> Route:
    if options.get("path") not in (None, "line"):
        raise InputError(
            f"path={options['path']!r}: Integrated Hessians exist on the straight line only (path='line'). On a bent path the "
            "double integral is not a single one, and summed over legs the interactions vanish as legs are added"
        )
    return line(ends)


def _curvature(options: Mapping[str, Any]) -> Integrand:
    return Hessian()


_IG = "Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks (ICML 2017)"
_SIG = "Enguehard: Sequential Integrated Gradients (Findings of ACL 2023)"
_DIG = "Sanyal, Ren: Discretized Integrated Gradients for Explaining Language Models (EMNLP 2021)"
_UDIG = "Roy, Kundu: Uniform Discretized Integrated Gradients (2024)"
_IDG = "Sikdar, Bhattacharya, Heese: Integrated Directional Gradients (ACL 2021)"
_IJ = "Moeller, Nikolaev, Padó: An Attribution Method for Siamese Encoders (EMNLP 2023)"
_IH = "Janizek, Sturmfels, Lee: Explaining Explanations: Axiomatic Feature Interactions for Deep Networks (JMLR 2021)"

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method(
                "ig",
                "Integrated Gradients",
                chosen_way,
                _share,
                "tokens",
                _IG,
                options=("coordinates", *PATH_OPTIONS),
                by_output=True,
            ),
            Method(
                "sig",
                "Sequential Integrated Gradients",
                _sequential,
                _share,
                "tokens",
                _SIG,
                options=("context", "coordinates"),
                rules=tuple(rule for rule in RULES if rule != "split"),  # that is a path of its own
                telescopes=True,
                by_output=True,
            ),
            Method(
                "dig",
                "Discretized Integrated Gradients",
                through_words("dig"),
                _share,
                "tokens",
                _DIG,
                rules=ALONG_WORDS,
                options=("coordinates", *WORD_OPTIONS),
                by_output=True,
            ),
            Method(
                "udig",
                "Uniform Discretized Integrated Gradients",
                through_words("udig"),
                _share,
                "tokens",
                _UDIG,
                rules=ALONG_WORDS,
                options=("coordinates", *WORD_OPTIONS),
                by_output=True,
            ),
            Method(
                "idg",
                "Integrated Directional Gradients",
                _line,
                _share,
                "phrases",
                _IDG,
                options=("tree", "coordinates"),
            ),
            Method(
                "vaig",
                "Vector-output Integrated Gradients",
                chosen_way,
                _product,
                "vectors",
                _IJ,
                vector=True,
                options=("block", "hold", "mode", "norm", *PATH_OPTIONS),
            ),
            Method(
                "ij",
                "Integrated Jacobians",
                chosen_way,
                _product,
                "pair",
                _IJ,
                vector=True,
                sides=2,
                options=("similarity", "norm", "mode", "coordinates", *PATH_OPTIONS),
            ),
            Method(
                "ih",
                "Integrated Hessians",
                _straight,
                _curvature,
                "interactions",
                _IH,
                rules=("log",),
                rule="log",
                options=("interaction_index", "pairs", "path"),
            ),
        )
    }
)


def methods() -> dict[str, str]:
    """Name → title of every method."""
    return {name: method.title for name, method in METHODS.items()}


def find_method(name: Any) -> Method:
    if name not in METHODS:
        raise InputError(f"method={name!r} is not known; methods: {', '.join(METHODS)}")
    return METHODS[name]


def for_case(method: Method, case: Case) -> Method:
    """A continuation has a number per output token: the same path and rule, an integrand and a finish for several."""
    if method.vector or not case.outputs:
        return method
    many = lambda options: Outputs(len(case.outputs), chosen_mode(options))  # noqa: E731
    return replace(method, integrand=many, finish="continuation")


def moving_of(case: Case, units: Units) -> tuple[Tensor, Tensor]:
    """Members (U', S) of the units that move at all, and their indices: nothing is spent on the others."""
    members = torch.as_tensor(units.members, device=case.ends.end.device)
    moving = moving_units(case.ends, members)
    moving = moving.sort().values
    return members[moving], moving
