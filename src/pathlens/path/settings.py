"""How a path through words is searched, and the settings its authors used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pathlens.errors import InputError

STRATEGIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"dig": ("greedy", "maxcount"), "udig": ("maxcount", "greedy", "grid")}
)


@dataclass(frozen=True)
class Settings:
    """m `steps`, K `neighbours`, f `factor` (2^f nodes per leg in the left rule); how anchors are chosen."""

    method: str
    strategy: str
    steps: int = 30
    neighbours: int = 50
    factor: int = 1

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES[self.method]:
            known = ", ".join(map(repr, STRATEGIES[self.method]))
            raise InputError(f"{self.method} has no strategy {self.strategy!r}; use one of {known}")
        for name, least in (("steps", 1), ("neighbours", 1), ("factor", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"{self.method} needs {name} ≥ {least}, a whole number; got {value!r}")

    @property
    def key(self) -> str:
        """What a path depends on; the factor only says where a rule looks on it."""
        return f"{self.method}-{self.strategy}-m{self.steps}-k{self.neighbours}"


PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        "udig-maxcount": Settings("udig", "maxcount", steps=30, neighbours=50, factor=1),
        "udig-greedy": Settings("udig", "greedy", steps=30, neighbours=50, factor=2),
        "udig-grid": Settings("udig", "grid", steps=30, neighbours=50, factor=1),  # ours: in no paper
        "dig-greedy": Settings("dig", "greedy", steps=30, neighbours=500, factor=1),
        "dig-maxcount": Settings("dig", "maxcount", steps=30, neighbours=500, factor=1),
    }
)
