"""Where a path starts: the row that stands for "nothing said here"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from pathlens.checks import did_you_mean
from pathlens.errors import InputError, setting
from pathlens.text.network import Network
from pathlens.text.options import check_baseline_name
from pathlens.text.tokens import Tokens
from pathlens.types import BASELINES, ROWS_FOR_NOTHING, TOKENS_FOR_NOTHING


@dataclass(frozen=True, eq=False)
class Baseline:
    """Where the path of one text starts, at the word embeddings."""

    rows: Float[Tensor, "S d"]
    ids: tuple[int, ...] | None  # when every row is a vocabulary row
    name: str
    given: str | tuple[str, ...] | None  # what to ask for to have it again, where that is a name or a text
    kind: str  # equal where rows of two texts are made alike: a name, or "text" of all words of a caller's own
    notes: tuple[str, ...] = ()


def token_ids(tokenizer: Any) -> dict[str, int]:
    """The tokens that may stand for nothing, by name: read from the tokenizer, never hard-coded."""
    ids = {name: getattr(tokenizer, f"{name}_token_id", None) for name in TOKENS_FOR_NOTHING}
    return {name: int(number) for name, number in ids.items() if number is not None}


def default_name(tokenizer: Any, decoder: bool) -> str:
    """`mask` where the model has a mask token; a decoder starts from the mean embedding (its path is smooth)."""
    known = token_ids(tokenizer)
    return "mask" if "mask" in known else "mean" if decoder else "pad" if "pad" in known else "zero"


def word_rows(choice: Any, tokens: Tokens, held: Bool[Tensor, " S"], network: Network, tokenizer: Any) -> Baseline:
    """The baseline's word embeddings; held tokens keep the text's rows."""
    ids = torch.tensor(tokens.ids)
    end = network.embed(ids)
    if isinstance(choice, Tensor):
        return given_rows(choice, end, held)
    if isinstance(choice, tuple) and all(isinstance(part, str) for part in choice):
        return _text(choice, tokens, held, network, tokenizer)
    if not isinstance(choice, str):
        raise InputError(
            f"baseline must be one of {', '.join(BASELINES)}, a text, a tensor, or a list of these; got "
            f"{type(choice).__name__}"
        )
    check_baseline_name(choice)
    if choice in BASELINES or choice in getattr(tokenizer, "all_special_tokens", ()):
        return named_rows(choice, ids, held, network, tokenizer)
    return _text((choice,), tokens, held, network, tokenizer)


def own_names(tokenizer: Any) -> tuple[str, ...]:
    """Baselines that every text of this model can have, by name."""
    return (*token_ids(tokenizer), *ROWS_FOR_NOTHING)


def named_rows(
    name: str, ids: Int[Tensor, " S"], held: Bool[Tensor, " S"], network: Network, tokenizer: Any
) -> Baseline:
    """One row for every token that is not held: a token's, zero or the mean."""
    if name in ROWS_FOR_NOTHING:
        return _constant(name, network.embed(ids), held, network)
    start = torch.where(held.cpu(), ids, torch.full_like(ids, _token_id(name, tokenizer)))
    return Baseline(network.embed(start), tuple(start.tolist()), name, name, name)


def _token_id(name: str, tokenizer: Any) -> int:
    """A token by its name, or a special one as it is written."""
    if name not in BASELINES:
        return int(tokenizer.convert_tokens_to_ids(name))
    known = token_ids(tokenizer)
    if name == "quiet":
        raise InputError(
            f"{setting(baseline='quiet')} is the reference of a sentence encoder, and this model is none; use 'mask' or 'mean'"
        ).plainly("“quiet” is for models that compare two texts. Choose another baseline, as mean.", "baseline")
    if name not in known:
        able = ", ".join(own_names(tokenizer))
        raise InputError(
            f"{setting(baseline=name)}: this model's tokenizer has no {name} token; it offers {able}"
        ).plainly(f"This model has no {name} token. It takes {able}, or words of yours.", "baseline")
    return known[name]


