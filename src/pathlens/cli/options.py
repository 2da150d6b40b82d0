"""What the commands share: options declared once, texts read, warnings said in one line, results written where asked.

A parameter whose type is one of the records here stands for all the options in it; the options of methods come from the
methods' own records.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_type_hints

import typer

from pathlens.checks import Option, option_names, options_of
from pathlens.cli import COMMANDS
from pathlens.corpus.options import RunOptions
from pathlens.engine.options import EVERYONES as OF_ALL_METHODS
from pathlens.engine.options import Accuracy, AnswerOptions, Compared, options
from pathlens.engine.progress import elapsed
from pathlens.errors import CLOSE, ONLY_PYTHON, OPEN, InputError
from pathlens.text.options import BUILT_IN, LoadOptions, offered_options, refuse_swap
from pathlens.types import BASELINES

AT_HAND: ContextVar[Callable[..., None] | None] = ContextVar("the command at hand", default=None)
TEXTS = ("text", "query", "question")  # arguments that - reads from standard input
FILES = (".csv", ".tsv", ".jsonl", ".json", ".txt", ".md", ".parquet")


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


EVERYONES = {each.name: each for record in (*OF_ALL_METHODS, LoadOptions) for each in options_of(record)}
OF_A_TEXT = ("layer", "unit", "score", "rule")  # not where methods are judged on many

# arguments and options that mean the same in every command that has them
Model = Annotated[str, typer.Argument(help=f"A built-in name ({', '.join(BUILT_IN)}), a folder, or a hub id.")]
Encoder = Annotated[str, typer.Argument(help="A sentence encoder: minilm, a folder, or a hub id.")]
Text = Annotated[str, typer.Argument(help="The text; - reads it from standard input.")]
TextB = Annotated[str | None, typer.Argument(help="A second text: a pair, or a question's passage.")]
Unit = Annotated[str, typer.Option(help=EVERYONES["unit"].help)]
Tolerance = Annotated[float, typer.Option(help=EVERYONES["tolerance"].help)]
Baseline = Annotated[
    list[str] | None, typer.Option(help=EVERYONES["baseline"].help + " Repeated or with commas: several.")
]
Method = Annotated[
    list[str] | None, typer.Option("--method", help="See `pathlens methods`. Repeated or with commas: several.")
]
OneSided = Annotated[bool, typer.Option("--one-sided", help="Integrate the documents alone: quicker, no word pairs.")]
Why = Annotated[str | None, typer.Option(help="Two places, 1,2: why the first stands above the second.")]
Chunk = Annotated[bool, typer.Option("--chunk", help="Cut documents that are too long at sentences.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar (into a pipe there is none).")]
Data = Annotated[str, typer.Argument(help="CSV, TSV, JSON lines, Parquet, text; a folder of them; a hub id.")]
Documents = Annotated[
    str, typer.Argument(help="A folder (.txt, .md), a file with one document a line, or a table (--text); - for stdin.")
]
Column = Annotated[str, typer.Option("--text", help="The column with the text.")]
ColumnB = Annotated[str | None, typer.Option("--text-b", help="The column with the second text.")]


@dataclass(frozen=True)
class DataFlags:
    """How a data set is read, the same for every command that takes one."""

    encoding: Annotated[str, typer.Option(help="Of text files.")] = "utf-8"
    separator: Annotated[str | None, typer.Option(help="Between columns (default: what the header shows).")] = None
    quoting: Annotated[bool | None, typer.Option(help="Are fields quoted? (default: .csv yes, .tsv no)")] = None
    header: Annotated[bool, typer.Option(help="Has the table a header? Without, columns are 0, 1, 2 …")] = True
    split: Annotated[str, typer.Option(help="Of a hub data set.")] = "train"
    config: Annotated[str | None, typer.Option(help="Of a hub data set.")] = None

    def given(self) -> dict[str, Any]:
        """As `Source` takes it."""
        return {**vars(self), "separator": "\t" if self.separator == "\\t" else self.separator}


@dataclass(frozen=True)
class OutputFlags:
    """Where a result goes."""

    json_out: Annotated[
        str | None, typer.Option("--json", help="Write JSON to a file; - prints it.", callback=place_for_json)
    ] = None
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page.", callback=place_to_write)] = None
    png: Annotated[
        Path | None, typer.Option(help="Write a picture (.png, .svg or .pdf).", callback=place_for_picture)
    ] = None
    dark: Annotated[bool, typer.Option("--dark", help="The picture of --png for dark pages.")] = False

    def __post_init__(self) -> None:
        if self.dark and (self.png is None or self.png.suffix.lower() != ".png"):
            raise InputError("--dark is for a picture: give --png and a name that ends in .png")

    def give(self, result: Any, *, also: bool = False, **shown: Any) -> None:
        """Write what was asked for; draw in the terminal when nothing was, not even something that is written `also`."""
        if self.json_out == "-":
            typer.echo(json.dumps(result.to_dict(), ensure_ascii=False))
        elif self.json_out is not None:
            wrote(result.save(self.json_out))
        if self.html is not None:
            wrote(result.to_html(self.html))
        if self.png is not None:
            wrote(result.to_png(self.png, dark=self.dark))
        if not also and self == OutputFlags():
            result.show(**shown)


def _field(option: Option, panel: str | None = None) -> tuple[str, Any, Any]:
    """An option as a field, from its record. None: not given, so its default holds."""
    several = get_args(option.type) if isinstance(option.type, UnionType) else (option.type,)
    kinds = [kind for kind in several if kind is not NoneType]
    kind: Any = kinds[0] if kinds[0] in (int, float, bool) else str
    name = option.name.replace("_", "-")
    off = kind is bool and option.default is not False  # what is on, or may be, must be turned off
    flag = f"--{name}/--no-{name}" if off else f"--{name}"
    alike = {choices: [t for t in option.takers if option.takers[t] == choices] for choices in option.takers.values()}
    named = [(f"[{', '.join(names)}]" if any(names) else "", " | ".join(choices)) for choices, names in alike.items()]
    shown = " ".join(part for part in (option.help, *chain.from_iterable(named)) if part).replace("[", r"\[")
    default = False if option.default in (None, False) else _written(option.default)
    described = typer.Option(flag, help=shown, rich_help_panel=panel, show_default=default)
    return option.name, Annotated[kind | None, described], field(default=None)


def _written(default: Any) -> str:
    """A default as it is typed: a share of the shards, (0, 1), is 0/1."""
    return "/".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _given(record: Any) -> dict[str, Any]:
    """The options that were given, as Python takes them: what may have several types is read as JSON where it is JSON."""
    named = {name: value for name, value in vars(record).items() if value is not None}
    return {n: _value(v) if n in SEVERAL_TYPES and isinstance(v, str) else v for n, v in named.items()}


def record_of(name: str, record: type) -> Any:
    """The options of one record as those of a command; what was not given is left to the record."""
    return make_dataclass(name, map(_field, options_of(record)), frozen=True, namespace={"given": _given})


OF_METHODS = options()
_of_methods = {each.name for each in OF_METHODS}
OF_MODELS = tuple(each for each in offered_options() if each.name not in _of_methods)
SEVERAL_TYPES = {
    each.name
    for each in (*OF_METHODS, *OF_MODELS)
    if each.type is Any or {bool, Sequence[str]} & {*get_args(each.type)}
}
OfMethods: Any = make_dataclass("OfMethods", [_field(each, "Options of methods") for each in OF_METHODS], frozen=True)
OfModels: Any = make_dataclass(
    "OfModels", [_field(each, "Options of models") for each in OF_MODELS], frozen=True, namespace={"given": _given}
)


OF_PAIRS = ("baseline", "layer", "truncation", *option_names(Accuracy))
_of_pairs = (*options_of(Compared), *(EVERYONES[name] for name in OF_PAIRS))


def _but_method(record: Any) -> dict[str, Any]:
    """What was given besides the methods, which a command takes one by one."""
    return {name: value for name, value in _given(record).items() if name != "method"}


_of_answers = [each for each in options_of(AnswerOptions) if each.name != "method"]
_of_all = [_field(each) for name, each in EVERYONES.items() if name not in ("baseline", *OF_A_TEXT)]
_with_method: dict[str, Any] = {"frozen": True, "namespace": {"given": _but_method}}
OfPairs: Any = make_dataclass("OfPairs", [("method", Method, None), *map(_field, _of_pairs)], **_with_method)
OfAnswers: Any = make_dataclass("OfAnswers", [("method", Method, None), *map(_field, _of_answers)], **_with_method)
OfRuns: Any = record_of("OfRuns", RunOptions)
OfEveryone: Any = make_dataclass("OfEveryone", _of_all, bases=(OfMethods,), frozen=True)


@dataclass(frozen=True)
class ExplainFlags(OfEveryone):
    """What may be chosen wherever a text is explained, with the options of all methods."""

    option: Annotated[list[str] | None, typer.Option(help="Any other option, NAME=VALUE; repeatable.")] = None

    def given(self) -> dict[str, Any]:
        """As `pl.explain` takes them; what was not given is left out."""
        named = {name: value for name, value in _given(self).items() if name != "option"}
        if self.target is not None and self.target.isascii() and self.target.removeprefix("-").isdigit():
            named["target"] = int(self.target)
        return named | parse_options(self.option)


AllExplainFlags: Any = make_dataclass(
    "AllExplainFlags", [_field(EVERYONES[name]) for name in OF_A_TEXT], bases=(ExplainFlags,), frozen=True
)


def check_order(values: Mapping[str, Any]) -> None:
    """A text where the model belongs is a slip that is said before anything is loaded or looked up."""
    model = values.get("model")
    refuse_swap(model, (each for name, each in values.items() if name != "model"))
    if isinstance(model, str) and len(model.split()) > 1 and not os.path.exists(model):
        raise InputError(
            f"{model!r} is no model, it has blanks: MODEL comes first ({', '.join(BUILT_IN)}, a folder, or a hub id), then "
            "the text"
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
        AT_HAND.set(function)
        check_order(values)
        for name, record in records.items():
            values[name] = record(**{each.name: values.pop(each.name) for each in fields(record)})
        function(**values)

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


FLAGS = {"method", *EVERYONES, *(each.name for each in (*OF_METHODS, *OF_MODELS))}
IN_MESSAGE = re.compile(f"{OPEN}([^{CLOSE}]*){CLOSE}|{ONLY_PYTHON}[^{CLOSE}]*{CLOSE}")
VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\w.-]*|True|False|None|torch\.\w+|\.\.\.")  # others have no form here


def as_flags(error: BaseException | str) -> str:
    """The message, with options as they are written here: --unit word, where Python writes unit='word'."""
    return IN_MESSAGE.sub(lambda met: _flag(met[1]), getattr(error, "marked", None) or str(error))


def _flag(setting: str | None) -> str:
    option, _, value = (setting or "").partition("=")
    if option not in FLAGS or not VALUE.fullmatch(value):
        return setting or ""
    name = option.replace("_", "-")
    if value in ("True", "False"):
        return f"--{name}" if value == "True" else f"--no-{name}"
    plain = value.strip("'\"").removeprefix("torch.")
    blanks = len(plain.split()) != 1
    return f"--{name} {json.dumps(plain, ensure_ascii=False) if blanks else {'None': 'null', '...': '…'}.get(plain, plain)}"


def wrote(place: Any) -> None:
    """Said beside the output, which may be read by a program."""
    typer.echo(f"wrote {place}", err=True)


def methods_of(given: list[str] | None) -> list[str | None]:
    """Every method once, in the order given; none: the model's own."""
    return list(dict.fromkeys(several(given))) or [None]


