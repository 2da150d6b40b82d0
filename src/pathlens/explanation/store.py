"""Results on disk: JSON with a schema version; large arrays in a safetensors file beside it.

A page carries its own result: JSON that no text in it can break out of, with long arrays packed.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.errors import StoreError, first_line
from pathlens.explanation import base, record
from pathlens.explanation.answer import Answer
from pathlens.explanation.binding import seal
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.check import Belief
from pathlens.explanation.damage import misfit
from pathlens.files import write_text, writing
from pathlens.path.words.options import WordPath

SCHEMA = 2  # raised when a reader of the old files would misread the new ones
LARGE = 20_000  # numbers; larger arrays go beside the JSON
LONG = 1000  # numbers; shorter arrays stay readable in a page
IN_PAGE = '<script type="application/json" id="pathlens">'
EDITED = "the file was edited after it was written"  # its seal is of something else
UNSEALED = "the file carries no seal, so nobody can say whether it was edited"
COLLECTION = "Collection"  # of a report or a comparison: {"items": [results]}
RANKING = "Ranking"  # its hits, each with its explanation
KINDS: dict[str, type[base.Result]] = {
    name: kind for name, kind in vars(record).items() if isinstance(kind, type) and issubclass(kind, base.Result)
} | {Answer.__name__: Answer}


def to_dict(result: base.Result, beside: dict[str, np.ndarray] | None = None) -> dict[str, Any]:
    """Plain Python values, arrays as nested lists; large ones go into `beside`, where there is one. What is altered says so."""
    result = result.derived() if result.altered else result
    body = {"pathlens": SCHEMA, "kind": type(result).__name__}
    for each in fields(result):
        value = getattr(result, each.name)
        if beside is not None and isinstance(value, np.ndarray) and value.size > LARGE:
            beside[each.name], value = value, {"array": each.name}
        body[each.name] = plain(value)
    return body


def many_to_dict(results: Iterable[base.Result], **more: Any) -> dict[str, Any]:
    """Several results as one body that `load` gives back as a list; `more` is for readers of the file."""
    return {"pathlens": SCHEMA, "kind": COLLECTION, **more, "items": [to_dict(each) for each in results]}


def save(result: base.Result, path: str | Path) -> Path:
    """Write `path` (JSON), and `path` with .safetensors for arrays of more than 20 000 numbers."""
    path = Path(path)
    beside = path.with_suffix(".safetensors")
    arrays: dict[str, np.ndarray] = {}
    body = to_dict(result, arrays)
    if arrays:
        from safetensors.numpy import save_file

        body["arrays"] = beside.name
        with writing(beside):
            save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, beside)
    try:
        return write_text(path, json.dumps(body, ensure_ascii=False, allow_nan=False))
    except ValueError as error:
        raise StoreError(f"the result cannot be written as JSON: {error}") from error


def load(path: str | Path, *, strict: bool = False) -> base.Result | record.Results[Any]:
    """The result that `save` wrote, or that a page carries (`to_html`); of a report, comparison or ranking, all of them.

    One that was edited since, or whose numbers are not what its certificate says, is marked "✗ altered" wherever it is shown;
    `strict=True` refuses it.
    """
    loaded = _loaded(Path(path))
    if strict:
        for result in loaded if isinstance(loaded, list) else [loaded]:
            if result.altered:
                raise StoreError(
                    f"{str(path)!r} is altered: {result.altered}",
                    "strict=True refuses it; without, it is loaded and marked ✗ altered",
                )
    return loaded


def _loaded(path: Path) -> base.Result | record.Results[Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().lower().startswith("<!doctype"):
            return from_dict(_carried(text, str(path)), source=str(path))
        body = json.loads(text)
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror or error}", _if_a_model(path)) from error
    except ValueError as error:
        raise StoreError(f"{str(path)!r} is not a saved result: it is not JSON ({error})") from error
    return from_dict(body, folder=path.parent, source=str(path))


def _carried(page: str, source: str) -> dict[str, Any]:
    """What `extract` gives; an error in our words where a character of it was lost."""
    try:
        return extract(page)
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise StoreError(f"{source} is damaged: {first_line(error)}") from error


def _if_a_model(path: Path) -> str:
    from pathlens.text.options import BUILT_IN

    if str(path) not in BUILT_IN and not (path / "config.json").exists():
        return ""
    return f"this opens saved results; a model is given to the verbs as it is: pl.explain({str(path)!r}, text)"


def from_dict(body: Any, *, folder: Path | None = None, source: str = "the data") -> base.Result | record.Results[Any]:
    if isinstance(body, dict) and body.get("kind") == COLLECTION:
        return record.Results(_one_from_dict(item, folder, source) for item in _listed(body, "items", source))
    if isinstance(body, dict) and body.get("kind") == RANKING:
        hits = _listed(body, "hits", source)
        if not all(isinstance(hit, dict) for hit in hits):
            raise StoreError(f"{source} is damaged: a hit of its ranking is no record")
        reasons = (hit.get("explanation") for hit in hits)
        return record.Results(_one_from_dict(reason, folder, source) for reason in reasons if reason is not None)
    if isinstance(body, dict) and "study" in body:
        raise StoreError(
            f"{source} is a saved {body['study']}, whose numbers are plain JSON for other programs",
            "pl.load opens results, comparisons, layers, reports and rankings; read this with json.load",
        )
    return _one_from_dict(body, folder, source)


def _listed(body: Mapping[str, Any], name: str, source: str) -> list[Any]:
    several = body.get(name, [])
    if not isinstance(several, list):
        raise StoreError(f"{source} is damaged: its {name!r} are no list")
    return several


def _one_from_dict(body: Any, folder: Path | None, source: str) -> base.Result:
    kind_name = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind_name, str) or kind_name not in KINDS or "pathlens" not in body:
        raise StoreError(f"{source} is not a saved pathlens result (no field 'pathlens', or an unknown kind)")
    if not isinstance(body["pathlens"], int):
        raise StoreError(f"{source} is damaged: its schema is {body['pathlens']!r}, not a whole number")
    if body["pathlens"] > SCHEMA:
        raise StoreError(
            f"{source} was written by a newer pathlens (schema {body['pathlens']}, this one reads {SCHEMA}); upgrade pathlens"
        )
    arrays = _beside(body["arrays"], folder or Path(), source) if "arrays" in body else {}
    kind = KINDS[body["kind"]]
    try:
        made = kind(**{f.name: _rebuild(f.name, body[f.name], arrays) for f in fields(kind) if f.name in body})
        if wrong := misfit(made):
            raise StoreError(f"{source} is damaged: {wrong}")
        if made.seal == seal(made) and body.get("seal"):
            return made
        if made.seal == seal(made, schema=1):  # of an older file: it is sealed anew
            return made.derived(edited=made.edited)
        return made.derived(edited=made.edited or (EDITED if body.get("seal") else UNSEALED))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{source} is damaged: {error}") from error


def _beside(name: Any, folder: Path, source: str) -> Mapping[str, np.ndarray]:
    """The arrays in the file beside it."""
    from safetensors.numpy import load_file

    if not isinstance(name, str):
        raise StoreError(f"{source} is damaged: its arrays are in {name!r}, which names no file")
    beside = folder / Path(name).name
    if not beside.is_file():
        raise StoreError(f"{source} keeps its arrays in {beside.name!r}, which is missing beside it")
    try:
        return load_file(beside)
    except Exception as error:  # safetensors has errors of its own, and lets others through
        raise StoreError(
            f"{beside.name!r}, which has the arrays of {source}, is damaged: {first_line(error)}"
        ) from error


ARRAYS = frozenset("scores matrix full_matrix vectors coordinates standard_error f_input f_baseline".split())


def plain(value: Any) -> Any:
    """Anything a result holds, as JSON-ready values."""
    if isinstance(value, np.ndarray):
        unknown = value.dtype.kind == "f" and np.isnan(value).any()  # interactions that were not asked for
        return (np.where(np.isnan(value), np.array(None), value) if unknown else value).tolist()
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return plain_fields(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def plain_fields(value: Any) -> dict[str, Any]:
    """The fields of a record, JSON-ready."""
    return {each.name: plain(getattr(value, each.name)) for each in fields(value)}


def _rebuild(name: str, value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict) and "array" in value and name in ARRAYS:
        return arrays[value["array"]]
    if name == "certificate":
        kept: dict[str, Any] = {key: tuple(each) if isinstance(each, list) else each for key, each in value.items()}
        return Certificate(**kept)
    if name == "check":
        return None if value is None else Belief(**{key: _tuples(each) for key, each in value.items()})
    if name == "certificates":
        return tuple(_rebuild("certificate", each, arrays) for each in value)
    if name in ("path", "path_a", "path_b") and isinstance(value, dict):
        return WordPath.from_dict(value)
    if name in ("nodes", "plain"):
        return tuple(
            record.Phrase(**{**node, "span": tuple(node["span"]), "children": tuple(node["children"])})
            for node in value
        )
    if name in ARRAYS:
        return None if value is None else np.array(value, dtype=float)
    if "offsets" in name:
        return tuple((start, end) for start, end in value)
    return _tuples(value)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# ---- inside a page


def data_element(body: dict[str, Any]) -> str:
    """Plain values as a script element that holds data."""
    text = json.dumps(pack(body), separators=(",", ":"))
    # neither </script> nor <!-- can then occur; JSON reads the escapes back
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return f"{IN_PAGE}{text}</script>"


def extract(page: str) -> dict[str, Any]:
    """What `to_dict` gave when the page was written."""
    data = re.search(re.escape(IN_PAGE) + "(.*?)</script>", page, flags=re.DOTALL)
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
