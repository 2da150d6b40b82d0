"""A StaticEmbedding of sentence-transformers as a body: a table of words and nothing else, so its states are the rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn


class StaticTable(nn.Module):
    """The rows of the words; their mean, which the model takes by a bag of embeddings, is the head's."""

    def __init__(self, part: Any) -> None:
        super().__init__()
        rows = part.embedding.weight
        self.words = nn.Embedding(len(rows), rows.shape[1], _weight=rows)  # the very numbers of the model, not a copy

    def get_input_embeddings(self) -> nn.Embedding:
        return self.words

    def forward(
        self, input_ids: Int[Tensor, "B S"], attention_mask: Shaped[Tensor, "B S"] | None = None
    ) -> SimpleNamespace:
        states: Float[Tensor, "B S d"] = self.words(input_ids)
        return SimpleNamespace(last_hidden_state=states)


def static_tokenizer(part: Any) -> Any:
    """Its tokenizer as transformers have them, adding nothing before and after a text, as the model does."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer.from_str(part.tokenizer.to_str())
    plain.no_padding()
    plain.no_truncation()
    plain.post_processor = TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    known = {name: word for name, word in NAMED.items() if plain.token_to_id(word) is not None}
    made: Any = PreTrainedTokenizerFast
    return made(tokenizer_object=plain, **known)


NAMED = {"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"}  # for baselines
