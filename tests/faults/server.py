"""Faults of the server: too many, too large, too slow, from elsewhere, gone, stopped. A real server, real sockets."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from pathlens.serve.tasks import ServerLimits
from tests.faults.folders import Outcome
from tests.faults.scene import PATIENCE, Command, Scene, expect, until

TEXT = "the movie was not really funny but moving"
LONG = " ".join(["the movie was not really funny but moving"] * 7)
DEEP = 200_000  # brackets


class Served:
    """A server on this machine, and how it is asked."""

    def __init__(self, scene: Scene, *more: str) -> None:
        self.command = Command(["serve", str(scene.models["classifier"]), "--port", "0", *more])
        self.port = int(until(self._address, "the page").rsplit(":", 1)[1].split("/")[0])
        until(lambda: "ready" in self.errors(), "the model")
        self.pid = self.command.pid

    def errors(self) -> str:
        return self.command.outputs[1].read_text()

    def _address(self) -> str:
        expect(not self.command.over(), f"the server ended: {self.errors()}")
        return next((line for line in self.errors().splitlines() if "http://" in line), "")

    def client(self, **more: Any) -> httpx.Client:
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE, trust_env=False, **more)

    def ask(self, client: httpx.Client, text: str = TEXT, **more: Any) -> httpx.Response:
        return client.post("/api/explain", json={"model": "classifier", "text": text, "n_steps": 8, **more})

    def raw(self, *parts: bytes, pause: float = 0.0, end: bool = False) -> bytes:
        """Bytes over a socket of its own, and all that comes back until the server closes it."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as line:
            for part in parts:
                with contextlib.suppress(OSError):  # answered and closed before all was sent
                    line.sendall(part)
                time.sleep(pause)
            if end:
                line.shutdown(socket.SHUT_WR)
            return _all(line)

    def jobs(self) -> dict[str, int]:
        """How many wait and work."""
        with self.client() as client:
            return dict(client.get("/api/health").json()["jobs"])

    def idle(self) -> bool:
        return not any(self.jobs().values())

    def spent(self) -> float:
        """Processor seconds so far, which do not hang on what else the machine does."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Bytes it holds."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def well(self) -> None:
        """It answers as ever."""
        with self.client() as client:
            expect(self.ask(client).status_code == 200, "it does not answer any more")


def _all(line: socket.socket) -> bytes:
    """What comes until the other side closes."""
    result = b""
    with contextlib.suppress(ConnectionResetError):
        while more := line.recv(65536):
            result += more
    return result


@contextlib.contextmanager
def served(scene: Scene, *more: str) -> Iterator[Served]:
    server = Served(scene, *more)
    try:
        yield server
        server.well()
    finally:
        if not server.command.over():
            server.command.kill()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0


def _words(answer: bytes) -> str:
    return json.loads(answer.partition(b"\r\n\r\n")[2])["detail"]


def _post(port: int, length: int | None, *headers: str) -> bytes:
    lines = ["POST /api/explain HTTP/1.1", f"Host: 127.0.0.1:{port}", "Content-Type: application/json", *headers]
    lines += [f"Content-Length: {length}"] if length is not None else []
    return "\r\n".join([*lines, "", ""]).encode()


def crowd(scene: Scene, _: str) -> Outcome:
    """Many clients at once: each gets the answer one alone gets, at once or after being told to come again."""
    with served(scene) as server:
        with server.client() as client:
            alone = server.ask(client).json()
        again = 0

        def one(number: int) -> Any:
            nonlocal again
            with server.client() as client:
                while (answer := server.ask(client)).status_code == 429:
                    expect("retry-after" in answer.headers, "429 without Retry-After")
                    again += 1
                    time.sleep(0.05)
                expect(answer.status_code == 200, f"{answer.status_code}: {answer.text[:200]}")
                return answer.json()

        with ThreadPoolExecutor(scene.size.clients) as pool:
            result = list(pool.map(one, range(scene.size.clients)))
    same = sum(_numbers(each) == _numbers(alone) for each in result)
    expect(same == len(result), f"{len(result) - same} answers differ")
    return Outcome(len(result), f"{same} of {len(result)} answers", "429: too many jobs are waiting; try again later")


def _numbers(body: dict[str, Any]) -> Any:
    return body["tokens"], body["scores"]


def too_large(scene: Scene, _: str) -> Outcome:
    """Bodies over the limit, with their length said, not said, and said wrong."""
    most = ServerLimits().body
    with served(scene) as server:
        chunk = b"%x\r\n" % 65536 + b" " * 65536 + b"\r\n"
        answers = [
            server.raw(_post(server.port, most + 1), b" " * (most + 1)),
            server.raw(_post(server.port, 10**15), b" " * 1000),
            server.raw(_post(server.port, None, "Transfer-Encoding: chunked"), *[chunk] * 64),
        ]
        expect([status(each) for each in answers] == [413] * 3, f"answered {[status(each) for each in answers]}")
        wrong = [b"-1", b"ten", b"1_0", b"9" * 400]
        for length in wrong:
            head = _post(server.port, None).replace(b"\r\n\r\n", b"\r\nContent-Length: " + length + b"\r\n\r\n")
            expect(status(server.raw(head, b"x")) in (400, 413), f"Content-Length: {length!r}")
    return Outcome(3 + len(wrong), "", f"413: {_words(answers[0])}")


def slow_senders(scene: Scene, _: str) -> Outcome:
    """Heads and bodies that come byte by byte, or not at all: closed in time, and others are answered meanwhile."""
    count = max(4, scene.size.clients // 4)
    with served(scene) as server:
        head = _post(server.port, 1000)
        kinds = {
            "nothing": (),
            "half a head": (head[:40],),
            "half a body": (head, b"{"),
            "a second head": (_get(server), b"GET "),
        }

        def one(number: int) -> tuple[str, bytes]:
            name = list(kinds)[number % len(kinds)]
            return name, server.raw(*kinds[name])

        with ThreadPoolExecutor(count) as pool:
            waiting = pool.map(one, range(count))
            server.well()
            answers = list(waiting)
        begins = {"nothing": b"", "half a head": b"", "half a body": b"HTTP/1.1 408", "a second head": b"HTTP/1.1 200"}
        for name, answer in answers:  # 408: it was waited for; none is closed for being slow alone
            expect(answer.startswith(begins[name]), f"{name}: {answer[:80]!r}")
    return Outcome(count, "", f"408: {next(_words(answer) for name, answer in answers if name == 'half a body')}")


def _get(server: Served) -> bytes:
    return f"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()


def foreigners(scene: Scene, _: str) -> Outcome:
    """Another site's page, or another name for this machine, gets nothing, whatever it asks."""
    strange = [
        {"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example"}, {"Host": ""}, {"Host": "[::1"}, {"Host": "evil.example:80@127.0.0.1"},
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "http://[::1"},
    ]  # fmt: skip
    facts = ""
    with served(scene) as server:
        for headers in strange:
            for path in ("/", "/api/health", "/static/page.js"):
                lines = {"Host": f"127.0.0.1:{server.port}", **headers}
                asked = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
                answer = server.raw(f"GET {path} HTTP/1.1\r\n{asked}Connection: close\r\n\r\n".encode())
                expect(status(answer) in (400, 403), f"{headers} {path}: {answer[:60]!r}")
                expect(b"access-control-allow" not in answer.lower(), "it lets other pages read")
                facts = _words(answer) if status(answer) == 403 else facts
    return Outcome(3 * len(strange), "", f"403: {facts}")


