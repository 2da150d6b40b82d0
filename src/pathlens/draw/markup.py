"""Pages as HTML: a fragment for notebooks, a self-contained page to send. Parts escape themselves: whatever is not already `Markup` is text and stays text."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from functools import singledispatch
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pathlens.draw import blocks, page_of, palette, svg
from pathlens.draw.answers import Answered
from pathlens.draw.element import LEVELS, SCROLL, Markup, element, heat_table, join, level, pixels, script, style, whole
from pathlens.draw.grid import Continued, Grid, strongest_phrases
from pathlens.draw.words import Stretch, cut, printable, visible
from pathlens.explanation.record import Phrase
from pathlens.explanation.store import data_element
from pathlens.files import write_text

BARS = 30
SIDE = 60  # a table of up to this many rows and columns is drawn whole
FOLDED = 40
PHRASES = 400

Drawn = tuple[Markup, tuple[str, ...]]  # the part, and notes on what was left out


def sections(every: Sequence[blocks.Block]) -> Drawn:
    """Blocks one below the other, each under its title."""
    drawn = [(block.title, *draw(block)) for block in every]
    parts = (element("section", None, element("h2", None, title) if title else "", part) for title, part, _ in drawn)
    return join(parts), tuple(note for *_, notes in drawn for note in notes)


def article(page: blocks.Page, *extra: str) -> Markup:
    """A page as a part of a document; `extra` notes come first."""
    body, left_out = sections(page.on("page"))
    how = " · ".join(part for part in (page.title if page.headline else "", page.subtitle) if part)
    head = _headline(page) if page.headline else element("h1", None, page.title) if page.title else ""
    return element(
        "article", {"class": f"pathlens {page.kind}".strip()},
        element("header", None, head, element("p", None, how) if how else ""),
        body, _foot(page, [*extra, *left_out, *page.notes]),
    )  # fmt: skip


def fragment(thing: Any, *, unit: str | None = None) -> str:
    """HTML for a notebook cell or another page: style, picture, legend, certificate, script."""
    return f"<style>{style()}</style>{article(page_of(thing, unit))}<script>{script()}</script>"


def document(thing: Any, path: str | Path | None = None, *, unit: str | None = None) -> str:
    """A self-contained page, also written to `path` when given.

    The numbers themselves travel along as JSON (`embed.extract` reads them back), unless they are too large.
    """
    page = page_of(thing, unit)
    data = page.data() if page.data is not None else {}
    note = ["too large to travel inside the page; save() keeps the numbers"] if data is None else []
    text = whole(page.title, article(page, *note), data_element(data) if data else "")
    if path is not None:
        write_text(path, text)
    return text


def _headline(page: blocks.Page) -> Markup:
    """What the model says comes first; a click shows every class."""
    heading = element("h1", None, page.headline)
    if not page.classes:
        return heading
    heads = element("tr", None, *(element("th", {"scope": "col"}, name) for name in ("class", "text", "baseline")))
    rows = (element("tr", None, *(element("td", None, cell) for cell in row)) for row in page.classes)
    table = element("table", None, heads, *rows)
    return element("details", {"class": "classes"}, element("summary", None, heading), table)


def _foot(page: blocks.Page, notes: Sequence[str]) -> Markup:
    proof = page.proof
    sums, checks = ([_sum_line(each) for each in some] for some in (proof.sums, proof.checks))
    inside = [(element("summary", None, block.title), draw(block)[0]) for block in page.details]
    folded = [element("details", {"class": "rounds"}, *both) for both in inside]
    if sums:
        rough = next((each for each in proof.sums if not each.settled), None)
        bad = "altered" if any(each.altered for each in proof.sums) else blocks.ROUGH
        words = bad if rough else proof.claim
        line = element("summary", None, f"{(rough or proof.sums[0]).mark} {words} · diagnostics")
        sums = [element("details", {"class": "diagnostics", "open": "open" if rough else None}, line, *sums, *folded)]
        folded = []
    listed = element("ul", {"class": "notes"}, *[element("li", None, note) for note in notes]) if notes else ""
    legend = element("p", {"class": "legend"}, proof.legend) if proof.legend else ""
    if not (legend or sums or checks or listed or folded):
        return Markup("")
    return element("footer", None, _scale(proof), legend, *sums, *checks, listed, *folded)


def _sum_line(each: blocks.Sum) -> Markup:
    mark = element("strong", None, f"{each.mark} {each.name}: " if each.name else f"{each.mark} ")
    return element("p", {"class": "certificate" + ("" if each.settled else " rough")}, mark, each.words)


def _scale(proof: blocks.Proof) -> Markup:
    """The colours from one end to the other, with the numbers at the ends."""
    if proof.full is None:
        return Markup("")
    steps = range(-8 if proof.signed else 0, 9)
    swatches = [element("u", {"class": level(k, 8, signed=proof.signed)}) for k in steps]
    ends = [element("span", None, end) for end in proof.ends]
    return element("p", {"class": "scale", "aria-hidden": "true"}, ends[0], element("b", None, *swatches), ends[1])


# ---------------------------------------------------------------- a function per kind of block


@singledispatch
def draw(block: blocks.Block) -> Drawn:
    """A block as HTML, and notes about what was left out."""
    raise TypeError(f"no way to write a {type(block).__name__} as HTML")


@draw.register
def running(block: blocks.Running) -> Drawn:
    """Exactly the characters of the text, so that a copy of it is the text."""
    parts = []
    for paragraph in block.paragraphs:
        drawn = (_stretch(each, block.limit, tabindex=0, **_places(each)) for each in paragraph)
        parts.append(element("p", {"class": "text", "dir": "auto"}, *drawn))
    if block.outside:
        digits = palette.decimals(block.limit)
        named = [(f"{visible(name)} {palette.number(value, digits)}", value) for name, value in block.outside]
        shown = [element("span", {"class": _unit(value, block.limit)}, text) for text, value in named]
        spaced = [piece for part in shown for piece in (part, " ")]
        parts.append(element("p", {"class": "outside"}, "outside the text: ", *spaced))
    return join(parts), ()


def _stretch(stretch: Stretch, limit: float, **marks: object) -> str:
    if not stretch.units:
        return stretch.text
    return element("span", {"class": _unit(stretch.value, limit), "title": stretch.tip, **marks}, stretch.text)


def _places(stretch: Stretch) -> dict[str, object]:
    """The units a stretch shows, for scripts."""
    return {"data-units": " ".join(map(str, stretch.units))}


def _unit(value: float, limit: float) -> str:
    return f"unit {level(value, limit)}".strip()


@draw.register
def texts(block: blocks.Texts) -> Drawn:
    return join(starmap(_plain, block.named)), ()


def _plain(name: str, text: str) -> Markup:
    """A text as it is; its name stands before it, whichever way it runs."""
    part = element("p", {"class": "text plain", "dir": "auto"}, text)
    return element("div", {"class": "named"}, element("b", None, name), part) if name else part


@draw.register
def bars(block: blocks.Bars) -> Drawn:
    """A bar per unit (the strongest of many), one line for the others and the sum: the column adds up."""
    shown, sums, notes = block.pick(BARS)
    sides = _sides([(bar.value, block.limit) for bar in shown], block.signed)
    rows = [_bar(bar, block.text(bar.value), block.limit, sides) for bar in shown]
    for name, text in sums:
        head = element("th", {"scope": "row"}, name)
        rows.append(element("tr", {"class": "sum"}, head, element("td", {"class": "value"}, text)))
    return _bar_table(rows, sides), notes


class _Sides(NamedTuple):
    """How far the longest bars of a table reach to the left and to the right of its line, as shares of a full one."""

    below: float
    above: float
    signed: bool


def _sides(values: Iterable[tuple[float, float]], signed: bool) -> _Sides:
    """Of values, each with its limit. Where nothing falls there is no room to the left, where nothing rises none to the right."""
    drawn = [(value, palette.strength(value, limit)) for value, limit in values]
    below = max((long for value, long in drawn if signed and value < 0), default=0.0)
    return _Sides(below, max((long for value, long in drawn if not signed or value > 0), default=0.0), signed)


def _bar_table(rows: Sequence[Markup], sides: _Sides) -> Markup:
    """The line stands where the bars need it: all of the width is theirs, on one scale for both sides."""
    kind = "bars" if sides.below and sides.above else "bars falling" if sides.below else "bars rising"
    share = sides.below / (sides.below + sides.above) if sides.below else 0.0
    return element("table", {"class": kind, "style": f"--below:{share:.3f}"}, *rows)


def _bar(bar: blocks.Bar, text: str, limit: float, sides: _Sides) -> Markup:
    """One row of a table with those sides."""
    name, value, low, high, unit = bar
    falls, kind = sides.signed and value < 0, "length" if not sides.signed else "up" if value > 0 else "down"
    share = palette.strength(value, limit) / ((sides.below if falls else sides.above) or 1.0)
    drawn = element("i", {"class": kind, "style": f"width:{100 * share:.1f}%"})
    below = [element("td", {"class": "below"}, drawn if falls else "")] if sides.below else []
    above = [element("td", {"class": "above"}, "" if falls else drawn)] if sides.above or not below else []
    return element(
        "tr", {"title": "" if low is None or high is None else f"{value:.4g} [{low:.4g}, {high:.4g}]", "data-unit": unit},
        element("th", {"scope": "row"}, visible(name)), element("td", {"class": "value"}, text),
        *below, *above,
    )  # fmt: skip


@draw.register
def grid(block: Grid) -> Drawn:
    """A heat table with sums in the margins; a large one as a picture of every cell above its strongest lines."""
    if max(len(block.rows), len(block.columns)) <= SIDE:
        return heat_table(block), block.notes
    shown = block.fold(FOLDED, FOLDED)
    words = element("p", {"class": "outside"}, "every cell, one pixel each; below, the strongest lines")
    return join([words, pixels(block), heat_table(shown)]), shown.notes


@draw.register
def phrases(block: blocks.Phrases) -> Drawn:
    """Nested lists that fold."""
    nodes = block.nodes
    kept, notes = strongest_phrases(nodes, PHRASES)

    def grow(i: int) -> Markup:
        inside = [child for child in nodes[i].children if child in kept]
        line = _phrase(nodes[i], block.limit)
        if not inside:
            return element("li", None, element("div", {"class": "phrase"}, line))
        # browsers and this function's own recursion stay well below trouble: `kept` is at most PHRASES deep
        below = element("ul", None, *[grow(child) for child in inside])
        above = element("summary", {"class": "phrase"}, line)
        return element("li", None, element("details", {"open": "open"}, above, below))

    return element("ul", {"class": "tree"}, grow(0)), notes


def _phrase(node: Phrase, limit: float) -> Markup:
    share = float(np.copysign(node.dividend, node.signed))
    tip = f"value {node.value:.4f}, own dividend {node.dividend:.4f}, integral {node.signed:+.4g}"
    sign = "+" if node.signed > 0 else "-" if node.signed < 0 else "±"
    bar = element(
        "i", {"class": "up" if node.signed > 0 else "down", "style": f"width:{100 * min(node.value, 1):.1f}%"}
    )
    label = [element("small", None, node.label)] if node.label else []
    text = element("span", {"class": _unit(share, limit), "title": tip}, visible(node.text))
    value = element("span", {"class": "value"}, f"{sign}{node.value:.3f}")
    return join([text, " ", *label, value, element("span", {"class": "room"}, bar)])


@draw.register
def listing(block: blocks.Listing) -> Drawn:
    mark = [element("td")] if block.marks else []
    heads = [
        element("th", {"scope": "col", "class": "number" if right else None}, name) if name else element("td")
        for name, right in zip(block.columns, block.numeric, strict=True)
    ]
    rows = []
    for number, row in enumerate(block.rows):
        sign = [element("td", {"class": "mark"}, block.marks[number])] if block.marks else []
        rows.append(element("tr", None, *sign, *[_cell(block, k, value) for k, value in enumerate(row)]))
    body = element("thead", None, element("tr", None, *mark, *heads)), element("tbody", None, *rows)
    table = element("table", {"class": "listing"}, *body)
    return element("div", {**SCROLL, "aria-label": block.title or block.columns[0] or "table"}, table), ()


def _cell(block: blocks.Listing, column: int, value: blocks.Cell) -> Markup:
    if isinstance(value, float):
        shade = level(block.share(value) or 0.0, 1)
        return element("td", {"class": f"number {shade}".strip()}, block.cell(value))
    text = block.cell(value, line=False)
    if column == 0:
        return element("th", {"scope": "row", "dir": "auto"}, visible(text) if text else "")
    if block.numeric[column]:
        return element("td", {"class": "number best" if text.endswith("★") else "number"}, text)
    return element("td", {"class": "words", "dir": "auto"}, text)


def _level(block: blocks.Block) -> dict[str, int]:
    """A heading below a block that has none of its own takes the block's place in the order."""
    return {} if block.title else {"aria-level": 2}


