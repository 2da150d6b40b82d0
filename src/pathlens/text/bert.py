"""BERT's own mathematics without its library, for the built-in classifier.

Importing the library's class takes longer than most explanations: it brings compilers, collectives and an optimiser that
no explanation uses. Parts, parameters and arguments have the library's names, so weights load as they are and a block is
named as there (`bert.encoder.layer.2.attention`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Encoding, Tokenizer
from torch import Tensor, nn
from torch.nn import functional

States = Float[Tensor, "B S d"]
Mask = Bool[Tensor, "B 1 S S"]


def table(rows: int, width: int, **choices: Any) -> nn.Embedding:
    """Not yet filled: drawing it at random first, on no device, would load torch's compiler."""
    made: nn.Embedding = nn.Embedding.from_pretrained(torch.empty(rows, width), freeze=False, **choices)
    return made


class Embeddings(nn.Module):
    """Words, their places and their segments, added and normalised."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = table(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.position_embeddings = table(config.max_position_embeddings, width)
        self.token_type_embeddings = table(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)

    def forward(self, inputs_embeds: States, token_type_ids: Int[Tensor, "B S"] | None = None) -> States:
        places = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device)[None]
        segments = torch.zeros_like(places) if token_type_ids is None else token_type_ids
        rows = inputs_embeds + self.token_type_embeddings(segments) + self.position_embeddings(places)
        normal: Tensor = self.LayerNorm(rows)
        return normal


class SelfAttention(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.width = config.hidden_size // config.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3))

    def forward(self, hidden_states: States, attention_mask: Mask | None = None) -> States:
        heads = (*hidden_states.shape[:-1], -1, self.width)
        parts = [part(hidden_states).view(heads).transpose(1, 2) for part in (self.query, self.key, self.value)]
        met = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=attention_mask)
        return met.transpose(1, 2).reshape(hidden_states.shape)


class ResidualNorm(nn.Module):
    """A linear layer beside what went around it, normalised."""

    def __init__(self, config: Any, entering: int) -> None:
        super().__init__()
        self.dense = nn.Linear(entering, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: Float[Tensor, "B S wide"], input_tensor: States) -> States:
        normal: Tensor = self.LayerNorm(self.dense(hidden_states) + input_tensor)
        return normal


class Attention(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = ResidualNorm(config, config.hidden_size)

    def forward(self, hidden_states: States, attention_mask: Mask | None = None) -> States:
        result: Tensor = self.output(self.self(hidden_states, attention_mask), hidden_states)
        return result


class Dense(nn.Module):
    """A linear layer and what bends its result."""

    def __init__(self, entering: int, leaving: int, bend: Any) -> None:
        super().__init__()
        self.dense, self.bend = nn.Linear(entering, leaving), bend

    def forward(self, hidden_states: Float[Tensor, "*B entering"]) -> Float[Tensor, "*B leaving"]:
        result: Tensor = self.bend(self.dense(hidden_states))
        return result


class Layer(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Dense(config.hidden_size, config.intermediate_size, functional.gelu)
        self.output = ResidualNorm(config, config.intermediate_size)

    def forward(self, hidden_states: States, attention_mask: Mask | None = None) -> States:
        met = self.attention(hidden_states, attention_mask)
        result: Tensor = self.output(self.intermediate(met), met)
        return result


class Encoder(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, hidden_states: States, attention_mask: Mask | None = None) -> States:
        for layer in self.layer:
            hidden_states = layer(hidden_states, attention_mask)
        return hidden_states


class Bert(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.pooler = Dense(config.hidden_size, config.hidden_size, torch.tanh)

    def forward(
        self,
        inputs_embeds: States,
        attention_mask: Int[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B d"]:
        mask = None
        if attention_mask is not None and not attention_mask.all():  # without padding kernels need no mask
            mask = attention_mask[:, None, None].bool().expand(-1, 1, attention_mask.shape[1], -1)
        states = self.encoder(self.embeddings(inputs_embeds, token_type_ids), mask)
        pooled: Tensor = self.pooler(states[:, 0])
        return pooled


class BertForSequenceClassification(nn.Module):
    """The library's model of that name in evaluation mode: `config` has its fields, `.logits` its numbers."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.bert = Bert(config)
        self.classifier = nn.Linear(config.hidden_size, len(config.id2label))

    @property
    def base_model(self) -> nn.Module:
        return self.bert

    def get_input_embeddings(self) -> nn.Embedding:
        return self.bert.embeddings.word_embeddings

    def forward(
        self,
        input_ids: Int[Tensor, "B S"] | None = None,
        attention_mask: Int[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        inputs_embeds: States | None = None,
    ) -> SimpleNamespace:
        rows = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
        return SimpleNamespace(logits=self.classifier(self.bert(rows, attention_mask, token_type_ids)))


class Encoded(dict[str, list[Any]]):
    """The tokens of one text or pair, as the library's tokenizers give them."""

    is_fast = True

    def __init__(self, encoding: Encoding) -> None:
        masks = {"token_type_ids": encoding.type_ids, "attention_mask": encoding.attention_mask}
        super().__init__(input_ids=encoding.ids, **masks, offset_mapping=encoding.offsets)
        self.encoding = encoding

    def sequence_ids(self, row: int = 0) -> Sequence[int | None]:
        return self.encoding.sequence_ids


PLAIN = frozenset(
    "add_special_tokens padding return_offsets_mapping return_special_tokens_mask truncation max_length verbose".split()
)
SPECIAL = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


class QuickTokenizer:
    """The tokenizer in a model's folder. Texts and single words are read by the `tokenizers` package alone; whatever else
    is asked of it is asked of the library's own class, loaded then."""

    is_fast = True

    def __init__(self, folder: Path, *, special: dict[str, str], longest: int) -> None:
        self.folder = folder
        self.words = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.words.no_truncation()
        self.words.no_padding()
        self.model_max_length = longest
        for name in SPECIAL:
            word = special.get(f"{name}_token")
            setattr(self, f"{name}_token", word)
            setattr(self, f"{name}_token_id", None if word is None else self.words.token_to_id(word))
        self.all_special_tokens = list(special.values())
        self.all_special_ids = [self.words.token_to_id(word) for word in special.values()]

    @cached_property
    def whole(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.folder)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("words", "folder"):  # a copy in the making has neither yet
            raise AttributeError(name)
        return getattr(self.whole, name)

    def __len__(self) -> int:
        return self.words.get_vocab_size()

    def __call__(self, text: Any, text_pair: Any = None, **choices: Any) -> Any:
        cut = choices.get("truncation", False)
        plain = isinstance(text, str) and isinstance(text_pair, str | None) and cut in (True, False)
        if not plain or choices.keys() - PLAIN or choices.get("padding") or choices.get("return_special_tokens_mask"):
            return self.whole(text, text_pair, **choices)
        words = self.words
        if cut:
            words = Tokenizer.from_str(words.to_str())  # a limit is set on the tokenizer, and others may be reading
            words.enable_truncation(choices.get("max_length") or self.model_max_length)
        return Encoded(words.encode(text, text_pair, add_special_tokens=choices.get("add_special_tokens", True)))

    def convert_tokens_to_ids(self, word: Any) -> Any:
        known = self.words.token_to_id(word) if isinstance(word, str) else None
        return self.whole.convert_tokens_to_ids(word) if known is None else known

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        if isinstance(ids, int):
            return self.words.id_to_token(ids)
        return [self.words.id_to_token(int(i)) for i in ids]
