"""Methods as records: every field is an option, with its type, default, help and choices.

`pl.explain(model, text, method="udig", steps=30)` builds `UDIG(steps=30)`; giving that record as `method` is the
same. The command line, the page and "unknown option, did you mean …" read these fields: an option is written once.

To add a method: a record here, a line in the table of methods.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from pathlens.checks import (
    Option,
    as_lists,
    check_options,
    did_you_mean,
    given,
    option,
    option_names,
    options_of,
    whole_text,
)
from pathlens.errors import InputError, setting
from pathlens.explanation.answer import CUTS, THRESHOLD, check_threshold
from pathlens.explanation.pair import Measure
from pathlens.explanation.record import (
    Continuation,
    Explanation,
    Interactions,
    PairExplanation,
    PhraseTree,
    VectorExplanation,
)
from pathlens.path.words.options import STRATEGIES, PathOptions, WordOptions
from pathlens.text.options import LoadOptions, check_baseline_name
from pathlens.types import BASELINES, MAX_NODES, NORMS, PROMPT_UNITS, RULES, SCORES, SIMILARITIES, TEXT_UNITS, TOLERANCE

R = TypeVar("R", covariant=True)
Scores = Explanation | Continuation  # a generator's continuation has a score per output token
Secants = Scores | VectorExplanation | PairExplanation
LEAST_NODES = 21  # the adaptive driver's first look: three cells of seven nodes
MOST_NODES = 100_000  # more only fill the memory: no score changes any more


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """What may be chosen whatever the method; names as in `pl.explain`."""

    target: Any = option(None, "Label or index; start, end, span; what a generator says (default: predicted).")
    baseline: Any = option(None, f"{', '.join(BASELINES)}, or a text.")
    layer: int | None = option(None, "0: word embeddings; k: states entering block k.")
    unit: Any = option(
        "token", f"{', '.join(TEXT_UNITS)}; of a chat: {', '.join(PROMPT_UNITS)} (typed with passages, the default)."
    )
    score: str | None = option(None, "What is read from the output.", choices=SCORES)
    truncation: bool = option(False, "Cut texts that are too long.")
    softplus: float | None = option(None, "Round ReLU off, by softplus of this sharpness (10).")
    check: bool = option(True, "Mask the strongest units: does the model do what the scores predict?")

    def __post_init__(self) -> None:
        check_options(self)
        whole_text("target", self.target)
        whole_text("baseline", self.baseline)
        check_baseline_name(self.baseline)
        object.__setattr__(self, "unit", as_lists(self.unit))
        if isinstance(self.unit, str) and self.unit not in (known := (*TEXT_UNITS, *PROMPT_UNITS)):
            raise InputError(
                f"{setting(unit=self.unit)} is unknown; use {', '.join(known)}, a list of character spans, or "
                f"{{name: (start, end)}}{did_you_mean(self.unit, known)}"
            )


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a run may take."""

    internal_batch_size: int | None = option(None, "Rows of a batch (default: as many as fit).", bounds=(1, None))
    memory_budget: int | None = option(
        None, "Bytes a batch may take; one text is run all the same, block by block where it must.", bounds=(1, None)
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class Accuracy:
    """How exactly to integrate; names as in `pl.explain`."""

    tolerance: float = option(TOLERANCE, "How exactly the scores must add up.")
    n_steps: int | None = option(None, "Fixed number of nodes instead of a tolerance.", bounds=(1, MOST_NODES))
    rule: str | None = option(None, "Where on the path to look.", choices=RULES)
    max_nodes: int = option(MAX_NODES, "At most so many nodes (fewer: n_steps).", bounds=(LEAST_NODES, MOST_NODES))

    def __post_init__(self) -> None:
        check_options(self)
        if self.tolerance <= 0:
            raise InputError(f"tolerance must be a positive number, got {self.tolerance!r}")


@dataclass(frozen=True, kw_only=True)
class Method(Generic[R]):
    """A method with its options; `R` is the result it gives."""

    name: ClassVar[str]
    by_output: ClassVar[bool] = False  # gives a continuation's output tokens one by one, not only their sum

    def __post_init__(self) -> None:
        check_options(self)
        self.check()

    def check(self) -> None:
        """Do the options go together?"""

    def given(self) -> dict[str, Any]:
        """The options that are not as they are by default."""
        return given(self)

    @property
    def through_words(self) -> str | None:
        """`"dig"` or `"udig"` where the path goes through words, else None."""
        return None

    @property
    def by_coordinate(self) -> bool:
        """Are the scores of single coordinates kept?"""
        return False

    def settled(self, *, encoder: bool, two_texts: bool) -> Method[R]:
        """The method as it is used with one text or two, for a sentence encoder or another model."""
        return self


@dataclass(frozen=True, kw_only=True)
class _ByCoordinate:
    coordinates: bool = option(False, "Keep the score of every single coordinate too.")

    @property
    def by_coordinate(self) -> bool:
        return self.coordinates


@dataclass(frozen=True, kw_only=True)
class Embedded:
    norm: str = option("outside", "Normalise embeddings after the integral (the paper), or inside it.", choices=NORMS)


@dataclass(frozen=True, kw_only=True)
class _Products(Embedded):
    mode: str = option(
        "auto",
        "Jacobian products: forward (one per token) or reverse (one per output coordinate).",
        choices={"auto": "whichever takes fewer products", "forward": "", "reverse": ""},
    )


@dataclass(frozen=True, kw_only=True)
class Compared(Embedded):
    """Methods that explain how two texts are compared."""

    similarity: str | None = option(
        None, "How two texts are compared (default: as the model does, else cosine).", choices=SIMILARITIES
    )

    def measure(self, tolerance: float = TOLERANCE) -> Measure:
        """How two embeddings are compared, and how exactly the matrix must add up to it."""
        return Measure(self.similarity or SIMILARITIES[0], self.norm, tolerance)


@dataclass(frozen=True, kw_only=True)
class OfBlock:
    block: str | None = option(None, "The module whose output is explained, by its name in the model.")
    hold: str | Sequence[str] | None = option(None, "Inputs of the block that stay at the text's value, by name.")

    def check_block(self) -> None:
        if self.hold is not None and self.block is None:
            raise InputError(
                f"{setting(hold=self.hold)} names inputs of a block; name it with {setting('block=...')}, or leave hold out"
            )


@dataclass(frozen=True, kw_only=True)
class IG(_ByCoordinate, PathOptions, Method[Scores]):
    """Integrated Gradients."""

    name: ClassVar[str] = "ig"
    by_output: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class SIG(_ByCoordinate, Method[Scores]):
    """Sequential Integrated Gradients."""

    name: ClassVar[str] = "sig"
    by_output: ClassVar[bool] = True

    context: str = option(
        "full",
        "What the other tokens are while one moves: the text, or the text so far.",
        choices={"full": "the paper", "prefix": "left to right"},
    )


@dataclass(frozen=True, kw_only=True)
class _AlongWords(_ByCoordinate, WordOptions, Method[Scores]):
    by_output: ClassVar[bool] = True

    def check(self) -> None:
        self.settings(self.name)

    @property
    def through_words(self) -> str | None:
        return self.name


@dataclass(frozen=True, kw_only=True)
class DIG(_AlongWords):
    """Discretized Integrated Gradients."""

    name: ClassVar[str] = "dig"

    strategy: str | None = option(None, "How an anchor is chosen (the paper: greedy).", choices=STRATEGIES["dig"])


@dataclass(frozen=True, kw_only=True)
class UDIG(_AlongWords):
    """Uniform Discretized Integrated Gradients."""

    name: ClassVar[str] = "udig"

    strategy: str | None = option(None, "How an anchor is chosen (the paper: maxcount).", choices=STRATEGIES["udig"])


@dataclass(frozen=True, kw_only=True)
class IDG(_ByCoordinate, Method[PhraseTree]):
    """Integrated Directional Gradients."""

    name: ClassVar[str] = "idg"

    by: str = option(
        "ig", "Whose token scores the phrases are made of.", choices={"ig": "the paper", "secant": "exact in one pass"}
    )

    tree: Any = option(
        None,
        "The phrases: a bracketed tree, spans, a file of trees, a parser, right-branching (default: spaCy's parse).",
    )


@dataclass(frozen=True, kw_only=True)
class VAIG(OfBlock, _Products, PathOptions, Method[VectorExplanation]):
    """Vector-output Integrated Gradients."""

    name: ClassVar[str] = "vaig"

    def check(self) -> None:
        super().check()
        self.check_block()


@dataclass(frozen=True, kw_only=True)
class IJ(_ByCoordinate, Compared, _Products, PathOptions, Method[PairExplanation]):
    """Integrated Jacobians."""

    name: ClassVar[str] = "ij"

    def check(self) -> None:
        super().check()
        self.measure()


@dataclass(frozen=True, kw_only=True)
class IH(Method[Interactions]):
    """Integrated Hessians."""

    name: ClassVar[str] = "ih"

    interaction_index: Any = option(None, "Only these rows: a unit or several, by index or name.")
    pairs: Any = option(None, "Only these pairs of units.")
    path: str | None = option(
        None,
        "The straight line; there is no other.",
        choices={
            "line": "Integrated Hessians exist on the straight line only: on a bent path the double integral is not a "
            "single one, and summed over legs the interactions vanish as legs are added"
        },
    )

    def check(self) -> None:
        for name in ("interaction_index", "pairs"):
            object.__setattr__(self, name, as_lists(getattr(self, name)))
        if self.interaction_index is not None and self.pairs is not None:
            raise InputError("give interaction_index or pairs, not both")


@dataclass(frozen=True, kw_only=True)
class SECANT(OfBlock, Compared, _ByCoordinate, Method[Secants]):
    """Secants: scores, vectors or pairs, exact in one pass."""

    name: ClassVar[str] = "secant"
    by_output: ClassVar[bool] = True

    gives: str = option(
        "auto",
        "What is explained.",
        choices={
            "auto": "a pair where two texts go to a sentence encoder, vectors of a block or of an encoder alone, else a score",
            "scores": "one number",
            "vectors": "the whole output",
            "pair": "the similarity of two texts",
        },
    )

    def check(self) -> None:
        self.measure()
        self.check_block()
        if self.block is not None and self.gives in ("scores", "pair"):
            raise InputError(
                f"{setting(gives=self.gives)}: a block has vectors, and neither a score nor a second text; leave gives out, or block"
            )
        if self.coordinates and (self.block is not None or self.gives in ("vectors", "pair")):
            raise InputError(
                f"{setting(coordinates=True)} is for scores; vectors and pairs of single coordinates: 'vaig' and 'ij'"
            )

    def settled(self, *, encoder: bool, two_texts: bool) -> SECANT:
        """With "auto" decided: for a sentence encoder or another model, with one text or two."""
        if self.gives != "auto":
            return self
        vectors = self.block is not None or (encoder and not two_texts)
        return replace(self, gives="vectors" if vectors else "pair" if encoder else "scores")


EVERYONES = (CommonOptions, Accuracy, Resources)  # whatever the method and the model
RECORDS: Mapping[str, type[Method[Any]]] = {each.name: each for each in (IG, SIG, DIG, UDIG, IDG, VAIG, IJ, IH, SECANT)}


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """What may be chosen where an answer is explained to its sources; names as in `pl.answer`."""

    contrast: str | None = option(None, "Another answer: why not that?")
    method: str = option(
        "secant",
        "How sources get their share: exact in one pass (secant), by leaving them out (sig), an integral.",
        choices=[name for name, record in RECORDS.items() if record.by_output],
    )
    unit: str = option("sentence", "What sources are cut into.", choices=CUTS)
    threshold: float = option(THRESHOLD, "Share of what sources add from which one is cited.")
    generate: int = option(100, "At most so many tokens of its own.", bounds=(1, None))
    truncation: bool = option(False, "Cut sources that do not fit.")
    redundant: bool | None = option(None, "Check every two sources for saying the same (default: those alike).")

    def __post_init__(self) -> None:
        check_options(self)
        check_threshold(self.threshold)


def build(method: Any, options: Mapping[str, Any] | None = None, others: Iterable[str] = ()) -> Method[Any]:
    """The record of a method: from its name and options, or a record with some of its options given anew.

    `others`: names that are known besides the method's options, so that they are suggested too.
    """
    named = dict(options or {})
    record = type(method) if isinstance(method, Method) else RECORDS.get(method) if isinstance(method, str) else None
    if record is None:
        if isinstance(method, list | tuple | set):
            raise InputError(
                f"one method is taken here, got {method!r}; pl.compare(model, text, methods=…) puts several side by side"
            )
        hint = did_you_mean(method, RECORDS) if isinstance(method, str) else ""
        raise InputError(f"{setting(method=method)} is not known; methods: {', '.join(RECORDS)}{hint}")
    known = option_names(record)
    unknown = [name for name in named if name not in known]
    if unknown:
        raise not_an_option(unknown, known, others, record.name)
    return replace(method, **named) if isinstance(method, Method) else record(**named)


def not_an_option(unknown: Sequence[str], known: Iterable[str], others: Iterable[str], name: str) -> InputError:
    """What there is instead: options of the method of this name, or of all methods where none is named, and everyone's."""
    everyones = ["method", *(name for each in (*EVERYONES, LoadOptions) for name in option_names(each))]
    takers = [record.name for record in RECORDS.values() if unknown[0] in option_names(record)]
    hint = did_you_mean(unknown[0], (*known, *everyones, *others))
    if takers and name:
        hint = f"; {unknown[0]} is an option of {', '.join(takers)}"
    takes = ", ".join(known) or "no options of its own"
    whose = f"of {name}; it takes {takes}" if name else f"of any method; some of them take {takes}"
    return InputError(f"{', '.join(unknown)}: not an option {whose}, besides everyone's ({', '.join(everyones)}){hint}")


def options() -> tuple[Option, ...]:
    """All options of all methods, each once, with the methods that take it and what each of them accepts."""
    merged: dict[str, Option] = {}
    for record in RECORDS.values():
        for each in options_of(record):
            known = merged.get(each.name)
            merged[each.name] = replace(known, takers={**known.takers, **each.takers}) if known else each
    return tuple(merged.values())