@draw.register
def charts(block: blocks.Charts) -> Drawn:
    """A single chart with its key; several in a grid, with one key for all."""
    if len(block.charts) == 1:
        return element("figure", None, svg.key(block.names), svg.chart(block.charts[0])), ()
    heads = [element("h3", _level(block), chart.title or chart.ylabel) for chart in block.charts]
    drawn = [element("figure", None, head, svg.chart(chart)) for head, chart in zip(heads, block.charts, strict=True)]
    return join([svg.key(block.names), element("div", {"class": "curves"}, *drawn)]), ()


@draw.register
def panels(block: blocks.Panels) -> Drawn:
    common, every = palette.limit([panel.limit for panel in block.panels]), []
    limits = [common if block.common else panel.limit for panel in block.panels]
    signed = all(panel.signed for panel in block.panels)
    sides = _sides(
        [(b.value, lim) for panel, lim in zip(block.panels, limits, strict=True) for b in panel.bars], signed
    )
    for panel, limit in zip(block.panels, limits, strict=True):
        rows = []
        for bar in panel.bars:
            text = palette.number(bar.value, palette.decimals(limit)) if panel.signed else f"{bar.value:,.0f}"
            rows.append(_bar(bar, text, limit, sides))
        head = element("h3", _level(block), f"{panel.title}, {panel.axis}" if panel.axis else panel.title)
        every.append(element("section", None, head, _bar_table(rows, sides)))
    return element("div", {"class": "panels"}, *every), ()


