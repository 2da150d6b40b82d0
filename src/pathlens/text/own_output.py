"""The right output: what is explained is what the model itself says, and a list says what its texts say alone.

Looked at for the first text of every kind of request, from token ids as a user calls the model: two rows more, and two for each
kind of baseline. The first text of another length that follows is read in one batch with it, and both alone: eight rows more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pathlens.errors import ModelError, setting
from pathlens.text.adapter import Case, Scores
from pathlens.text.outputs import Kept

if TYPE_CHECKING:
    from pathlens.text.language import LanguageModel


READS_IDS = (
    "this model takes more from the ids of a text than their word embeddings (another table, their positions, how many of a kind): "
    "that stays the text's along the path, so the output at the baseline is not what the model says of the baseline's own words"
)


@dataclass
class KnownOutput:
    """What is known of the outputs of one kind of request."""

    first: Case | None  # until a text of another length was compared with it
    by_length: bool = False  # padding changes the model's output: only texts of one length share a batch
    # by the kind of baseline: does the model take more from a text's ids than their rows?
    reads_ids: dict[str, bool] = field(default_factory=dict)


def compared(model: LanguageModel, draft: Case, case: Case, layer: int) -> Case:
    """The case, once its output is known to be the model's own; an error that shows both numbers where it is not."""
    read: Any = getattr(case.score, "read", None)
    kind = (layer, type(read), getattr(read, "score", ""), len(case.texts), len(case.meta.get("outputs", ())))
    if kind not in model.known:
        with torch.no_grad(), model.in_our_words(layer):  # the model's errors, not those of a caller's target function
            output = model.plain_output(draft)
        if layer and not model.network.below_too:
            model.network.below_too = not _the_same(model, case, layer, output)
        if (values := _another_value(model, case, layer, output, case.ends.end)) is not None:
            raise ModelError(_both(model, *values, layer))
        model.known[kind] = KnownOutput(case, by_length=bool(model.network.altered))
    known = model.known[kind]
    start = "" if draft.ends.start_ids is None else draft.baseline_kind
    if start not in known.reads_ids:
        known.reads_ids[start] = _reads_ids(model, draft, case, layer)
    if known.reads_ids[start]:
        case = case.noted(READS_IDS)
    first = known.first
    if first is not None and len(first) != len(case) and first.pack == case.pack and not known.by_length:
        known.by_length = not _packs(first, case)
        known.first = None
    return replace(case, pack=(case.score, len(case))) if known.by_length else case


def _the_same(model: LanguageModel, case: Case, layer: int, output: Any) -> bool:
    """Is the output its own when the blocks below the layer are left out?"""
    try:
        return _another_value(model, case, layer, output, case.ends.end) is None
    except Exception:  # what the next block was to be handed is missing
        return False


def _reads_ids(model: LanguageModel, draft: Case, case: Case, layer: int) -> bool:
    """Does the model say something else of other ids than of their rows beside the text's ids? The baseline's own ids; where it
    has none (zeros, a mean), any word's."""
    ids: Tensor = draft.context["input_ids"]
    if draft.ends.start_ids is not None:
        others = torch.tensor(draft.ends.start_ids, device=ids.device)
    else:
        known = {*ids.tolist(), *model.tokenizer.all_special_ids}
        word = next((each for each in range(len(model.network.embedding.weight)) if each not in known), 0)
        others = torch.where(draft.ends.held, ids, word)
    try:
        with torch.no_grad():
            rows = model.states(model.network.embed(others), draft, layer)
            return (
                _another_value(model, case, layer, model.plain_output(model.reworded(draft, others)), rows) is not None
            )
    except Exception:  # ids that are no text of this model's
        return False


