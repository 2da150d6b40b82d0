"""From names on the command line to a running server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pathlens.errors import InputError, MissingError
from pathlens.serve.app import LOOPBACK, make_app
from pathlens.serve.limits import Limits


def load_models(names: Sequence[str], tell: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Name → model kind; a folder is known by its last part, so that no path leaves the machine."""
    from pathlens.text.load import load

    found: dict[str, Any] = {}
    for name in names:
        if tell is not None:
            tell(name)
        short = Path(name).name if Path(name).is_dir() else name
        if short in found:
            raise InputError(f"two models are called {short!r}; give folders with different names")
        found[short] = load(name)
    return found


def run(
    names: Sequence[str], *, host: str = "127.0.0.1", port: int = 8000, token: str | None = None,
    limits: Limits | None = None, tell: Callable[[str], None] | None = None,
) -> None:  # fmt: skip
    """Load the models, bind, serve until stopped."""
    import socket

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
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except (OSError, OverflowError) as error:
        raise InputError(
            f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}"
        ) from error
    app = make_app(load_models(names, tell), limits=limits, token=token, host=host)
    if tell is not None:
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        tell(f"ready at http://{shown}:{listener.getsockname()[1]}/")
    # no access log: lines of it would hold what people ask
    settings = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=2
    )
    uvicorn.Server(settings).run(sockets=[listener])
