"""Paths through words as records: how one is asked for, the authors' settings by name, and where each token went.

Light: a saved result is drawn with them, without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from pathlens.checks import check_options, given, option
from pathlens.errors import InputError, setting

STRATEGIES: Mapping[str, tuple[str, ...]] = {"dig": ("greedy", "maxcount"), "udig": ("maxcount", "greedy", "grid")}
# least and most; a factor of 10 is 1024 nodes on a leg, and the authors use 1 and 2
STEPS, NEIGHBOURS, FACTOR = (1, 10_000), (1, None), (0, 10)


@dataclass(frozen=True)
class Settings:
    """m `steps`, K `neighbours`, f `factor` (2^f nodes per leg in the left rule); how anchors are chosen."""

    method: str
    strategy: str
    steps: int = option(30, "m", bounds=STEPS)
    neighbours: int = option(50, "K", bounds=NEIGHBOURS)
    factor: int = option(1, "f", bounds=FACTOR)

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES[self.method]:
            known = ", ".join(map(repr, STRATEGIES[self.method]))
            raise InputError(f"{self.method} has no strategy {self.strategy!r}; use one of {known}")
        check_options(self)

    @property
    def key(self) -> str:
        """What a path depends on; the factor only says where a rule looks on it. In dig K are others than the word itself."""
        others = "-others" if self.method == "dig" else ""
        return f"{self.method}-{self.strategy}-m{self.steps}-k{self.neighbours}{others}"


PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        "udig-maxcount": Settings("udig", "maxcount", steps=30, neighbours=50, factor=1),
        "udig-greedy": Settings("udig", "greedy", steps=30, neighbours=50, factor=2),
        "udig-grid": Settings("udig", "grid", steps=30, neighbours=50, factor=1),  # ours: in no paper
        "dig-greedy": Settings("dig", "greedy", steps=30, neighbours=500, factor=1),
        "dig-maxcount": Settings("dig", "maxcount", steps=30, neighbours=500, factor=1),
    }
)


@dataclass(frozen=True, kw_only=True)
class WordOptions:
    """Options of a path through words; what is None is as the authors had it (`PRESETS`)."""

    steps: int | None = option(None, "Anchor words on each token's way (the papers' m).", bounds=STEPS)
    neighbours: int | None = option(None, "Nearest words an anchor is chosen among (K).", bounds=NEIGHBOURS)
    factor: int | None = option(None, "2^factor nodes on a leg in the left rule (f).", bounds=FACTOR)
    strategy: str | None = option(
        None,
        "How an anchor is chosen (dig: greedy, udig: maxcount; grid is udig's alone).",
        choices=STRATEGIES["udig"],  # dig has all but grid: `Settings` knows the path
    )
    preset: str | None = option(None, "The authors' settings by name: udig-maxcount, dig-greedy, …")
    cache: Any = option(None, "A folder where paths are kept from run to run.")
    wae: bool = option(False, "Measure how far the path strays from words.")

    def settings(self, method: str) -> Settings:
        """A preset (by default of the chosen strategy), with what was given by name put over it."""
        if self.preset is not None:
            known = [name for name in PRESETS if PRESETS[name].method == method]
            full = self.preset if str(self.preset).startswith(f"{method}-") else f"{method}-{self.preset}"
            if full not in known:
                raise InputError(f"{setting(preset=self.preset)} is not one of {method}; presets: {', '.join(known)}")
            base = PRESETS[full]
        else:
            base = PRESETS.get(f"{method}-{self.strategy}", PRESETS[f"{method}-{STRATEGIES[method][0]}"])
        named = {name: getattr(self, name) for name in ("steps", "neighbours", "factor", "strategy")}
        return replace(base, **{name: value for name, value in named.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class PathOptions(WordOptions):
    """Options of the methods that may leave the straight line."""

    path: str | None = option(
        None, "Which way to the text: the straight line, or through words.", choices=("line", *STRATEGIES)
    )

    @property
    def through_words(self) -> str | None:
        """`"dig"` or `"udig"` where the path goes through words, else None."""
        return None if self.path in (None, "line") else self.path

    def check(self) -> None:
        """Settings that fit the path; none where it is the straight line."""
        if self.through_words is not None:
            self.settings(self.through_words)
            return
        idle = [name for name in given(self) if name in WordOptions.__dataclass_fields__ and name != "cache"]
        if idle:
            raise InputError(
                f"{', '.join(idle)}: settings of a path through words, and this path is the straight line; add {setting(path='udig')} "
                f"or {setting(path='dig')}"
            )


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

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> WordPath:
        """What `asdict` gives, also after JSON has made lists of its tuples."""
        tokens: list[dict[str, Any]] = [
            {name: tuple(value) if isinstance(value, list) else value for name, value in token.items()}
            for token in values["tokens"]
        ]
        return WordPath(Settings(**values["settings"]), tuple(TokenPath(**token) for token in tokens))
