"""A classifier that reads [CLS] alone: its last block need not be computed for the other tokens.

Their keys and values are needed, but queries, the attention's output and the feed-forward part count at the first token
only. That is five sixths of the last block, a seventh of a model with six, in every pass forward and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pathlens.text.network import Network, replaced_forwards

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

    def wrap(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def forward(states: Tensor) -> Tensor:
            others = states.shape[1] - 1
            return nn.functional.pad(original(states[:, :1]), (0, 0, 0, others))

        return forward

    with replaced_forwards(list(linears), wrap):
        yield
