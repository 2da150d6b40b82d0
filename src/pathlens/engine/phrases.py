"""Integrated Directional Gradients: what each phrase is worth, read from one run over tokens, no further passes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped

from pathlens.explanation.record import Phrase
from pathlens.units.trees import Groups


class Dividends(NamedTuple):
    """IDG, dividend and value of every group."""

    signed: Float[np.ndarray, "G"]  # IDG(G): the integral of the derivative along the group's own unit direction
    dividend: Float[np.ndarray, "G"]  # d(G) ≥ 0; over the family M they sum to 1
    value: Float[np.ndarray, "G"]  # v(G), from 0 to 1
    flat: bool = False  # nothing moves the output: every IDG is 0, and v(whole) = 1 by definition only


def idg(
    groups: Shaped[np.ndarray, "G S"],
    token_scores: Shaped[np.ndarray, "S"],
    token_delta_sqnorm: Shaped[np.ndarray, "S"],
    coordinate_scores: Shaped[np.ndarray, "S d"] | None = None,
    coordinate_delta: Shaped[np.ndarray, "S d"] | None = None,
) -> Dividends:
    """`IDG(G) = Σ_{i∈G} IG_i / ‖δ_G‖`, `d(G) = |IDG(G)| / Σ_{T∈M} |IDG(T)|`, `v(G) = Σ_{T⊆G, T∈M} d(T)`.

    M is the set of the `groups` (G, S), each counted once however often it is given. With coordinates'
    scores and δ, both (S, d), every single coordinate of a grouped token is in M too, as in the paper.

    Paper: Sikdar, Bhattacharya and Heese, "Integrated Directional Gradients" (2021).

    Limits: dividends are shares of |IDG|, not of the output; values do not add up to the output's change.
    With single coordinates in M these take nearly all the value, and phrases drown.
    """
    groups = np.asarray(groups, dtype=bool)
    family, place = np.unique(groups, axis=0, return_inverse=True)
    length = np.sqrt(family @ np.asarray(token_delta_sqnorm, dtype=np.float64))
    total = family @ np.asarray(token_scores, dtype=np.float64)
    signed = np.divide(total, length, out=np.zeros_like(total), where=length > 0)
    single = np.zeros(groups.shape[1])
    if coordinate_scores is not None and coordinate_delta is not None:
        single = _coordinates(family, coordinate_scores, coordinate_delta)
    size = np.abs(signed)
    whole = size.sum() + single.sum()
    if whole == 0:
        value = (family == family.any(axis=0)).all(axis=1) & family.any(axis=1)
        return Dividends(signed[place], size[place], value.astype(np.float64)[place], flat=True)
    value = np.minimum(values(family, family, size / whole) + family @ single / whole, 1.0)
    return Dividends(signed[place], size[place] / whole, value[place])


def values(
    queries: Shaped[np.ndarray, "Q S"], family: Shaped[np.ndarray, "G S"], dividend: Float[np.ndarray, "G"]
) -> Float[np.ndarray, "Q"]:
    """v of any sets of tokens (Q, S): the dividends of all groups of the family inside each."""
    outside = family.astype(np.float64) @ ~np.asarray(queries, dtype=bool).T  # (G, Q) tokens of G not in Q
    return np.asarray((outside == 0).T @ dividend)


def _coordinates(
    family: Bool[np.ndarray, "G S"], scores: Shaped[np.ndarray, "S d"], delta: Shaped[np.ndarray, "S d"]
) -> Float[np.ndarray, "S"]:
    """Σ_j |IDG| of a token's single coordinates, `|IG_ij / δ_ij|`; 0 for tokens in no group."""
    scores, delta = np.asarray(scores, dtype=np.float64), np.asarray(delta, dtype=np.float64)
    each = np.abs(np.divide(scores, delta, out=np.zeros_like(scores), where=delta != 0))
    counted = family.any(axis=0)
    if scores.shape[1] == 1:  # a token of one coordinate is that coordinate: already in M if it stands alone
        counted = counted & ~family[family.sum(axis=1) == 1].any(axis=0)
    return np.asarray(each.sum(axis=1) * counted)


def phrase_nodes(text: str, groups: Groups, dividends: Dividends) -> tuple[Phrase, ...]:
    """The nodes of a `PhraseTree`.

    Leaves are words: a word's tokens are in the family, and in its value, but are not drawn below it.
    """
    phrases = []
    for node, k in zip(groups.nodes, groups.group, strict=True):
        value, dividend, signed = (float(each[k]) for each in (dividends.value, dividends.dividend, dividends.signed))
        shown = text[node.span[0] : node.span[1]].strip()
        phrases.append(Phrase(node.span, shown, value, dividend, signed, node.children, node.label))
    return tuple(phrases)
