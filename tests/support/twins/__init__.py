"""Slow twins: every method's formula transcribed from its paper, loop by loop.

`bound.py` binds each method of the table to its twin; a method without one fails tests/laws/test_every_method.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Twin = Callable[[], tuple[np.ndarray, np.ndarray]]  # -> what the library gives, what the literal formula gives
TWINS: dict[str, Twin] = {}


def twin_of(*methods: str) -> Callable[[Twin], Twin]:
    """Bind a twin to methods of the table."""

    def bind(twin: Twin) -> Twin:
        for method in methods:
            assert method not in TWINS, f"{method} has two twins"
            TWINS[method] = twin
        return twin

    return bind