draw.register(blocks.Links, lambda block: (svg.arcs(block), ()))
draw.register(blocks.Swarm, lambda block: (svg.swarm(block), ()))
draw.register(blocks.Scatter, lambda block: (svg.scatter(block), ()))


@draw.register
def abreast(block: blocks.Abreast) -> Drawn:
    inside, notes = sections(block.inside)
    return element("div", {"class": "abreast"}, inside), notes


@draw.register
def inset(block: blocks.Inset) -> Drawn:
    return article(block.page), ()


@draw.register
def folds(block: blocks.Folds) -> Drawn:
    parts = []
    for k, fold in enumerate(block.folds):
        below = join([element("span", {"class": "met"}, each) for each in fold.below])
        line = element("summary", {"dir": "auto"}, element("b", None, fold.lead.strip()), fold.text, below)
        inner = article(fold.page) if fold.page is not None else ""
        parts.append(element("details", {"open": "open" if k == block.opened else None}, line, inner))
    return join(parts), ()


@draw.register
def live(block: blocks.Live) -> Drawn:
    return element("div", {"class": block.kind, "data-view": _json(block.data)}), ()


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


# ---------------------------------------------------------------- a continuation, and an answer

LISTBOX = {"class": "outputs", "role": "listbox", "tabindex": 0, "dir": "auto"}
OPTION = {"class": "out", "role": "option", "aria-selected": "false"}
CHOSEN = {"class": "chosen", "role": "status", "aria-live": "polite"}