def several(given: list[str] | None) -> list[str]:
    """What was given by repeating an option, with commas, or both."""
    return [part.strip() for each in given or () for part in each.split(",") if part.strip()]


def folders_of(out: Path, methods: Sequence[str | None], written: str, what: str) -> dict[str | None, Path]:
    """Method → its folder: the one that was named, or of several methods one in it for each, called as the method is.

    `written` is in a folder that already holds one `what`.
    """
    if len(methods) == 1:
        return {methods[0]: out}
    if (out / written).exists():
        raise InputError(
            f"{str(out)!r} holds the {what} of one method; several methods take a folder of their own in it, "
            "so choose another folder"
        )
    return {name: out / str(name) for name in methods}


def baselines(given: list[str] | None) -> list[str]:
    """Names may be given with commas; a text keeps its own."""
    split = [(each, several([each])) for each in given or ()]
    return [name for each, names in split for name in (names if set(names) <= set(BASELINES) else [each])]


def baseline(given: list[str] | None) -> Any:
    """As `pl.explain` takes it: several are a list (the mean over all of them)."""
    named = baselines(given)
    return named if len(named) > 1 else named[0] if named else None


def read_text(text: str) -> str:
    """The text itself, or standard input for -."""
    if text != "-":
        _no_file(text)
        return text
    if sys.stdin.isatty():
        raise InputError("- reads the text from standard input, and nothing was piped into it")
    try:
        return sys.stdin.buffer.read().decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 text ({error})") from error


