"""Arguments in, rooms called, nothing computed here. One file per command; each registers itself on `app`."""

from __future__ import annotations

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

COMMANDS = ("explain", "methods", "rank", "index")


def main() -> None:
    """Bad input ends with exit code 2 and one clear line, never a traceback."""
    for name in COMMANDS:
        import_module(f"pathlens.cli.{name}")
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from pathlens.errors import PathlensError

        if not isinstance(error, PathlensError):
            raise
        typer.echo(f"pathlens: {error}", err=True)
        sys.exit(2)
