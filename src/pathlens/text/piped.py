"""A pipeline of transformers reads its texts in its own way: that is followed, or refused in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pathlens.errors import ModelError
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