def _another_value(
    model: LanguageModel, case: Case, layer: int, output: Any, rows: Float[Tensor, "S d"]
) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]] | None:
    """Where ours is too far from the model's own: both values of what is read, or the two numbers that are furthest apart in
    all of the output. One class, tag or word may agree by luck, and the next text asks for another."""
    read: Any = getattr(case.score, "read", None)
    with torch.no_grad(), model.in_our_words(layer):
        ours = model.forward(rows[None], [case], layer)
    theirs, explained = read(output, [case]), read(ours, [case])
    parts = list(zip(_parts(output, ours), _parts(ours, ours), strict=False))
    sizes = torch.cat([theirs.detach().flatten(), *(part.detach().flatten().to(theirs) for part, _ in parts)])
    if far(theirs, explained, sizes, rows):
        return theirs, explained
    for part, other in parts:  # of another shape: what is read of both is compared
        if part.shape == other.shape and far(part, other, part, rows):
            place = int(torch.where(part == other, torch.zeros_like(part), part - other).abs().argmax())
            return part.flatten()[place], other.flatten()[place]
    return None


def _parts(output: Any, ours: Any) -> list[Float[Tensor, "..."]]:
    """The tensors of an output: all classes, the tags of all tokens, starts and ends; a writer's at the positions we keep."""
    if isinstance(output, Kept):
        return [output.logits[:, torch.isin(output.at, ours.at)]]
    return [part for part in (output if isinstance(output, tuple) else (output,)) if isinstance(part, Tensor)]


def _at_ends(cases: Sequence[Case]) -> tuple[Scores, Scores]:
    """The score of every case at the baseline and at the text, in one batch."""
    rows = [*(case.ends.start for case in cases), *(case.ends.end for case in cases)]
    with torch.no_grad():
        values = cases[0].score(pad_sequence(rows, batch_first=True), [*cases, *cases])
    return values[: len(cases)], values[len(cases) :]


def _packs(one: Case, other: Case) -> bool:
    """Do both give in one batch what they give alone?"""
    together = torch.stack(_at_ends([one, other]), dim=1)
    alone = [torch.stack(_at_ends([case]), dim=1)[0] for case in (one, other)]
    return not any(far(*each, each[0], one.ends.end) for each in zip(alone, together, strict=True))


def far(
    expected: Float[Tensor, "..."],
    other: Float[Tensor, "..."],
    beside: Float[Tensor, "..."],
    like: Float[Tensor, "..."],
) -> bool:
    """Further apart than rounding explains: a third of the digits, half of those of a half precision, of what is largest."""
    if expected.shape != other.shape:
        return True
    unit = max(torch.finfo(each.dtype).eps for each in (like, expected))
    finite = [value[value.isfinite()].abs() for value in (expected, beside)]  # a logit may be forbidden: -inf in both
    size = max((float(value.max()) for value in finite if value.numel()), default=0.0)
    share = unit ** (2 / 3 if unit < 1e-4 else 1 / 2)
    off = torch.where(expected == other, torch.zeros_like(expected), expected - other)
    return not float(off.abs().max()) <= share * size + 10 * unit


def check_direction(user: Any, short: Float[Tensor, "T V"], whole: Float[Tensor, "T V"]) -> None:
    """Logits of the same tokens with one more after them, and without: teacher forcing needs them to be equal."""
    if far(short, whole, whole, whole):
        raise ModelError(
            f"{type(user).__name__} reads a token with those that follow it, so its output tokens cannot be explained one by "
            "one; where it has the option load it with is_decoder=True, or as a masked language model"
        )


def _both(model: LanguageModel, expected: Float[Tensor, "*out"], explained: Float[Tensor, "..."], layer: int) -> str:
    def shown(value: Float[Tensor, "..."]) -> str:
        return f"{value.item():.6g}" if value.numel() == 1 else f"a vector of length {value.float().norm():.6g}"

    cure = (
        f"layer={layer} cannot be entered in this architecture: use {setting(layer=0)}"
        if layer
        else (
            "this architecture does something with its input that pathlens does not follow: write a model kind "
            "(docs/extending.md) or report it with the class's name"
        )
    )
    return (
        f"{type(model.user).__name__} itself gives {shown(expected)} for this text, and what would be explained is "
        f"{shown(explained)}: the scores would belong to another number. {cure[0].upper()}{cure[1:]}"
    )
