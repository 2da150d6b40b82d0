"""One way to write JSON, and one line when it cannot be written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pathlens.errors import StoreError


def write_json(path: str | Path, value: Any) -> Path:
    try:
        Path(path).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    return Path(path)
