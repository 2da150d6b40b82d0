"""Tiny models of every architecture, randomly initialised, with tokenizers made here: no download."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

WORDS = (
    "the a movie film was is not really very good bad awful great funny but and moving plot acting it i this that "
    "never hardly what who man guitar plays music . , ! ?"
).split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = [
    "the movie was not really funny , but moving .",
    "great !",
    "i never was a plot that was hardly good and very bad",
]
ENCODERS = ("bert", "roberta", "distilbert", "mpnet", "electra", "albert", "deberta-v2", "modernbert")
DECODERS = ("gpt2", "llama", "qwen2", "gemma2")
ARCHITECTURES = ENCODERS + DECODERS


@cache
def tokenizer(decoder: bool = False) -> Any:
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    if decoder:
        raw.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])
        return PreTrainedTokenizerFast(
            tokenizer_object=raw, unk_token="[UNK]", bos_token="[CLS]", eos_token="[SEP]", pad_token="[PAD]"
        )
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def config(name: str, **extra: Any) -> Any:
    size = {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "vocab_size": len(SPECIAL) + len(WORDS),
        "pad_token_id": 0,
        **extra,
    }
    heads = {"num_key_value_heads": 2}
    if name == "distilbert":
        small = {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "vocab_size": size["vocab_size"]}
        return hf.DistilBertConfig(**small, pad_token_id=0, **extra)
    if name == "gpt2":
        return hf.GPT2Config(
            n_embd=32,
            n_layer=3,
            n_head=4,
            vocab_size=size["vocab_size"],
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
            **extra,
        )
    return {
        "bert": lambda: hf.BertConfig(**size),
        "roberta": lambda: hf.RobertaConfig(**size, bos_token_id=2, eos_token_id=3),
        "mpnet": lambda: hf.MPNetConfig(**size, bos_token_id=2, eos_token_id=3),
        "electra": lambda: hf.ElectraConfig(embedding_size=16, **size),
        "albert": lambda: hf.AlbertConfig(embedding_size=16, **size, bos_token_id=2, eos_token_id=3),
        "deberta-v2": lambda: hf.DebertaV2Config(
            relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"], conv_kernel_size=3, **size
        ),
        "modernbert": lambda: hf.ModernBertConfig(
            **size, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3, local_attention=8
        ),
        "llama": lambda: hf.LlamaConfig(**size, **heads, bos_token_id=2, eos_token_id=3),
        "qwen2": lambda: hf.Qwen2Config(**size, **heads, bos_token_id=2, eos_token_id=3),
        "gemma2": lambda: hf.Gemma2Config(**size, **heads, head_dim=8, bos_token_id=2, eos_token_id=3),
    }[name]()


def sharpen(model: torch.nn.Module, by: float = 4.0) -> torch.nn.Module:
    """Random initial weights are nearly linear; larger ones make the integrals worth testing."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and "norm" not in name.lower():
                parameter.mul_(by)
    return model


@cache
def classifier(name: str, attention: str = "sdpa", labels: int = 3) -> tuple[Any, Any]:
    """(model, tokenizer); the same weights whatever the attention kernel."""
    torch.manual_seed(7)
    settings = config(name, num_labels=labels)
    try:
        settings._attn_implementation = attention
        model = hf.AutoModelForSequenceClassification.from_config(settings)
    except ValueError:  # an architecture without that kernel
        settings._attn_implementation = "eager"
        model = hf.AutoModelForSequenceClassification.from_config(settings)
    return sharpen(model).eval(), tokenizer(name in DECODERS)


def in_double(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    """The same model in float64, where no decision hangs on rounding."""
    return deepcopy(pair[0]).double(), pair[1]


@cache
def encoder(name: str = "bert", attention: str = "sdpa") -> tuple[Any, Any]:
    torch.manual_seed(8)
    settings = config(name)
    if attention != "sdpa":
        settings._attn_implementation = attention
    return sharpen(hf.AutoModel.from_config(settings)).eval(), tokenizer(name in DECODERS)


@cache
def tagger() -> tuple[Any, Any]:
    torch.manual_seed(9)
    settings = config("bert", num_labels=3)
    settings.id2label = {0: "O", 1: "PER", 2: "LOC"}
    return sharpen(hf.AutoModelForTokenClassification.from_config(settings)).eval(), tokenizer()


@cache
def filler() -> tuple[Any, Any]:
    """A masked language model."""
    torch.manual_seed(13)
    return sharpen(hf.AutoModelForMaskedLM.from_config(config("bert"))).eval(), tokenizer()


@cache
def answerer() -> tuple[Any, Any]:
    torch.manual_seed(10)
    return sharpen(hf.AutoModelForQuestionAnswering.from_config(config("bert"))).eval(), tokenizer()


@cache
def generator(name: str = "llama") -> tuple[Any, Any]:
    """A causal language model with a head of its own."""
    torch.manual_seed(11)
    settings = config(name)
    settings.tie_word_embeddings = False
    return sharpen(hf.AutoModelForCausalLM.from_config(settings)).eval(), tokenizer(decoder=True)


@cache
def closing_tokenizer() -> Any:
    """For sequence-to-sequence models: texts end in [SEP]."""
    made = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tokenizer().backend_tokenizer.to_str()),
        unk_token="[UNK]",
        pad_token="[PAD]",
        eos_token="[SEP]",
    )
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", special_tokens=[("[SEP]", 3)]
    )
    return made


@cache
def twice_closing_tokenizer() -> Any:
    """As RoBERTa and Longformer want it: two [SEP] between the texts of a pair."""
    made = deepcopy(tokenizer())
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return made


@cache
def translator(name: str) -> tuple[Any, Any]:
    """A sequence-to-sequence model: "t5" (relative positions, no bias) or "bart" (learned positions)."""
    torch.manual_seed(12)
    size, ids = len(SPECIAL) + len(WORDS), {"pad_token_id": 0, "eos_token_id": 3}
    if name == "t5":
        settings: Any = hf.T5Config(
            vocab_size=size,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            feed_forward_proj="gated-gelu",
            decoder_start_token_id=0,
            **ids,
        )
        return sharpen(hf.T5ForConditionalGeneration(settings), 2.0).eval(), closing_tokenizer()
    settings = hf.BartConfig(
        vocab_size=size,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=64,
        bos_token_id=2,
        decoder_start_token_id=3,
        forced_eos_token_id=None,
        **ids,
    )
    return sharpen(hf.BartForConditionalGeneration(settings)).eval(), closing_tokenizer()
