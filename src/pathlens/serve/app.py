"""The web application: the page, the API, who may talk to it, and how it is started."""

import asyncio
import json
import queue
import secrets
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from pathlens import __version__
from pathlens.draw import element, page_of
from pathlens.draw.markup import article
from pathlens.errors import InputError, MissingError, PathlensError
from pathlens.serve import words
from pathlens.serve.guard import CONNECTIONS, LOOPBACK, BoundedHttp, Guard
from pathlens.serve.models import Models
from pathlens.serve.requests import OF_ANSWERS, REQUESTS
from pathlens.serve.tasks import BOUNDS, CANCELLED, DONE, OVER, STOPPED, ServerLimits, Task, TaskQueue
from pathlens.text.options import TEMPLATES
from pathlens.types import PROMPT_UNITS, TEXT_UNITS

try:
    import uvicorn
    from fastapi import FastAPI, HTTPException, Query, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, JSONResponse, Response
except ImportError as error:
    raise MissingError('the server needs packages: pip install "pathlens[serve]"') from error

CHOICES = {  # by name
    "units": TEXT_UNITS, "prompt_units": PROMPT_UNITS, "templates": TEMPLATES,
    "parts": OF_ANSWERS["unit"].choices, "part": OF_ANSWERS["unit"].default, "written": OF_ANSWERS["generate"].default,
}  # fmt: skip
GRACE = 2  # seconds for answers on their way when the server is stopped
FORMATS = ("json", "html", "png", "fragment")  # of what came of a job
FILES = ("page.css", "views.css", "page.js", "api.js", "form.js", "result.js", "table.js", "views.js")


def make_app(
    models: Mapping[str, Any], *, limits: ServerLimits | None = None, token: str | None = None, host: str = "127.0.0.1"
) -> Any:
    """A FastAPI application that serves these models (or slots of models on their way) and no others."""
    limits = limits or ServerLimits()
    app = FastAPI(title="pathlens", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json",
                  description="Why did the model say that? Scores that add up, with a certificate.")  # fmt: skip
    jobs, named = TaskQueue(limits), Models(models, limits)
    app.add_middleware(Guard, limits=limits, token=token, host=host)
    _errors(app)
    _page(app)
    _facts(app, named, jobs)
    _work_routes(app, named, jobs)
    _job_routes(app, jobs)
    app.state.jobs, app.state.models = jobs, named
    return app


def _errors(app: Any) -> None:
    @app.exception_handler(PathlensError)
    async def refused(request: Request, error: PathlensError) -> Any:
        return JSONResponse(words.of_error(error).to_dict(), 422)

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Any:
        return JSONResponse(words.of_request(error.errors()).to_dict(), 422)


def _page(app: Any) -> None:
    @app.get("/", include_in_schema=False)
    async def home() -> Any:
        return HTMLResponse(_file("index.html"))

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Any:
        if name not in FILES:
            return Response(status_code=404)
        kind = "css" if name.endswith(".css") else "javascript"
        return Response(_file(name), media_type=f"text/{kind}; charset=utf-8")


def _file(name: str) -> str:
    """A file of the page; style and script of all views together come from the drawing room."""
    if name == "views.css":
        return element.style()
    if name == "views.js":  # one function that wires whatever has just been put on the page
        return f"window.pathlensWire = () => {{\n{element.script()}\n}};\n"
    return resources.files("pathlens.serve").joinpath("static", name).read_text(encoding="utf-8")


def _facts(app: Any, models: Models, jobs: TaskQueue) -> None:
    @app.get("/api/health", tags=["facts"])
    async def health() -> dict[str, Any]:
        """Is the server there, which models it has (each loading, ready or failed), what it takes."""
        limits = {**BOUNDS, "units": models.limits.units, "waiting": models.limits.waiting}
        known = {"models": [slot.to_dict() for slot in models.slots.values()], "limits": limits}
        return {"status": "ok", "version": __version__, **known, "jobs": jobs.counts(), "choices": CHOICES}

    @app.get("/api/methods", tags=["facts"])
    def methods() -> list[dict[str, Any]]:
        """The methods: name, title, paper, own options. (In a thread: their table waits for torch at start.)"""
        from pathlens.engine.methods import METHODS
        from pathlens.engine.options import IG, Compared
        from pathlens.explanation.record import Explanation, Interactions, PhraseTree

        def scored_by(entry: Any) -> str | None:
            """The method that gives the same number for each unit: rows of `ih` and leaves of `idg` are those of `ig`."""
            return {Explanation: entry.name, Interactions: IG.name, PhraseTree: IG.name}.get(entry.result)

        return [
            {"name": m.name, "title": m.title, "paper": m.paper, "options": list(m.options), "texts": m.sides,
             "vector": m.vector, "layer": m.record().through_words is None, "integral": m.integrates,
             "result": m.result.__name__, "nodes": m.along_one_path, "compares": issubclass(m.record, Compared),
             "scored_by": scored_by(m), "by_output": m.record.by_output}
            for m in METHODS.values()
        ]  # fmt: skip


ANSWERS = {
    202: "wait=false: the job, to be asked for under /api/jobs/{id}",
    400: "not JSON",
    401: "token missing or wrong",
    403: "wrong host or page",
    404: "no such job",
    408: "the request came too slowly",
    409: "not finished, or called off",
    413: "too large",
    422: "the request cannot be used, or the work not be done; detail says why",
    429: "too many jobs are waiting",
    500: "the work failed",
    503: "the server is being stopped",
}


