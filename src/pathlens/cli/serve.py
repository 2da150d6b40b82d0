"""pathlens serve, doctor: the page and the API; the laws, run on the user's own model."""

from __future__ import annotations

from typing import Annotated

import typer

from pathlens.cli import options as o
from pathlens.serve.tasks import ServerLimits
from pathlens.types import TOLERANCE


def serve(
    models: Annotated[list[str], typer.Argument(help="Models that can be asked for; no others are ever loaded.")],
    *,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; on any but loopback a token is asked for, and made where none is given."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="PATHLENS_TOKEN", help="Asked of every request; better set in the environment.")
    ] = None,
    max_units: Annotated[int, typer.Option(help="Longest text, in tokens.", min=1)] = ServerLimits.units,
    max_waiting: Annotated[int, typer.Option(help="Jobs that may wait.", min=1)] = ServerLimits.waiting,
) -> None:
    """Examples:

      pathlens serve sentiment minilm

      pathlens serve ./my-model --port 9000

      PATHLENS_TOKEN=a-long-secret-of-mine pathlens serve sentiment --host 0.0.0.0

    With a token the page is opened as http://host:port/#token=… (what follows # never leaves the browser).
    The API is described at /api/openapi.json.
    """
    from pathlens.serve.app import serve as verb

    limits = ServerLimits(units=max_units, waiting=max_waiting)
    tell = lambda line: typer.echo(f"pathlens: {line}", err=True)  # noqa: E731
    verb(models, host=host, port=port, token=token, limits=limits, tell=tell)


def doctor(
    model: o.Model,
    *,
    text: Annotated[str | None, typer.Option(help="A text to examine with (default: a short review).")] = None,
    text_b: Annotated[str | None, typer.Option(help="A second text, for models that take two.")] = None,
    tolerance: o.Tolerance = TOLERANCE,
    output: o.OutputFlags,
) -> None:
    """Examples:

      pathlens doctor sentiment

      pathlens doctor ./my-model --text "A text my model knows well." --html doctor.html

      pathlens doctor minilm --json -

    Exit code 1 when a law does not hold.
    """
    from pathlens.doctor import examine

    with o.working("loading the model") as tell:
        diagnosis = examine(model, text, text_b, tolerance=tolerance, tell=lambda law: tell(f"law {law}"))
    output.give(diagnosis)
    if not diagnosis.healthy:
        raise typer.Exit(1)
