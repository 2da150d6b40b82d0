"""A result inside its own page: JSON that no text in it can break out of, with long arrays packed."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import zlib
from typing import Any

import numpy as np

from pathlens.errors import StoreError
from pathlens.explanation.record import Result

LONG = 1000  # numbers; shorter arrays stay readable
MOST = 4_000_000  # bytes of arrays; larger results are saved as files, not mailed as pages
_OPEN = '<script type="application/json" id="pathlens">'


def script(result: Result) -> str:
    """The result as a script element that holds data, or "" when it is too large for a page."""
    fields = (getattr(result, field.name) for field in dataclasses.fields(result))
    if sum(value.nbytes for value in fields if isinstance(value, np.ndarray)) > MOST:
        return ""
    return data_element(result.to_dict())


def data_element(body: dict[str, Any]) -> str:
    """Plain values as a script element that holds data."""
    text = json.dumps(_pack(body), separators=(",", ":"))
    # neither </script> nor <!-- can then occur; JSON reads the escapes back
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return f"{_OPEN}{text}</script>"


def extract(page: str) -> dict[str, Any]:
    """What `to_dict` gave when the page was written."""
    found = re.search(re.escape(_OPEN) + "(.*?)</script>", page, flags=re.DOTALL)
    if found is None:
        raise StoreError("this page holds no result; expected one written by to_html() (very large ones leave it out)")
    return _unpack(json.loads(found.group(1)))


def _pack(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pack(item) for key, item in value.items()}
    if not isinstance(value, list | tuple):
        return value
    array = _numbers(value)
    if array is None:
        return [_pack(item) for item in value]
    # bytes of the same rank side by side: signs and exponents repeat, so they shrink
    shuffled = np.frombuffer(array.tobytes(), np.uint8).reshape(-1, 8).T.tobytes()
    return {"packed": base64.b64encode(zlib.compress(shuffled, 6)).decode(), "shape": list(array.shape)}


def _numbers(value: list | tuple) -> np.ndarray | None:
    """The list as an array of float64, if it is a long one of nothing but floats."""
    first = value
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if not isinstance(first, float):
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        return None
    return array.astype("<f8", copy=False) if array.dtype == np.float64 and array.size >= LONG else None


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"packed", "shape"}:
        raw = np.frombuffer(zlib.decompress(base64.b64decode(value["packed"])), np.uint8)
        return np.frombuffer(raw.reshape(8, -1).T.tobytes(), "<f8").reshape(value["shape"]).tolist()
    return {key: _unpack(item) for key, item in value.items()}
