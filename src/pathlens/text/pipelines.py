"""A pipeline of transformers or a CrossEncoder of sentence-transformers reads and says things in its own way: that is what is
explained, or it is refused in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from pathlens.errors import ModelError
from pathlens.text.heads import Classifier
from pathlens.text.language import LanguageModel
from pathlens.text.options import GeneratorOptions
from pathlens.text.tokens import NO_LIMIT

CUTS = (True, "longest_first")
NO_CUT = (None, False, "do_not_truncate")
AS_WE_READ: Mapping[str, tuple[Any, ...]] = {  # options that leave a text's ids as they are, by their values
    "truncation": (*CUTS, *NO_CUT),
    "padding": (None, True, False, "longest", "do_not_pad"),  # of one text
    "add_special_tokens": (None, True),
    "is_split_into_words": (None, False),
    "prefix": (None, ""),
    "handle_long_generation": (None,),
    "return_attention_mask": (None, True),
    "return_token_type_ids": (None, True),
    "pad_to_multiple_of": (None,),
    "tools": (None,),
    "documents": (None,),
}
TOKENIZER = frozenset(
    {"stride", "padding_side", "split_special_tokens", "text_pair", "text_target", "text_pair_target"}
)
ONE_TEXT = ("sequence classification", "sentence encoder")  # kinds whose pipelines make one row of ids of a text


def follow(model: LanguageModel, pipeline: Any) -> None:
    """The model cuts long texts where the pipeline does; what it does besides to a text's ids is refused."""
    choices = dict(getattr(pipeline, "_preprocess_params", None) or {})
    for nested in ("tokenizer_kwargs", "tokenizer_encode_kwargs"):
        choices |= choices.pop(nested, None) or {}
    strange = [name for name, value in choices.items() if _changes_ids(name, value)]
    writes = issubclass(model.options, GeneratorOptions)
    if writes and choices.get("truncation") in CUTS:  # its limit is that of the prompt and what follows
        strange.append("truncation")
    if strange:
        options = ", ".join(f"{name}={choices[name]!r}" for name in strange)
        raise ModelError(
            f"this pipeline was made with {options}, which changes the tokens its model reads, and pathlens does not follow it: "
            "make the pipeline without, or pass (model, tokenizer)"
        )
    if not writes:
        model.cut_at = _cut_at(choices, model)
    if model.kind in ONE_TEXT and hasattr(pipeline, "preprocess"):
        model.witness = lambda *texts: pipeline.preprocess(_given(*texts), **choices)["input_ids"][0].tolist()


def _given(text: str, text_b: str | None = None) -> Any:
    """One text, or two as one input, as a pipeline takes them."""
    return text if text_b is None else {"text": text, "text_pair": text_b}


def _changes_ids(name: str, value: Any) -> bool:
    if name in AS_WE_READ:
        return not any(value is each or (isinstance(value, str) and value == each) for each in AS_WE_READ[name])
    return name in TOKENIZER and value not in (None, 0, False)


def _cut_at(choices: Mapping[str, Any], model: LanguageModel) -> int | None:
    """How many tokens the pipeline leaves of a text; None: all. A max_length by itself cuts, unless texts are padded."""
    longest, cut = choices.get("max_length"), choices.get("truncation")
    alone = cut is None and longest is not None and choices.get("padding") in (None, False, "do_not_pad")
    if cut not in CUTS and not alone:
        return None
    if longest is not None:
        return int(longest)
    stated = getattr(model.tokenizer, "model_max_length", None)
    return int(stated) if stated and stated < NO_LIMIT else model.limit


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
