"""The folder of a run: its manifest, shards of fixed row ranges, each whole or absent, and who may write them.

The manifest says what the run is: the model, the arguments, the data. The same command goes on; another one is refused
by name. A manifest that was damaged is written again by the same command, as every shard says what it was made by.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pathlens.corpus.options import Share
from pathlens.corpus.schema import COLUMNS, VERSION, result_of
from pathlens.corpus.shard import is_shard, read_facts, read_rows, shards
from pathlens.errors import InputError, StoreError
from pathlens.files import content_sum, holder, only_writer, write_whole, writing

MANIFEST = "_manifest.json"  # readers of a folder of Parquet files pass over names that begin so
SAME = {  # entry of the manifest -> what a reader calls it
    "model": "the model differs",
    "fingerprint": "the model's weights, configuration or tokenizer differ",
    "choices": "the arguments differ",
    "source": "the ways the data is read differ",
    "kept": "the columns carried along differ",
    "rows_per_shard": "the rows per shard differ",
}


def is_run(folder: Any) -> bool:
    """Does a folder hold a run of `pathlens run`?"""
    try:
        return isinstance(folder, str | Path) and read_manifest(Path(folder)) is not None
    except (InputError, StoreError):
        return False


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder; None where nothing has been written yet."""
    path = folder / MANIFEST
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    if not isinstance(body, dict) or "corpus" not in body:
        raise InputError(f"{str(path)!r} is not the manifest of a run; choose another folder")
    if body["corpus"] == VERSION and body.get("sha256") != content_sum(body):
        raise _damaged(path, "its content does not match its checksum")
    return body


def _damaged(path: Path, why: Any) -> StoreError:
    again = "the same `pathlens run` writes it again where its shards are whole"
    return StoreError(f"{str(path)!r} is damaged ({why})", f"{again}; else choose another folder, or --overwrite")


