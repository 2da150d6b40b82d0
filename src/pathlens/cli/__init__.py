"""Arguments in, rooms called, nothing computed here. One file per command; each registers itself on `app`."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import typer

app = typer.Typer(
    name="pathlens",
    help="Why did the model say that? Scores that add up, with a certificate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

COMMANDS = ("explain", "compare", "evaluate", "methods", "rank", "index", "run", "summary", "report", "doctor", "serve")
BAD_INPUT = 2
INTERRUPTED = 130  # what a shell expects after Ctrl-C


def main() -> None:
    """Bad input ends with exit code 2 and one clear line, never a traceback."""
    if not sys.stderr.isatty():  # nobody is looking: no bars of any library, no chatter while a model loads
        os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # its retries are told in one line, at the end
    for name in COMMANDS:
        import_module(f"pathlens.cli.{name}")
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
        return str(error), BAD_INPUT
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
    told = str(error).strip().splitlines()
    return (
        f"something went wrong inside ({type(error).__name__}: {told[0] if told else 'no message'}); "
        "PATHLENS_TRACEBACK=1 shows where"
    ), 1


def _leave(line: str, code: int) -> None:
    if line:
        first, *place = line.splitlines()
        typer.echo(f"pathlens: {' '.join(first.split())}", err=True)
        for shown in place:  # a text with a caret below it: its spaces matter
            typer.echo(shown, err=True)
    sys.exit(code)
