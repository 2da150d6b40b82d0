"""What went wrong, twice: `detail` in the library's words, for programs; `words` in the page's, with the field it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pathlens.errors import MissingError, PathlensError, first_line

OURS = "The server failed at this question. That is a fault of the program, not yours."
CHOICES = "This cannot be done with these choices. Empty the options, or try another method."
MISSING = "Something that this needs is not installed where the server runs. Whoever runs it can bring it."
OF_KIND = {  # kinds of slips that pydantic names, with what it knows of them
    "missing": "There is nothing here. Write something first.",
    "string_too_short": "There is nothing here. Write something first.",
    "too_short": "There is nothing here. Write something first.",
    "string_too_long": "This is longer than {max_length} characters, the most that is taken here. Shorten it.",
    "too_long": "These are {actual_length}, and up to {max_length} are taken at once. Leave some out.",
    "greater_than_equal": "This must be {ge} or more.",
    "greater_than": "This must be more than {gt}.",
    "less_than_equal": "This must be {le} or less.",
    "less_than": "This must be less than {lt}.",
    "int_parsing": "This must be a whole number.",
    "int_from_float": "This must be a whole number.",
    "float_parsing": "This must be a number.",
    "literal_error": "This must be one of {expected}.",
}


class Trouble(NamedTuple):
    """One thing that went wrong."""

    detail: str = ""
    words: str = ""
    field: str | None = None  # the choice that it is about, by its name in a request
    more: bool = False  # the page has no words of its own for it, and shows the library's, folded away
    internal: bool = False  # the fault is ours, not the request's

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) or None for name in ("detail", "words", "field", "more")}


def of_error(error: Exception) -> Trouble:
    """Of work that failed."""
    if isinstance(error, PathlensError):
        general = MISSING if isinstance(error, MissingError) else CHOICES
        return Trouble(str(error), error.plain or general, error.option, more=error.plain is None)
    return Trouble(f"{type(error).__name__}: {first_line(error)}", OURS, more=True, internal=True)


def of_request(errors: Sequence[Mapping[str, Any]]) -> Trouble:
    """Of a request that cannot be read; never with the input itself, which may be large or not even be Unicode."""
    places = [".".join(str(part) for part in each["loc"][1:]) or "body" for each in errors]
    lines = [f"{place}: {each['msg']}" for place, each in zip(places, errors, strict=True)]
    first = errors[0]
    known = OF_KIND.get(first["type"])
    words = CHOICES if known is None else known.format_map({"expected": "", **first.get("ctx", {})})
    detail = "; ".join(lines)[:2000].encode("utf-8", "replace").decode()
    return Trouble(detail, words, str(first["loc"][1]) if len(first["loc"]) > 1 else None, more=known is None)
