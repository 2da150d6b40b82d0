"""The web application: the page, the API, and who may talk to it."""

import hmac
from collections.abc import Mapping
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from pathlens.errors import MissingError, PathlensError
from pathlens.serve import requests as bodies
from pathlens.serve import views
from pathlens.serve.jobs import OVER, Full, Jobs
from pathlens.serve.limits import Limits
from pathlens.serve.models import stands
from pathlens.serve.responses import describe, reply
from pathlens.serve.work import Shelf

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY",
}  # fmt: skip
FORMATS = ("json", "html", "png", "fragment")
FILES = {"page.css": "text/css", "page.js": "text/javascript", "form.js": "text/javascript"}


def make_app(
    models: Mapping[str, Any], *, limits: Limits | None = None, token: str | None = None, host: str = "127.0.0.1"
) -> Any:
    """A FastAPI application that serves these models (or stands of models on their way) and no others."""
    try:
        from fastapi import FastAPI
    except ImportError as error:
        raise MissingError('the server needs packages: pip install "pathlens[serve]"') from error
    from pathlens import __version__

    limits = limits or Limits()
    app = FastAPI(title="pathlens", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json",
                  description="Why did the model say that? Scores that add up, with a certificate.")  # fmt: skip
    jobs, shelf = Jobs(limits), Shelf(stands(models), limits)
    _guard(app, limits, token, host)
    _errors(app)
    _page(app)
    _facts(app, shelf, jobs, bool(token))
    _works(app, shelf, jobs)
    _job_routes(app, jobs)
    app.state.jobs = jobs
    return app


def _guard(app: Any, limits: Limits, token: str | None, host: str) -> None:
    """Before anything is read: the right host, our own page, the token, a body of bounded size; headers after."""
    from fastapi import Request
    from fastapi.responses import JSONResponse

    def refuse(request: Request) -> tuple[int, str] | None:
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        if host in LOOPBACK and name not in LOOPBACK and name != "testserver":
            return 403, "this server answers to its own address only"  # another site's name for this machine
        origin = request.headers.get("origin")
        if origin and urlsplit(origin).netloc != request.headers.get("host"):
            return 403, "requests from other pages are not answered"
        if int(request.headers.get("content-length") or 0) > limits.body:
            return 413, f"a request may have {limits.body} bytes"
        if token and request.url.path.startswith("/api/"):
            given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
            if not hmac.compare_digest(given, token.encode()):
                return 401, "this server needs a token: Authorization: Bearer …"
        return None

    @app.middleware("http")
    async def guard(request: Request, call_next: Any) -> Any:
        try:
            refused = refuse(request)
        except ValueError:
            refused = (400, "the request's headers cannot be read")
        if refused is None and request.method in ("POST", "PUT", "PATCH") and len(await request.body()) > limits.body:
            refused = (413, f"a request may have {limits.body} bytes")
        response = await call_next(request) if refused is None else JSONResponse({"detail": refused[1]}, refused[0])
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response


def _errors(app: Any) -> None:
    from fastapi import Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse

    @app.exception_handler(PathlensError)
    async def told(request: Request, error: PathlensError) -> Any:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Any:
        """What is wrong and where; never the input itself, which may be large or not even be Unicode."""
        lines = [
            f"{'.'.join(str(part) for part in each['loc'][1:]) or 'body'}: {each['msg']}" for each in error.errors()
        ]
        return JSONResponse({"detail": "; ".join(lines)[:2000].encode("utf-8", "replace").decode()}, 422)


def _page(app: Any) -> None:
    from fastapi.responses import HTMLResponse, Response

    def read(name: str) -> str:
        return resources.files("pathlens.serve").joinpath("static").joinpath(name).read_text(encoding="utf-8")

    made = {"views.css": ("text/css", views.style), "views.js": ("text/javascript", views.script)}

    @app.get("/", include_in_schema=False)
    async def home() -> Any:
        return HTMLResponse(read("index.html"))

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Any:
        if name in made:
            kind, text = made[name][0], made[name][1]()
        elif name in FILES:
            kind, text = FILES[name], read(name)
        else:
            return Response(status_code=404)
        return Response(text, media_type=f"{kind}; charset=utf-8")


