"""How a path through words is asked for: options of the methods that walk one, and the authors' settings by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pathlens.checks import given, option
from pathlens.errors import InputError
from pathlens.path.words.record import MOST_FACTOR, STRATEGIES, Settings

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

    steps: int | None = option(None, "Anchor words on each token's way (the papers' m).", least=1, most=10_000)
    neighbours: int | None = option(None, "Nearest words an anchor is chosen among (K).", least=1)
    factor: int | None = option(None, "2^factor nodes on a leg in the left rule (f).", least=0, most=MOST_FACTOR)
    strategy: str | None = option(
        None,
        "How an anchor is chosen (dig: greedy, udig: maxcount; grid is udig's alone).",
        choices=("greedy", "maxcount", "grid"),
        checked=False,
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
                raise InputError(f"preset={self.preset!r} is not one of {method}; presets: {', '.join(known)}")
            base = PRESETS[full]
        else:
            base = PRESETS.get(f"{method}-{self.strategy}", PRESETS[f"{method}-{STRATEGIES[method][0]}"])
        named = {name: getattr(self, name) for name in ("steps", "neighbours", "factor", "strategy")}
        return replace(base, **{name: value for name, value in named.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class PathOptions(WordOptions):
    """Options of the methods that may leave the straight line."""

    path: str | None = option(
        None, "Which way to the text: the straight line, or through words.", choices=("line", "dig", "udig")
    )

    @property
    def through_words(self) -> str | None:
        """`"dig"` or `"udig"` where the path goes through words, else None."""
        return None if self.path in (None, "line") else self.path

    def check_path(self) -> None:
        """Settings that fit the path; none where it is the straight line."""
        if self.through_words is not None:
            self.settings(self.through_words)
            return
        idle = [name for name in given(self) if name in WordOptions.__dataclass_fields__ and name != "cache"]
        if idle:
            raise InputError(
                f"{', '.join(idle)}: settings of a path through words, and this path is the straight line; add path='udig' "
                "or path='dig'"
            )
