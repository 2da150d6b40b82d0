"""What the commands share: options declared once, texts read, warnings said in one line, results written where asked.

A parameter whose type is one of the records here stands for all the options in it; the options of methods come from the
methods' own records.
"""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_type_hints

import typer

from pathlens.checks import Option, option_names, options_of
from pathlens.engine.options import Accuracy, CommonOptions, Compared, Resources, options
from pathlens.errors import InputError
from pathlens.text.options import GeneratorOptions, LoadOptions, PromptedOptions


def place_to_write(value: Any) -> Any:
    """A file that can be written, asked before the work: an hour of it must not be lost to a slip of the pen."""
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


def place_for_picture(value: Path | None) -> Any:
    """The same, with a suffix that says what kind of picture."""
    from pathlens.draw.canvas import check_kind

    if value is not None:
        check_kind(value)
    return place_to_write(value)


EVERYONES = {
    each.name: each for record in (CommonOptions, Accuracy, Resources, LoadOptions) for each in options_of(record)
}
OF_A_TEXT = ("layer", "unit", "score", "rule")  # not where methods are judged on many

# arguments and options that mean the same in every command that has them
Model = Annotated[str, typer.Argument(help="A built-in name (minilm, sentiment), a folder, or a hub id.")]
Text = Annotated[str, typer.Argument(help="The text; - reads it from standard input.")]
TextB = Annotated[str | None, typer.Argument(help="A second text: a pair, or a question's passage.")]
Unit = Annotated[str, typer.Option(help=EVERYONES["unit"].help)]
Tolerance = Annotated[float, typer.Option(help=EVERYONES["tolerance"].help)]
Baseline = Annotated[str | None, typer.Option(help=EVERYONES["baseline"].help)]
OneMethod = Annotated[str | None, typer.Option("--method", help="See `pathlens methods`.")]
OneSided = Annotated[bool, typer.Option("--one-sided", help="Integrate the documents alone: quicker, no word pairs.")]
Why = Annotated[str | None, typer.Option(help="Two places, 1,2: why the first stands above the second.")]
Chunk = Annotated[bool, typer.Option("--chunk", help="Cut documents that are too long at sentences.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar (into a pipe there is none).")]
Data = Annotated[str, typer.Option(help="CSV, TSV, JSON lines, Parquet, text; a folder of them; a hub id.")]
Column = Annotated[str, typer.Option("--text", help="The column with the text.")]
ColumnB = Annotated[str | None, typer.Option("--text-b", help="The column with the second text.")]


@dataclass(frozen=True)
class Reading:
    """How a data set is read, the same for every command that takes one."""

    encoding: Annotated[str, typer.Option(help="Of text files.")] = "utf-8"
    separator: Annotated[str | None, typer.Option(help="Between columns (default: by the file's name).")] = None
    quoting: Annotated[bool | None, typer.Option(help="Are fields quoted? (default: .csv yes, .tsv no)")] = None
    header: Annotated[bool, typer.Option(help="Has the table a header? Without, columns are 0, 1, 2 …")] = True
    split: Annotated[str, typer.Option(help="Of a hub data set.")] = "train"
    config: Annotated[str | None, typer.Option(help="Of a hub data set.")] = None

    def given(self) -> dict[str, Any]:
        """As `Source` takes it."""
        return {**vars(self), "separator": "\t" if self.separator == "\\t" else self.separator}


@dataclass(frozen=True)
class Output:
    """Where a result goes."""

    json_out: Annotated[
        str | None, typer.Option("--json", help="Write JSON to a file; - prints it.", callback=place_for_json)
    ] = None
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page.", callback=place_to_write)] = None
    png: Annotated[
        Path | None, typer.Option(help="Write a picture (.png, .svg or .pdf).", callback=place_for_picture)
    ] = None

    def give(self, result: Any, *, also: bool = False) -> None:
        """Write what was asked for; draw in the terminal when nothing was, not even something that is written `also`."""
        if self.json_out == "-":
            typer.echo(json.dumps(result.to_dict(), ensure_ascii=False))
        elif self.json_out is not None:
            result.save(self.json_out)
        if self.html is not None:
            result.to_html(self.html)
        if self.png is not None:
            result.to_png(self.png)
        if not also and self == Output():
            result.show()


