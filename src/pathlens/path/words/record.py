"""The records of a path through words: how it was searched, and where each token went (path → explanation → draw)."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from pathlens.errors import InputError

STRATEGIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"dig": ("greedy", "maxcount"), "udig": ("maxcount", "greedy", "grid")}
)


MOST_FACTOR = 10  # 1024 nodes on every leg; the authors use 1 and 2


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
        for name, least, most in (("steps", 1, 10_000), ("neighbours", 1, None), ("factor", 0, MOST_FACTOR)):
            value = getattr(self, name)
            if hasattr(value, "__index__") and not isinstance(value, bool):
                object.__setattr__(self, name, value := operator.index(value))
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"{self.method} needs {name} ≥ {least}, a whole number; got {value!r}")
            if most is not None and value > most:
                raise InputError(f"{self.method} needs {name} ≤ {most}; got {value!r}")

    @property
    def key(self) -> str:
        """What a path depends on; the factor only says where a rule looks on it."""
        return f"{self.method}-{self.strategy}-m{self.steps}-k{self.neighbours}"


@dataclass(frozen=True)
class TokenPath:
    """One token's way from its baseline to the text, in that order; empty where it never moves."""

    word: str
    baseline: str
    anchors: tuple[int, ...] = ()  # (m,) ids; -1 where the baseline, itself no word, stands in
    words: tuple[str, ...] = ()  # (m,) the anchors, readable
    positions: tuple[float, ...] = ()  # (m,) share of the straight line each point has come: 0 baseline, 1 text
    error: float | None = None  # word approximation error, when measured


@dataclass(frozen=True)
class WordPath:
    """The paths of all tokens of a text (`explanation.path`)."""

    settings: Settings
    tokens: tuple[TokenPath, ...]

    @property
    def error(self) -> float | None:
        """The word approximation error, averaged over the tokens that move; None until measured."""
        errors = [token.error for token in self.tokens if token.error is not None]
        return float(np.mean(errors)) if errors else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"settings": asdict(self.settings), "tokens": [asdict(token) for token in self.tokens]}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> WordPath:
        """What `to_dict` gave, also after JSON has made lists of its tuples."""
        tokens = tuple(
            TokenPath(**{name: tuple(v) if isinstance(v, list) else v for name, v in token.items()})
            for token in values["tokens"]
        )
        return WordPath(Settings(**values["settings"]), tokens)
