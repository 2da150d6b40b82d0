"""Tiny random models of a hundred architectures, entered by their embeddings: for laws that hold on all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoModel

from pathlens.integrand.batch import Batch
from pathlens.integrand.secant import SecantScores, SecantVectors

SIZE = {  # by every name that configurations know these by
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "hidden_dim", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim"), 48),
    **dict.fromkeys(("d_head", "head_dim", "d_kv"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    "embedding_size": 16,
    "num_key_value_heads": 2,
    "d_inner": 48,
    "vocab_size": 60,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 24}  # all of them: none is left out
SHARED = {**EXPERTS, "shared_expert_intermediate_size": 24}
STATE = {"mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 8}
SPECIAL: dict[str, dict[str, Any]] = {
    "bamba": {**STATE, "mamba_n_heads": 8, "mamba_d_head": 8, "attn_layer_indices": [1]},
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "bloom": {"hidden_size": 32, "n_head": 4},
    "codegen": {"rotary_dim": 4},
    "convbert": {"head_ratio": 2},
    "deberta": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "deberta-v2": {"relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"]},
    "falcon_h1": {**STATE, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_ssm": 64},
    "falcon_mamba": {"state_size": 8, "time_step_rank": 4},
    "gemma3_text": {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 4},
    "ibert": {"quant_mode": False},
    "jamba": {
        **EXPERTS,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "mamba_d_state": 8,
        "mamba_dt_rank": 4,
    },
    "led": {"attention_window": [8, 8], "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
    "lfm2": {"layer_types": ["conv", "full_attention"], "full_attn_idxs": [1]},
    "longformer": {"attention_window": [8, 8]},
    "mamba": {"state_size": 8, "time_step_rank": 4},
    "mamba2": {"state_size": 8, "num_heads": 8, "head_dim": 8, "expand": 2, "n_groups": 2, "chunk_size": 8},
    "mixtral": {"num_local_experts": 2, "num_experts_per_tok": 2},
    "mobilebert": {"intra_bottleneck_size": 16, "true_hidden_size": 16, "use_bottleneck": True},
    "modernbert": {"local_attention": 8, "cls_token_id": 1, "sep_token_id": 2},
    "mpt": {"d_model": 32, "n_heads": 4},
    "nystromformer": {"segment_means_seq_len": 11, "num_landmarks": 11},
    "olmoe": EXPERTS,
    "phi": {"partial_rotary_factor": 0.5},
    "qwen2_moe": SHARED,
    "qwen3_moe": EXPERTS,
    "qwen3_next": {
        **SHARED,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"],
    },
    "rwkv": {"attention_hidden_size": 32},
    "squeezebert": {"embedding_size": 32},
    "switch_transformers": {"num_experts": 2},
}
ENCODERS = (
    "bert roberta distilbert mpnet electra albert deberta deberta-v2 modernbert xlm-roberta camembert ernie megatron-bert "
    "convbert squeezebert mobilebert xlnet fnet nystromformer longformer big_bird roformer layoutlm ibert rembert splinter "
    "esm mra yoso nomic_bert eurobert xlm flaubert roberta-prelayernorm data2vec-text"
).split()
DECODERS = (
    "gpt2 gpt_neo gpt_neox gptj codegen opt bloom mpt falcon llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 "
    "stablelm starcoder2 olmo olmo2 granite cohere cohere2 persimmon biogpt glm smollm3 helium nemotron openai-gpt ctrl "
    "xglm arcee seed_oss exaone4 ministral"
).split()
MIXTURES = "mixtral qwen2_moe qwen3_moe olmoe jamba qwen3_next switch_transformers".split()
RECURRENT = "mamba mamba2 falcon_mamba rwkv recurrent_gemma lfm2 falcon_h1 bamba xlstm".split()
TRANSLATORS = "t5 umt5 longt5 bart mbart pegasus marian blenderbot blenderbot-small led bigbird_pegasus m2m_100 prophetnet plbart mvp".split()
EVERY = [*ENCODERS, *DECODERS, *MIXTURES, *RECURRENT, *TRANSLATORS]
LENGTH = 11


def build(name: str) -> torch.nn.Module:
    """A tiny model with weights large enough that nothing in it is nearly linear."""
    config = CONFIG_MAPPING[name]
    known = set(inspect.signature(config.__init__).parameters)
    known.update(*(getattr(each, "__annotations__", {}) for each in config.__mro__))
    torch.manual_seed(3)
    sizes = {key: value for key, value in SIZE.items() if key in known}
    model = AutoModel.from_config(config(**{**sizes, **SPECIAL.get(name, {})}), dtype=torch.float32)
    with torch.no_grad():
        for part, weight in model.named_parameters():
            if weight.ndim == 2 and "norm" not in part.lower():
                weight.mul_(2.0 if name in TRANSLATORS else 4.0)
    return model.eval()


def entered(name: str, model: torch.nn.Module | None = None) -> tuple[Callable[[Tensor], Tensor], Tensor, Tensor]:
    """A number of the model's states as a function of embeddings (B, S, d), and both ends of a path for two texts."""
    model = model or build(name)
    width, spread = model.get_input_embeddings().weight.shape[1], float(model.get_input_embeddings().weight.std())
    torch.manual_seed(5)
    start, end = (spread * torch.randn(2, LENGTH, width) for _ in range(2))
    end[:, 0] = start[:, 0]  # a held token
    takes = set(inspect.signature(model.forward).parameters)
    inputs: dict[str, Any] = {
        "attention_mask": torch.ones(2, LENGTH, dtype=torch.long),
        "token_type_ids": torch.zeros(2, LENGTH, dtype=torch.long),
        "decoder_input_ids": torch.tensor([[2, 5, 6, 7]] * 2),
        "use_cache": False,
    }
    inputs = {key: value for key, value in inputs.items() if key in takes}
    torch.manual_seed(9)
    with torch.no_grad():
        weight = torch.randn(model(inputs_embeds=start.clone(), **inputs).last_hidden_state.shape[-1])

    def number(embeds: Tensor) -> Tensor:
        states = model(inputs_embeds=embeds.clone(), **inputs).last_hidden_state
        return states[:, -1] @ weight + states.mean(1) @ weight.roll(1)

    return number, start, end


def gaps(number: Callable[[Tensor], Tensor], start: Tensor, end: Tensor) -> tuple[dict[str, float], float]:
    """What secants miss of the change between the two ends, backwards and forwards: the worst text, relative to the largest of
    both outputs and their change; and the larger of the two relative to the change alone."""
    members, of_size, of_change = torch.eye(LENGTH)[None].expand(2, -1, -1), {}, 0.0
    for way, integrand, score in (
        ("backwards", SecantScores(), number),
        ("forwards", SecantVectors(), lambda x: number(x)[:, None, None]),
    ):
        values = integrand(Batch(score, end, end - start, members, torch.ones(2), start=start)).reshape(2, -1).double()
        change = values[:, 1] - values[:, 0]
        missing = (values[:, 2:].sum(1) - change).abs()
        of_size[way] = float((missing / torch.stack([values[:, 0], values[:, 1], change]).abs().amax(0)).max())
        of_change = max(of_change, float((missing / change.abs()).max()))
    return of_size, of_change
