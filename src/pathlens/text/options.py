"""Options of model kinds: each is a field here, and the command line, the page and `pl.explain` read it.

Light: nobody who asks what may be chosen waits for torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar

from pathlens.checks import Option, check_options, option, options_of
from pathlens.errors import InputError, ModelError, python_only, setting
from pathlens.types import BASELINES, SIMILARITIES

BUILT_IN = {  # models that arrive as packages
    "sentiment": "sentiment classifier, MiniLM with an adapter trained on SST-2",
    "minilm": "sentence encoder, all-MiniLM-L6-v2 (22.7 M parameters)",
    "minilm-exact": "MiniLM made exact on STS-B: pairs of words alone add up to the similarity",
    "smollm": "causal language model, SmolLM2-135M-Instruct",
}
ENCODERS = ("minilm", "minilm-exact")  # of them, those that give a vector
ONE_TEXT_ALONE = (
    "a sentence encoder gives a vector, not a number: give a second text (text_b) to explain their similarity, or "
    f"{setting(method='vaig')} to explain the vector itself"
)
POOLINGS = ("mean", "cls", "last")
TEMPLATES = ("held", "shown")  # a chat template's own tokens
WORDS = ("none", "empty", "blank", "random", "neutral", "nothing", "default")  # people mean a kind of baseline by them
ALMOST = 0.8  # alike enough to be a slip: "masked" and "quite" are, "meal" and "task" are not
LONGEST = 255  # letters of a folder's name; a text can be longer than any path
RESTS = ("held", "moving")  # what is no passage, where passages are asked for


def check_baseline_name(choice: Any) -> None:
    """A name in other letters, with blanks around it or almost spelt ("masks") would be taken for the English word."""
    if not isinstance(choice, str) or choice in BASELINES:
        return
    if choice.strip().lower() in WORDS:
        raise InputError(
            f"{setting(baseline=choice)} is no kind of baseline and would be read as the English word; there is zero (rows of "
            "zeros), mean (the mean embedding), mask, pad or unk (that token at every place), or a text of your own"
            + python_only(f" (The word itself: baseline=({choice!r},))")
        ).plainly(f"“{choice}” is no baseline; try zero, mean, mask, pad, or a text of your own.", "baseline")
    for meant in get_close_matches(choice.strip().lower(), BASELINES, n=1, cutoff=ALMOST):
        raise InputError(
            f"{setting(baseline=choice)} is not a name; did you mean {meant!r}?"
            + python_only(f" (The word itself: baseline=({choice!r},))")
        ).plainly(f"“{choice}” is no baseline; did you mean {meant}?", "baseline")


def refuse_slip(name: str) -> None:
    """A slip of the pen is answered at once, not after a hub has been asked again and again."""
    folder = Path(name)
    if name in BUILT_IN or folder.is_dir():
        return
    if folder.is_file():
        raise ModelError(f"{name!r} is a file; give the folder that holds the model, or a hub id like owner/name")
    if name.startswith((".", "/", "~")):
        raise ModelError(f"there is no folder {name!r}; give an existing folder, or a hub id like owner/name")
    close = get_close_matches(name.lower(), BUILT_IN, n=1, cutoff=0.75)
    if close:
        raise ModelError(
            f"{name!r} is not a model; did you mean the built-in {close[0]!r}? (Others: a folder, or a hub id like owner/name)"
        )


def refuse_swap(model: Any, others: Iterable[Any]) -> None:
    """A text where the model belongs, and the model where the text does, is noticed before anything is loaded or looked up."""
    if not isinstance(model, str) or model in BUILT_IN or Path(model).is_dir():
        return
    for each in others:
        if isinstance(each, str) and (
            each in BUILT_IN or (len(each) < LONGEST and Path(each, "config.json").is_file())
        ):
            then = json.dumps(model, ensure_ascii=False)
            raise InputError(
                f"the model and what it reads are swapped: the model comes first, so {each} and then {then}"
            )


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What only one model kind understands: a kind with options subclasses this, every option a field (`checks.option`).

    Options as they are by default are those of a kind that has none.
    """

    name: ClassVar[str] = ""  # of the models that take them, for people
    by_name: ClassVar[bool] = False  # do models take them that are given by name, as on the command line and the page?

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class GeneratorOptions(ModelOptions):
    """Of a model that writes."""

    name: ClassVar[str] = "generators"
    by_name: ClassVar[bool] = True

    contrast: str | int | None = option(None, "What it could have said instead: why not that?")
    generate: int | None = option(None, "Explain this many tokens of its own, each the likeliest.", bounds=(1, None))
    sink: str | bool | None = option(
        True, "Causal models: the token held in front (True: the one the model needs; None: none)."
    )


