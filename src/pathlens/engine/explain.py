"""The verb itself, with a signature for every method: what `pl.explain` is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from pathlens.engine.explainer import Explainer
from pathlens.engine.options import Method, R, Scores, Secants
from pathlens.engine.typed import (
    ByScore,
    Many,
    NoVectors,
    One,
    Options,
    OtherOptions,
    PlainOptions,
    Several,
    shows_options,
)
from pathlens.errors import InputError
from pathlens.explanation.record import Interactions, PairExplanation, PhraseTree, Results, VectorExplanation
from pathlens.text.adapter import TextModel
from pathlens.text.options import ENCODERS, ONE_TEXT_ALONE, refuse_swap

if TYPE_CHECKING:  # for the signatures alone
    from pathlens.engine.typed import Encoder


class CallOptions(TypedDict, total=False):
    """How the texts of one call are worked on."""

    show_progress: bool
    batch_size: int


class Named(Options, CallOptions, total=False):
    """Whatever a call takes by name."""


class Others(OtherOptions, CallOptions, total=False):
    """The same where the target is spoken of by itself."""


class Plain(PlainOptions, CallOptions, total=False):
    """The same where all is that the result's type hangs on."""


# what comes back hangs on the method, on one text or several, on one target or several; where no type can tell, `Any`
# fmt: off
@overload
def explain(model: Any, text: Many, text_b: Any = ..., *, method: Method[R], **choices: Unpack[Named]) -> Results[R]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Method[R], target: Several, **choices: Unpack[Others]) -> Results[R]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Method[R], **choices: Unpack[Named]) -> R: ...
@overload
def explain(model: Any, text: Many, text_b: Any = ..., *, method: ByScore, **choices: Unpack[Named]) -> Results[Scores]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: ByScore, target: Several, **choices: Unpack[Others]) -> Results[Scores]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: ByScore, **choices: Unpack[Named]) -> Scores: ...
@overload
def explain(model: Any, text: Many, text_b: Any = ..., *, method: Literal["idg"], **choices: Unpack[Named]) -> Results[PhraseTree]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["idg"], target: Several, **choices: Unpack[Others]) -> Results[PhraseTree]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["idg"], **choices: Unpack[Named]) -> PhraseTree: ...
@overload
def explain(model: Any, text: Many, text_b: Any = ..., *, method: Literal["ih"], **choices: Unpack[Named]) -> Results[Interactions]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["ih"], target: Several, **choices: Unpack[Others]) -> Results[Interactions]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["ih"], **choices: Unpack[Named]) -> Interactions: ...
@overload
def explain(model: Any, text: Many, text_b: Any = ..., *, method: Literal["vaig"], **choices: Unpack[Named]) -> Results[VectorExplanation]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["vaig"], **choices: Unpack[Named]) -> VectorExplanation: ...
@overload
def explain(model: Any, text: Many, text_b: Any = ..., *, method: Literal["ij"], **choices: Unpack[Named]) -> Results[PairExplanation]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["ij"], **choices: Unpack[Named]) -> PairExplanation: ...
@overload
def explain(model: Any, text: Many, text_b: Any = ..., *, method: Literal["secant"], **choices: Unpack[Named]) -> Results[Secants]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["secant"], target: Several, **choices: Unpack[Others]) -> Results[Secants]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["secant"], **choices: Unpack[Named]) -> Secants: ...
@overload
def explain(model: Encoder, text: Many, text_b: Many | str, *, method: None = ..., **choices: Unpack[Named]) -> Results[PairExplanation]: ...
@overload
def explain(model: Encoder, text: One, text_b: One, *, method: None = ..., **choices: Unpack[Named]) -> PairExplanation: ...
@overload
def explain(model: Any, text: Many, text_b: Any = ..., *, method: None = ..., gives: Literal["vectors"], block: str | None = ..., target: Any = ..., **choices: Unpack[Plain]) -> Results[VectorExplanation]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: None = ..., gives: Literal["vectors"], block: str | None = ..., target: Any = ..., **choices: Unpack[Plain]) -> VectorExplanation: ...
@overload
def explain(model: Any, text: Many, text_b: Any = ..., *, method: None = ..., gives: str = ..., block: str, target: Any = ..., **choices: Unpack[Plain]) -> Results[VectorExplanation]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: None = ..., gives: str = ..., block: str, target: Any = ..., **choices: Unpack[Plain]) -> VectorExplanation: ...
@overload
def explain(model: Any, text: Many, text_b: None = ..., *, method: None = ..., target: Any = ..., gives: NoVectors = ..., block: None = ..., **choices: Unpack[Plain]) -> Results[Scores]: ...
@overload
def explain(model: Any, text: One, text_b: None = ..., *, method: None = ..., target: Several, gives: NoVectors = ..., block: None = ..., **choices: Unpack[Plain]) -> Results[Scores]: ...
@overload
def explain(model: Any, text: One, text_b: None = ..., *, method: None = ..., target: Any = ..., gives: NoVectors = ..., block: None = ..., **choices: Unpack[Plain]) -> Scores: ...
@overload
def explain(model: Any, text: Many, text_b: Any, *, method: None = ..., target: Any = ..., gives: NoVectors = ..., block: None = ..., **choices: Unpack[Plain]) -> Results[Scores | PairExplanation]: ...
@overload
def explain(model: Any, text: One, text_b: Any, *, method: None = ..., target: Several, gives: NoVectors = ..., block: None = ..., **choices: Unpack[Plain]) -> Results[Scores | PairExplanation]: ...
@overload
def explain(model: Any, text: One, text_b: Any, *, method: None = ..., target: Any = ..., gives: NoVectors = ..., block: None = ..., **choices: Unpack[Plain]) -> Scores | PairExplanation: ...
@overload
def explain(model: Any, text: Any, text_b: Any = ..., *, method: Any = ..., **choices: Unpack[Named]) -> Any: ...
@overload
def explain(model: TextModel, text: Any, text_b: Any = ..., *, method: Any = ..., **choices: Any) -> Any: ...  # a kind with options of its own
# fmt: on
def explain(
    model: Any,
    text: Any,
    text_b: Any = None,
    *,
    method: Any = None,
    show_progress: bool = False,
    batch_size: int = 64,
    **choices: Any,
) -> Any:
    """Why did the model say that? Signed scores that add up to the output's change, with a certificate.

    model: a folder or hub id, (model, tokenizer), a pipeline, a SentenceTransformer, a CrossEncoder, a plain
        nn.Module with tensors, or a built-in name ("minilm", "sentiment", "smollm").
    text, text_b: one text or a pair; a list, a pandas Series, a numpy array, a column of a data set or any other
        iterable of texts gives `Results`, a list. A chat model also takes `pl.chat(...)` or messages.
    method: "secant" (default of classifiers, question answering and generators; where nodes, a rule or a path are named:
        "ig"), "ij" (default for a sentence encoder with two texts), "ig" (default of everything else), "sig", "vaig", …: `pl.methods()`; with its options by name, or as a record: `method="udig", steps=30` is `method=pl.UDIG(steps=30)`.
    target: class index or label; "start", "end", "span"; (token index, label); or a function of the output. For several
        texts also a list with one of these for each; for one text a list asks for all of them, and "all" for every class
        (of several texts: of each): `Results`, text by text, the same numbers as separate calls from shared passes. Of a
        generator: a continuation (" Paris"), a token id, or None for the predicted next token; then also contrast
        (" London": why not that), generate (so many tokens of its own), sink (the token held in front, or None).
    baseline: "mask" (default where there is one), "pad", "unk", "eos", "zero", "mean", a text, a tensor, or a
        list of these (expected gradients).
    layer: 0 word embeddings (default; integrals on "smollm": 2), k the states that enter block k.
    unit: "token", "word", "sentence", a list of character spans, or {name: (start, end)}; "turn" or "passage" of a chat.
    score: "logit" (default), "logprob" (default of generators), "prob" (default of a single token's integral on "smollm").
    tolerance: how exactly the scores must add up, relative to the output's change (default 1e-3).
    n_steps: fixes the number of nodes; rule: "adaptive" (default), "gauss", "midpoint", "trapezoid", "left",
        "right", "split" (forward passes alone).
    check: False leaves out the check of belief (`result.check`): the strongest units at the baseline together, what the scores
        predict of it and what the model does; one forward pass.
    truncation, internal_batch_size, memory_budget (bytes), max_nodes, softplus (β: smooth ReLU for the explanation);
        pooling ("mean", "cls", "last") for a bare encoder; dtype and device_map for a folder or hub id; device ("cuda",
        "mps", "cpu", "auto") for any model given by name.
    """
    refuse_swap(model, (text, text_b))
    alone = isinstance(text, str) and text.strip() and all(x is None for x in (text_b, method, choices.get("target")))
    if alone and isinstance(model, str) and model in ENCODERS:
        raise InputError(ONE_TEXT_ALONE)  # before the model is loaded
    return Explainer(model, method=method, **choices)(text, text_b, show_progress=show_progress, batch_size=batch_size)


shows_options(explain)
