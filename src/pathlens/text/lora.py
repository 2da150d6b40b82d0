"""A LoRA of our own: every linear layer of an encoder gets W + B·A, trained alone, kept as two small factors."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

SCALE = 2.0  # of the product, as usual: the step of B·A is this much longer than one of W


class LowRank(nn.Module):
    """W ↦ W + B·A; B begins at zero, so nothing changes before the first step."""

    def __init__(self, weight: Float[Tensor, "o i"], rank: int) -> None:
        super().__init__()
        outputs, inputs = weight.shape
        self.lora_A = nn.Parameter(torch.empty(rank, inputs, dtype=weight.dtype, device=weight.device))
        self.lora_B = nn.Parameter(torch.zeros(outputs, rank, dtype=weight.dtype, device=weight.device))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, weight: Float[Tensor, "o i"]) -> Float[Tensor, "o i"]:
        return weight + SCALE * self.lora_B @ self.lora_A


def attach(module: nn.Module, rank: int) -> list[nn.Parameter]:
    """Freeze the module, put factors on its linear layers, and return what is to be trained."""
    module.requires_grad_(False)
    linear = [(name, part) for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    trained: list[nn.Parameter] = []
    for name, part in linear:
        if name.startswith("pooler"):  # of BERT: made, never used by a sentence encoder
            continue
        factors = LowRank(part.weight, min(rank, *part.weight.shape))
        parametrize.register_parametrization(part, "weight", factors)
        trained += [factors.lora_A, factors.lora_B]
    return trained


def detach(module: nn.Module) -> dict[str, Float[Tensor, "_ _"]]:
    """Take the factors off again: {layer.lora_A, layer.lora_B} in 16 bits; the module is as it was."""
    factors: dict[str, Tensor] = {}
    for name, part in list(module.named_modules()):
        if isinstance(part, nn.Linear) and parametrize.is_parametrized(part, "weight"):
            kept: Any = part.parametrizations
            adapter = kept.weight[0]
            factors[f"{name}.lora_A"] = adapter.lora_A.detach().half().cpu().contiguous()
            factors[f"{name}.lora_B"] = (SCALE * adapter.lora_B.detach()).half().cpu().contiguous()
            parametrize.remove_parametrizations(part, "weight", leave_parametrized=False)
    return factors
