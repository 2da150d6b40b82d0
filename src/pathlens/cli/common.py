"""What the commands share: texts and options read, warnings said in one line, results written where asked."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

JsonOut = Annotated[str | None, typer.Option("--json", help="Write JSON to a file; - prints it.")]
HtmlOut = Annotated[Path | None, typer.Option(help="Write a self-contained page.")]
PngOut = Annotated[Path | None, typer.Option(help="Write a picture (.png, .svg or .pdf).")]
Choice = Annotated[list[str] | None, typer.Option(help="A method's own option, NAME=VALUE; repeatable.")]


def read_text(text: str) -> str:
    """The text itself, or standard input for -."""
    if text != "-":
        return text
    from pathlens.errors import InputError

    if sys.stdin.isatty():
        raise InputError("- reads the text from standard input, and nothing was piped into it")
    try:
        return sys.stdin.buffer.read().decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 text ({error})") from error


def number_or_name(value: str | None) -> Any:
    """A target as typed: an index where it is a whole number."""
    return int(value) if value is not None and value.removeprefix("-").isdigit() else value


def parse_options(pairs: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE, values read as JSON where they are JSON."""
    from pathlens.errors import InputError

    found = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--option takes NAME=VALUE, got {pair!r}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def watched() -> bool:
    """Is a person looking? Progress bars are for them; a pipe or a log gets none."""
    return sys.stderr.isatty()


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Warnings meant for the user go to standard error, one line each, after the work."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for line in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)):
        typer.echo(f"pathlens: {' '.join(line.split())}", err=True)


def give(result: Any, json_out: str | None, html: Path | None, png: Path | None) -> None:
    """Write what was asked for; draw in the terminal when nothing else was."""
    if json_out == "-":
        typer.echo(json.dumps(result.to_dict(), ensure_ascii=False))
    elif json_out is not None:
        result.save(json_out)
    if html is not None:
        result.to_html(html)
    if png is not None:
        result.to_png(png)
    if json_out is None and html is None and png is None:
        result.show()
