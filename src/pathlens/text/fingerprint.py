"""Which model made this? One fingerprint for references, exact encoders, files of vectors, indexes and corpus runs.

It changes with any weight and with the settings of its kind, and is the same on every machine: bits are added as whole
numbers, because a sum of floats depends on the order in which a processor takes them. Vectors, indexes and runs are made by
more than that: what stands in the configuration (positions, activations) and how texts become tokens counts there too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from hashlib import _Hash

    from pathlens.text.adapter import TextModel

SAMPLE = 997  # values of each tensor that go in as they are, besides the sum of all
# of a configuration: where it came from, how it runs, what its classes are called
NO_NUMBERS = (
    "transformers_version",
    "dtype",
    "torch_dtype",
    "architectures",
    "id2label",
    "label2id",
    "use_cache",
    "name_or_path",
)
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


def whole_fingerprint(model: TextModel) -> str:
    """The same, and of every side its configuration and its tokenizer."""
    digest = hashlib.sha256(fingerprint(model).encode())
    for side in dict.fromkeys(model.sides()):
        for part in (*_configured(getattr(side, "module", None)), *_read_by(getattr(side, "tokenizer", None))):
            digest.update(json.dumps(part, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:16]


def _configured(module: Any) -> Iterator[Any]:
    """What a configuration says besides its class's own values."""
    changed = getattr(getattr(module, "config", None), "to_diff_dict", None)
    if changed is not None:
        yield {key: value for key, value in changed().items() if key not in NO_NUMBERS and not key.startswith("_")}


def _read_by(tokenizer: Any) -> Iterator[Any]:
    """How texts become tokens: all that a fast tokenizer is made of, of others their words."""
    fast = (
        vars(tokenizer).get("words") if hasattr(tokenizer, "__dict__") else None
    )  # the built-in's, without the library
    fast = getattr(tokenizer, "backend_tokenizer", None) if fast is None else fast
    if fast is not None and hasattr(fast, "to_str"):
        facts = json.loads(fast.to_str())
        yield {
            key: value for key, value in facts.items() if key not in ("truncation", "padding")
        }  # those are of a call
    elif hasattr(tokenizer, "get_vocab"):
        yield [type(tokenizer).__name__, tokenizer.get_vocab()]


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