def _marks(block: Continued | Answered, kind: str) -> dict[str, str]:
    """What the script reads: the facts, and every cell."""
    data = {"data-view": _json({**block.facts, "levels": LEVELS}), "data-matrix": packed(block.cells.values)}
    return {"class": kind, **data}


@draw.register
def continued(block: Continued) -> Drawn:
    """Choose an output token to see its sources; without the script, the whole continuation's."""
    small = max(block.grid.values.shape) <= SIDE
    facts = block.facts
    return element(
        "div", _marks(block, "said"),
        element("h2", None, "what it said: choose a token (click, or the arrow keys) to see its sources"),
        _outputs(block),
        element("p", CHOSEN, f"{facts['whole']}: {facts['score']} {facts['ends'][-1]}"),
        element("h2", None, "the prompt"),
        *(_prompt(paragraph, block.bars.limit) for paragraph in block.prompt),
        element("h2", None, "strongest sources"),
        element("div", {"class": "strongest"}, draw(block.bars)[0]),
        element("h2", None, block.grid.title),
        heat_table(block.grid) if small else _every_cell(block),
    ), block.grid.notes  # fmt: skip


@draw.register
def answered(block: Answered) -> Drawn:
    """The answer at the left, its sources at the right; the same script colours them by the chosen sentence."""
    read = [(element("h3", None, name), _prompt(text, block.bars.limit, "text source")) for name, text in block.sources]
    texts = [part for both in read for part in both]
    left = element(
        "div", None,
        element("h2", None, "the answer: choose a sentence (click, or the arrow keys) to see its sources"),
        element("p", {**LISTBOX, "aria-label": "sentences of the answer"}, *_said_sentences(block)),
        element("p", CHOSEN, f"{block.facts['whole']}: {block.facts['ends'][-1]}"),
    )  # fmt: skip
    strongest = element("div", {"class": "strongest"}, draw(block.bars)[0])
    pane = {"class": "prompt", "tabindex": 0, "role": "region", "aria-label": "sources"}
    right = element("div", None, element("h2", None, "the sources"), element("div", pane, *texts))
    table = element("section", None, element("h2", None, block.grid.title), heat_table(block.grid))
    parts = element("section", None, element("h2", None, "strongest parts"), strongest)
    whole = element(
        "div", _marks(block, "said answered"), element("div", {"class": "beside"}, left, right), parts, table
    )
    return whole, block.grid.notes


