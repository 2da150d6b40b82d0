"""The verb itself, with a signature for every method: what `pl.explain` is."""

from __future__ import annotations

from typing import Any, Literal, Unpack, overload

from pathlens.engine.explainer import Explainer
from pathlens.engine.options import Method, R, Scores, Secants
from pathlens.engine.typed import Options, shows_options
from pathlens.explanation.record import Interactions, PairExplanation, PhraseTree, VectorExplanation
from pathlens.explanation.results import Results
from pathlens.text.adapter import TextModel

One = Any  # a text, a chat, a row of a table: whatever the model kind takes


# fmt: off
@overload
def explain(model: Any, text: list[str], text_b: Any = ..., *, method: Method[R], **choices: Unpack[Options]) -> Results[R]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Method[R], **choices: Unpack[Options]) -> R: ...
@overload
def explain(model: Any, text: list[str], text_b: Any = ..., *, method: Literal["ig", "sig", "dig", "udig"], **choices: Unpack[Options]) -> Results[Scores]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["ig", "sig", "dig", "udig"], **choices: Unpack[Options]) -> Scores: ...
@overload
def explain(model: Any, text: list[str], text_b: Any = ..., *, method: Literal["idg"], **choices: Unpack[Options]) -> Results[PhraseTree]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["idg"], **choices: Unpack[Options]) -> PhraseTree: ...
@overload
def explain(model: Any, text: list[str], text_b: Any = ..., *, method: Literal["ih"], **choices: Unpack[Options]) -> Results[Interactions]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["ih"], **choices: Unpack[Options]) -> Interactions: ...
@overload
def explain(model: Any, text: list[str], text_b: Any = ..., *, method: Literal["vaig"], **choices: Unpack[Options]) -> Results[VectorExplanation]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["vaig"], **choices: Unpack[Options]) -> VectorExplanation: ...
@overload
def explain(model: Any, text: list[str], text_b: Any = ..., *, method: Literal["ij"], **choices: Unpack[Options]) -> Results[PairExplanation]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["ij"], **choices: Unpack[Options]) -> PairExplanation: ...
@overload
def explain(model: Any, text: list[str], text_b: Any = ..., *, method: Literal["secant"], **choices: Unpack[Options]) -> Results[Secants]: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: Literal["secant"], **choices: Unpack[Options]) -> Secants: ...
@overload
def explain(model: Any, text: list[str], text_b: None = ..., *, method: None = ..., **choices: Unpack[Options]) -> Results[Scores]: ...
@overload
def explain(model: Any, text: One, text_b: None = ..., *, method: None = ..., **choices: Unpack[Options]) -> Scores: ...
@overload
def explain(model: Any, text: list[str], text_b: Any, *, method: None = ..., **choices: Unpack[Options]) -> Results[Scores | PairExplanation]: ...
@overload
def explain(model: Any, text: One, text_b: Any, *, method: None = ..., **choices: Unpack[Options]) -> Scores | PairExplanation: ...
@overload
def explain(model: Any, text: One, text_b: Any = ..., *, method: str, **choices: Unpack[Options]) -> Any: ...
@overload
def explain(model: TextModel, text: One, text_b: Any = ..., *, method: Any = ..., **choices: Any) -> Any: ...  # a kind with options of its own
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
    method: "ig" (default), "secant" (default of generators), "ij" (default for a sentence encoder with two texts), "sig",
        "vaig", …: `pl.methods()`; with its options by name, or as a record: `method="udig", steps=30` is `method=pl.UDIG(steps=30)`.
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
    return Explainer(model, method=method, **choices)(text, text_b, show_progress=show_progress, batch_size=batch_size)


shows_options(explain)
