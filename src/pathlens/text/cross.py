"""A CrossEncoder of sentence-transformers: what its `predict` says is what is explained, or it is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from pathlens.errors import ModelError
from pathlens.text.heads import Classifier


def crossed(encoder: Any) -> Classifier:
    """Its transformer and head as a classifier that cuts texts and makes probabilities as the encoder does."""
    _refuse_yes_or_no(encoder)
    first, *after = list(encoder)
    if after:
        raise ModelError(
            f"this CrossEncoder goes through {', '.join(type(part).__name__ for part in after)} after its transformer, which "
            "pathlens does not follow; it takes one whose transformer has the head itself (…ForSequenceClassification)"
        )
    if getattr(encoder, "default_prompt_name", None) is not None:
        raise ModelError(
            f"this CrossEncoder puts its prompt {encoder.default_prompt_name!r} before every text, which pathlens does not follow; "
            "set default_prompt_name=None and write the prompt into the text"
        )
    model = Classifier(encoder.model, encoder.tokenizer)
    model.function, shown = function_of(encoder.activation_fn), type(encoder.activation_fn).__name__
    model.bare = (
        f"this CrossEncoder predicts {'its logits as they are' if shown == 'Identity' else f'{shown} of its logits'}",
        "give it activation_fn=torch.nn.Sigmoid() or torch.nn.Softmax(dim=-1)",
    )
    longest = getattr(first, "max_seq_length", None)
    model.cut_at = None if longest is None or longest == float("inf") else int(longest)
    model.witness = lambda *texts: encoder.preprocess([texts if len(texts) > 1 else texts[0]])["input_ids"][0].tolist()
    return model


def function_of(activation: Callable[..., Any]) -> str:
    """What makes probabilities of logits; anything but a sigmoid or a softmax of each row makes none."""
    if isinstance(activation, nn.Sigmoid):
        return "sigmoid"
    rows = isinstance(activation, nn.Softmax) and activation.dim in (None, 1, -1)
    return "softmax" if rows else "none"


def _refuse_yes_or_no(encoder: Any) -> None:
    """A language model that ranks: what it says is the difference of two continuations, which is asked for by itself."""
    score = next((part for part in encoder if type(part).__name__ == "LogitScore"), None)
    if score is None:
        return
    yes, no = (
        None if number is None else encoder.tokenizer.decode([number])
        for number in (score.true_token_id, score.false_token_id)
    )
    against = "" if no is None else f", contrast={no!r}"
    raise ModelError(
        f"this CrossEncoder asks a language model for {yes!r}; explain that: pl.explain((encoder.model, encoder.tokenizer), "
        f"the whole prompt, target={yes!r}{against})"
    )