def _no_file(text: str) -> None:
    """A file's name where a text belongs is a slip: one word would be explained, and nobody would know."""
    there = os.path.isfile(text)
    if not there and (len(text.split()) != 1 or not text.lower().endswith(FILES)):
        return
    what = "is a file" if there else "looks like a file's name, and there is no such file"
    rows = ", and `pathlens run MODEL FILE --out FOLDER` explains every row of a file"
    command, every = _piped()
    raise InputError(
        f"{text!r} {what}; a text is expected here. - reads it from standard input ({command} < FILE){rows if every else ''}"
    )


def _piped() -> tuple[str, bool]:
    """The command at hand with its text from standard input, as it is typed; and can `run` do the same for every row?"""
    function = AT_HAND.get()
    named = inspect.signature(function).parameters.values() if function else ()
    arguments = [each for each in named if each.kind is each.POSITIONAL_OR_KEYWORD]
    needed = [each.name for each in arguments if each.default is each.empty or each.name in TEXTS]
    shown = ["-" if name in TEXTS else name.upper() for name in needed]
    name = function.__name__ if function else "explain"
    return " ".join(["pathlens", *([] if name in COMMANDS else ["index"]), name, *shown]), name == "explain"


def watched() -> bool:
    """Is a person looking? Progress bars are for them; a pipe or a log gets none."""
    return sys.stderr.isatty()


@contextmanager
def working(what: str = "working") -> Iterator[Callable[[str], None]]:
    """For a person, when it takes longer than two seconds: what is done and for how long. A pipe or a log gets nothing."""
    with elapsed(what) if watched() else nullcontext(lambda _: None) as tell:
        yield tell


@contextmanager
def at_work() -> Iterator[Callable[[str], None]]:
    """Around what takes time: it is seen to go on, and warnings meant for the user are lines."""
    with warnings_as_lines(), working() as tell:
        yield tell


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Warnings meant for the user are said afterwards, one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for line in dict.fromkeys(as_flags(w.message) for w in caught if issubclass(w.category, UserWarning)):
        typer.echo(f"pathlens: {' '.join(line.split())}", err=True)