@dataclass(frozen=True, kw_only=True)
class HypothesisOptions(ModelOptions):
    """Of a model that is asked whether a text entails a sentence about a label."""

    name: ClassVar[str] = "zero-shot pipelines"

    hypothesis: str | None = option(
        None, "The sentence a label is put into, in place of {} (default: the pipeline's, This example is {}.)."
    )
    candidate_labels: str | Sequence[str] | None = option(
        None, "All labels that share the probability (default: the pipeline's; else the target alone)."
    )
    multi_label: bool | None = option(
        None, "Labels do not exclude each other: each against its contradiction (default: the pipeline's, no)."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hypothesis is not None and "{}" not in self.hypothesis:
            raise InputError(f"hypothesis must be a sentence with {{}} in place of the label, got {self.hypothesis!r}")
        try:
            (self.hypothesis or "{}").format("a label")
        except (IndexError, KeyError, ValueError, AttributeError) as error:
            raise InputError(
                f"hypothesis must have {{}} once, in place of the label, and no other braces, got {self.hypothesis!r}"
            ) from error
        if self.candidate_labels is not None:
            object.__setattr__(self, "candidate_labels", labels_in(self.candidate_labels))


def labels_in(given: Any) -> tuple[str, ...]:
    """Candidate labels as a zero-shot pipeline takes them: a list, or one text with commas."""
    labels = given.split(",") if isinstance(given, str) else given
    listed = isinstance(labels, Sequence) and len(labels) > 0
    if not listed or not all(isinstance(each, str) and each.strip() for each in labels):
        raise InputError(f"candidate_labels must be a list of labels, or one text with commas; got {given!r}")
    return tuple(dict.fromkeys(each.strip() for each in labels))


@dataclass(frozen=True, kw_only=True)
class EncoderOptions(ModelOptions):
    """Of a model that compares two texts by their vectors."""

    name: ClassVar[str] = "sentence encoders"

    similarity: str = option("cosine", "How two texts are compared.", choices=SIMILARITIES)


@dataclass(frozen=True, kw_only=True)
class PromptedOptions(EncoderOptions):
    """Of a `SentenceTransformer`, and of what is made of one."""

    by_name: ClassVar[bool] = True

    prompt: str | None = option(None, "A text that is put before every text, and held.")
    prompt_name: str | None = option(None, "One of the model's own prompts (default: the one it says).")


@dataclass(frozen=True, kw_only=True)
class TableOptions(ModelOptions):
    """Of a table's rows."""

    name: ClassVar[str] = "tables"

    features: Sequence[str] | None = option(None, "Names of the features, in their order.")


def kinds_of_options() -> list[type[ModelOptions]]:
    """Every model kind's record of options, those of users too."""
    kinds: list[type[ModelOptions]] = [ModelOptions]
    for each in kinds:
        kinds += each.__subclasses__()
    return kinds


def offered_options() -> tuple[Option, ...]:
    """Options of the kinds that are given by name, each once."""
    every = (each for kind in kinds_of_options() if kind.by_name for each in options_of(kind))
    return tuple({each.name: each for each in every}.values())


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Choices of `pl.explain` that are made when the model is loaded."""

    pooling: str | None = option(None, "A bare encoder: how token states become one vector.", choices=POOLINGS)
    dtype: Any = option(None, "A folder or hub id: the precision it is loaded in.")
    device_map: Any = option(None, "A folder or hub id: the device it is loaded to.")
    device: Any = option(
        None, "A model given by name: where it runs, cuda, mps, cpu or auto (the first of them there is)."
    )

    def __post_init__(self) -> None:
        check_options(self)
