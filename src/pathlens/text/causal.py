"""Causal language models: GPT-2, Llama and kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from pathlens.errors import InputError, PathlensError
from pathlens.integrand.batch import out_of_memory
from pathlens.text.adapter import Case, Request, collate
from pathlens.text.generator import DEFAULT_SCORE, Generator
from pathlens.text.network import named
from pathlens.text.options import GeneratorOptions
from pathlens.text.outputs import Asked, Kept, Output, joined
from pathlens.text.own_output import check_direction
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
            prompt = _cut(prompt, 0, words[-1] + 1)  # a special token that closes the text would close it too early
            body = _cut(prompt, words[0], len(prompt))  # without the beginning that the tokenizer adds
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
        note = f"{sink} was put in front of the prompt and held: the first position is an attention sink (option sink)"
        if prompt.meta.get("truncated") and self.limit is not None:  # the token in front takes a place
            left = getattr(self.tokenizer, "truncation_side", "right") == "left"
            first = max(0, len(body) + 1 - self.limit) if left else 0
            body = _cut(body, first, first + self.limit - 1)
        front = {"ids": number, "tokens": str(sink), "offsets": (0, 0), "segments": -1}
        longer: dict[str, Any] = {name: (value, *getattr(body, name)) for name, value in front.items()}
        return replace(body, **longer).noted(note, sink=sink)

    def _sink_id(self, wanted: Any) -> int:
        number = self.tokenizer.convert_tokens_to_ids(wanted) if isinstance(wanted, str) else None
        if not isinstance(number, int) or self.tokenizer.convert_ids_to_tokens(number) != wanted:
            names = ", ".join(map(repr, self.tokenizer.all_special_tokens))
            raise InputError(f"sink must be one token of the vocabulary or None, got {wanted!r}; special ones: {names}")
        return number

    def room(self, opened: Tokens) -> int | None:
        return None if self.limit is None else self.limit - len(opened) + 1

    def laid(self, opened: Tokens, outputs: Sequence[Output]) -> Asked:
        """The second alternative of a contrast follows the prompt, not the first one: see `lines`."""
        rows = len(opened) + sum(len(output) - 1 for output in outputs)
        asked = joined(opened, outputs, {"attention_mask": torch.ones(rows, dtype=torch.long)}, first=len(opened) - 1)
        parts = {"prompt_ends": len(opened), "first_output_ends": len(opened) + len(outputs[0]) - 1}
        return replace(asked, meta={**asked.meta, **parts})

    def lines(self, case: Case) -> list[list[int]]:
        """The rows that the model reads as one text: all of them, or those of each alternative after the prompt."""
        rows, second = list(range(len(case))), int(case.meta["first_output_ends"])
        prompt = rows[: int(case.meta["prompt_ends"])]
        return [rows] if second == len(case) else [rows[:second], prompt + rows[second:]]

    def states(self, rows: Float[Tensor, "S d"], draft: Case, layer: int) -> Float[Tensor, "S k"]:
        """Those of the prompt are the same before every alternative."""
        states = [self.network.states(*_laid(rows[None], [draft], [(0, line)]), layer)[0] for line in self.lines(draft)]
        return _spread(states, self.lines(draft), len(rows))

    def plain_output(self, draft: Case) -> Kept:
        """Where an output token is read from, and at one place before: all of a long prompt's logits would take gigabytes."""
        lines, first = self.lines(draft), max(0, int(draft.meta["prompt_ends"]) - 2)
        read = [self._own_logits(draft, line, first) for line in lines]
        if len(lines[0]) > 1:
            check_direction(self.user, self._own_logits(draft, lines[0][:-1], first), read[0][:-1])
        logits = _spread(read, [[row - first for row in line[first:]] for line in lines], len(draft) - first)
        return Kept(logits[None], torch.arange(first, len(draft), device=logits.device))

    def _own_logits(self, draft: Case, line: Sequence[int], first: int) -> Float[Tensor, "_ V"]:
        """Of a line, from one place on."""
        inputs = {name: value[list(line)] for name, value in draft.context.items()}
        if "logits_to_keep" in self.network.accepts:
            return self.output(self.ask(inputs, logits_to_keep=len(line) - first), ())[0]
        return self.output(self.ask(inputs), ())[0, first:]

    def forward(self, points: Float[Tensor, "B S d"], cases: Sequence[Case], layer: int) -> Kept:
        """Each alternative is read by itself, as the model would write it: neither sees the other."""
        wanted = sorted({row for case in cases for row in (case.target.at if case.target else (len(case) - 1,))})
        at = torch.tensor(wanted, device=points.device)  # before the target is known, the last position
        lines = [(number, line) for number, case in enumerate(cases) for line in self.lines(case)]
        if len(lines) == len(cases):
            return Kept(self._logits(points, collate(cases, points), layer, at), at)
        last_first = reversed(list(enumerate(lines)))
        places = {(n, row): (k, place) for k, (n, line) in last_first for place, row in enumerate(line)}
        cells = [[places.get((number, row), (0, 0)) for row in wanted] for number in range(len(cases))]
        which, place = torch.tensor(cells, device=points.device).unbind(-1)
        spots, index = place.unique(return_inverse=True)
        return Kept(self._logits(*_laid(points, cases, lines), layer, spots)[which, index], at)

    def _logits(
        self,
        points: Float[Tensor, "B S d"],
        context: dict[str, Shaped[Tensor, "B S ..."]],
        layer: int,
        at: Int[Tensor, " P"],
    ) -> Float[Tensor, "B P V"]:
        """A vocabulary is large: at these positions alone."""
        if "logits_to_keep" in self.network.accepts:
            return self.output(self.network.run(points, {**context, "logits_to_keep": at}, layer), ())
        return self.output(self.network.run(points, context, layer), ())[:, at]

    def reader(self, opened: Tokens) -> Callable[[list[int]], Tensor]:
        """With the model's own cache: each call runs the new token alone. Without, where the model fails on it."""
        device, accepts, cache, caching = self.network.device, self.network.accepts, None, True
        keep = {"logits_to_keep": 1} if "logits_to_keep" in accepts else {}
        plain = {"use_cache": False} if "use_cache" in accepts else {}

        def run(new: Sequence[int], **inputs: Any) -> Any:
            return named(self.module(input_ids=torch.tensor([new], device=device), **inputs, **keep))

        def read(written: list[int]) -> Float[Tensor, " V"]:
            nonlocal cache, caching
            every = [*opened.ids, *written]
            if caching:
                try:
                    raw = run(every if cache is None else written[-1:], past_key_values=cache, use_cache=True)
                    cache = getattr(raw, "past_key_values", None)
                    return self.output(raw, ())[0, -1]
                except Exception as error:  # xLSTM's own cache has another shape than its kernels want
                    if isinstance(error, PathlensError) or out_of_memory(error):
                        raise
                    caching = False
            return self.output(run(every, **plain), ())[0, -1]

        return read


