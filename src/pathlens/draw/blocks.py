"""What is drawn, before how: a page of blocks. The terminal, the page and the picture only read it, so they agree.

A function per result or study makes a `Page` (`results`, `studies`, `evaluations`); a function per kind of block and
medium draws it (`terminal`, `markup`, `figure`). Numbers, scales, legends and sums are settled here, once. What fits
differs from medium to medium: a drawing function returns what it drew and notes about what it left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pathlens.draw import palette
from pathlens.draw.words import Stretch, printable, visible
from pathlens.explanation.record import Phrase

Cell = str | float | None
Named = tuple[str, float]
MEDIA = ("terminal", "page", "figure")
Link = tuple[int, int, float]  # index above, index below (or in the same line), value


@dataclass(frozen=True, eq=False, kw_only=True)
class Block:
    """One part of a page; each of its `media` has a function for the kind, the others draw what is `inside`."""

    media: ClassVar[tuple[str, ...]] = MEDIA
    title: str = ""
    where: tuple[str, ...] = MEDIA  # it is left out elsewhere
    inside: tuple[Block, ...] = ()

    def on(self, medium: str) -> tuple[Block, ...]:
        """What a medium draws of it."""
        if medium in self.where and medium in self.media:
            return (self,)
        return tuple(part for block in self.inside for part in block.on(medium)) if medium in self.where else ()


ROUGH = "does not add up as it should"  # what a cross says, where a tick would make its claim
ADDS_UP, UNIT_BY_UNIT = "adds up", "exact unit by unit"
SEVERAL = {
    ADDS_UP: "add up",
    UNIT_BY_UNIT: "exact unit by unit, without a common sum",
}  # a claim made of several results


@dataclass(frozen=True)
class Sum:
    """Does it add up? In words; `name` where a page has several."""

    settled: bool
    words: str
    name: str = ""
    altered: bool = False  # the numbers are not those it was made of
    open: bool = False  # nobody can say
    claim: str = ADDS_UP  # what the tick says, in a word or two
    short: str = ""  # how closely, beside others

    @property
    def mark(self) -> str:
        return "·" if self.open else "✓" if self.settled else "✗"

    @property
    def line(self) -> str:
        return f"{self.name}: {self.words}" if self.name else self.words


@dataclass(frozen=True)
class Proof:
    """What colours and numbers mean, the scale from one end to the other, and whether everything adds up."""

    legend: str = ""
    full: float | None = None  # the value in full colour; None: there is no common scale
    signed: bool = True
    sums: tuple[Sum, ...] = ()
    checks: tuple[Sum, ...] = ()  # does the model do what the numbers predict?

    @property
    def diagnostics(self) -> tuple[Sum, ...]:
        """The sums in one line where all of several hold; those that do not, by themselves."""
        if sum(each.settled for each in self.sums) < 2:
            return self.sums
        lines = (
            f"{claim}: {', '.join(f'{each.name} {each.short}'.strip() for each in some)}"
            for claim, some in self._claims()
        )
        return (Sum(True, "; ".join(lines)), *(each for each in self.sums if not each.settled))

    @property
    def claim(self) -> str:
        """What the ticks say together, in a few words."""
        claims = [
            f"{', '.join(each.name for each in some)} {claim.removeprefix('these ')}" for claim, some in self._claims()
        ]
        return (
            self.sums[0].claim
            if len(self.sums) == 1
            else "; ".join(claims)
            if len(claims) > 1
            else self._claims()[0][0]
        )

    def _claims(self) -> list[tuple[str, list[Sum]]]:
        """What holds, by what it says: a method without a common sum does not add up."""
        good = [each for each in self.sums if each.settled]
        claims = list(dict.fromkeys(each.claim for each in good))
        whole = len(claims) == 1 and len(good) == len(self.sums)
        which = {c: "all " if whole else "these " if c == ADDS_UP else "" for c in claims}
        return [(which[c] + SEVERAL.get(c, c), [each for each in good if each.claim == c]) for c in claims]

    @property
    def ends(self) -> tuple[str, str]:
        """The numbers at the ends of the scale."""
        full = self.full or 1.0
        digits = palette.decimals(full)
        low = palette.number(-full, digits) if self.signed else "0"
        return low, palette.number(full, digits, sign=self.signed)


@dataclass(frozen=True, eq=False)
class Page:
    """Everything that is to be seen of one result or study."""

    title: str
    subtitle: str = ""
    blocks: tuple[Block, ...] = ()
    notes: tuple[str, ...] = ()
    proof: Proof = Proof()
    details: tuple[Block, ...] = ()  # folded on a page; terminal and picture leave them out
    data: Callable[[], dict[str, Any] | None] | None = None  # travels inside a page; None from it: too large to
    kind: str = ""  # of page, for its style
    headline: str = ""  # what the model says, in a sentence
    classes: tuple[tuple[str, str, str], ...] = ()  # each with its probability at the text, at the baseline

    def on(self, medium: str) -> tuple[Block, ...]:
        """The blocks that a medium draws."""
        return tuple(part for block in self.blocks for part in block.on(medium))


# ---------------------------------------------------------------- words


@dataclass(frozen=True, eq=False)
class Running(Block):
    """Running text on coloured ground; `outside`: units with a value that stand in no text."""

    paragraphs: tuple[tuple[Stretch, ...], ...]
    limit: float
    outside: tuple[Named, ...] = ()


@dataclass(frozen=True, eq=False)
class Texts(Block):
    """Plain texts, each with a short name or none."""

    named: tuple[tuple[str, str], ...]


# ---------------------------------------------------------------- numbers


class Bar(NamedTuple):
    """A bar with its interval, where there is one, and the place of its unit in the result, where it is one's."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    unit: int | None = None