def _chosen(text: str) -> list[object]:
    """What can be chosen can be seen, clicked and read aloud: a line break too."""
    if text.strip():
        return [text]
    return [element("span", {"class": "blank"}, "↵" if "\n" in text else "␣"), text]


def _said_sentences(block: Answered) -> list[object]:
    """Sentences to choose, each followed by what it cites."""
    children: list[object] = []
    for part in block.sentences:
        if not part.units:
            children.append(part.text)
            continue
        marks = {**OPTION, "data-source": -1, "data-outputs": " ".join(map(str, part.units))}
        children.append(element("span", marks, *_chosen(part.text)))
        cited = " ".join(block.cited[unit] for unit in part.units if block.cited[unit])
        children.append(element("small", {"class": "cited"}, cited) if cited else "")
    return children


def packed(matrix: np.ndarray) -> str:
    """(U, T) as the bytes of 32-bit floats, row by row: 500 × 100 tokens are 270 000 characters."""
    return base64.b64encode(np.ascontiguousarray(matrix, dtype="<f4").tobytes()).decode()


def _prompt(paragraph: Sequence[Stretch], limit: float, kind: str = "text prompt") -> Markup:
    parts = [_stretch(part, limit, **_places(part)) for part in paragraph]
    return element("p", {"class": kind, "dir": "auto"}, *parts)


