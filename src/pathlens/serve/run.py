"""From names on the command line to a running server. The page is there at once; the models follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pathlens.errors import InputError, MissingError
from pathlens.serve.app import LOOPBACK, make_app
from pathlens.serve.limits import Limits
from pathlens.serve.models import Stand, fill_in_turn


def shelf_of(names: Sequence[str]) -> dict[str, Stand]:
    """Name → a stand, still empty; a folder is known by its last part, so that no path leaves the machine."""
    found: dict[str, Stand] = {}
    for name in names:
        short = Path(name).resolve().name if Path(name).is_dir() else name
        if short in found:
            raise InputError(f"two models are called {short!r}; give folders with different names")
        found[short] = Stand(short, load=partial(_load, name))
    return found


def _load(name: str) -> Any:
    from pathlens.text.load import load

    return load(name)


def run(
    names: Sequence[str], *, host: str = "127.0.0.1", port: int = 8000, token: str | None = None,
    limits: Limits | None = None, tell: Callable[[str], None] = lambda line: None,
) -> None:  # fmt: skip
    """Bind, serve, load the models meanwhile; until stopped, or until a model turns out not to load."""
    if host not in LOOPBACK and not token:
        raise InputError(
            f"--host {host} can be reached from other machines, so it needs a token: set PATHLENS_TOKEN or --token"
        )
    if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable()):
        raise InputError("the token must be at least 16 printable ASCII characters")
    try:
        import uvicorn
    except ImportError as error:
        raise MissingError('the server needs packages: pip install "pathlens[serve]"') from error
    listener = _listener(host, port)
    shelf = shelf_of(names)
    app = make_app(shelf, limits=limits, token=token, host=host)
    # no access log: lines of it would hold what people ask
    settings = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(settings)
    failures: list[Exception] = []

    def failed(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    def opened() -> None:
        """Called when the page answers: loading before that would only keep it waiting."""
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        tell(f"the page is at http://{shown}:{listener.getsockname()[1]}/")
        fill_in_turn(shelf.values(), tell, failed)

    app.router.on_startup.append(opened)
    server.run(sockets=[listener])
    if failures:
        raise failures[0]


def _listener(host: str, port: int) -> Any:
    import socket

    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}") from error
    return listener
