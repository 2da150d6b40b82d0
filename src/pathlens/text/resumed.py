"""A causal model's output where only later tokens differ from a text: what comes before them is not run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pathlens.text.adapter import Case, Scores, collate
from pathlens.text.causal import CausalLM
from pathlens.text.network import named
from pathlens.text.outputs import Kept

Layers = list[tuple[Tensor, Tensor]]  # keys and values of each block, (1, heads, S, k)


@dataclass(eq=False)
class Resumed:
    """The score of one case's points with the keys and values of the text kept: a row is run from its first difference on.

    Exact: in a causal model nothing depends on later tokens. Models that keep something else than every position's keys
    and values (sliding windows, recurrent states) are run whole.
    """

    model: CausalLM
    read: Callable[[Any, Sequence[Case]], Scores]
    case: Case
    tokens: int = 0  # run so far, of all rows: what the work really was
    _layers: Layers | None = field(default=None, repr=False)

    def __call__(self, points: Float[Tensor, "B S d"], cases: Sequence[Case]) -> Scores:
        layers = self._text()
        differs = (points.detach() != self.case.ends.end).any(dim=2).any(dim=0)
        at = torch.tensor(sorted(set(self.case.target.at)), device=points.device)
        first = min(int(differs.nonzero()[0]) if differs.any() else len(differs), int(at[0])) if layers else 0
        self.tokens += len(points) * (points.shape[1] - first)
        if first == 0:
            return self.read(self.model.forward(points, cases, 0), cases)
        network = self.model.network
        inputs: dict[str, Any] = {
            "input_ids": collate(cases, points)["input_ids"][:, first:],
            "past_key_values": _cache(layers, first, len(points)),
            "logits_to_keep": at - first,
        }
        logits = self.model.output(network.call(points[:, first:], inputs), ())
        return self.read(Kept(logits if "logits_to_keep" in network.accepts else logits[:, at - first], at), cases)

    def _text(self) -> Layers:
        """The text's own keys and values, made once; empty where they cannot be had."""
        if self._layers is None:
            self._layers = []
            if len(self.model.lines(self.case)) == 1:  # alternatives are read in lines of their own: run whole
                with torch.no_grad():
                    raw = named(self.model.module(input_ids=self.case.context["input_ids"][None], use_cache=True))
                self.tokens += len(self.case)
                self._layers = _plain(getattr(raw, "past_key_values", None), len(self.case))
        return self._layers


def _plain(cache: Any, length: int) -> Layers:
    """Keys and values of every position and block; nothing where a block keeps anything else."""
    layers: Layers = []
    for layer in getattr(cache, "layers", ()):
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if type(layer).__name__ != "DynamicLayer" or keys is None or values is None or keys.shape[2] != length:
            return []
        layers.append((keys, values))
    return layers


def _cache(layers: Layers, first: int, rows: int) -> Any:
    """A fresh cache with the text's first positions, for so many rows."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        shape = (rows, keys.shape[1], first, keys.shape[3])
        cache.update(keys[:, :, :first].expand(shape), values[:, :, :first].expand(shape), number)
    return cache
