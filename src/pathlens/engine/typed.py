"""What `pl.explain` takes by name, as an editor and a type checker see it.

The records of options say the same to everyone else, with help, defaults and checks; a test holds both together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from torch import Tensor

from pathlens.checks import Option, options_of
from pathlens.engine.options import EVERYONES, RECORDS, Method
from pathlens.text.chat import Chat, Prompt
from pathlens.text.options import LoadOptions, kinds_of_options

if TYPE_CHECKING:  # for the signatures alone
    from pathlens.text.dual import DualEncoder
    from pathlens.text.sentence import SentenceEncoder

    Encoder = SentenceEncoder | DualEncoder | Literal["minilm", "minilm-exact"]

One = str | Chat | Prompt | Tensor | Mapping[str, Any] | list[dict[str, Any]]  # one text, one chat, one row
Many = list[str] | tuple[str, ...] | list[Chat] | Iterator[str]  # arrays and columns may be either: no type says which
ByScore = Literal["ig", "sig", "dig", "udig"]  # methods that give `Scores`; a checker cannot read their records
Several = Literal["all"] | list[Any]  # targets of one text: a result for each
NoVectors = Literal["auto", "scores"]  # what `gives` says where a number is explained, if no block is named


class SharedOptions(TypedDict, total=False):
    """How exactly, from where, and with which model: what every verb that explains takes by name."""

    baseline: Any
    layer: int | None
    softplus: float | None
    check: bool
    tolerance: float
    n_steps: int | None
    rule: str | None
    max_nodes: int
    internal_batch_size: int | None
    memory_budget: int | None
    pooling: str | None
    dtype: Any
    device_map: Any
    device: Any


class PathByName(TypedDict, total=False):
    """Which way through words."""

    path: str | None
    steps: int | None
    neighbours: int | None
    factor: int | None
    strategy: str | None
    preset: str | None
    cache: Any
    wae: bool


class PlainOptions(SharedOptions, PathByName, total=False):
    """Everyone's options, then those of methods and of model kinds, but the target and what else the result's type hangs on."""

    unit: Any
    score: str | None
    truncation: bool
    # of methods
    coordinates: bool
    context: str
    by: str
    tree: Any
    norm: str
    mode: str
    hold: str | Sequence[str] | None
    similarity: str | None
    interaction_index: Any
    pairs: Any
    # of model kinds
    contrast: str | int | None
    generate: int | None
    sink: str | bool | None
    hypothesis: str | None
    candidate_labels: str | Sequence[str] | None
    multi_label: bool | None
    prompt: str | None
    prompt_name: str | None
    features: Sequence[str] | None


class OtherOptions(PlainOptions, total=False):
    """All but the target; see `pl.explain`."""

    block: str | None
    gives: str


class Options(OtherOptions, total=False):
    """What is given by name where one target is meant, or any."""

    target: Any


class VectorOptions(SharedOptions, PathByName, total=False):
    """What verbs on the vectors of texts take by name: their similarity is what is explained."""

    method: str | Method[Any] | None
    unit: Any
    truncation: bool
    norm: str
    mode: str
    similarity: str | None
    prompt: Any  # of both sides, or a tuple with one for each
    prompt_name: Any


class SourceOptions(SharedOptions, total=False):
    """What `pl.answer` takes by name besides its own: what is explained, and in which units, it says itself."""

    sink: str | bool | None


class StudyOptions(Options, total=False):
    """What studies take by name where the method is one more choice."""

    method: str | Method[Any] | None


def options_by_name() -> dict[str, Option]:
    """Whatever may be given by name, each once: everyone's, those made on loading, of methods, of model kinds."""
    records = (*EVERYONES, LoadOptions, *RECORDS.values(), *kinds_of_options())
    named: dict[str, Option] = {}
    for each in (each for record in records for each in options_of(record)):
        named.setdefault(each.name, each)
    return named


def shows_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Say the options by name where Python is asked (`help`, a notebook): in place of `**choices`."""
    listed = inspect.signature(function).parameters.values()
    plain = [each for each in listed if each.kind is not each.VAR_KEYWORD]
    shown = [each for name, each in options_by_name().items() if name in Options.__annotations__]
    kind = inspect.Parameter.KEYWORD_ONLY
    by_name = [inspect.Parameter(each.name, kind, default=each.default, annotation=each.type) for each in shown]
    function.__signature__ = inspect.Signature([*plain, *by_name])  # type: ignore[attr-defined]
    return function