def _field(option: Option, panel: str | None = None) -> tuple[str, Any, Any]:
    """An option as a field, from its record. None: not given, so its default holds."""
    kinds = [kind for kind in get_args(option.type) or (option.type,) if kind is not NoneType]
    kind: Any = kinds[0] if kinds[0] in (int, float, bool) else str
    flag = f"--{option.name.replace('_', '-')}"
    alike = {choices: [t for t in option.takers if option.takers[t] == choices] for choices in option.takers.values()}
    named = [(f"[{', '.join(names)}]" if any(names) else "", " | ".join(choices)) for choices, names in alike.items()]
    shown = " ".join(part for part in (option.help, *chain.from_iterable(named)) if part).replace("[", r"\[")
    default = False if option.default in (None, False) else str(option.default)
    described = typer.Option(flag, help=shown, rich_help_panel=panel, show_default=default)
    return option.name, Annotated[kind | None, described], field(default=None)


def _given(record: Any) -> dict[str, Any]:
    """The options that were given, as Python takes them: what may have several types is read as JSON where it is JSON."""
    named = {name: value for name, value in vars(record).items() if value is not None}
    return {n: _value(v) if n in SEVERAL_TYPES and isinstance(v, str) else v for n, v in named.items()}


OF_METHODS = options()
OF_MODELS = tuple(
    each
    for kind in (GeneratorOptions, PromptedOptions)
    for each in options_of(kind)
    if each.name not in {of_method.name for of_method in OF_METHODS}
)
SEVERAL_TYPES = {each.name for each in (*OF_METHODS, *OF_MODELS) if each.type is Any or bool in get_args(each.type)}
OfMethods: Any = make_dataclass("OfMethods", [_field(each, "Options of methods") for each in OF_METHODS], frozen=True)
OfModels: Any = make_dataclass(
    "OfModels", [_field(each, "Options of models") for each in OF_MODELS], frozen=True, namespace={"given": _given}
)


OF_PAIRS = ("baseline", "layer", "truncation", *option_names(Accuracy))
_of_pairs = (*options_of(Compared), *(EVERYONES[name] for name in OF_PAIRS))
OfPairs: Any = make_dataclass(
    "OfPairs", [("method", OneMethod, None), *map(_field, _of_pairs)], frozen=True, namespace={"given": _given}
)
OfEveryone: Any = make_dataclass(
    "OfEveryone",
    [_field(each) for name, each in EVERYONES.items() if name not in ("baseline", *OF_A_TEXT)],
    bases=(OfMethods,),
    frozen=True,
)


@dataclass(frozen=True)
class Choices(OfEveryone):
    """What may be chosen wherever a text is explained, with the options of all methods."""

    option: Annotated[list[str] | None, typer.Option(help="Any other option, NAME=VALUE; repeatable.")] = None

    def given(self) -> dict[str, Any]:
        """As `pl.explain` takes them; what was not given is left out."""
        named = {name: value for name, value in _given(self).items() if name != "option"}
        if self.target is not None and self.target.isascii() and self.target.removeprefix("-").isdigit():
            named["target"] = int(self.target)
        return named | parse_options(self.option)


AllChoices: Any = make_dataclass(
    "AllChoices", [_field(EVERYONES[name]) for name in OF_A_TEXT], bases=(Choices,), frozen=True
)


def expanded(function: Callable[..., None]) -> Callable[..., None]:
    """A command as typer reads it: records among its parameters become the options in them."""
    types = get_type_hints(function, include_extras=True)
    records: dict[str, Any] = {name: kind for name, kind in types.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(function).parameters.values():
        described = {each.name: each.default}
        if record := records.get(each.name):
            types |= get_type_hints(record, include_extras=True)
            described = {option.name: option.default for option in fields(record)}
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters += [inspect.Parameter(n, kind, default=d, annotation=types[n]) for n, d in described.items()]

    def command(**values: Any) -> None:
        made = {
            n: record(**{each.name: values.pop(each.name) for each in fields(record)}) for n, record in records.items()
        }
        function(**values, **made)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _value(raw: str) -> Any:
    """JSON where it is JSON, else the text itself."""
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def parse_options(pairs: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE, values read as JSON where they are JSON."""
    named = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--option takes NAME=VALUE, got {pair!r}")
        named[name] = _value(value)
    return named


def read_text(text: str) -> str:
    """The text itself, or standard input for -."""
    if text != "-":
        return text
    if sys.stdin.isatty():
        raise InputError("- reads the text from standard input, and nothing was piped into it")
    try:
        return sys.stdin.buffer.read().decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 text ({error})") from error


def watched() -> bool:
    """Is a person looking? Progress bars are for them; a pipe or a log gets none."""
    return sys.stderr.isatty()


@contextmanager
def status(line: str) -> Iterator[Callable[[str], None] | None]:
    """For a person: a line that says what is being done, and a function that changes it; for a pipe neither."""
    if not watched():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status(line) as shown:
        yield lambda what: shown.update(f"{what} …")


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Warnings meant for the user go to standard error, one line each, after the work."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for line in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)):
        typer.echo(f"pathlens: {' '.join(line.split())}", err=True)
