"""The seam between a model and everything else.

A model kind turns a text into a `Case`: tokens, both ends of the path, and a plain function
`score(points, cases)`. Nothing after this room knows what a tokenizer or a Hugging Face model is.

To add a model kind (these names are in `pl.models`; `toy.py` is the smallest one, docs/extending.md walks through one):
subclass `TextModel`, give it a `kind` and a `name`, and write `case`. Of the rest override what differs:
`options` where the kind takes options of its own, `whole` and `settings` so that stored vectors know which model made
them, `embed` and `two_texts_are_a_pair` where texts become vectors. A model that changes another one a little subclasses
`Wrapped`. `pathlens doctor` checks the laws on the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from pathlens.checks import option_names
from pathlens.errors import InputError, ModelError, or_error
from pathlens.text.network import evaluation_mode, in_double
from pathlens.text.options import ModelOptions
from pathlens.types import SCORES, About, Ends, Span, brief

BUSY_TOKENS = 2048  # more tokens at once win nothing on a CPU: the working set leaves the cache
WASTE = 1.25  # a batch may hold at most this much padding
Scores = Float[Tensor, "B"] | Float[Tensor, "B out k"]  # a number of each row, or vectors
Kind = TypeVar("Kind", bound="ModelOptions")
ScoreFunction: TypeAlias = "Callable[[Tensor, Sequence[Case]], Scores]"  # of points (B, S, d)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asked of one text; names as in `pl.explain`."""

    target: Any = None
    score: str | None = None  # one of SCORES; None: the model kind's default
    baseline: Any = None
    layer: int | None = None  # None: the word embeddings, or a block's own input
    integral: bool = True  # along a path; a model may have a layer and a score of its own where integrals settle
    truncation: bool = False
    level: str | None = None  # the parts of a prompt that are asked for, one of PROMPT_UNITS
    vector: bool = False  # explain a vector output, not a number
    each_output: bool = False  # of a continuation: a number for every output token, not their sum
    block: str | None = None
    hold: tuple[str, ...] = ()
    norm: str = "outside"  # "inside": the vector of a sentence encoder is normalised before it is explained
    options: ModelOptions = field(default_factory=ModelOptions)

    def __post_init__(self) -> None:
        if self.score is not None and self.score not in SCORES:
            raise InputError(f"score must be one of {', '.join(SCORES)}, got {self.score!r}")

    def options_of(self, kind: type[Kind]) -> Kind:
        """The options of a model kind, as they are by default where none of its own came."""
        return self.options if isinstance(self.options, kind) else kind()


@dataclass(frozen=True)
class Chosen:
    """What was explained, in plain values that ask for the very same again (`pl.zoom` does); they can be stored.

    None, or no word at all, where a choice has no such form: a function, a tensor, the similarity with another text.
    """

    target: int | str | tuple[Any, ...] | None = None
    score: str = ""  # one of SCORES
    baseline: str | tuple[str, ...] | None = None  # one of BASELINES, or texts


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """One text, ready to be explained.

    `score(points (B, S, d), cases)` gives (B,) numbers, or (B, out, k) vectors when asked for a vector; row i
    belongs to `cases[i]`. Cases with equal `pack` may share a batch, shorter ones padded at the end.
    """

    ends: Ends
    score: ScoreFunction
    pack: Hashable
    texts: tuple[str, ...]
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]
    segments: tuple[int, ...]  # 0: first text, 1: second text, -1: special
    target_name: str = ""  # for people
    target: Any = None  # what `score` needs to know of this text
    context: Mapping[str, Shaped[Tensor, "S ..."]] = field(default_factory=dict)  # masks and the like
    outputs: tuple[str, ...] = ()  # names of the output positions of a vector score
    sources: tuple[str, ...] = ()  # which input of a block each row belongs to
    baseline: str = ""  # its name, for people
    baseline_kind: str = ""  # for programs: equal where the baselines of two texts are made alike
    chosen: Chosen = Chosen()
    notes: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    output: Any = (
        None  # the model's own at the text, where it was run to find the target; a second row: at the baseline
    )

    def __len__(self) -> int:
        return len(self.ends.end)

    @property
    def special(self) -> tuple[bool, ...]:
        return tuple(segment < 0 for segment in self.segments)

    def noted(self, note: str, **meta: Any) -> Case:
        """The same with a note for people, and what it says for programs."""
        return replace(self, notes=(*self.notes, note), meta={**self.meta, **meta})