@dataclass(frozen=True, eq=False)
class Bars(Block):
    """Bars from top to bottom; the column adds up where it is `additive`; `axis` says what is measured."""

    bars: tuple[Bar, ...]
    signed: bool = True
    additive: bool = False
    axis: str = ""

    @cached_property
    def limit(self) -> float:
        return palette.limit([bar.value for bar in self.bars])

    def text(self, value: float) -> str:
        return palette.number(value, palette.decimals(self.limit), sign=self.signed)

    def pick(self, room: int) -> tuple[tuple[Bar, ...], tuple[tuple[str, str], ...], tuple[str, ...]]:
        """At most `room` lines: the bars to draw (in order, or the strongest), lines of sums below them, notes."""
        total = sum(bar.value for bar in self.bars)
        if len(self.bars) <= room:
            return self.bars, ((("sum", self.text(total)),) if self.additive else ()), ()
        shown = tuple(sorted(self.bars, key=lambda bar: -abs(bar.value))[: room - 2])
        left = len(self.bars) - len(shown)
        rest = self.text(total - sum(bar.value for bar in shown))
        sums = ((f"{left} others", rest), ("sum", self.text(total))) if self.additive else ()
        return shown, sums, (f"the {len(shown)} strongest of {len(self.bars)} units are listed",)


@dataclass(frozen=True, eq=False)
class Links(Block):
    """The strongest pairs, strongest first, between two lines of names or inside one (`below` empty)."""

    above: tuple[str, ...]
    below: tuple[str, ...]
    links: tuple[Link, ...]
    word: str  # between the names of a pair
    signed: bool = True
    shown: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # names on the lines, by index

    @property
    def limit(self) -> float:
        return palette.limit([value for *_, value in self.links])

    def name(self, link: Link) -> str:
        return f"{visible(self.above[link[0]])} {self.word} {visible((self.below or self.above)[link[1]])}"

    def strongest(self, count: int) -> Bars:
        return Bars(tuple(Bar(self.name(link), link[2]) for link in self.links[:count]), self.signed)


@dataclass(frozen=True, eq=False)
class Phrases(Block):
    """A tree of phrases; `nodes[0]` is the whole text."""

    nodes: tuple[Phrase, ...]

    @property
    def limit(self) -> float:
        """Full colour is the largest dividend."""
        return palette.limit([node.dividend for node in self.nodes])


