"""Arguments in, rooms called, nothing computed here. A command is imported when it is called, so that help is quick."""

from __future__ import annotations

import inspect
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pathlens import __version__

BAD_INPUT = 2
INTERRUPTED = 130  # what a shell expects after Ctrl-C
COMMANDS = {  # name -> the file it is in, and what it does in a line
    "explain": ("explain", "Explain one text, or a pair of texts."),
    "answer": ("explain", "Which part of which source made the model say this: an answer, its citations, its sources."),
    "compare": ("explain", "Explain one text under several methods, baselines or models, side by side."),
    "evaluate": ("corpus", "Methods × metrics over a data set: log-odds, comprehensiveness, sufficiency, with controls and intervals."),
    "methods": ("explain", "List the methods: what each one is, its own options, and the paper."),
    "rank": ("search", "Order documents by similarity to a query; show which words met, and why one stands above another."),
    "index": ("search", "An index that explains itself: build it once, search it with reasons."),
    "exact": ("search", "Tune a sentence encoder so that its pairs of words alone add up to the similarity."),
    "run": ("corpus", "Explain every row of a data set; Parquet files that pandas, polars and DuckDB open."),
    "summary": ("corpus", "Strongest words by class, part of speech and slice, with counts and intervals; what settled."),
    "report": ("corpus", "Put many saved explanations on one self-contained page."),
    "doctor": ("serve", "Run all laws that apply on a model, and say what holds and what to do."),
    "serve": ("serve", "Open a page that explains, compares and edits texts, and a JSON API, for the models named here."),
}  # fmt: skip


class Later(TyperCommand):
    """A command by its name alone, until it is called."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        return self.load().make_context(*arguments, **more)

    def load(self) -> Any:
        from pathlens.cli.options import expanded

        name = str(self.name)
        described: Any = getattr(import_module(f"pathlens.cli.{COMMANDS[name][0]}"), name)
        if isinstance(described, typer.Typer):
            return typer.main.get_command(described)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
        alone.command(name, help=self.help, epilog=inspect.getdoc(described))(expanded(described))
        return typer.main.get_command(alone)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pathlens {__version__}")
        raise typer.Exit


def _door(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and leave.")
    ] = False,
) -> None:
    """Why did the model say that? Contributions that add up, with a certificate."""


def _app() -> TyperGroup:
    alone = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},  # commands take them over
        epilog="A command that needs a model begins with it: sentiment, minilm, minilm-exact or smollm, a folder, or a hub id. "
        'Try: pathlens explain sentiment "Not really funny, but moving."',
    )
    alone.callback()(_door)
    group = typer.main.get_command(alone)
    assert isinstance(group, TyperGroup)
    group.commands.update({name: Later(name, help=line) for name, (_, line) in COMMANDS.items()})
    return group


app = _app()


def main() -> None:
    """Bad input ends with exit code 2 and one clear line, never a traceback."""
    if not sys.stderr.isatty():  # nobody is looking: no bars of any library, no chatter while a model loads
        os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # its retries are told in one line, at the end
    try:
        sys.exit(app(prog_name="pathlens", standalone_mode=False) or 0)
    except KeyboardInterrupt:
        _leave("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader (head, less) has gone: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if os.environ.get("PATHLENS_TRACEBACK"):
            raise
        _leave(*_in_words(error))


def _in_words(error: Exception) -> tuple[str, int]:
    """One line for a person, and the exit code."""
    from pathlens.errors import PathlensError

    if isinstance(error, PathlensError):
        from pathlens.cli.options import as_flags

        return as_flags(error), BAD_INPUT
    if hasattr(error, "format_message"):  # wrong usage, as typer sees it
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())  # the help, unless rich has printed it already
            return "", BAD_INPUT
        where = context.command_path if context is not None else "pathlens"
        return f"{error.format_message().rstrip('.')}; see `{where} --help`", BAD_INPUT
    if type(error).__name__ == "Abort":
        return "interrupted", INTERRUPTED
    if isinstance(error, UnicodeError):
        return f"the input is not UTF-8 text ({error})", BAD_INPUT
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot read or write {str(error.filename)!r}: {error.strerror}", BAD_INPUT
    line = next(iter(str(error).strip().splitlines()), "no message")
    return f"something went wrong inside ({type(error).__name__}: {line}); PATHLENS_TRACEBACK=1 shows where", 1


def _leave(line: str, code: int) -> None:
    if line:
        first, *place = line.splitlines()
        typer.echo(f"pathlens: {' '.join(first.split())}", err=True)
        for shown in place:  # a text with a caret below it: its spaces matter
            typer.echo(shown, err=True)
    sys.exit(code)