def deep(scene: Scene, _: str) -> Outcome:
    """JSON nested deeper than any reader goes, as a body and inside a field."""
    bodies = [b"[" * DEEP, b'{"a":' * DEEP, b"[" * 999 + b"]" * 999,
              b'{"model":"classifier","text":' + b"[" * DEEP + b"]" * DEEP + b"}"]  # fmt: skip
    with served(scene) as server:
        for body in bodies:
            with server.client() as client:
                answer = client.post(
                    "/api/explain", content=body[: ServerLimits().body], headers={"Content-Type": "application/json"}
                )
            expect(answer.status_code in (400, 422), f"{body[:20]!r}…: {answer.status_code}")
            expect(len(answer.content) < 4000, "it sends the input back")
    return Outcome(len(bodies), "", f"{answer.status_code}: {answer.json()['detail'][:90]}")


def several_targets(scene: Scene, _: str) -> Outcome:
    """All classes, a list of them, or what is no class, asked of every kind of work: told, never a crash."""
    verbs = {
        "whatif": {},
        "path": {},
        "layers": {},
        "nodes": {},
        "compare": {"methods": ["ig", "sig"]},
        "rank": {"query": TEXT, "documents": [TEXT]},
    }
    verbs |= {"evaluate": {"texts": [TEXT]}, "predict": {"texts": [TEXT]}, "explain": {"text_b": TEXT}}
    line, odd = "", ["all", "ALL", ["all"], ["LABEL_0", "LABEL_1"], [0, 1], [], "", "__proto__", -1, None, True, {}]
    with served(scene) as server, server.client() as client:
        for verb, more in verbs.items():
            for target in odd:
                text = {} if {"texts", "query"} & set(more) else {"text": TEXT}
                body = {"model": "classifier", **text, **more, "n_steps": 2, "target": target}
                answer = client.post(f"/api/{verb}", json=body)
                expect(answer.status_code in (200, 422), f"{verb} {target!r}: {answer.status_code} {answer.text[:200]}")
                if verb == "compare" and target == "all":
                    expect(answer.status_code == 422, "it compares several targets")
                    line = answer.json()["detail"]
        every = server.ask(client, target="all")
        expect(every.status_code == 200 and len(every.json()["items"]) == 3, f"all classes: {every.text[:200]}")
    return Outcome(len(verbs) * len(odd), "", f"422: {line}")


