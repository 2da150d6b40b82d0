"""captum as its users call it on a text classifier: one text after the other, or batches made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


class CaptumLoop:
    """The same model, class and baseline as ours: mask embeddings, [CLS] and [SEP] at their own."""

    def __init__(self, model: Any) -> None:
        from captum.attr import IntegratedGradients

        self.module, self.tokenizer = model.module, model.tokenizer
        self.embedding = self.module.get_input_embeddings()
        self.method = IntegratedGradients(self.logits)

    def logits(self, embeds: Tensor, mask: Tensor) -> Tensor:
        return self.module(inputs_embeds=embeds, attention_mask=mask).logits

    def ends(self, texts: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings of the texts and of their baselines (B, S, d), and the attention mask."""
        read = self.tokenizer(list(texts), padding=True, return_tensors="pt")
        ids, mask = read["input_ids"], read["attention_mask"]
        special = torch.tensor(
            [self.tokenizer.get_special_tokens_mask(row, already_has_special_tokens=True) for row in ids.tolist()]
        ).bool()
        with torch.no_grad():
            start = self.embedding(torch.where(special, ids, self.tokenizer.mask_token_id))
            return self.embedding(ids), start, mask

    def __call__(self, texts: Sequence[str], n_steps: int, rows: int | None = None) -> list[np.ndarray]:
        """Token scores of a batch of texts; `rows` is captum's internal_batch_size."""
        end, start, mask = self.ends(texts)
        with torch.no_grad():
            target = self.logits(end, mask).argmax(-1)
        scores_by_text = self.method.attribute(
            end, start, target=target, additional_forward_args=(mask,), n_steps=n_steps, internal_batch_size=rows
        )
        scores = scores_by_text.detach().sum(-1).numpy()
        return [scores_of_text[: int(length)] for scores_of_text, length in zip(scores, mask.sum(-1), strict=True)]

    def one_by_one(self, texts: Sequence[str], n_steps: int) -> list[np.ndarray]:
        return [self([text], n_steps)[0] for text in texts]

    def by_hand(self, texts: Sequence[str], n_steps: int, size: int = 2, rows: int = 64) -> list[np.ndarray]:
        """What a careful user writes: sorted by tokens, padded batches, a bound on the rows at once.

        Two texts a batch were the quickest of 2, 4, 8 and 16 (with 32 to 128 rows): larger ones wait for their padding.
        """
        lengths = [len(ids) for ids in self.tokenizer(list(texts))["input_ids"]]
        order = sorted(range(len(texts)), key=lengths.__getitem__)
        scores_by_text: dict[int, np.ndarray] = {}
        for low in range(0, len(order), size):
            some = order[low : low + size]
            scores_by_text.update(zip(some, self([texts[i] for i in some], n_steps, rows), strict=True))
        return [scores_by_text[i] for i in range(len(texts))]
