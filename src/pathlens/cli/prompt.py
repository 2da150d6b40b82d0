"""A prompt from the command line: a text, a file of messages, or a question with passages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pathlens.cli.common import read_text


def read_prompt(
    text: str | None, file: Path | None, system: str | None, passages: list[str] | None, template: str | None
) -> Any:
    """The text as it is, or a chat when anything of a chat was given."""
    from pathlens.errors import InputError
    from pathlens.text.chat import chat

    if file is None and not system and not passages and template is None:
        if text is None:
            raise InputError("give a text, or --chat FILE.json with messages")
        return read_text(text)
    shown = {} if template is None else {"template": template}
    if file is None:
        if text is None:
            raise InputError("--system and --passage go with a question: give it as the text")
        return chat(user=read_text(text), system=system, passages=passages or None, **shown)
    if text is not None or system:
        raise InputError("--chat holds the whole conversation; give either it or a text with --system and --passage")
    return _from_file(file, passages, shown)


def _from_file(file: Path, passages: list[str] | None, shown: dict[str, str]) -> Any:
    """A list of messages, or the names that `pl.chat` takes: {"messages": […], "passages": […]}."""
    from pathlens.errors import InputError
    from pathlens.text.chat import chat

    raw = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise InputError(f"{str(file)!r} is not JSON ({error}); give a list of {{role, content}}") from error
    if isinstance(body, list):
        body = {"messages": body}
    known = ("messages", "system", "user", "passages", "template")
    if not isinstance(body, dict) or set(body) - set(known):
        raise InputError(f"{str(file)!r} must hold a list of messages, or an object with {', '.join(known)}")
    return chat(**{**body, **({"passages": passages} if passages else {}), **shown})
