"""Before anything is done for a request: who asks, how much, and how slowly."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from uvicorn.protocols.http.h11_impl import H11Protocol

from pathlens.serve.tasks import ServerLimits

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY",
}  # fmt: skip
RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
SLOW = 10.0  # seconds within which the head of a request, and then its body, must have come
CONNECTIONS = 600  # at once; below what a process may have open

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Refusal = tuple[int, str]


class Guard:
    """The right host, our own page, the token, a body of bounded size that comes in time; our headers on every answer."""

    def __init__(self, app: Any, limits: ServerLimits, token: str | None, host: str) -> None:
        self.app, self.limits, self.token, self.host = app, limits, token, host

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(each for each in RAW_HEADERS if each[0] not in there)]
            await send(message)

        try:
            outcome: Refusal | bytes | None = self.refuse(scope) or await self.body(receive)
        except ValueError:
            outcome = (400, "the request's headers cannot be read")
        if isinstance(outcome, bytes):
            await self.app(scope, _after(outcome, receive), answer)
        elif outcome is not None:  # None: the client has left
            await _refused(outcome, answer)

    def refuse(self, scope: Message) -> Refusal | None:
        """Why a request is not even read."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        name = "" if "@" in host else urlsplit(f"//{host}").hostname or ""
        if self.host in LOOPBACK and name not in LOOPBACK and name != "testserver":
            return 403, "this server answers to its own address only"  # another site's name for this machine
        origin = headers.get("origin")
        if origin and urlsplit(origin).netloc != host:
            return 403, "requests from other pages are not answered"
        if int(headers.get("content-length") or 0) > self.limits.body:
            return self.too_large
        if self.token and scope["path"].startswith("/api/"):
            given = headers.get("authorization", "").removeprefix("Bearer ").encode("latin-1")
            if not hmac.compare_digest(given, self.token.encode()):
                return 401, "this server needs a token: Authorization: Bearer …"
        return None

    @property
    def too_large(self) -> Refusal:
        return 413, f"a request may have {self.limits.body} bytes"

    async def body(self, receive: Receive) -> Refusal | bytes | None:
        """All of it; None when the client leaves meanwhile."""
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(SLOW):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    if sum(map(len, parts)) > self.limits.body:
                        return self.too_large
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            return 408, f"the request did not come within {SLOW:.0f} seconds"


def _after(body: bytes, receive: Receive) -> Receive:
    """The body that was read, then whatever comes: that the client leaves."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refused(refusal: Refusal, send: Send) -> None:
    code, words = refusal
    body = json.dumps({"detail": words}, ensure_ascii=False).encode()
    length, closing = str(len(body)).encode(), [(b"connection", b"close")]  # what is left of the request is not read
    headers = [(b"content-type", b"application/json"), (b"content-length", length), *closing]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class BoundedHttp(H11Protocol):
    """A connection on which no request's head comes in time is closed; uvicorn would wait for ever."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()
        elif self._late is None:
            self._late = self.loop.call_later(SLOW, self.timeout_keep_alive_handler)

    def _unwatch(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
