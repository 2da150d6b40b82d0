"""Ways to rank the pairs of features of each row, beside Integrated Hessians: (N, P) strengths, larger first."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import torch
from torch import Tensor, nn

from experiments.hessian_studies.nets import hessian_at, table_interactions
from pathlens.text.softplus import softplus


def pairs_of(width: int) -> np.ndarray:
    return np.array(list(combinations(range(width), 2)))


def rankings(net: nn.Module, x: Tensor, background: Tensor, *, seed: int) -> dict[str, np.ndarray]:
    """Every competitor on one trained ReLU net. Derivatives are taken with softplus (β = 10) in ReLU's place."""
    pairs = pairs_of(x.shape[1])
    i, j = pairs.T
    draw = torch.Generator().manual_seed(seed)
    zero = torch.zeros(x.shape[1])
    nodes = 16
    starts = background[torch.randint(len(background), (nodes, len(x)), generator=draw)]
    with softplus(10):
        integrated = table_interactions(net, x, zero, nodes=nodes)
        expected = table_interactions(net, x, starts, nodes=nodes)
        plain = torch.cat([hessian_at(net, rows) for rows in x.split(8192)])
    inputs = x[:, i] * x[:, j]
    return {
        "IH": integrated[:, i, j].abs().numpy(),
        "expected Hessians": expected[:, i, j].abs().numpy(),
        "Hessian x inputs": (plain[:, i, j] * inputs).abs().numpy(),
        "Hessian": plain[:, i, j].abs().numpy(),
        "exact SII": np.abs(shapley_interactions(net, x)),
        "CD": contextual(net, x, pairs).abs().numpy(),
        "NID": np.tile(neural_interaction_detection(net, pairs), (len(x), 1)),
        "random": np.random.default_rng(seed).random((len(x), len(pairs))),
    }


def subset_values(net: nn.Module, x: Tensor) -> np.ndarray:
    """f(x on the subset, 0 elsewhere) for all 2^F subsets, (N, 2^F); bit i of the index is feature i."""
    width = x.shape[1]
    masks = torch.tensor([[(s >> f) & 1 for f in range(width)] for s in range(2**width)], dtype=x.dtype)
    with torch.no_grad():
        return np.concatenate(
            [net((row[:, None] * masks).flatten(0, 1)).reshape(len(row), -1).numpy() for row in x.split(32)]
        )


def shapley_weights(width: int) -> np.ndarray:
    """(P, 2^F): SII_ij = Σ_{T ∌ i,j} |T|!(F−|T|−2)!/(F−1)! · [v(T∪ij) − v(T∪i) − v(T∪j) + v(T)]."""
    weights = np.zeros((width * (width - 1) // 2, 2**width))
    for row, (i, j) in enumerate(combinations(range(width), 2)):
        for subset in range(2**width):
            rest = subset & ~(1 << i) & ~(1 << j)
            size = rest.bit_count()
            share = factorial(size) * factorial(width - size - 2) / factorial(width - 1)
            weights[row, subset] = share * (1 if (subset >> i & 1) == (subset >> j & 1) else -1)
    return weights


def shapley_interactions(net: nn.Module, x: Tensor) -> np.ndarray:
    """The exact Shapley interaction index of every pair, (N, P); a few rows are checked against shapiq."""
    values = subset_values(net, x)
    result = values @ shapley_weights(x.shape[1]).T
    for row in range(2):
        np.testing.assert_allclose(result[row], _by_shapiq(values[row], x.shape[1]), atol=1e-4)
    return result


def _by_shapiq(values: np.ndarray, width: int) -> np.ndarray:
    from shapiq import ExactComputer

    def game(coalitions: np.ndarray) -> np.ndarray:
        return values[(np.asarray(coalitions, dtype=int) * 2 ** np.arange(width)).sum(1)]

    interactions = ExactComputer(n_players=width, game=game)(index="SII", order=2)
    return np.array([interactions[pair] for pair in combinations(range(width), 2)])


def contextual(net: nn.Module, x: Tensor, pairs: np.ndarray) -> Tensor:
    """Contextual decomposition (Singh, Murdoch, Yu 2019): β({i,j}) − β({i}) − β({j}), (N, P)."""
    single = torch.stack([_relevant(net, x, [f]) for f in range(x.shape[1])], dim=1)
    both = torch.stack([_relevant(net, x, list(pair)) for pair in pairs], dim=1)
    return both - single[:, pairs[:, 0]] - single[:, pairs[:, 1]]


def _relevant(net: nn.Module, x: Tensor, features: list[int]) -> Tensor:
    mask = torch.zeros(x.shape[1])
    mask[features] = 1
    beta, gamma = x * mask, x * (1 - mask)
    for number, layer in enumerate(net.layers):
        beta, gamma = beta @ layer.weight.T, gamma @ layer.weight.T
        share = beta.abs() / (beta.abs() + gamma.abs()).clamp_min(1e-12)
        beta, gamma = beta + share * layer.bias, gamma + (1 - share) * layer.bias
        if number + 1 < len(net.layers):
            whole, beta = torch.relu(beta + gamma), torch.relu(beta)
            gamma = whole - beta
    return beta[:, 0]


def neural_interaction_detection(net: nn.Module, pairs: np.ndarray) -> np.ndarray:
    """Tsang, Cheng, Liu 2018, from the weights alone: Σ_s z_s · min(|W_si|, |W_sj|), the same for every row."""
    above = torch.ones(1)
    for layer in reversed(net.layers[1:]):
        above = above @ layer.weight.abs()
    first = net.layers[0].weight.abs()
    strength = torch.minimum(first[:, pairs[:, 0]], first[:, pairs[:, 1]])
    return (above.flatten() @ strength).numpy()
