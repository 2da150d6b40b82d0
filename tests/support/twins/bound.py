"""Each method beside its slow twin, on one problem, with the same nodes: the library's numbers and the formula's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

import pathlens as pl
from pathlens.quadrature import gauss, log_weight
from pathlens.text.adapter import Request
from pathlens.text.load import load
from tests.support import models
from tests.support.methods import WORDS
from tests.support.twins import gradients, hessians, jacobians, secants, twin_of, word_sums

Both = tuple[np.ndarray, np.ndarray]
TEXT, OTHER = "the movie was not funny .", "a good plot !"
N = 5


def ends_and_score(model: Any, text: str = TEXT, **request: Any) -> Any:
    case = model.case(text, request=Request(**request))
    return case.ends, lambda point: case.score(point[None], [case])[0]


@twin_of("ig")
def integrated_gradients() -> Both:
    model, nodes = load(models.classifier("bert")), gauss(N)
    ends, score = ends_and_score(model, target=1)
    literal = gradients.integrated_gradients(score, ends.start, ends.end, nodes.t, nodes.weight)
    return pl.explain(model, TEXT, target=1, rule="gauss", n_steps=N).scores, literal.numpy()


@twin_of("sig")
def sequential() -> Both:
    model, nodes = load(models.classifier("bert")), gauss(N)
    ends, score = ends_and_score(model, target=1)
    literal = gradients.sequential_ig(score, ends.start, ends.end, nodes.t, nodes.weight)
    result = pl.explain(model, TEXT, method="sig", coordinates=True, target=1, rule="gauss", n_steps=N)
    return result.coordinates, literal.numpy()


def along_words(method: str, strategy: str) -> Both:
    model = load(models.classifier("bert"))
    ends, score = ends_and_score(model, target=1)
    points = word_sums.points_of(ends, method=method, strategy=strategy, factor=1, **WORDS)
    result = pl.explain(model, TEXT, method=method, strategy=strategy, factor=1, target=1, rule="left", **WORDS)
    return result.scores, word_sums.left_sum(score, points).numpy()


twin_of("dig")(partial(along_words, "dig", "greedy"))
twin_of("udig")(partial(along_words, "udig", "maxcount"))


@twin_of("idg")
def directional() -> Both:
    model, nodes = load(models.classifier("bert")), gauss(N)
    ends, score = ends_and_score(model, target=1)
    result = pl.explain(model, TEXT, method="idg", target=1, rule="gauss", n_steps=N)
    inside = zip(result.offsets, result.special, strict=True)
    places = [None if special else start for (start, _), special in inside]
    literal = []
    for phrase in result.nodes:
        low, high = phrase.span
        group = torch.tensor([place is not None and low <= place < high for place in places])
        literal.append(word_sums.directional(score, ends.start, ends.end, group, nodes.t, nodes.weight))
    return np.array([phrase.signed for phrase in result.nodes]), np.array(literal)


@twin_of("vaig")
def vectors() -> Both:
    model, nodes = load(models.encoder()), gauss(N)
    ends, vector = ends_and_score(model, OTHER, vector=True)
    literal = gradients.vector_ig(vector, ends.start, ends.end, nodes.t, nodes.weight)
    return pl.explain(model, OTHER, method="vaig", rule="gauss", n_steps=N).vectors, literal.numpy()


@twin_of("ij")
def pair() -> Both:
    model, nodes = load(models.encoder()), gauss(N)
    (ends_a, embed_a), (ends_b, embed_b) = (ends_and_score(model, text, vector=True) for text in (TEXT, OTHER))
    flat_a, flat_b = (lambda point: embed_a(point)[0]), (lambda point: embed_b(point)[0])
    literal = jacobians.pair_by_coordinate(flat_a, ends_a, flat_b, ends_b, nodes.t, nodes.weight).sum((1, 3))
    with torch.no_grad():
        length = float(flat_a(ends_a.end).norm() * flat_b(ends_b.end).norm())
    return pl.explain(model, TEXT, OTHER, method="ij", rule="gauss", n_steps=N).matrix, literal.numpy() / length


@twin_of("ih")
def interactions() -> Both:
    model, nodes = load(models.classifier("bert")), log_weight(N)
    ends, score = ends_and_score(model, OTHER, target=1)
    with model.quiet(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        literal = hessians.single_integral(score, ends.start, ends.end, nodes.t, nodes.weight)
    return pl.explain(model, OTHER, method="ih", target=1, n_steps=N).matrix, literal.numpy()


@twin_of("secant")
def chained_secants() -> Both:
    """Every layer's Jacobian integrated along the layer's own line, by 200 nodes, and the layers chained."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 6), nn.GELU(), nn.Linear(6, 1)).double()
    x = torch.randn(5, dtype=torch.float64)
    literal = []
    for coordinate in range(5):
        low, high = torch.zeros_like(x), x
        share = torch.zeros_like(x)
        share[coordinate] = x[coordinate]
        for layer in net:
            with torch.no_grad():
                share, low, high = secants.line_integral(layer, [low], [high], [share]), layer(low), layer(high)
        literal.append(float(share.detach()))
    return pl.explain(net, x, method="secant").scores, np.array(literal)
