"""The table: a method is a path, a rule, an integrand, and what is made of the sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, get_args, get_origin

import torch
from jaxtyping import Bool
from torch import Tensor

from pathlens.checks import option_names
from pathlens.engine.options import DIG, IDG, IG, IH, IJ, SECANT, SIG, UDIG, VAIG, Method
from pathlens.explanation.base import Result
from pathlens.explanation.record import Continuation, PairExplanation, VectorExplanation
from pathlens.integrand import Coordinates, Directional, Gradient, Hessian, Integrand, Jacobian, Outputs
from pathlens.integrand.secant import SecantCoordinates, SecantScores, SecantVectors
from pathlens.path.line import line
from pathlens.path.staircase import prefix, token_lines
from pathlens.path.words.options import WordOptions
from pathlens.path.words.route import word_route
from pathlens.text.adapter import Case
from pathlens.types import RULES, Ends, Route

NOT_SPLIT = tuple(rule for rule in RULES if rule != "split")


@dataclass(frozen=True)
class Entry:
    """A line of the table; the functions in it read the method's record."""

    record: type[Method[Any]]
    title: str
    path: Callable[[Any, Ends, Tensor], Route]  # the method, both ends, memberships (U, S) → the way between them
    integrand: Callable[[Any], Integrand]
    paper: str
    instead: type[Result] | None = None  # another result than the one its `Method[R]` names first
    vector: bool = False  # explains a vector output
    sides: int = 1  # 2: each text has a path of its own
    rules: tuple[str, ...] = RULES
    rule: str = "adaptive"
    telescopes: bool = False  # token scores are differences of outputs

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def result(self) -> type[Result]:
        """What `assemble` makes of the sums."""
        bases = (base for each in self.record.__mro__ for base in each.__dict__.get("__orig_bases__", ()))
        (named,) = get_args(next(base for base in bases if get_origin(base) is Method))
        return self.instead or (get_args(named) or (named,))[0]

    @property
    def in_one_pass(self) -> bool:
        """Are the sums exact after one pass back, by secants?"""
        return self.rule == "secant"

    @property
    def integrates(self) -> bool:
        """Along a path, with nodes: neither differences of outputs nor secants."""
        return not (self.telescopes or self.in_one_pass)

    @property
    def along_one_path(self) -> bool:
        """Are token scores integrated along one path of all tokens, the straight line or through words?"""
        return issubclass(self.record, WordOptions) and not self.vector

    @property
    def options(self) -> tuple[str, ...]:
        """Names of its own options, besides everyone's."""
        return option_names(self.record)


def _straight(method: Method[Any], ends: Ends, units: Bool[Tensor, "U S"]) -> Route:
    return line(ends)


def _line_or_words(method: IG | DIG | UDIG | VAIG | IJ, ends: Ends, units: Bool[Tensor, "U S"]) -> Route:
    words = method.through_words
    return line(ends) if words is None else word_route(words, ends, method)


def _sequential(method: SIG, ends: Ends, units: Bool[Tensor, "U S"]) -> Route:
    return token_lines(ends, units) if method.context == "full" else prefix(ends, units)


def _share(method: IG | SIG | DIG | UDIG | IDG | SECANT) -> Integrand:
    if isinstance(method, SECANT) or (isinstance(method, IDG) and method.by == "secant"):
        return SecantCoordinates() if method.coordinates else SecantScores()
    return Coordinates() if method.coordinates else Gradient()


def _secants(method: SECANT) -> Integrand:
    return SecantVectors() if method.gives in ("vectors", "pair") else _share(method)


def _product(method: VAIG | IJ) -> Integrand:
    return Jacobian() if isinstance(method, IJ) and method.coordinates else Directional(method.mode)


_IG = "Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks (ICML 2017)"
_SIG = "Enguehard: Sequential Integrated Gradients (Findings of ACL 2023)"
_DIG = "Sanyal, Ren: Discretized Integrated Gradients for Explaining Language Models (EMNLP 2021)"
_UDIG = "Roy, Kundu: Uniform Discretized Integrated Gradients (2024)"
_IDG = "Sikdar, Bhattacharya, Heese: Integrated Directional Gradients (ACL 2021)"
_IJ = "Moeller, Nikolaev, Padó: An Attribution Method for Siamese Encoders (EMNLP 2023)"
_IH = "Janizek, Sturmfels, Lee: Explaining Explanations: Axiomatic Feature Interactions for Deep Networks (JMLR 2021)"
_SECANT = "ours; after Shrikumar, Greenside, Kundaje: Learning Important Features Through Propagating Activation Differences (ICML 2017)"

# fmt: off
_TABLE: tuple[Entry, ...] = (
    #          title                                       path            integrand
    Entry(IG, "Integrated Gradients",                     _line_or_words, _share, _IG),
    Entry(SIG, "Sequential Integrated Gradients",         _sequential,    _share, _SIG, telescopes=True, rules=NOT_SPLIT),
    Entry(DIG, "Discretized Integrated Gradients",        _line_or_words, _share, _DIG, rules=NOT_SPLIT),
    Entry(UDIG, "Uniform Discretized Integrated Gradients", _line_or_words, _share, _UDIG, rules=NOT_SPLIT),
    Entry(IDG, "Integrated Directional Gradients",        _straight,      _share, _IDG),
    Entry(VAIG, "Vector-output Integrated Gradients",     _line_or_words, _product, _IJ, vector=True),
    Entry(IJ, "Integrated Jacobians",                     _line_or_words, _product, _IJ, vector=True, sides=2),
    Entry(IH, "Integrated Hessians",                      _straight,      lambda _: Hessian(), _IH, rules=("log",), rule="log"),
    Entry(SECANT, "Secants",                              _straight,      _secants, _SECANT, rules=("secant",), rule="secant"),
)
# fmt: on
METHODS: Mapping[str, Entry] = MappingProxyType({entry.name: entry for entry in _TABLE})
ALONG_ONE_PATH = tuple(name for name, entry in METHODS.items() if entry.along_one_path)


def methods() -> dict[str, str]:
    """Name → title of every method."""
    return {name: entry.title for name, entry in METHODS.items()}


def entry_for(method: Method[Any], case: Case | None = None) -> Entry:
    """A method's line; for a continuation, with a number per output token, the integrand and the result for several."""
    entry = METHODS[method.name]
    if isinstance(method, IDG) and method.by == "secant":
        entry = replace(entry, rules=("secant",), rule="secant")
    if isinstance(method, SECANT) and method.gives in ("vectors", "pair"):
        two = method.gives == "pair"
        entry = replace(entry, instead=PairExplanation if two else VectorExplanation, vector=True, sides=1 + two)
    if case is None or entry.vector or not case.outputs:
        return entry
    several = SecantScores(len(case.outputs)) if entry.in_one_pass else Outputs(len(case.outputs))
    return replace(entry, integrand=lambda _: several, instead=Continuation)


def route_of(method: Method[Any], ends: Ends, units: Bool[Tensor, "U S"] | None = None) -> Route:
    """The path of a method between both ends of a text; `units` are single tokens by default."""
    each = torch.eye(len(ends.end), dtype=torch.bool) if units is None else units
    return METHODS[method.name].path(method, ends, each)
