"""An index's manifest: what it must say, and reading it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pathlens.errors import StoreError
from pathlens.files import content_sum
from pathlens.vectors import build as b

FIELDS = (
    *("model", "stamp", "method", "baseline", "unit", "norm", "similarity", "tolerance"),
    *("parts", "passages", "table", "version", "storage", "next_document", "documents"),
)
CONTENT = ("parts", "sha256", "table", "version", "next_document")  # of a manifest; the rest says how it was made


def read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / b.MANIFEST).read_text(encoding="utf-8"))
        number = manifest["format"]
        if number == b.FORMAT:
            _check_fields(manifest)
    except FileNotFoundError as error:
        if not any(folder.iterdir()):
            raise StoreError(
                f"{str(folder)!r} is empty; build an index there: pathlens index build minilm DOCUMENTS {folder}"
            ) from error
        raise StoreError(
            f"{str(folder)!r} is half written: {b.MANIFEST}, which is written last, is missing; run the same `pathlens "
            "index build` again, finished files are kept"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{str(folder / b.MANIFEST)!r} is damaged ({error}); run the same `pathlens index build` again, the vector "
            "files are kept"
        ) from error
    if number != b.FORMAT:
        raise StoreError(
            f"{str(folder)!r} was built by another version (index format {number}, this pathlens reads {b.FORMAT}; pathlens "
            f"{manifest.get('versions', {}).get('pathlens')}); build it again with `pathlens index build`"
        )
    return manifest


def _check_fields(manifest: Mapping[str, Any]) -> None:
    """Everything a search reads is there; a manifest cut short is damaged, not half used."""
    missing = [name for name in FIELDS if name not in manifest]
    if missing:
        raise KeyError(f"without {', '.join(missing)}")
    entries = manifest["parts"]
    needed = (
        ("part", "passages", "sum") if manifest["storage"] == "plain" else ("part", "passages", "sum", "file", "sha256")
    )
    missing += [name for entry in entries for name in needed if name not in entry]
    if missing:
        raise KeyError(f"without {', '.join(missing)}")
    if sum(entry["passages"] for entry in entries) != manifest["passages"]:
        raise ValueError("its counts of passages do not agree")
    if manifest.get("sha256", checksum := content_sum(manifest)) != checksum:
        raise ValueError("its content does not match its checksum")