def _facts(app: Any, shelf: Shelf, jobs: Jobs, locked: bool) -> None:
    @app.get("/api/health", tags=["facts"])
    async def health() -> dict[str, Any]:
        """Is the server there, which models it has (each loading, ready or failed), what it takes."""
        from pathlens import __version__

        known = [describe(stand) for stand in shelf.models.values()]
        limits = {
            name: getattr(shelf.limits, name) for name in ("characters", "units", "nodes", "documents", "waiting")
        }
        return {"status": "ok", "version": __version__, "models": known, "limits": limits, "jobs": jobs.counts()}

    @app.get("/api/methods", tags=["facts"])
    def methods() -> list[dict[str, Any]]:
        """The methods: name, title, paper, own options. (In a thread: their table waits for torch at start.)"""
        from pathlens.engine.methods import METHODS

        return [
            {"name": m.name, "title": m.title, "paper": m.paper, "options": list(m.options), "texts": m.sides, "vector": m.vector}
            for m in METHODS.values()
        ]  # fmt: skip


def _works(app: Any, shelf: Shelf, jobs: Jobs) -> None:
    """POST routes that start work: by default they wait for it, with ?wait=false they answer at once."""
    from fastapi import Query
    from fastapi.responses import JSONResponse
    from starlette.concurrency import run_in_threadpool

    answers: Any = {
        202: {"description": "wait=false: the job, to be asked for under /api/jobs/{id}"},
        422: {"description": "the request cannot be used; detail says why"},
        429: {"description": "too many jobs are waiting"},
        409: {"description": "the job was called off"},
        500: {"description": "the work failed"},
        **{code: {"description": text} for code, text in ((400, "not JSON"), (401, "token missing or wrong"),
                                                         (403, "wrong host or page"), (413, "too large"))},
    }  # fmt: skip

    async def start(kind: str, work: Any, model: str, wait: bool) -> Any:
        if model not in shelf.models:
            return JSONResponse({"detail": f"model {model!r} was not named at start; this server has "
                                 f"{', '.join(shelf.models)}"}, 422)  # fmt: skip
        try:
            job = jobs.put(kind, work)
        except Full:
            return JSONResponse({"detail": "too many jobs are waiting; try again later"}, 429, {"Retry-After": "5"})
        if not wait:
            return JSONResponse(job.to_dict(jobs.ahead(job)), 202)
        await run_in_threadpool(job.over.wait)
        return reply(job, "json")

    def route(path: str, body: Any, make: Any) -> None:
        kind = path.rsplit("/", 1)[1]

        async def endpoint(body: Any, wait: bool = Query(True)) -> Any:
            return await start(kind, make(body), body.model, wait)

        endpoint.__annotations__ = {"body": body, "wait": bool}
        endpoint.__doc__ = body.__doc__
        app.post(path, name=kind, responses=answers, tags=["work"])(endpoint)

    route("/api/explain", bodies.ExplainBody, shelf.explain)
    route("/api/rank", bodies.RankBody, shelf.rank)
    route("/api/compare", bodies.CompareBody, shelf.compare)
    route("/api/whatif", bodies.WhatIfBody, shelf.whatif)
    route("/api/path", bodies.PathBody, shelf.path)
    route("/api/layers", bodies.LayersBody, shelf.layers)
    route("/api/nodes", bodies.NodesBody, shelf.nodes)


def _job_routes(app: Any, jobs: Jobs) -> None:
    from fastapi import Query
    from fastapi.responses import JSONResponse
    from starlette.concurrency import run_in_threadpool

    missing: Any = {code: {"description": text} for code, text in (
        (401, "token missing or wrong"), (403, "wrong host or page"), (404, "no such job"), (409, "not finished, or called off"),
        (422, "the work could not be done; detail says why"), (500, "the work failed"))}  # fmt: skip

    def gone() -> Any:
        return JSONResponse({"detail": "no such job (finished ones are kept for a while only)"}, 404)

    @app.get("/api/jobs/{name}", tags=["jobs"], responses=missing)
    async def state(name: str) -> Any:
        """How far a job is: its state, the points evaluated so far, how many wait before it."""
        job = jobs.get(name)
        return gone() if job is None else job.to_dict(jobs.ahead(job))

    @app.delete("/api/jobs/{name}", tags=["jobs"], responses=missing)
    async def cancel(name: str) -> Any:
        """Call a job off."""
        job = jobs.get(name)
        if job is None:
            return gone()
        jobs.cancel(job)
        return job.to_dict()

    async def result(name: str, format: str = Query("json", pattern=f"^({'|'.join(FORMATS)})$")) -> Any:
        """What a finished job found, as json, html (a page), png or fragment (a part of a page)."""
        job = jobs.get(name)
        if job is None:
            return gone()
        if job.state not in OVER:
            return JSONResponse({"detail": f"the job is {job.state}"}, 409)
        return await run_in_threadpool(reply, job, format)

    app.get("/api/jobs/{name}/result", tags=["jobs"], responses=missing)(result)
