"""A whole table as a small picture, one pixel per cell, for tables too large to write out.

A PNG with a palette of see-through colours: it lies on a light page as well as on a dark one.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from pathlens.draw import palette
from pathlens.draw.markup import Markup, element
from pathlens.draw.tables import Grid

STEPS = 100  # shades per sign; a PNG palette has room for 256


def picture(grid: Grid) -> Markup:
    """An image element with the table of `grid`, without its reference."""
    core = grid.values[grid.edge :, grid.edge :]
    shape = f"{core.shape[0]} × {core.shape[1]}"
    source = "data:image/png;base64," + base64.b64encode(png(core, grid.limit, grid.signed)).decode()
    return element("img", {"class": "pixels", "src": source, "alt": f"all {shape} cells", "width": core.shape[1]})


def png(values: np.ndarray, limit: float, signed: bool = True) -> bytes:
    """Index 0 is nothing, 1…STEPS raises (or a length), STEPS+1…2·STEPS lowers."""
    share = np.nan_to_num(np.clip(np.abs(values) / limit, 0, 1))
    index = np.rint(share * STEPS).astype(np.uint8)
    index = np.where((values < 0) & (index > 0), index + STEPS, index).astype(np.uint8)
    rows = b"".join(b"\x00" + row.tobytes() for row in index)  # 0: no filter
    up = palette.color(1, 1) if signed else palette.length_color(1, 1)
    colors = b"\x00\x00\x00" + _rgb(up) * STEPS + _rgb(palette.color(-1, 1)) * STEPS
    alpha = bytes(round(255 * k / STEPS) for k in range(1, STEPS + 1))
    head = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 8, 3, 0, 0, 0)  # 8 bits, palette
    chunks = (b"IHDR", head), (b"PLTE", colors), (b"tRNS", b"\x00" + alpha + alpha)
    chunks = (*chunks, (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _rgb(color: str) -> bytes:
    return bytes.fromhex(color[1:])
