"""Causal language models: GPT-2, Llama and kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pathlens.errors import InputError
from pathlens.text.adapter import Case, Request, collate
from pathlens.text.generator import DEFAULT_SCORE, Generator
from pathlens.text.options import GeneratorOptions
from pathlens.text.outputs import Asked, Kept, Output, joined
from pathlens.text.tokens import Tokens


class CausalLM(Generator):
    """`AutoModelForCausalLM`. The first position is an attention sink: a token there is held along the whole path.

    The tokenizer's own beginning token serves where it adds one. Where it adds none, `sink` names the token that is
    put in front (None: none); that changes the prompt, so the result says it.
    """

    kind = "causal language model"
    one_text = True

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Any,
        *,
        name: str | None = None,
        sink: str | None = None,
        layer: int = 0,
        score: str = DEFAULT_SCORE,
    ) -> None:
        super().__init__(module, tokenizer, name=name)
        self.default_layer, self.default_score = layer, score
        self.named = sink is not None
        self.sink = sink or getattr(tokenizer, "bos_token", None) or getattr(tokenizer, "eos_token", None)

    def settings(self) -> tuple[str | int | float, ...]:
        return str(self.sink), self.default_layer, self.default_score

    def opened(self, prompt: Tokens, request: Request) -> Tokens:
        body = prompt
        if "template" not in prompt.meta:  # a chat's template begins and ends as it wants
            words = [i for i, segment in enumerate(prompt.segments) if segment >= 0]
            prompt = _cut(
                prompt, 0, words[-1] + 1
            )  # a special token that closes the text would close it before its output
            body = _cut(
                prompt, words[0], len(prompt)
            )  # without the beginning that the tokenizer adds of its own accord
        asked = request.options_of(GeneratorOptions).sink
        if asked is None or asked is False:
            return body
        # May the prompt's own first token serve? Any special one, unless the adapter knows which one this model needs.
        begins = not self.named and prompt.ids[0] in self.tokenizer.all_special_ids
        if asked is True and (prompt.segments[0] < 0 or begins):
            return _holding_first(prompt)
        sink = self.sink if asked is True else asked
        if sink is None:
            return prompt
        number = self._sink_id(sink)
        if body.ids[0] == number:
            return _holding_first(body)
        note = f"{sink} was put in front of the prompt and held: the first position is an attention sink (sink=None: without)"
        opened = replace(
            body,
            ids=(number, *body.ids),
            tokens=(str(sink), *body.tokens),
            offsets=((0, 0), *body.offsets),
            segments=(-1, *body.segments),
        )
        return opened.noted(note, sink=sink)

    def _sink_id(self, wanted: Any) -> int:
        number = self.tokenizer.convert_tokens_to_ids(wanted) if isinstance(wanted, str) else None
        if not isinstance(number, int) or self.tokenizer.convert_ids_to_tokens(number) != wanted:
            names = ", ".join(map(repr, self.tokenizer.all_special_tokens))
            raise InputError(f"sink must be one token of the vocabulary or None, got {wanted!r}; special ones: {names}")
        return number

    def room(self, opened: Tokens) -> int | None:
        return None if self.limit is None else self.limit - len(opened) + 1

    def laid(self, opened: Tokens, outputs: Sequence[Output]) -> Asked:
        tails = [number for number, output in enumerate(outputs, 1) for _ in output.ids[:-1]]
        branch = torch.tensor([*[0] * len(opened), *tails])  # 0 for the prompt, k for the tokens of output k
        depth = torch.arange(len(branch))
        if int(branch.max()) > 1:  # the second alternative follows the prompt, not the first one
            depth[branch == 2] -= int((branch == 1).sum())
        context = {"attention_mask": torch.ones(len(branch), dtype=torch.long), "position_ids": depth}
        if int(branch.max()) > 1:
            context["branch"] = branch
        return joined(opened, outputs, context, first=len(opened) - 1)

    def inputs(self, context: dict[str, Tensor]) -> dict[str, Tensor]:
        """Two alternatives in one sequence: neither sees the other."""
        if "branch" not in context:
            return context
        mask = _tree_mask(context["branch"], context["attention_mask"], self.network.dtype)
        return {"position_ids": context["position_ids"], "attention_mask": mask}

    def forward(self, points: Float[Tensor, "B S d"], cases: Sequence[Case], layer: int) -> Kept:
        context = self.inputs(collate(cases, points))
        wanted = {at for case in cases for at in (case.target.at if case.target else (len(case) - 1,))}
        at = torch.tensor(sorted(wanted), device=points.device)  # before the target is known, the last position
        if "logits_to_keep" in self.network.accepts:
            return Kept(self.output(self.network.run(points, {**context, "logits_to_keep": at}, layer), cases), at)
        return Kept(self.output(self.network.run(points, context, layer), cases)[:, at], at)

    def reader(self, opened: Tokens) -> Callable[[list[int]], Tensor]:
        """With the model's own cache: each call runs the new token alone."""
        device, cache = self.network.device, None
        keep = {"logits_to_keep": 1} if "logits_to_keep" in self.network.accepts else {}

        def read(written: list[int]) -> Tensor:
            nonlocal cache
            new = [*opened.ids, *written] if cache is None else written[-1:]
            ids = torch.tensor([new], device=device)
            raw = self.module(input_ids=ids, past_key_values=cache, use_cache=True, **keep)
            cache = getattr(raw, "past_key_values", None)
            return self.output(raw, ())[0, -1]

        return read


def _tree_mask(branch: Int[Tensor, "B S"], real: Int[Tensor, "B S"], dtype: torch.dtype) -> Float[Tensor, "B 1 S S"]:
    """Added to attention: earlier tokens of the prompt and of the own alternative."""
    length = branch.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool, device=branch.device).tril()
    same = (branch[:, None, :] == 0) | (branch[:, None, :] == branch[:, :, None])
    seen = earlier & same & (real[:, None, :] > 0)
    seen = seen | torch.eye(length, dtype=torch.bool, device=branch.device)
    blocked = torch.zeros(seen.shape, dtype=dtype, device=branch.device)
    return blocked.masked_fill(~seen, torch.finfo(dtype).min)[:, None]


def _holding_first(prompt: Tokens) -> Tokens:
    first = prompt.tokens[0]
    held = prompt.holding([i == 0 for i in range(len(prompt))])
    return held.noted(f"{first}, the prompt's own beginning, is held", sink=first)


def _cut(prompt: Tokens, first: int, last: int) -> Tokens:
    sequences = {name: getattr(prompt, name)[first:last] for name in ("ids", "tokens", "offsets", "segments")}
    return replace(prompt, **sequences)
