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
        first = min(int(differs.nonzero()[0]) if differs.any() else len(differs), int(at[0]))
        if not layers:
            first = 0
        context = self.model.inputs(collate(cases, points))
        self.tokens += len(points) * (points.shape[1] - first)
        known = {"position_ids": context["position_ids"][:, first:], "attention_mask": context["attention_mask"]}
        if known["attention_mask"].ndim == 4:
            known["attention_mask"] = known["attention_mask"][:, :, first:]
        cache = _cache(layers, first, len(points)) if first else None
        logits = self._run(points[:, first:], known, cache, at - first)
        return self.read(Kept(logits, at), cases)

    def _text(self) -> Layers:
        """The text's own keys and values, made once; empty where they cannot be had."""
        if self._layers is None:
            context = self.model.inputs({name: value[None] for name, value in self.case.context.items()})
            every = {"inputs_embeds": self.case.ends.end[None], "use_cache": True}
            with torch.no_grad():
                raw = self.model.module(**every, **self._kept(context, torch.tensor([0])))
            self.tokens += len(self.case)
            self._layers = _plain(getattr(raw, "past_key_values", None), len(self.case))
        return self._layers

    def _run(self, points: Tensor, context: dict[str, Tensor], cache: Any, at: Tensor) -> Float[Tensor, "B P V"]:
        extra = {"past_key_values": cache, "use_cache": True} if cache is not None else {"use_cache": False}
        raw = self.model.module(inputs_embeds=points, **extra, **self._kept(context, at))
        logits = self.model.output(raw, ())
        return logits if "logits_to_keep" in self.model.network.accepts else logits[:, at]

    def _kept(self, context: dict[str, Tensor], at: Tensor) -> dict[str, Tensor]:
        accepts = self.model.network.accepts | {"position_ids"}
        every = {**context, "logits_to_keep": at.to(self.model.network.device)}
        return {name: value for name, value in every.items() if name in accepts}


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