def making(manifest: Mapping[str, Any]) -> str:
    """What makes a run the run it is, in one checksum that every shard carries."""
    same = {name: manifest[name] for name in ("corpus", *SAME)}
    return hashlib.sha256(json.dumps(same, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def finished_run(folder: str | Path) -> dict[str, Any]:
    """The manifest of a folder that is to be read; one without a run, or of another version, is refused."""
    body = read_manifest(Path(folder))
    if body is None:
        inside = sorted(each.parent.name for each in Path(folder).glob(f"*/{MANIFEST}"))  # of several methods
        runs = f"runs are in {', '.join(inside)} inside it"
        raise InputError(
            f"{str(folder)!r} holds no run; {runs if inside else f'`pathlens run … --out {folder}` writes one'}"
        )
    if body["corpus"] != VERSION:
        raise InputError(
            f"{str(folder)!r} was written by another version (files of version {body['corpus']}, this pathlens reads {VERSION})"
        )
    return body


def make_writable(folder: Path) -> None:
    """The folder, made and found writable before any work is done."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        attempt = folder / f".writable-{os.getpid()}"
        attempt.write_bytes(b"x")
        attempt.unlink()


def remove(folder: Path, mine: Callable[[int], bool], *, shards_too: bool) -> None:
    """Temporary files of a run that was killed, and for --overwrite its shards too; `mine(shard)` says which are ours.

    The manifest is replaced after the shards have gone, so a kill in between leaves a known run.
    """
    for file in [*(shards(folder) if shards_too else ()), *folder.glob(".part-*.parquet.*.tmp")]:
        number = file.name.removeprefix(".").removeprefix("part-").split(".")[0]
        if number.isdigit() and mine(int(number)):
            file.unlink(missing_ok=True)


def _at_work(folder: Path, concerns: Callable[[Share], bool]) -> str | None:
    """Who writes a share that concerns us at this moment; None when nobody does."""
    for lock in folder.glob(".lock-*-of-*"):
        i, n = lock.name.removeprefix(".lock-").split("-of-")
        if concerns((int(i), int(n))):
            handle = os.open(lock, os.O_RDWR)
            try:
                if busy := holder(handle, lock):
                    return busy
            finally:
                os.close(handle)
    return None


@contextmanager
def locked(folder: Path, share: Share) -> Iterator[None]:
    """Held while writing.

    Runs of different shares (--shard 0/2 and 1/2) may write into one folder at once; overlapping ones may not.
    """
    ours = folder / f".lock-{share[0]}-of-{share[1]}"
    with only_writer(ours, lambda: _at_work(folder, lambda other: other[1] != share[1])):
        yield


def results(folder: str | Path) -> Iterator[Any]:
    """The results of a run, one by one, as `pl.explain` gave them; rows with errors are left out."""
    finished_run(folder)
    yield from (result for row in read_rows(folder, list(COLUMNS)) if (result := result_of(row)) is not None)


def admitted(
    folder: Path, wanted: Mapping[str, Any], overwrite: bool, share: Share = (0, 1)
) -> Mapping[str, Any] | None:
    """The manifest to go on from, None to begin; a folder that is another run's or nobody's is refused. Writes nothing."""
    here = [file.name for file in folder.iterdir() if not file.name.startswith(".")]
    ours = {path.name for path in shards(folder) if (folder / MANIFEST).exists() or is_shard(path)}
    foreign = [name for name in here if name != MANIFEST and name not in ours]
    before = None if overwrite else _known(folder, wanted)
    strange = (foreign and not is_run(folder)) if overwrite else (here and before is None)
    if strange:
        shown = min(foreign or here)
        raise InputError(f"{str(folder)!r} is not empty ({shown!r} is in it) and holds no run; choose another folder")
    if before is None:
        everything = overwrite and _whole(folder, wanted, share)
        if everything and (busy := _at_work(folder, lambda other: other != share)):
            raise InputError(
                f"another share is writing to {str(folder)!r} ({busy}): --overwrite would delete its rows; begin anew with one "
                "share, then start the others without --overwrite"
            )
        return None
    _check_same(folder, before, wanted)
    if wanted["rows"] < before["rows"]:
        raise InputError(
            f"{str(folder)!r} holds a run over {before['rows']} rows and now there are {wanted['rows']} (fewer data, or a "
            "smaller --limit); choose another folder, or --overwrite"
        )
    return before


def _known(folder: Path, wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The manifest; where it is damaged and every whole shard was made by this very run, what it must have said."""
    try:
        return read_manifest(folder)
    except StoreError:
        facts = [shard_facts for path in shards(folder) if (shard_facts := read_facts(path)) is not None]
        ours = (each.made == making(wanted) and each.start + each.rows <= wanted["rows"] for each in facts)
        if not facts or not all(ours):
            raise
        return wanted


def settle(folder: Path, wanted: Mapping[str, Any], overwrite: bool, share: Share = (0, 1)) -> list[str]:
    """Begin, go on, or refuse; gives notes for the user."""
    before = admitted(folder, wanted, overwrite, share)
    if before is None and overwrite:
        everything = _whole(folder, wanted, share)
        remove(folder, lambda shard: everything or shard % share[1] == share[0], shards_too=True)
    versions = wanted["versions"] if before is None else before["versions"]
    body = {**wanted, "versions": versions}
    body["sha256"] = content_sum(body)
    write_whole(folder / MANIFEST, json.dumps(body, ensure_ascii=False, indent=1).encode())
    changed = [name for name in wanted["versions"] if wanted["versions"][name] != versions.get(name)]
    return [f"the run was begun with {n} {versions.get(n)}, this is {wanted['versions'][n]}" for n in changed]


def _whole(folder: Path, wanted: Mapping[str, Any], share: Share) -> bool:
    """Does --overwrite mean the whole folder? Not for one share of the very same run: the other shares are right."""
    try:
        before = read_manifest(folder)
        if before is not None:
            _check_same(folder, before, wanted)
    except (InputError, StoreError):
        return True
    return share[1] == 1 or before is None or before["rows"] != wanted["rows"]


def _check_same(folder: Path, before: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if before["corpus"] != wanted["corpus"]:
        raise InputError(
            f"{str(folder)!r} was written by another version (files of version {before['corpus']}, this pathlens writes "
            f"{wanted['corpus']}); choose another folder, or --overwrite"
        )
    for entry, what in SAME.items():
        if before.get(entry) != wanted[entry]:
            raise InputError(
                f"{str(folder)!r} holds another run: {what} ({_difference(before.get(entry), wanted[entry])}); give the same "
                "arguments to go on, another folder, or --overwrite"
            )


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return ", ".join(f"{name} was {old.get(name)!r}, now {new.get(name)!r}" for name in names)
    return f"it was {old!r}, now {new!r}"
