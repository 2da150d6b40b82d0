"""What a run is: the model, the arguments, the data. The same command goes on; another one is refused by name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pathlens.corpus import folder as place
from pathlens.corpus.record import Census, Recipe, Source
from pathlens.corpus.schema import VERSION
from pathlens.errors import InputError, StoreError
from pathlens.files import write_whole

SAME = {  # entry of the manifest -> what a reader calls it
    "model": "the model differs",
    "fingerprint": "the model's weights differ",
    "choices": "the arguments differ",
    "source": "the ways the data is read differ",
    "kept": "the columns carried along differ",
    "rows_per_shard": "the rows per shard differ",
}


def describe(recipe: Recipe, source: Source, census: Census, fingerprint: str, rows_per_shard: int, limit: int | None) -> dict[str, Any]:  # fmt: skip
    """A manifest; plain values only."""
    import numpy
    import torch
    import transformers

    from pathlens import __version__

    reading = asdict(source)
    data = reading.pop("data")
    return {
        "corpus": VERSION,
        "model": str(recipe.model) if isinstance(recipe.model, str | os.PathLike) else type(recipe.model).__name__,
        "fingerprint": fingerprint,
        "choices": _plain(recipe.choices),
        "source": _plain(reading),
        "kept": list(recipe.kept),
        "rows_per_shard": rows_per_shard,
        "data": data,
        "rows": census.rows,
        "limit": limit,
        "versions": {
            "pathlens": __version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "numpy": numpy.__version__,
        },
    }


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives it back."""
    return json.loads(
        json.dumps({name: value for name, value in values.items() if value is not None}, default=str, sort_keys=True)
    )


def read(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder; None where nothing has been written yet."""
    path = folder / place.MANIFEST
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{str(path)!r} is damaged ({error}); choose another folder, or --overwrite") from error
    if not isinstance(body, dict) or "corpus" not in body:
        raise InputError(f"{str(path)!r} is not the manifest of a run; choose another folder")
    return body


def write(folder: Path, body: Mapping[str, Any]) -> None:
    write_whole(folder / place.MANIFEST, json.dumps(body, ensure_ascii=False, indent=1).encode())


def admitted(
    folder: Path, wanted: Mapping[str, Any], overwrite: bool, share: tuple[int, int] = (0, 1)
) -> dict[str, Any] | None:
    """The manifest to go on from, None to begin; a folder that is another run's or nobody's is refused. Writes nothing."""
    here = [file.name for file in folder.iterdir() if not file.name.startswith(".")]
    ours = {path.name for path in place.shards(folder) if (folder / place.MANIFEST).exists() or place.is_shard(path)}
    foreign = [name for name in here if name != place.MANIFEST and name not in ours]
    found = None if overwrite else read(folder)
    strange = (foreign and not place.is_run(folder)) if overwrite else (here and found is None)
    if strange:
        shown = min(foreign or here)
        raise InputError(f"{str(folder)!r} is not empty ({shown!r} is in it) and holds no run; choose another folder")
    if found is None:
        busy = place.others_at_work(folder, share) if overwrite and _whole(folder, wanted, share) else None
        if busy:
            raise InputError(
                f"another share is writing to {str(folder)!r} ({busy}): --overwrite would delete its rows; begin anew with one "
                "share, then start the others without --overwrite"
            )
        return None
    _same(folder, found, wanted)
    if wanted["rows"] < found["rows"]:
        raise InputError(
            f"{str(folder)!r} holds a run over {found['rows']} rows and now there are {wanted['rows']} (fewer data, or a smaller "
            "--limit); choose another folder, or --overwrite"
        )
    return found


def settle(folder: Path, wanted: dict[str, Any], overwrite: bool, share: tuple[int, int] = (0, 1)) -> list[str]:
    """Begin, go on, or refuse; gives notes for the user."""
    found = admitted(folder, wanted, overwrite, share)
    if found is None:
        if overwrite:
            everything = _whole(folder, wanted, share)
            place.remove_shards(folder, lambda shard: everything or shard % share[1] == share[0])
        write(folder, wanted)
        return []
    write(folder, {**wanted, "versions": found["versions"]})
    changed = [name for name in wanted["versions"] if wanted["versions"][name] != found["versions"].get(name)]
    return [f"the run was begun with {n} {found['versions'].get(n)}, this is {wanted['versions'][n]}" for n in changed]


def _whole(folder: Path, wanted: Mapping[str, Any], share: tuple[int, int]) -> bool:
    """Does --overwrite mean the whole folder? Not for one share of the very same run: the other shares are right."""
    try:
        found = read(folder)
        if found is not None:
            _same(folder, found, wanted)
    except (InputError, StoreError):
        return True
    return share[1] == 1 or found is None or found["rows"] != wanted["rows"]


def _same(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if found["corpus"] != wanted["corpus"]:
        raise InputError(
            f"{str(folder)!r} was written by another version (files of version {found['corpus']}, this pathlens writes "
            f"{wanted['corpus']}); choose another folder, or --overwrite"
        )
    for entry, what in SAME.items():
        if found.get(entry) != wanted[entry]:
            raise InputError(
                f"{str(folder)!r} holds another run: {what} ({_difference(found.get(entry), wanted[entry])}); give the same "
                "arguments to go on, another folder, or --overwrite"
            )


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return ", ".join(f"{name} was {old.get(name)!r}, now {new.get(name)!r}" for name in names)
    return f"it was {old!r}, now {new!r}"