@dataclass(frozen=True, eq=False)
class Listing(Block):
    """A plain table. A cell is text, a number with a colour, or None (a dot); the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marks: tuple[str, ...] = ()  # a sign before each row (✓, ✗, ·)
    limit: float | None = None  # in full colour; None: numbers have none
    right: bool = False  # are text cells numbers too, set at the right?

    def cell(self, value: Cell, *, line: bool = True) -> str:
        """A cell as text, on one line or as it is."""
        if value is None or value == "":
            return "" if value == "" else "·"
        if isinstance(value, str):
            return visible(value) if line else printable(value)
        return palette.number(value, palette.decimals(self.limit or abs(value) or 1.0))

    def share(self, value: Cell) -> float | None:
        """A cell's place on the scale from -1 to 1; None: it has no colour."""
        if self.limit is None or not isinstance(value, float) or not math.isfinite(value):
            return None
        return value / self.limit

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns are set at the right."""
        places = range(len(self.columns))
        return tuple((self.right and k > 0) or any(isinstance(row[k], float) for row in self.rows) for k in places)


# ---------------------------------------------------------------- charts

Series = Mapping[str, Sequence[tuple[float, float]]]  # name → (x, y) points


@dataclass(frozen=True, eq=False)
class Chart:
    """One line per series; `log`: both axes; `level`: a dotted line across, named; `ticks`: (place, words) on x."""

    series: Series
    xlabel: str
    ylabel: str
    title: str = ""
    log: bool = False
    level: float | None = None
    level_name: str = ""
    ticks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, eq=False)
class Charts(Block):
    """Charts of the same series, with one key for all."""

    charts: tuple[Chart, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for chart in self.charts for name in chart.series))


@dataclass(frozen=True, eq=False)
class Panels(Block):
    """Bar charts of different names; `common`: on one scale. Without a sign they are counts."""

    media = ("page", "figure")  # a terminal has tables instead
    panels: tuple[Bars, ...]
    common: bool = False


@dataclass(frozen=True, eq=False)
class Swarm(Block):
    """Every row of a table at once: per feature its scores as points, more colour where the feature is larger."""

    media = ("page", "figure")  # points need a finer grid than letters
    names: tuple[str, ...]  # of features
    values: np.ndarray  # (rows, features)
    scores: np.ndarray  # (rows, features)

    def strongest(self, most: int) -> list[int]:
        """Features by their mean |score|, the largest first."""
        order: list[int] = np.argsort(-np.abs(self.scores).mean(0), kind="stable")[:most].tolist()
        return order

    def ranks(self, feature: int) -> np.ndarray:
        """Each row's place by the feature's value, from 0 to 1."""
        values = self.values[:, feature]
        return np.argsort(np.argsort(values, kind="stable")) / max(len(values) - 1, 1)


@dataclass(frozen=True, eq=False)
class Scatter(Block):
    """Named points; `same` names the diagonal, where both are equal ("": it is not drawn)."""

    media = ("page", "figure")
    points: tuple[tuple[str, float, float], ...]
    xlabel: str
    ylabel: str
    same: str = ""


# ---------------------------------------------------------------- pages inside pages


@dataclass(frozen=True, eq=False)
class Abreast(Block):
    """The blocks inside, side by side on a page; one below the other elsewhere."""

    media = ("page",)


@dataclass(frozen=True, eq=False)
class Inset(Block):
    """Another page, whole, under the block's title."""

    page: Page


@dataclass(frozen=True, eq=False)
class Fold:
    """A line that opens: a number, a text, the lines below it, and the page inside."""

    lead: str
    text: str
    below: tuple[str, ...] = ()
    page: Page | None = None


@dataclass(frozen=True, eq=False)
class Folds(Block):
    """Lines that open; `opened` is the one that is open at first (−1: none)."""

    folds: tuple[Fold, ...]
    opened: int = -1


@dataclass(frozen=True, eq=False)
class Explorer(Block):
    """Rows to filter, sort and open: `columns` are (name, key, is it a number), `choices` keys to choose from."""

    media = ("page",)
    columns: tuple[tuple[str, str, bool], ...]
    choices: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]  # with `converged` and a `mark`
    pages: tuple[Page, ...]


@dataclass(frozen=True, eq=False)
class Live(Block):
    """A view made by a script from `data`; where no script runs, the blocks inside."""

    media = ("page",)
    kind: str
    data: Mapping[str, Any]