def _laid(
    points: Float[Tensor, "B S d"], cases: Sequence[Case], lines: Sequence[tuple[int, Sequence[int]]]
) -> tuple[Float[Tensor, "L most d"], dict[str, Shaped[Tensor, "L most ..."]]]:
    """A batch of lines (the number of a case, rows of it), shorter ones padded, and its inputs."""
    device = points.device
    rows = [torch.tensor(line, device=device) for _, line in lines]
    laid = [points[number][row] for (number, _), row in zip(lines, rows, strict=True)]
    context = {
        name: pad_sequence(
            [cases[number].context[name].to(device)[row] for (number, _), row in zip(lines, rows, strict=True)], True
        )
        for name in cases[0].context
    }
    return pad_sequence(laid, batch_first=True), context


def _spread(values: Sequence[Float[Tensor, "_ k"]], lines: Sequence[Sequence[int]], count: int) -> Float[Tensor, "S k"]:
    """What was found of every line, at its rows; a row of several lines has what the first one says."""
    result = values[0].new_empty((count, values[0].shape[-1]))
    for value, line in reversed(list(zip(values, lines, strict=True))):
        result[line] = value
    return result


def _holding_first(prompt: Tokens) -> Tokens:
    first = prompt.tokens[0]
    held = prompt.holding([i == 0 for i in range(len(prompt))])
    return held.noted(f"{first}, the prompt's own beginning, is held", sink=first)


def _cut(prompt: Tokens, first: int, last: int) -> Tokens:
    sequences = {name: getattr(prompt, name)[first:last] for name in ("ids", "tokens", "offsets", "segments")}
    return replace(prompt, **sequences)