LONG_WORK = {
    "model": "classifier",
    "text": LONG,
    "methods": ["ig", "sig", "ih"],
    "n_steps": 64,
}  # seconds of a processor


def _long_work(server: Served, times: int) -> list[socket.socket]:
    """Clients that wait for long work: one's has begun."""
    body = json.dumps(LONG_WORK).encode()
    head = _post(server.port, len(body)).replace(b"/api/explain", b"/api/compare")
    lines = []
    for _ in range(times):
        lines.append(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE))
        lines[-1].sendall(head + body)
    until(lambda: server.jobs() == {"waiting": times - 1, "working": 1}, "the work to begin", 0.05)
    return lines


def leavers(scene: Scene, _: str) -> Outcome:
    """A client that leaves: its work stops, waiting or begun, and the next one is served. None is left when all is done, too:
    what shows that it was stopped is that it took less of the processor than the same work did before, for a client that
    waited."""
    count = max(2, scene.size.clients // 20)
    with served(scene) as server:
        with server.client() as client:
            before = server.spent()
            expect(client.post("/api/compare", json=LONG_WORK).status_code == 200, "the work cannot be done")
            whole = server.spent() - before
        lines, before = _long_work(server, count), server.spent()
        for line in lines:
            line.close()
        until(lambda: server.idle() or server.spent() - before > whole / 4, "the work to stop", 0.05)
        share = (server.spent() - before) / whole
        expect(share <= 1 / 4, f"the work goes on: {share:.0%} of what one client's takes, and it is not over")
    return Outcome(count, f"{share:.0%} of one client's work done", "")


def stopped(scene: Scene, _: str) -> Outcome:
    """SIGTERM in the middle of work: whoever waits is told, and the server ends by itself."""
    server = Served(scene)
    lines = _long_work(server, 3)
    os.kill(server.pid, signal.SIGTERM)
    answers = []
    for line in lines:
        answers.append(_all(line))
        line.close()
    code, _, output = server.command.end()
    expect(code in (-signal.SIGTERM, 0, 128 + signal.SIGTERM), f"it ends with {code}: {output[-300:]}")
    expect("Traceback" not in output and "Error" not in output, output[-300:])
    expect(all(status(each) in (0, 503) for each in answers), f"answered {[status(each) for each in answers]}")
    facts = [each for each in answers if status(each) == 503]
    return Outcome(len(lines), f"{len(facts)} of {len(lines)} told", f"503: {_words(facts[0])}" if facts else "")


def memory(scene: Scene, _: str) -> Outcome:
    """Request after request, good and bad: what it holds does not grow."""
    sizes = []
    with served(scene) as server, server.client() as client:
        for number in range(scene.size.requests):
            if number % 10 == 9:
                answer = client.post("/api/explain", content=b"{")
            else:
                answer = server.ask(client, f"{TEXT} {'very ' * (number % 7)}")
            expect(answer.status_code < 500, f"{answer.status_code}: {answer.text[:200]}")
            if number % max(1, scene.size.requests // 10) == 0:
                sizes.append(server.memory() >> 20)
        sizes.append(server.memory() >> 20)
    half = len(sizes) // 2
    grown = max(sizes[half:]) - max(sizes[1:half])
    expect(grown <= 16, f"it grew by {grown} MiB: {sizes}")
    return Outcome(scene.size.requests, f"{max(sizes[1:half])} MiB, then {max(sizes[half:])}", "")


def reachable(scene: Scene, _: str) -> Outcome:
    """Bound to anything but this machine: a warning, and nothing without the token."""
    server = Served(scene, "--host", "0.0.0.0")
    try:
        lines = server.errors().splitlines()
        warned = next((line for line in lines if "warning" in line), "")
        expect("other machines can reach" in warned, f"no warning: {lines}")
        token = next(line for line in lines if "#token=" in line).rpartition("#token=")[2]
        with server.client() as client:
            bare = client.get("/api/health").status_code, server.ask(client).status_code
            expect(bare == (401, 401), f"without a token: {bare}")
            expect(client.get("/").status_code == 200, "the page itself is for all")
        with server.client(headers={"Authorization": f"Bearer {token}"}) as client:
            expect(server.ask(client).status_code == 200, "with its token it does not answer")
        with server.client(headers={"Authorization": f"Bearer {token[:-1]}"}) as client:
            expect(client.get("/api/health").status_code == 401, "a wrong token is taken")
    finally:
        server.command.kill()
    return Outcome(1, "", warned.removeprefix("pathlens: "))
