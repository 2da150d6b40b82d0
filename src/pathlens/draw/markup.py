"""HTML built from parts that escape themselves: whatever is not already `Markup` is text and stays text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np

from pathlens.draw import palette, tables, view
from pathlens.explanation.record import Phrase

LEVELS = 24  # steps of colour per sign; finer ones cannot be told apart
BARS = 30
SIDE = 60  # a table of up to this many rows and columns is drawn whole
FOLDED = 40
PHRASES = 400
VOID = ("img", "input")  # elements that have no end tag


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, attributes: dict[str, object] | None = None, *children: object) -> Markup:
    """`<name attributes>children</name>`; attributes that are None are left out."""
    given = "".join(
        f' {key}="{html.escape(view.printable(str(value)))}"'
        for key, value in (attributes or {}).items()
        if value is not None and value != ""
    )
    if name in VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(children: Iterable[object]) -> Markup:
    """Children one after another, text escaped."""
    return Markup("".join(c if isinstance(c, Markup) else html.escape(view.printable(str(c))) for c in children))


def level(value: float, limit: float, *, signed: bool = True) -> str:
    """Class of a value on the scale: p1…p24 raises, n1…n24 lowers, l1…l24 lengths; none at zero."""
    step = round(LEVELS * palette.strength(value, limit))
    return "" if step == 0 else f"{'l' if not signed else 'p' if value > 0 else 'n'}{step}"


def color_rules() -> str:
    """The scale as CSS classes, for light and for dark pages."""
    both = []
    for dark in (False, True):
        rules = []
        for step in range(1, LEVELS + 1):
            ends = {"p": palette.color(step, LEVELS, dark=dark), "n": palette.color(-step, LEVELS, dark=dark)}
            ends["l"] = palette.length_color(step, LEVELS, dark=dark)
            for letter, back in ends.items():
                ink = palette.text_color(back)
                rules.append(f".pathlens .{letter}{step}{{background:{back};color:{ink}}}")
        both.append("".join(rules))
    return f"{both[0]}@media (prefers-color-scheme:dark){{{both[1]}}}"


def running(pieces: Sequence[view.Piece], tokens: Sequence[str], values: np.ndarray, limit: float) -> Markup:
    """Running text: exactly the characters of the text, so that a copy of it is the text."""
    digits = palette.decimals(limit, 4)

    def one(piece: view.Piece) -> object:
        if not piece.units:
            return piece.text
        tip = " ".join(f"{view.visible(tokens[i])} {palette.number(float(values[i]), digits)}" for i in piece.units)
        if len(piece.units) > 1:
            tip = f"{palette.number(piece.value, digits)} = {tip}"
        return element(
            "span", {"class": f"unit {level(piece.value, limit)}".strip(), "title": tip, "tabindex": 0}, piece.text
        )

    return element("p", {"class": "text", "dir": "auto"}, *map(one, pieces))


def bars(
    named: Sequence[tuple[str, float]], limit: float, *, signed: bool = True, additive: bool = True, order: bool = True
) -> Markup:
    """A bar per unit (the strongest of many), one line for the others and the sum: the column adds up."""
    digits = palette.decimals(limit)
    shown = list(named)
    if len(named) > BARS:
        shown = sorted(named, key=lambda pair: -abs(pair[1]))[: BARS - 1]
    rows = [_bar_row(name, value, limit, digits, signed) for name, value in shown]
    total = sum(value for _, value in named)
    rest = len(named) - len(shown)
    if rest:
        sums = palette.number(total - sum(value for _, value in shown), digits) if additive else ""
        rows.append(_sum_row(f"{rest} others", sums))
    if additive and order:
        rows.append(_sum_row("sum", palette.number(total, digits)))
    return element("table", {"class": "bars"}, *rows)


def _bar_row(name: str, value: float, limit: float, digits: int, signed: bool) -> Markup:
    width = f"width:{100 * palette.strength(value, limit):.1f}%"
    kind = "length" if not signed else "up" if value > 0 else "down"
    bar = element("i", {"class": kind, "style": width})
    below = [element("td", {"class": "below"}, bar if value < 0 else "")] if signed else []
    return element(
        "tr", None,
        element("th", {"scope": "row"}, view.visible(name)),
        element("td", {"class": "value"}, palette.number(value, digits, sign=signed)),
        *below, element("td", {"class": "above"}, bar if value >= 0 else ""),
    )  # fmt: skip


def _sum_row(name: str, value: str) -> Markup:
    return element(
        "tr", {"class": "sum"}, element("th", {"scope": "row"}, name), element("td", {"class": "value"}, value)
    )


def matrix(whole: tables.Grid, *, corner: str, between: str) -> tuple[Markup, tables.Grid]:
    """A heat table with sums in the margins; large ones keep their strongest lines and sum the others."""
    small = max(len(whole.rows), len(whole.columns)) <= SIDE
    grid = whole if small else tables.fold(whole, FOLDED, FOLDED)
    digits = palette.decimals(grid.limit, 3 if len(grid.columns) <= 16 else 2)
    upright = " upright" if max(map(len, grid.columns)) > 11 or len(grid.columns) > 12 else ""
    heads = [_head(name, "col", j, grid.edge, len(grid.columns), grid.rest[1]) for j, name in enumerate(grid.columns)]
    margin = [element("th", {"class": "margin"}, element("span", None, "sum"))] if grid.signed else []
    first = element("tr", None, element("th", {"class": "corner"}, corner), *heads, *margin)
    rows = [_matrix_row(grid, i, digits, between) for i in range(len(grid.rows))]
    if grid.signed and grid.additive:
        sums = [_margin(float(v), digits, "edge" if j < grid.edge else "") for j, v in enumerate(grid.values.sum(0))]
        total = _margin(float(grid.values.sum()), palette.decimals(grid.limit, 4), "total")
        rows.append(element("tr", {"class": "margin"}, element("th", {"scope": "row"}, "sum"), *sums, total))
    table = element(
        "table", {"class": f"matrix{upright}"}, element("thead", None, first), element("tbody", None, *rows)
    )
    return element("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": "table"}, table), grid


def _head(name: str, scope: str, index: int, edge: int, count: int, rest: int) -> Markup:
    kind = "edge" if index < edge else "rest" if index >= count - rest else None
    return element("th", {"scope": scope, "class": kind}, element("span", None, view.visible(name)))


def _matrix_row(grid: tables.Grid, i: int, digits: int, between: str) -> Markup:
    limit, exact = grid.limit, palette.decimals(grid.limit, 5)
    row_name = view.visible(grid.rows[i])
    cells = []
    for j, value in enumerate(map(float, grid.values[i])):
        edge = "edge" if j < grid.edge else ""
        kind = f"{level(value, limit, signed=grid.signed)} {edge}".strip()
        pair = f"{row_name} {between} {view.visible(grid.columns[j])}"
        tip = f"{pair}: {palette.number(value, exact, sign=grid.signed)}"
        shown = palette.number(value, digits, sign=grid.signed, narrow=True)
        cells.append(element("td", {"class": kind, "title": tip}, shown))
    margin = [_margin(float(grid.values[i].sum()), digits, "")] if grid.signed else []
    head = _head(grid.rows[i], "row", i, grid.edge, len(grid.rows), grid.rest[0])
    return element("tr", {"class": "edge" if i < grid.edge else None}, head, *cells, *margin)


def _margin(value: float, digits: int, kind: str) -> Markup:
    return element("td", {"class": f"margin {kind}".strip()}, palette.number(value, digits))


def tree(nodes: Sequence[Phrase]) -> tuple[Markup, int]:
    """Phrases as nested lists that fold, and how many small ones were left out."""
    kept = tables.strongest(nodes, PHRASES)
    limit = palette.limit([node.dividend for node in nodes])

    def grow(i: int, depth: int) -> Markup:
        node = nodes[i]
        inside = [child for child in node.children if child in kept]
        line = _phrase(node, limit)
        if not inside:
            return element("li", None, element("div", {"class": "phrase"}, line))
        # browsers and this function's own recursion stay well below trouble: `kept` is at most PHRASES deep
        below = element("ul", None, *[grow(child, depth + 1) for child in inside])
        opened = Markup(element("details", {"open": "open"}, element("summary", {"class": "phrase"}, line), below))
        return element("li", None, opened)

    return element("ul", {"class": "tree"}, grow(0, 0)), len(nodes) - len(kept)


def _phrase(node: Phrase, limit: float) -> Markup:
    own = float(np.copysign(node.dividend, node.signed))
    tip = f"value {node.value:.4f}, own dividend {node.dividend:.4f}, integral {node.signed:+.4g}"
    sign = "+" if node.signed > 0 else "-" if node.signed < 0 else "±"
    bar = element("i", {"class": "up" if node.signed > 0 else "down", "style": f"width:{9 * min(node.value, 1):.2f}em"})
    label = [element("small", None, node.label)] if node.label else []
    text = element("span", {"class": f"unit {level(own, limit)}".strip(), "title": tip}, view.visible(node.text))
    return join([text, " ", *label, element("span", {"class": "value"}, f"{sign} {node.value:.3f}"), bar])
