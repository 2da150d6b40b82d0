"""Sequence classification: one text or a pair, encoders and decoders, cross-encoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pathlens.errors import ModelError
from pathlens.text.adapter import Case, Request, index_of
from pathlens.text.language import LanguageModel, Target, choose_label, form, labels_of
from pathlens.text.network import Forward, Network, replaced_forwards
from pathlens.text.tokens import Tokens


@dataclass(frozen=True)
class ReadClass:
    """Logits → the class each row asks for."""

    score: str

    def __call__(self, output: Float[Tensor, "B C"], cases: Sequence[Case]) -> Float[Tensor, "B"]:
        return form(output, index_of(cases, output.device), self.score)


def read_all(output: Float[Tensor, "B C"], cases: Sequence[Case]) -> Float[Tensor, "B 1 C"]:
    """All logits as one vector."""
    return output[:, None]


class Classifier(LanguageModel):
    """`AutoModelForSequenceClassification` and kin.

    A decoder's own head looks for its last real token through token ids, which a path has not; so the body runs
    alone and the head is applied here to the token it would have found. The logits are the same.
    """

    kind = "sequence classification"

    def __init__(self, module: nn.Module, tokenizer: Any, *, name: str | None = None) -> None:
        self.decoder = _reads_last_token(module)
        super().__init__(module, tokenizer, name=name)

    def body(self) -> nn.Module:
        body: nn.Module = getattr(self.module, "base_model", self.module)
        return body if self.decoder else self.module

    @cached_property
    def read_first(self) -> list[nn.Linear]:
        """Layers whose results are read at the first token alone ([CLS]); a decoder reads its last."""
        return [] if self.decoder else linears_of_the_first_token(self.network, lambda raw: raw.logits)

    def forward(self, points: Float[Tensor, "B S d"], cases: Sequence[Case], layer: int) -> Any:
        if self.network.runs_again:  # blocks run a second time in the reverse pass, as they are then
            return super().forward(points, cases, layer)
        with first_token_alone(self.read_first):
            return super().forward(points, cases, layer)

    def output(self, raw: Any, cases: Sequence[Case]) -> Tensor:
        logits: Tensor = self._read_last(raw.last_hidden_state, cases) if self.decoder else raw.logits
        return logits

    def _read_last(self, hidden: Float[Tensor, "B S d"], cases: Sequence[Case]) -> Float[Tensor, "B C"]:
        last = torch.tensor([case.meta.get("read_at", len(case) - 1) for case in cases], device=hidden.device)
        head: Any = self.module.score
        logits: Tensor = head(hidden[torch.arange(len(cases), device=hidden.device), last])
        return logits

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        """A decoder reads its answer at the last token that is not padding, also where the text ends in that token."""
        tokens = super().tokenise(text, text_b, request)
        pad = getattr(self.module.config, "pad_token_id", None)
        read_at = max((i for i, token in enumerate(tokens.ids) if token != pad), default=len(tokens) - 1)
        if not self.decoder or read_at == len(tokens) - 1:
            return tokens
        note = f"the model reads its answer at token {read_at}: what follows is its padding token"
        return tokens.noted(note, read_at=read_at)

    def target(self, tokens: Tokens, output: Tensor, request: Request) -> Target:
        if output.ndim != 2:
            raise ModelError(f"expected one row of logits per text, the model gave shape {tuple(output.shape)}")
        labels = labels_of(self.module, output.shape[1])
        if request.vector:
            return Target("all logits", read_all, outputs=("logits",))
        index = choose_label(request.target, labels, int(output[0].argmax()))
        score = request.score or "logit"
        named = len(labels) > 1 or request.target is not None
        name = f"{labels[index] if named else 'score'} ({score})"
        return Target(name, ReadClass(score), index, again=index if named else None, score=score)


def _reads_last_token(module: nn.Module) -> bool:
    return isinstance(getattr(module, "score", None), nn.Linear) and hasattr(module, "base_model")


# ---- a classifier that reads [CLS] alone
#
# Its last block need not be computed for the other tokens: their keys and values are needed, but queries, the attention's
# output and the feed-forward part count at the first token only. That is five sixths of the last block, a seventh of a
# model with six, in every pass forward and back.

ROWS, TOKENS = 2, 5  # of the pass that finds out


def linears_of_the_first_token(network: Network, output: Callable[[Any], Tensor]) -> list[nn.Linear]:
    """Linear layers of the last block whose results matter at the first token alone.

    Found by a gradient, for any architecture: that of the output by the layer's result is exactly zero at every other
    token, and not at the first. `output` reads the numbers explained from what the model returns.
    """
    if not network.blocks or len(network.blocks) != network.depth:
        return []
    linears = [part for part in network.blocks[-1].modules() if type(part) is nn.Linear]
    results: dict[nn.Linear, list[Tensor]] = {part: [] for part in linears}
    hooks = [part.register_forward_hook(lambda part, _, result: results[part].append(result)) for part in linears]
    ids = torch.arange(ROWS * TOKENS).reshape(ROWS, TOKENS) % network.embedding.weight.shape[0]
    mask = torch.ones(ROWS, TOKENS, dtype=torch.long, device=network.device)
    try:
        with torch.inference_mode(False), torch.enable_grad(), network.quiet():
            points = network.embed(ids).clone().requires_grad_()
            value = output(network.call(points, {"attention_mask": mask}))
            weight = torch.linspace(1.0, 2.0, value.numel(), device=value.device, dtype=value.dtype)
            once = [part for part in linears if len(results[part]) == 1 and results[part][0].shape[:-1] == ids.shape]
            if not once:
                return []
            total = (value.flatten() * weight).sum()
            slopes = torch.autograd.grad(total, [results[part][0] for part in once], allow_unused=True)
    finally:
        for hook in hooks:
            hook.remove()
    return [
        part
        for part, slope in zip(once, slopes, strict=True)
        if slope is not None and bool(slope[:, 0].any()) and not bool(slope[:, 1:].any())
    ]


@contextmanager
def first_token_alone(linears: Sequence[nn.Linear]) -> Iterator[None]:
    """These layers computed for the first token inside, zeros for the others, which nobody reads."""

    def forward(original: Forward, states: Tensor) -> Tensor:
        return nn.functional.pad(original(states[:, :1]), (0, 0, 0, states.shape[1] - 1))

    with replaced_forwards(linears, forward):
        yield