Wanted: TypeAlias = tuple[Any, Any, Request]  # a text, a second one or None, and what is asked of it


class Probabilities(NamedTuple):
    """What the model says at both ends of one path: the probability of every class, by its name."""

    text: dict[str, float]
    baseline: dict[str, float]
    others: Mapping[str, dict[str, float]] = {}  # at the model's other baselines by name, where this one says the same
    about: About | None = None  # where they are not of the classes of the whole text
    targets: Mapping[
        str, int | str | tuple[Any, ...]
    ] = {}  # of each name what asks for it; those that nothing asks for are out


class TextModel(ABC):
    """A model kind. `quiet` is held around all work: evaluation mode, nothing left behind afterwards."""

    kind: str = "model"
    name: str = "model"
    default_method: str = "ig"  # of one text; of two where they are a pair
    options: type[ModelOptions] = ModelOptions  # of this kind, besides the method's
    depth: int = 0  # blocks by which a layer is counted, where they are known
    labels: tuple[str, ...] = ()  # of the model's classes, in their order
    similarity: str | None = None  # how this model compares two texts, when not by the cosine; it may be a distance
    places_vector: bool = False  # does a target say where a whole output is read (which gap, after which words)?
    default_layer: int = 0  # where integrals are taken when no layer is named (not SIG's differences, nor along words)

    def __repr__(self) -> str:
        return brief(self, self.name if self.name != self.kind else "", self.kind)

    @property
    def plain_kind(self) -> str:
        """Its kind in a sentence: "a masked language model"."""
        return f"a {self.kind}" if self.kind.endswith("model") else f"a {self.kind} model"

    @abstractmethod
    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        """Prepare one text (or pair)."""

    def cases(self, wanted: Sequence[Wanted]) -> list[Case | Exception]:
        """Prepare many; a text that cannot be read gives its error. A kind that runs the model to find a target may
        run it for many texts at once."""
        return [or_error(self.case, text, text_b, request=request) for text, text_b, request in wanted]

    def every_target(self, options: ModelOptions) -> tuple[Any, ...]:
        """What `target="all"` asks for: the classes, where the model has some and none is called so."""
        return ()

    def retargeted(self, case: Case, request: Request) -> Case | None:
        """The same text asked about `request.target`, without running the model again; None: it must be read anew."""
        return None

    def together(self, cases: Sequence[Case]) -> Case | None:
        """Cases of one text that differ in their targets as one, whose score is all their numbers (B, T, 1); None: not so."""
        return None

    def says(self, cases: Sequence[Case]) -> list[Probabilities | None]:
        """The probabilities of a model that has classes, tags or words to choose from, for each case; None where there are none."""
        return [None] * len(cases)

    def read_options(self, given: Mapping[str, Any]) -> ModelOptions:
        """This kind's options among those given by name."""
        return self.options(**{name: given[name] for name in option_names(self.options) if name in given})

    @property
    def dtype_name(self) -> str:
        """The precision the model runs in, where it has one: "float32", "bfloat16", …"""
        return ""

    def quiet(self) -> AbstractContextManager[None]:
        module = self.whole()
        return nullcontext() if module is None else evaluation_mode(module)

    def in_double(self, most: int) -> AbstractContextManager[int]:
        """Everything in float64 inside, where that takes at most `most` bytes; gives what it takes, 0 where it is not done."""
        module = self.whole()
        return nullcontext(0) if module is None else in_double(module, most)

    def whole(self) -> nn.Module | None:
        """Everything that has weights; they make the model's fingerprint."""
        return None

    def settings(self) -> tuple[str | int | float, ...]:
        """What makes the output besides the weights; it counts in the model's fingerprint."""
        return ()

    def two_texts_are_a_pair(self) -> bool:
        """Do two texts ask for a token × token result by default (a Siamese encoder)?"""
        return False

    def embed(self, text: Any, request: Request) -> Float[Tensor, " k"]:
        """e(text), of a kind whose two texts are a pair."""
        raise ModelError(f"{self.name!r} is {self.plain_kind}; it gives no vector of a text")

    def embed_all(self, texts: Sequence[Any], request: Request) -> Float[Tensor, "N k"]:
        """e(text) of many; a kind that reads ids in batches does that."""
        return torch.stack([self.embed(text, request) for text in texts])

    def sides(self) -> tuple[TextModel, TextModel]:
        """What encodes the first and the second of two texts: itself, unless the encoder is a dual one."""
        return self, self