def _answers(*codes: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer besides 200, for its description."""
    return {code: {"description": ANSWERS[code]} for code in codes}


def _work_routes(app: Any, models: Models, jobs: TaskQueue) -> None:
    """POST routes that start work: by default they wait for it, with ?wait=false they answer at once."""

    def route(kind: str, request: Any) -> None:
        async def endpoint(http: Any, body: Any, wait: bool = Query(True)) -> Any:
            models.check(body.model)
            try:
                task = jobs.put(kind, lambda meter: body.answer(lambda name: models.take(name, meter)))
            except queue.Full:
                raise HTTPException(429, "too many jobs are waiting; try again later", {"Retry-After": "5"}) from None
            if not wait:
                task.meter.ask()
                return JSONResponse(task.to_dict(jobs.ahead(task)), 202)
            if not await _finished(task, http):
                jobs.cancel(task)  # nobody is left to read it
            return await run_in_threadpool(reply, task, "json")

        endpoint.__annotations__ = {"http": Request, "body": request, "wait": bool}
        endpoint.__doc__ = request.__doc__
        described = _answers(202, 422, 429, 409, 500, 400, 401, 403, 408, 413, 503)
        app.post(f"/api/{kind}", name=kind, responses=described, tags=["work"])(endpoint)

    for kind, request in REQUESTS.items():
        route(kind, request)


async def _finished(task: Task, http: Request) -> bool:
    """Waits for a task; False when the client leaves first."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    task.then(lambda: loop.call_soon_threadsafe(over.set))

    async def left() -> None:
        while (await http.receive())["type"] != "http.disconnect":
            pass

    both = [asyncio.ensure_future(over.wait()), asyncio.ensure_future(left())]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return over.is_set()
    finally:
        for each in both:
            each.cancel()


def _job_routes(app: Any, jobs: TaskQueue) -> None:
    described = _answers(401, 403, 404, 409, 422, 500)

    def known(name: str) -> Task:
        task = jobs.get(name)
        if task is None:
            raise HTTPException(404, "no such job (finished ones are kept for a while only)")
        return task

    @app.get("/api/jobs/{name}", tags=["jobs"], responses=described)
    async def state(name: str) -> Any:
        """How far a job is: its state, the points evaluated so far, how many wait before it."""
        task = known(name)
        task.meter.ask()
        return task.to_dict(jobs.ahead(task))

    @app.delete("/api/jobs/{name}", tags=["jobs"], responses=described)
    async def cancel(name: str) -> Any:
        """Call a job off."""
        task = known(name)
        jobs.cancel(task)
        return task.to_dict()

    @app.get("/api/jobs/{name}/result", tags=["jobs"], responses=described)
    async def result(name: str, format: str = Query("json", pattern=f"^({'|'.join(FORMATS)})$")) -> Any:
        """What came of a finished job, as json, html (a page), png or fragment (a part of a page)."""
        task = known(name)
        if task.state not in OVER:
            raise HTTPException(409, f"the job is {task.state}")
        return await run_in_threadpool(reply, task, format)


def reply(task: Task, form: str) -> Any:
    """A finished task in one of the formats."""
    if task.state != DONE:
        called_off = 503 if task.trouble.detail == STOPPED else 409
        code = called_off if task.state == CANCELLED else 500 if task.trouble.internal else 422
        return JSONResponse(task.trouble.to_dict(), code)
    saved_as = {"Content-Disposition": f"attachment; filename=pathlens.{form}"}
    if form == "html":
        return HTMLResponse(task.result.to_html(), headers=saved_as)
    if form == "fragment":
        return HTMLResponse(str(article(page_of(task.result))))
    if form == "png":
        with tempfile.TemporaryDirectory() as folder:
            picture = task.result.to_png(Path(folder) / "view.png").read_bytes()
        return Response(picture, media_type="image/png", headers=saved_as)
    # JSON has no NaN: a number that does not exist (an agreement of constants) is null
    finite = json.loads(json.dumps(task.result.to_dict()), parse_constant=lambda name: None)
    text = json.dumps(finite, ensure_ascii=False)
    return Response(text.encode("utf-8", "replace"), media_type="application/json")


class _Server(uvicorn.Server):
    """Asked to stop, it calls all work off first: whoever waits for some is told, and the end waits for nobody."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.jobs.close()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def serve(
    names: Sequence[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    limits: ServerLimits | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> None:
    """Bind, serve, load the models meanwhile; until stopped, or until a model turns out not to load."""
    made = secrets.token_urlsafe(24) if host not in LOOPBACK and not token else None
    token = token or made
    if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable()):
        raise InputError("the token must be at least 16 printable ASCII characters")
    listener = _listener(host, port)
    app = make_app(Models.named(names), limits=limits, token=token, host=host)
    # no access log: lines of it would hold what people ask
    quiet: dict[str, Any] = {"log_level": "error", "access_log": False, "server_header": False}
    bounds: dict[str, Any] = {"limit_concurrency": CONNECTIONS, "timeout_graceful_shutdown": GRACE}
    server = _Server(uvicorn.Config(app, http=BoundedHttp, **quiet, **bounds))
    failures: list[Exception] = []

    def failed(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    def opened() -> None:
        """Called when the page answers: loading before that would only keep it waiting."""
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        if host not in LOOPBACK:
            tell(
                f"warning: other machines can reach this server at {host}, unencrypted; whoever has the token may use it"
            )
        tell(f"the page is at http://{shown}:{listener.getsockname()[1]}/" + (f"#token={made}" if made else ""))
        app.state.models.fill(tell, failed)

    app.router.on_startup.append(opened)
    server.run(sockets=[listener])
    if failures:
        raise failures[0]


def _listener(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}") from error
    return listener
