"""The settings the authors of DIG and UDIG used, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pathlens.path.words.record import STRATEGIES, Settings

__all__ = ["PRESETS", "STRATEGIES", "Settings"]

PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        "udig-maxcount": Settings("udig", "maxcount", steps=30, neighbours=50, factor=1),
        "udig-greedy": Settings("udig", "greedy", steps=30, neighbours=50, factor=2),
        "udig-grid": Settings("udig", "grid", steps=30, neighbours=50, factor=1),  # ours: in no paper
        "dig-greedy": Settings("dig", "greedy", steps=30, neighbours=500, factor=1),
        "dig-maxcount": Settings("dig", "maxcount", steps=30, neighbours=500, factor=1),
    }
)
