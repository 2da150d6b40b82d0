"""pathlens serve: the page and the API."""

from __future__ import annotations

from typing import Annotated

import typer

from pathlens.cli import app

EXAMPLES = """
Examples:

  pathlens serve sentiment minilm

  pathlens serve ./my-model --port 9000

  PATHLENS_TOKEN=a-long-secret-of-mine pathlens serve sentiment --host 0.0.0.0

With a token the page is opened as http://host:port/#token=… (what follows # never leaves the browser).
The API is described at /api/openapi.json.
"""


@app.command(epilog=EXAMPLES)
def serve(
    models: Annotated[list[str], typer.Argument(help="Models that can be asked for; no others are ever loaded.")],
    host: Annotated[str, typer.Option(help="Address to listen on; anything but loopback needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="PATHLENS_TOKEN", help="Asked of every request; better set in the environment.")
    ] = None,
    max_units: Annotated[int, typer.Option(help="Longest text, in tokens.", min=1)] = 512,
    max_waiting: Annotated[int, typer.Option(help="Jobs that may wait.", min=1)] = 16,
) -> None:
    """Open a page that explains, compares and edits texts, and a JSON API, for the models named here."""
    from pathlens.serve.app import serve as verb
    from pathlens.serve.tasks import ServerLimits

    verb(
        models,
        host=host,
        port=port,
        token=token,
        limits=ServerLimits(units=max_units, waiting=max_waiting),
        tell=lambda line: typer.echo(f"pathlens: {line}", err=True),
    )