def _constant(name: str, end: Float[Tensor, "S d"], held: Bool[Tensor, " S"], network: Network) -> Baseline:
    row = network.mean_row().to(end.dtype) if name == "mean" else torch.zeros_like(end[0])
    return Baseline(torch.where(held[:, None], end, row), None, name, name, name)


def given_rows(tensor: Shaped[Tensor, "..."], end: Float[Tensor, "S d"], held: Bool[Tensor, " S"]) -> Baseline:
    """A tensor of the text's shape, or one row for every token."""
    if tensor.shape not in (end.shape, end.shape[1:]):
        raise InputError(
            f"the baseline tensor has shape {tuple(tensor.shape)}; this text needs {tuple(end.shape)} (tokens × "
            f"coordinates), or {tuple(end.shape[1:])} for one row used for every token"
        )
    if not torch.isfinite(tensor).all():
        raise InputError("the baseline tensor holds NaN or infinity")
    rows = tensor.to(end).expand_as(end)
    return Baseline(torch.where(held[:, None], end, rows), None, "tensor", None, "tensor")


def _text(
    texts: tuple[str, ...], tokens: Tokens, held: Bool[Tensor, " S"], network: Network, tokenizer: Any
) -> Baseline:
    """A given text laid over the moving tokens, cut or filled to their number (of each segment, for a pair)."""
    start, notes, known = list(tokens.ids), [], token_ids(tokenizer)
    fill = next(iter(known.values()), None)
    for number, text in enumerate(texts):
        free = [(i, segment) for i, segment in enumerate(tokens.segments) if not held[i]]
        places = [i for i, segment in free if segment == number or (len(texts) == 1 and segment >= 0)]
        new = list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
        if not new:
            raise InputError(
                f"the baseline text {text!r} has no tokens; give words, or a name: {', '.join(BASELINES)}"
            ).plainly(f"There are no words in “{text}”. Choose a baseline from the list, or write words.", "baseline")
        if known.get("unk") in new:
            raise InputError(
                f"the baseline text {text!r} holds a word that the model's vocabulary does not have; choose another word"
            ).plainly(f"The model does not know a word of “{text}”. Write others, or choose from the list.", "baseline")
        if len(text.split()) == 1 and len(new) > 1:
            pieces = " ".join(map(str, tokenizer.convert_ids_to_tokens(new)))
            raise InputError(
                f"the baseline word {text!r} is not one word of the model's vocabulary (it becomes {pieces}); choose another "
                f"word, or give a text of several words; names: {', '.join(BASELINES)}{did_you_mean(text.lower(), BASELINES)}"
            ).plainly(
                f"“{text}” is not one word to this model (it reads {pieces}). Choose a baseline from the list, or write another "
                f"word or several{did_you_mean(text.lower(), BASELINES)}.",
                "baseline",
            )
        if len(new) < len(places):
            if fill is None:
                raise InputError(
                    f"the baseline text has {len(new)} tokens, the text {len(places)}, and the tokenizer has no token to "
                    "fill the rest; give a baseline of the same length"
                ).plainly(
                    f"The baseline has {len(new)} tokens, the text {len(places)}. Write as many words.", "baseline"
                )
            notes.append(
                f"the baseline text was filled from {len(new)} to {len(places)} tokens with "
                f"{tokenizer.convert_ids_to_tokens(fill)}"
            )
            new += [fill] * (len(places) - len(new))
        elif len(new) > len(places):
            notes.append(f"the baseline text was cut from {len(new)} to {len(places)} tokens")
        for place, token in zip(places, new, strict=False):
            start[place] = token
    name, given = "text: " + " | ".join(texts), texts[0] if len(texts) == 1 else texts
    return Baseline(network.embed(torch.tensor(start)), tuple(start), name, given, "text", tuple(notes))
