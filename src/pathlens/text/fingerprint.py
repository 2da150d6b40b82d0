"""Which model made this? One fingerprint for files of vectors, indexes, corpus runs and caches of paths.

It changes with any weight and with whatever else makes the output, and is the same on every machine: bits are added as
whole numbers, because a sum of floats depends on the order in which a processor takes them.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from hashlib import _Hash

    from pathlens.text.adapter import TextModel

SAMPLE = 997  # values of each tensor that go in as they are, besides the sum of all
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def fingerprint(model: TextModel) -> str:
    """16 hex digits from the kind, and of every side its weights (names, shapes, sums, samples) and settings."""
    digest = hashlib.sha256(model.kind.encode())
    for side in dict.fromkeys(model.sides()):
        cut = getattr(side, "cut_at", None)  # of a pipeline that cuts its texts
        digest.update(repr(side.settings() if cut is None else (*side.settings(), cut)).encode())
        module = side.whole()
        for name, value in sorted(module.state_dict().items()) if module is not None else ():
            if isinstance(value, Tensor) and value.is_floating_point():
                _add(digest, name, value)
    return digest.hexdigest()[:16]


def table_fingerprint(table: Float[Tensor, "V d"]) -> str:
    """16 hex digits of one tensor: a vocabulary's table."""
    digest = hashlib.sha256()
    _add(digest, "table", table)
    return digest.hexdigest()[:16]


def _add(digest: _Hash, name: str, value: Float[Tensor, "..."]) -> None:
    flat = value.detach().flatten()
    bits = flat.view(BITS[flat.element_size()])
    digest.update(f"{name}{tuple(value.shape)}{value.dtype}{int(bits.sum(dtype=torch.int64))}".encode())
    digest.update(bits[:: max(1, len(bits) // SAMPLE)].cpu().numpy().tobytes())