def _inners(name: str) -> Any:
    """What the inner model has under this name; the class has it too, so `__getattr__` would not be asked."""
    return property(lambda self: getattr(self.inner, name))


class Wrapped(TextModel):
    """A model around another one. Everything is the inner model's, also what only its kind has, but for what a subclass
    overrides; so a wrapper is as long as the difference it makes."""

    def __init__(self, inner: TextModel) -> None:
        self.inner = inner
        for fact in TextModel.__annotations__:  # the class has these, so `__getattr__` would not be asked
            setattr(self, fact, getattr(inner, fact))

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):  # a copy in the making has no inner model yet
            raise AttributeError(name)
        return getattr(self.inner, name)

    case, every_target, says, dtype_name, quiet = map(_inners, "case every_target says dtype_name quiet".split())
    whole, settings, two_texts_are_a_pair, embed = map(_inners, "whole settings two_texts_are_a_pair embed".split())

    def sides(self) -> tuple[TextModel, TextModel]:
        """The inner model's sides, each wrapped as this one is."""
        one, two = self.inner.sides()
        if one is self.inner and two is self.inner:
            return self, self
        return self.around(one), self.around(two)

    def around(self, inner: TextModel) -> TextModel:
        """The same wrapper around another model."""
        twin = copy(self)
        Wrapped.__init__(twin, inner)
        return twin


class Altered(Wrapped):
    """The same model; every case, its target chosen, goes through `change(case, (text, text_b), request)`."""

    def __init__(self, inner: TextModel, change: Callable[[Case, tuple[Any, Any], Request], Case]) -> None:
        super().__init__(inner)
        self.change = change

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        return self.change(super().case(text, text_b, request=request), (text, text_b), request)


def collate(cases: Sequence[Case], points: Float[Tensor, "B S d"]) -> dict[str, Shaped[Tensor, "B S ..."]]:
    """The cases' context as (B, S, …) tensors beside their points; positions past a case's end are zero."""
    distinct = {id(case): case for case in cases}
    number = {key: row for row, key in enumerate(distinct)}
    rows = torch.tensor([number[id(case)] for case in cases])
    result = {}
    for name, value in cases[0].context.items():
        stacked = value.new_zeros((len(distinct), points.shape[1], *value.shape[1:]))
        for row, case in enumerate(distinct.values()):
            stacked[row, : len(case)] = case.context[name]
        each = stacked.expand(len(cases), *stacked.shape[1:]) if len(distinct) == 1 else stacked[rows]
        result[name] = each.to(points.device)
    return result


def in_batches(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Cases of one model that are run together, by length: little padding, and no more tokens than a processor is quick with."""
    some: list[Case] = []
    for case in sorted(cases, key=len):
        if some and (len(case) > WASTE * len(some[0]) or (len(some) + 1) * len(case) > BUSY_TOKENS):
            yield some
            some = []
        some.append(case)
    if some:
        yield some


def texts_of(cases: Sequence[Case]) -> Float[Tensor, "B S d"]:
    """The points where the paths of these cases end, shorter ones padded with zeros."""
    return pad_sequence([case.ends.end for case in cases], batch_first=True)


def starts_of(cases: Sequence[Case]) -> Float[Tensor, "B S d"]:
    """The points where the paths of these cases begin, shorter ones padded with zeros."""
    return pad_sequence([case.ends.start for case in cases], batch_first=True)


def within(cases: Sequence[Case], points: Float[Tensor, "B S *d"]) -> Bool[Tensor, "B S"]:
    """Which rows are a case's own, not past its end."""
    lengths = torch.tensor([len(case) for case in cases], device=points.device)
    return torch.arange(points.shape[1], device=points.device) < lengths[:, None]


def index_of(cases: Sequence[Case], device: torch.device) -> Int[Tensor, " B *n"]:
    """The integer targets of the rows, one or several of each."""
    return torch.tensor([case.target for case in cases], device=device)
