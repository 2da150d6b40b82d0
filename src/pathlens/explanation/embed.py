"""A result inside its own page: JSON that no text in it can break out of, with long arrays packed."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

import numpy as np

from pathlens.errors import StoreError

LONG = 1000  # numbers; shorter arrays stay readable
_OPEN = '<script type="application/json" id="pathlens">'


def data_element(body: dict[str, Any]) -> str:
    """Plain values as a script element that holds data."""
    text = json.dumps(pack(body), separators=(",", ":"))
    # neither </script> nor <!-- can then occur; JSON reads the escapes back
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return f"{_OPEN}{text}</script>"


def extract(page: str) -> dict[str, Any]:
    """What `to_dict` gave when the page was written."""
    data = re.search(re.escape(_OPEN) + "(.*?)</script>", page, flags=re.DOTALL)
    if data is None:
        raise StoreError("this page holds no result; expected one written by to_html() (very large ones leave it out)")
    body: dict[str, Any] = unpack(json.loads(data.group(1)))
    return body


def pack(value: Any) -> Any:
    """Long arrays as text a third as long; `unpack` gives back the same bits."""
    if isinstance(value, dict):
        return {key: pack(item) for key, item in value.items()}
    if not isinstance(value, list | tuple):
        return value
    array = _numbers(value)
    if array is None:
        return [pack(item) for item in value]
    # bytes of the same rank side by side: signs and exponents repeat, so they shrink
    shuffled = np.frombuffer(array.tobytes(), np.uint8).reshape(-1, 8).T.tobytes()
    return {"packed": base64.b64encode(zlib.compress(shuffled, 6)).decode(), "shape": list(array.shape)}


def _numbers(value: list[Any] | tuple[Any, ...]) -> np.ndarray | None:
    """The list as an array of float64, if it is a long one of nothing but floats."""
    first: Any = value
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if not isinstance(first, float):
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        return None
    return array.astype("<f8", copy=False) if array.dtype == np.float64 and array.size >= LONG else None


def unpack(value: Any) -> Any:
    """What `pack` was given."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"packed", "shape"}:
        raw = np.frombuffer(zlib.decompress(base64.b64decode(value["packed"])), np.uint8)
        return np.frombuffer(raw.reshape(8, -1).T.tobytes(), "<f8").reshape(value["shape"]).tolist()
    return {key: unpack(item) for key, item in value.items()}
