"""Sequence-to-sequence models: T5, BART and kin. The encoder's rows and the decoder's are sources together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pathlens.errors import InputError, ModelError
from pathlens.text.adapter import Case, Request, collate
from pathlens.text.generator import Generator
from pathlens.text.network import named
from pathlens.text.options import GeneratorOptions
from pathlens.text.outputs import Asked, Kept, Output, joined
from pathlens.text.own_output import check_direction
from pathlens.text.tokens import Tokens, spans_of, trimmed


class Seq2Seq(Generator):
    """`AutoModelForSeq2SeqLM`. Rows of a case: the prompt (encoder), then the start of the output (held) and its tokens."""

    kind = "sequence-to-sequence model"

    def __init__(self, module: nn.Module, tokenizer: Any, *, name: str | None = None) -> None:
        config = getattr(module, "config", None)
        if not getattr(config, "is_encoder_decoder", False):
            raise ModelError(
                f"{type(module).__name__} is not a text-to-text model with an encoder and a decoder; pathlens takes T5, BART and kin"
            )
        super().__init__(module, tokenizer, name=name)
        self.start = self._start_ids()

    def _start_ids(self) -> tuple[int, ...]:
        """What every output begins with: the decoder's start token, and what the tokenizer puts before a target.

        A first token that the model itself forces when it writes (mBART, M2M, NLLB: the language) stands there instead.
        """
        first = getattr(self.module.config, "decoder_start_token_id", None)
        if first is None:
            raise ModelError(
                f"{type(self.module).__name__}'s config has no decoder_start_token_id, so its output has no beginning; set it"
            )
        special, target = set(self.tokenizer.all_special_ids), self.tokenizer(text_target="a", verbose=False)
        before = [int(number) for number in takewhile(special.__contains__, target["input_ids"])]
        forced = getattr(getattr(self.module, "generation_config", None), "forced_bos_token_id", None)
        return (int(first), *before) if forced is None else (int(first), int(forced), *before[1:])

    def opened(self, prompt: Tokens, request: Request) -> Tokens:
        if isinstance(request.options_of(GeneratorOptions).sink, str):
            raise InputError(
                "sink is for causal models; here the decoder's own start token and the encoder's special ones are held"
            )
        return prompt

    def before(self, opened: Tokens) -> Sequence[int]:
        return ()

    def given(self, opened: Tokens, target: str) -> Output:
        """The target stands alone: it does not follow the prompt but answers it."""
        fast = getattr(self.tokenizer, "is_fast", False)
        encoded = self.tokenizer(
            text_target=target, add_special_tokens=False, return_offsets_mapping=fast, verbose=False
        )
        ids = tuple(int(i) for i in encoded["input_ids"])
        if not ids:
            raise InputError(f"{target!r} has no tokens; give a text with words")
        spans = spans_of(self.tokenizer, encoded, target)
        return Output(ids, target, tuple(trimmed(target, *span) for span in spans))

    def room(self, opened: Tokens) -> int | None:
        return None if self.limit is None else self.limit - len(self.start) + 1

    def laid(self, opened: Tokens, outputs: Sequence[Output]) -> Asked:
        count = len(self.start)
        names = tuple(str(name) for name in self.tokenizer.convert_ids_to_tokens(list(self.start)))
        whole = replace(
            opened,
            ids=(*opened.ids, *self.start),
            tokens=(*opened.tokens, *names),
            offsets=(*opened.offsets, *[(0, 0)] * count),
            segments=(*opened.segments, *[-1] * count),
            meta={**opened.meta, "decoder_starts_at": len(opened), "first_output_ends": count + len(outputs[0]) - 1},
        )
        rows = len(whole) + sum(len(output) - 1 for output in outputs)
        decoder = torch.zeros(rows, dtype=torch.long)
        decoder[len(opened) :] = 1
        return joined(whole, outputs, {"decoder": decoder}, first=count - 1)

    def forward(self, points: Float[Tensor, "B S d"], cases: Sequence[Case], layer: int) -> Kept:
        """Each alternative is written by itself: neither sees the other, both see the prompt and the start."""
        splits = [int(case.meta["decoder_starts_at"]) for case in cases]
        tails = [len(case) - split for case, split in zip(cases, splits, strict=True)]
        seconds = [int(case.meta["first_output_ends"]) for case in cases]  # a contrast's rows follow
        device = points.device
        at = torch.arange(max(tails), device=device)
        logits = self._written(points, cases, splits, seconds, [0] * len(cases))
        if seconds == tails:
            return Kept(logits, at)
        count = len(self.start)
        skips = [second - count for second in seconds]
        rest = [tail - skip for tail, skip in zip(tails, skips, strict=True)]
        other = self._written(points, cases, splits, rest, skips)
        rows = torch.arange(len(cases), device=device)[:, None]
        after = at[None] - torch.tensor(skips, device=device)[:, None]  # where the second one wrote it
        is_first = at[None] < torch.tensor(seconds, device=device)[:, None]
        firsts = logits[rows, at[None].clamp_max(logits.shape[1] - 1)]
        after_start = other[rows, after.clamp(0, other.shape[1] - 1)]
        return Kept(torch.where(is_first[..., None], firsts, after_start), at)

    def _written(
        self,
        points: Float[Tensor, "B S d"],
        cases: Sequence[Case],
        splits: list[int],
        tails: list[int],
        skips: list[int],
    ) -> Float[Tensor, "B T V"]:
        """Logits: encoder rows and decoder rows laid into two padded batches, `skips` rows left out after the start.

        What is written needs no mask: no token sees what follows it.
        """
        device, longest, most = points.device, max(splits), max(tails)
        rows = torch.arange(len(cases), device=device)[:, None]
        split, tail, skip = (torch.tensor(each, device=device)[:, None] for each in (splits, tails, skips))
        into, onto = torch.arange(longest, device=device)[None], torch.arange(most, device=device)[None]
        read, written = into < split, onto < tail
        place = split + onto + torch.where(onto >= len(self.start), skip, 0)
        encoder = points[rows, torch.where(read, into, 0)] * read[..., None].to(points.dtype)
        decoder = points[rows, torch.where(written, place, 0)] * written[..., None].to(points.dtype)
        ids = collate(cases, points)["input_ids"]
        context = {
            "input_ids": ids[rows, torch.where(read, into, 0)],
            "attention_mask": read.long(),
            "decoder_input_ids": ids[rows, torch.where(written, place, 0)].masked_fill(~written, self.network.pad),
        }
        return self.output(self.network.call(encoder, context, decoder), cases)

    def plain_output(self, draft: Case) -> Kept:
        ids, split, start = draft.context["input_ids"], int(draft.meta["decoder_starts_at"]), len(self.start)
        second, written = int(draft.meta["first_output_ends"]), ids[split:]

        def read(line: Int[Tensor, " T"]) -> Float[Tensor, "T V"]:
            return self.output(self.ask({"input_ids": ids[:split], "decoder_input_ids": line}), ())[0]

        first, other = read(written[:second]), read(torch.cat([written[:start], written[second:]]))
        if second > 1:
            check_direction(self.user, read(written[: second - 1]), first[:-1])
        logits = torch.cat([first, other[start:]])
        return Kept(logits[None], torch.arange(len(logits), device=logits.device))

    def reader(self, opened: Tokens) -> Callable[[list[int]], Tensor]:
        device = self.network.device
        ids = torch.tensor([opened.ids], device=device)

        def read(written: list[int]) -> Float[Tensor, " V"]:
            decoder = torch.tensor([[*self.start, *written]], device=device)
            raw = named(self.module(input_ids=ids, decoder_input_ids=decoder, use_cache=False))
            return self.output(raw, ())[0, -1]

        return read
