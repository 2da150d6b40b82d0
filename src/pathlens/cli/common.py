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


def place_to_write(value: Any) -> Any:
    """A file that can be written, asked before the work: an hour of it must not be lost to a slip of the pen."""
    from pathlens.errors import InputError

    if value is None:
        return None
    path = Path(value)
    if str(path) == "-":
        raise InputError("- prints JSON alone (--json -); give a page, a picture or a table the name of a file")
    if path.is_dir():
        raise InputError(f"cannot write {str(path)!r}: it is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}")
    return value


def place_for_json(value: str | None) -> str | None:
    """The same, or - for standard output."""
    return value if value == "-" else place_to_write(value)


def place_for_picture(value: Path | None) -> Path | None:
    """The same, with a suffix that says what kind of picture."""
    from pathlens.draw.canvas import check_kind

    if value is not None:
        check_kind(value)
    return place_to_write(value)


# arguments and options that mean the same in every command that has them
Model = Annotated[str, typer.Argument(help="A built-in name (minilm, sentiment), a folder, or a hub id.")]
Encoder = Annotated[str, typer.Argument(help="A sentence encoder: minilm, a folder, or a hub id.")]
Text = Annotated[str, typer.Argument(help="The text; - reads it from standard input.")]
TextB = Annotated[str | None, typer.Argument(help="A second text: a pair, or a question's passage.")]
Target = Annotated[str | None, typer.Option(help="Label or index; start, end, span; what a generator says.")]
Layer = Annotated[int | None, typer.Option(help="0: word embeddings; k: states entering block k.")]
Unit = Annotated[str, typer.Option(help="token, word or sentence.")]
Score = Annotated[str | None, typer.Option(help="logit, logprob or prob.")]
Tolerance = Annotated[float, typer.Option(help="How exactly the scores must add up.")]
Steps = Annotated[int | None, typer.Option("--n-steps", help="Fixed number of nodes instead of a tolerance.")]
OneSided = Annotated[bool, typer.Option("--one-sided", help="Integrate the documents alone: quicker, no word pairs.")]
Why = Annotated[str | None, typer.Option(help="Two places, 1,2: why the first stands above the second.")]
Chunk = Annotated[bool, typer.Option("--chunk", help="Cut documents that are too long at sentences.")]
JsonOut = Annotated[
    str | None, typer.Option("--json", help="Write JSON to a file; - prints it.", callback=place_for_json)
]
HtmlOut = Annotated[Path | None, typer.Option(help="Write a self-contained page.", callback=place_to_write)]
PngOut = Annotated[Path | None, typer.Option(help="Write a picture (.png, .svg or .pdf).", callback=place_for_picture)]
Choice = Annotated[list[str] | None, typer.Option(help="A method's own option, NAME=VALUE; repeatable.")]

# how a data set is read, the same for every command that takes one
Encoding = Annotated[str, typer.Option(help="Of text files.")]
Separator = Annotated[str | None, typer.Option(help="Between columns (default: by the file's name).")]
Quoting = Annotated[bool | None, typer.Option(help="Are fields quoted? (default: .csv yes, .tsv no)")]
Header = Annotated[bool, typer.Option(help="Has the table a header? Without, columns are 0, 1, 2 …")]
Split = Annotated[str, typer.Option(help="Of a hub data set.")]
Config = Annotated[str | None, typer.Option(help="Of a hub data set.")]


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


def read_lines() -> list[str]:
    """The lines of standard input that hold something."""
    return [line.strip() for line in read_text("-").split("\n") if line.strip()]


def number_or_name(value: str | None) -> Any:
    """A target as typed: an index where it is a whole number."""
    whole = value is not None and value.isascii() and value.removeprefix("-").isdigit()
    return int(value) if whole else value  # type: ignore[arg-type]


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


def parse_places(text: str | None, count: int) -> tuple[int, int] | None:
    """What --why says: "1,2" → (0, 1)."""
    from pathlens.errors import InputError

    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(p.isascii() and p.isdigit() and 1 <= int(p) <= count for p in parts):
        raise InputError(f"--why takes two places between 1 and {count}, as in 1,2; got {text!r}")
    first, second = (int(part) - 1 for part in parts)
    return first, second


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
