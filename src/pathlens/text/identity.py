"""Which model made this? A stamp that changes with any weight, so that vectors of two models are never mixed."""

from __future__ import annotations

import hashlib
from typing import Any

from pathlens.text.adapter import TextModel

SAMPLE = 997  # values of each parameter that go into the stamp, besides its sum


def stamp(model: TextModel) -> str:
    """16 hex digits from the weights (names, shapes, sums, samples), the head, and a wrapper's settings."""
    digest = hashlib.sha256(f"{model.kind}".encode())
    for part in dict.fromkeys(model.sides()):
        _add(digest, part)
    return digest.hexdigest()[:16]


def _add(digest: Any, model: Any) -> None:
    settings = (
        getattr(model, "reference", ""),
        getattr(model, "scale", ""),
        getattr(model, "pooling", ""),
        getattr(model, "normalised", ""),
    )
    digest.update(repr((type(model).__name__, settings)).encode())
    whole = getattr(model, "whole", None)
    module = whole() if callable(whole) else getattr(model, "module", None)
    if module is None:
        return
    for name, parameter in module.named_parameters():
        flat = parameter.detach().flatten()
        digest.update(f"{name}{tuple(parameter.shape)}{parameter.dtype}".encode())
        digest.update(flat.double().sum().cpu().numpy().tobytes())
        digest.update(flat[:: max(1, len(flat) // SAMPLE)].float().cpu().numpy().tobytes())
