"""Elements that escape what is put into them, style and script, tables of numbers as cells or pixels.

No network, no library: style and a few lines of script travel inside. Without the script everything is still
there except the sliders.
"""

from __future__ import annotations

import base64
import hashlib
import html
import struct
import zlib
from collections.abc import Iterable, Mapping
from importlib import resources
from itertools import product

import numpy as np

from pathlens.draw import palette
from pathlens.draw.grid import Grid
from pathlens.draw.words import printable, visible

LEVELS = 24  # steps of colour per sign; finer ones cannot be told apart
STEPS = 100  # shades per sign of a picture; a PNG palette has room for 256
SCROLL = {"class": "scroll", "tabindex": 0, "role": "region"}  # what may be wider than the page
STYLES = ("page.css", "blocks.css", "continuation.css", "path.css", "report.css")
SCRIPTS = ("page.js", "continuation.js", "path.js", "report.js")
BODY = (
    "body{margin:0;background:Canvas}@media (prefers-color-scheme:dark){body{background:" + palette.DARK + "}}"
    ".pathlens{margin:0 auto}"
)
VOID = ("img", "input")  # elements that have no end tag


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, attributes: Mapping[str, object] | None = None, *children: object) -> Markup:
    """`<name attributes>children</name>`; attributes that are None or empty are left out."""
    given = "".join(
        f' {key}="{html.escape(printable(str(value)))}"'
        for key, value in (attributes or {}).items()
        if value is not None and value != ""
    )
    if name in VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(children: Iterable[object]) -> Markup:
    """Children one after another, text escaped."""
    return Markup("".join(c if isinstance(c, Markup) else html.escape(printable(str(c))) for c in children))


def level(value: float, limit: float, *, signed: bool = True) -> str:
    """Class of a value on the scale: p1…p24 raises, n1…n24 lowers, l1…l24 lengths; none at zero."""
    step = round(LEVELS * palette.strength(value, limit))
    return "" if step == 0 else f"{'l' if not signed else 'p' if value > 0 else 'n'}{step}"


def color_rules() -> str:
    """The scale as CSS classes, for light and for dark ground."""
    rules = ""
    for step, (letter, sign) in product(range(1, LEVELS + 1), (("p", 1), ("n", -1), ("l", 1))):
        backs = [palette.color(sign * step, LEVELS, signed=letter != "l", dark=dark) for dark in (False, True)]
        inks = map(palette.text_color, backs)
        both = f"background:light-dark({','.join(backs)});color:light-dark({','.join(inks)})"
        rules += f".pathlens .{letter}{step}{{{both}}}"
    return rules


def whole(title: str, body: Markup, data: str = "") -> str:
    """A self-contained document around a body, with data that travels along."""
    code = script()
    # only our own script may run and nothing may be fetched, even if some text got past the escaping
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    rules = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{rules}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark">{element("title", None, title)}'
        f"<style>{style()}{BODY}</style></head><body><main>{body}</main>{data}<script>{code}</script></body></html>\n"
    )


def style() -> str:
    """The style of every view, without its element."""
    return "".join(map(_read, STYLES)).replace("DARK", palette.DARK) + color_rules()


def script() -> str:
    """The script that wires tips, arrow keys, sliders and choices of articles it has not seen yet."""
    return "".join(map(_read, SCRIPTS))


def _read(name: str) -> str:
    return resources.files("pathlens.draw").joinpath(name).read_text(encoding="utf-8")


def heat_table(grid: Grid) -> Markup:
    """Every cell of a grid with its number."""
    digits = 3 if len(grid.columns) <= 16 else 2
    upright = " upright" if max(map(len, grid.columns)) > 11 or len(grid.columns) > 12 else ""
    heads = [_head(grid, 1, j) for j in range(len(grid.columns))]
    margin = [element("th", {"class": "margin"}, element("span", None, "sum"))] if grid.signed else []
    corner = element("th" if grid.corner else "td", {"class": "corner"}, grid.corner)
    first = element("tr", None, corner, *heads, *margin)
    rows = [_heat_row(grid, i, digits) for i in range(len(grid.rows))]
    if grid.signed and grid.additive:
        columns = enumerate(grid.values.sum(0))
        sums = [_margin(grid.text(value, digits), "edge" if j < grid.edge else "") for j, value in columns]
        total = _margin(grid.text(grid.values.sum(), 4), "total")
        rows.append(element("tr", {"class": "margin"}, element("th", {"scope": "row"}, "sum"), *sums, total))
    body = element("thead", None, first), element("tbody", None, *rows)
    table = element("table", {"class": f"matrix{upright}"}, *body)
    return element("div", {**SCROLL, "aria-label": grid.title or "table"}, table)


def _head(grid: Grid, side: int, index: int) -> Markup:
    name = element("span", None, visible((grid.rows, grid.columns)[side][index]))
    return element("th", {"scope": ("row", "col")[side], "class": grid.role(side, index)}, name)


def _heat_row(grid: Grid, i: int, digits: int) -> Markup:
    cells = []
    for j, value in enumerate(grid.values[i]):
        kind = f"{level(value, grid.limit, signed=grid.signed)} {'edge' if j < grid.edge else ''}".strip()
        tip = f"{visible(grid.rows[i])} {grid.between} {visible(grid.columns[j])}: {grid.text(value, 5)}"
        cells.append(element("td", {"class": kind, "title": tip}, grid.text(value, digits, narrow=True)))
    margin = [_margin(grid.text(grid.values[i].sum(), digits))] if grid.signed else []
    return element("tr", {"class": "edge" if i < grid.edge else None}, _head(grid, 0, i), *cells, *margin)


def _margin(text: str, kind: str = "") -> Markup:
    return element("td", {"class": f"margin {kind}".strip()}, text)


def pixels(grid: Grid) -> Markup:
    """A whole table without its reference, for tables too large to write out; it lies on light and dark pages alike."""
    core = grid.values[grid.edge :, grid.edge :]
    shape = f"{core.shape[0]} × {core.shape[1]}"
    source = "data:image/png;base64," + base64.b64encode(png(core, grid.limit, grid.signed)).decode()
    return element("img", {"class": "pixels", "src": source, "alt": f"all {shape} cells", "width": core.shape[1]})


def png(values: np.ndarray, limit: float, signed: bool = True) -> bytes:
    """Index 0 is nothing, 1…STEPS raises (or a length), STEPS+1…2·STEPS lowers."""
    share = np.nan_to_num(np.clip(np.abs(values) / limit, 0, 1))
    index = np.rint(share * STEPS).astype(np.uint8)
    index = np.where((values < 0) & (index > 0), index + STEPS, index).astype(np.uint8)
    up, down = palette.rgb(palette.color(1, 1, signed=signed)), palette.rgb(palette.color(-1, 1))
    alpha = bytes(round(255 * k / STEPS) for k in range(1, STEPS + 1))
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 8, 3, 0, 0, 0),  # 8 bits, palette
        b"PLTE": b"\x00\x00\x00" + up * STEPS + down * STEPS,
        b"tRNS": b"\x00" + alpha + alpha,
        b"IDAT": zlib.compress(b"".join(b"\x00" + row.tobytes() for row in index), 9),  # 0: no filter
        b"IEND": b"",
    }
    framed = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks.items()
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)
