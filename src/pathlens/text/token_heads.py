"""Models that answer at tokens: why did this token get this tag, why is this span the answer?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pathlens.errors import InputError
from pathlens.text.adapter import Case, Request
from pathlens.text.language import LanguageModel, Target, choose_label, form, labels_of, plain_number
from pathlens.text.tokens import Tokens


@dataclass(frozen=True)
class ReadTag:
    """Logits → the tag at the token each row asks for; target = (token, label)."""

    score: str

    def __call__(self, output: Float[Tensor, "B S C"], cases: Sequence[Case]) -> Float[Tensor, "B"]:
        place = torch.tensor([case.target for case in cases], device=output.device)
        rows = torch.arange(len(cases), device=output.device)
        return form(output[rows, place[:, 0]], place[:, 1], self.score)


def read_tags(output: Float[Tensor, "B S C"], cases: Sequence[Case]) -> Float[Tensor, "B S C"]:
    """Logits as they are: one vector per token."""
    return output


class Tagger(LanguageModel):
    """`AutoModelForTokenClassification`. Target: (token index, label); default: the surest tag that is not O."""

    kind = "token classification"
    token_axis = True

    def output(self, raw: Any, cases: Sequence[Case]) -> Float[Tensor, "B S C"]:
        logits: Tensor = raw.logits
        return logits

    def target(self, tokens: Tokens, output: Float[Tensor, "1 S C"], request: Request) -> Target:
        labels = labels_of(self.module, output.shape[-1])
        if request.vector:
            return Target("all tags", read_tags, outputs=tokens.tokens)
        sure = output[0].double().log_softmax(-1)  # probabilities of sure tags round to 1 and would tie
        place, wanted = self._place(tokens, sure, labels, request.target)
        label = choose_label(wanted, labels, int(sure[place].argmax()), "the target's label")
        score = request.score or "logit"
        name = f"{labels[label]} at token {place} {tokens.tokens[place]!r} ({score})"
        return Target(name, ReadTag(score), (place, label), again=(place, label), score=score)

    def _place(
        self, tokens: Tokens, sure: Float[Tensor, "S C"], labels: dict[int, str], wanted: Any
    ) -> tuple[int, Any]:
        if wanted is None:
            tagged = sure.clone()
            tagged[[i for i, s in enumerate(tokens.segments) if s < 0]] = -torch.inf
            tagged[:, [i for i, name in labels.items() if name == "O"]] = -torch.inf
            best = int(tagged.argmax())
            return best // len(labels), best % len(labels)
        wanted = tuple(map(plain_number, wanted)) if isinstance(wanted, tuple | list) else plain_number(wanted)
        if isinstance(wanted, int) and not isinstance(wanted, bool):
            wanted = (wanted, None)
        if not (isinstance(wanted, tuple | list) and len(wanted) == 2 and isinstance(wanted[0], int)):
            raise InputError(f"target of a tagger is (token index, label), got {wanted!r}")
        if not 0 <= wanted[0] < len(tokens):
            raise InputError(
                f"target={tuple(wanted)!r}: token index {wanted[0]} is out of range; the text has {len(tokens)} tokens: "
                + ", ".join(f"{i} {t!r}" for i, t in enumerate(tokens.tokens[:40]))
            )
        return wanted[0], wanted[1]


Logits = tuple[Float[Tensor, "B S"], Float[Tensor, "B S"]]  # of the start and of the end of an answer
LONGEST_ANSWER = 64  # tokens; the usual limit when the best span is sought


@dataclass(frozen=True)
class ReadSpan:
    """Logits of the start and of the end → start, end, or their sum at the span each row asks for."""

    which: str
    score: str

    def __call__(self, output: Logits, cases: Sequence[Case]) -> Float[Tensor, "B"]:
        place = torch.tensor([case.target for case in cases], device=output[0].device)
        lengths = torch.tensor([len(case) for case in cases], device=output[0].device)
        parts = []
        for side, name in enumerate(("start", "end")):
            if self.which in (name, "span"):
                parts.append(self._read(output[side], place[:, side], lengths))
        total = torch.stack(parts).sum(0)
        return total.exp() if self.score == "prob" else total

    def _read(
        self, logits: Float[Tensor, "B S"], index: Int[Tensor, "B"], lengths: Int[Tensor, "B"]
    ) -> Float[Tensor, "B"]:
        rows = torch.arange(len(index), device=logits.device)
        if self.score == "logit":
            return logits[rows, index]
        beyond = torch.arange(logits.shape[1], device=logits.device) >= lengths[:, None]  # padding is no answer
        return torch.log_softmax(logits.float().masked_fill(beyond, -torch.inf), dim=-1)[rows, index]


def read_both(output: Logits, cases: Sequence[Case]) -> Float[Tensor, "B 2 S"]:
    """Logits of the start and of the end: two vectors."""
    return torch.stack(output, dim=1)


class Answerer(LanguageModel):
    """`AutoModelForQuestionAnswering`: text = question, text_b = passage.

    Target: "span" (default, the sum of both logits at the predicted span), "start" or "end".
    """

    kind = "question answering"
    token_axis = True

    def output(self, raw: Any, cases: Sequence[Case]) -> Logits:
        return raw.start_logits, raw.end_logits

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        if text_b is None:
            raise InputError("question answering needs two texts: explain(model, question, passage)")
        return super().tokenise(text, text_b, request)

    def target(self, tokens: Tokens, output: Logits, request: Request) -> Target:
        if request.vector:
            return Target("start and end logits", read_both, outputs=("start", "end"))
        which = "span" if request.target is None else request.target
        if which not in ("start", "end", "span"):
            raise InputError(f'target of question answering is "start", "end" or "span", got {which!r}')
        start, end = best_span(output[0][0], output[1][0], tokens.segments)
        first, last = tokens.offsets[start][0], tokens.offsets[end][1]
        score = request.score or "logit"
        name = f"{which} of the answer {tokens.texts[1][first:last]!r} ({score})"
        return Target(name, ReadSpan(which, score), (start, end), again=which, score=score)


def best_span(start: Float[Tensor, "S"], end: Float[Tensor, "S"], segments: Sequence[int]) -> tuple[int, int]:
    """The span of the passage with the largest sum of logits, start before end."""
    inside = torch.tensor([segment == 1 for segment in segments], device=start.device)
    if not inside.any():
        raise InputError("no token of the passage is left after truncation; shorten the question or split the passage")
    sums = start[:, None].float() + end[None, :].float()
    place = torch.arange(len(segments), device=start.device)
    ahead = place[None, :] - place[:, None]
    allowed = inside[:, None] & inside[None, :] & (ahead >= 0) & (ahead < LONGEST_ANSWER)
    best = int(sums.masked_fill(~allowed, -torch.inf).argmax())
    return best // len(segments), best % len(segments)
