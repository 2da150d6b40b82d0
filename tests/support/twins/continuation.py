"""A continuation's matrix the slow way: one output token at a time, one reverse pass for each node, nothing shared.

IG_i of F(x) = log p(token | what comes before it), along the straight line from the mean embedding; the model is called
as its makers meant it, on the tokens before the output token alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def causal_column(
    model: Any, before: Sequence[int], held: int, token: int, nodes: int, score: str = "logprob"
) -> np.ndarray:
    """(S,) the scores of the tokens before; the first `held` of them do not move."""
    embed = model.get_input_embeddings()

    def output(rows: torch.Tensor) -> torch.Tensor:
        return model(inputs_embeds=rows[None]).logits[0, -1]

    return _column(embed, torch.tensor(before), held, output, token, nodes, score)


def seq2seq_column(
    model: Any, prompt: Sequence[int], closing: int, written: Sequence[int], token: int, nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the prompt's tokens (the last `closing` held) and of the written ones (the first held)."""
    embed = model.get_input_embeddings()
    ids = torch.tensor([*prompt, *written])
    moves = torch.ones(len(ids), dtype=torch.bool)
    moves[len(prompt) - closing : len(prompt) + 1] = False

    def output(rows: torch.Tensor) -> torch.Tensor:
        return model(inputs_embeds=rows[None, : len(prompt)], decoder_inputs_embeds=rows[None, len(prompt) :]).logits[
            0, -1
        ]

    whole = _line(embed, ids, moves, output, token, nodes, "logprob")
    return whole[: len(prompt)], whole[len(prompt) :]


def _column(embed, ids, held, output, token, nodes, score) -> np.ndarray:
    moves = torch.arange(len(ids)) >= held
    return _line(embed, ids, moves, output, token, nodes, score)


def _line(embed, ids, moves, output, token, nodes, score) -> np.ndarray:
    with torch.no_grad():
        end = embed(ids)
        mean = embed(torch.arange(embed.weight.shape[0])).mean(0)
    start = torch.where(moves[:, None], mean, end)
    places, weights = np.polynomial.legendre.leggauss(nodes)
    total = np.zeros(len(ids))
    for place, weight in zip((places + 1) / 2, weights / 2, strict=True):
        rows = (start + float(place) * (end - start)).requires_grad_()
        logits = output(rows)
        value = logits[token] if score == "logit" else logits.log_softmax(-1)[token]
        if score == "prob":
            value = value.exp()
        value.backward()
        total += weight * (rows.grad * (end - start)).sum(-1).double().numpy()
    return total