def _outputs(block: Continued) -> Markup:
    """The continuation, token by token; those without characters of their own (end of text) stand at its end."""

    def one(outputs: Sequence[int], text: str) -> Markup:
        places = {"data-outputs": " ".join(map(str, outputs)), "data-source": block.sources[outputs[0]]}
        return element("span", {**OPTION, **places}, *_chosen(text))

    children: list[object] = [one(part.units, part.text) if part.units else part.text for part in block.spoken]
    placed = {t for part in block.spoken for t in part.units}
    for t, name in enumerate(block.cells.columns):
        if t not in placed:
            children += [" ", one((t,), visible(name))]
    return element("p", {**LISTBOX, "aria-label": "output tokens"}, *children)


def _every_cell(block: Continued) -> Markup:
    shape = f"{len(block.cells.rows)} × {len(block.cells.columns)}"
    words = f"all {shape} cells, one pixel each: sources from top to bottom, output tokens from left to right"
    cursor = element("i", {"class": "cursor", "hidden": "hidden"})
    box = element("div", {"class": "pixelbox"}, pixels(block.cells), cursor)
    above = element("p", {"class": "outside"}, f"{words}; click one")
    return join([above, box, element("p", {"class": "outside readout"}, "")])


# ---------------------------------------------------------------- rows to filter, sort and open


@draw.register
def explorer(block: blocks.Explorer) -> Drawn:
    heads = [
        element("th", {"scope": "col", "aria-sort": "none"},
                element("button", {"type": "button", "data-key": key, "data-number": "1" if number else None}, name or "#"))
        for name, key, number in block.columns
    ]  # fmt: skip
    first = element("thead", None, element("tr", None, *heads, element("th", None, "adds up")))
    rows = [_openable(block, row, page) for row, page in zip(block.rows, block.pages, strict=True)]
    table = element("div", {**SCROLL, "aria-label": "rows"}, element("table", {"class": "rows"}, first, *rows))
    return join([_controls(block), table]), ()


def _controls(block: blocks.Explorer) -> Markup:
    hint = "words in the text, method, strongest …"
    search = element("input", {"type": "search", "class": "filter", "placeholder": hint, "aria-label": "filter"})
    picks = []
    for key in block.choices:
        values = sorted({row[key] for row in block.rows})
        if len(values) > 1:
            every = Markup(f'<option value="">every {key}</option>')
            options = [every, *[element("option", None, value) for value in values]]
            picks.append(element("select", {"data-key": key, "aria-label": key}, *options))
    loose = element("label", None, Markup('<input type="checkbox" class="loose">'), " only what has not settled")
    count = element("output", {"class": "count"}, f"{len(block.rows)} of {len(block.rows)}")
    return element("div", {"class": "choose"}, search, *picks, loose, count)


def _openable(block: blocks.Explorer, row: Any, page: blocks.Page) -> Markup:
    data = {f"data-{key}": row[key] for _, key, _ in block.columns}
    cells = []
    for _, key, number in block.columns:
        text = f"{row[key]:.4g}" if isinstance(row[key], float) else printable(str(row[key]))
        kind = "number" if number else f"words of-{key}"
        cells.append(element("td", {"class": kind, "dir": "auto"}, text if number else cut(text, 160)))
    mark = element("td", {"class": "mark"}, row["mark"])
    line = element("tr", {"class": "row", "tabindex": 0, "aria-expanded": "false"}, *cells, mark)
    inside = element("td", {"colspan": len(block.columns) + 1}, article(page))
    folded = element("tr", {"class": "detail", "hidden": "hidden"}, inside)
    return element("tbody", {**data, "data-loose": None if row["converged"] else "1"}, line, folded)
