"""`create_app`: a run becomes a web service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response

from staypositive.errors import InputError, UnknownLabelError
from staypositive.run import Run
from staypositive.service.batching import BusyError, Lane, OutOfTimeError, QuestionLane
from staypositive.service.guard import Guard, failure
from staypositive.service.limits import Limits
from staypositive.service.metrics import Metrics
from staypositive.service.pages import build_pages
from staypositive.service.query_service import Desk
from staypositive.service.routes import build_router
from staypositive.service.schemas import State
from staypositive.version import __version__


def create_app(
    run: Run, *, limits: Limits | None = None, token: str | None = None, hosts: Collection[str] = ()
) -> FastAPI:
    """Return the ASGI app that serves a run: API, explorer, health and metrics.

    With a `token` everything but the page and the health checks wants it; without one only requests to loopback
    names, and to `hosts`, are answered.
    """
    limits = limits or Limits()
    desk, metrics = Desk(run), Metrics()
    questions, work = QuestionLane(desk, limits), Lane("work", limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.warming = asyncio.create_task(questions.run(desk.warm))
        yield
        questions.close()
        work.close()

    app = FastAPI(
        title="staypositive",
        version=__version__,
        summary=f"Answers from a {run.settings.model} trained on {run.graph.name}, with probabilities.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(build_router(desk, questions, work))
    app.include_router(build_pages())
    _add_checks(app, questions, work, metrics)
    _add_errors(app)
    paths = {path for route in app.routes if (path := getattr(route, "path", ""))}
    app.add_middleware(Guard, limits=limits, metrics=metrics, token=token, hosts=hosts, paths=paths)
    return app


def _add_checks(app: FastAPI, questions: QuestionLane, work: Lane, metrics: Metrics) -> None:
    @app.get("/health", tags=["checks"])
    async def health() -> State:
        """The process lives."""
        return State(status="ok")

    @app.get("/ready", tags=["checks"], responses={503: {"model": State, "description": "Not yet."}})
    async def ready(response: Response) -> State:
        """The run is loaded and warm."""
        warming = getattr(app.state, "warming", None)
        if warming is None or not warming.done() or warming.exception() is not None:
            response.status_code = 503
            return State(status="starting")
        return State(status="ok")

    @app.get("/metrics", tags=["checks"], response_class=PlainTextResponse)
    async def prometheus() -> PlainTextResponse:
        """Counts and times in Prometheus's text format."""
        waiting = questions.waiting + work.waiting
        gauges = (
            ("staypositive_waiting", "gauge", "Pieces of work before the model.", waiting),
            ("staypositive_question_batches_total", "counter", "Times the model was asked.", questions.batches),
            ("staypositive_questions_total", "counter", "Questions answered so.", questions.answered),
        )
        return PlainTextResponse(metrics.text(gauges), media_type="text/plain; version=0.0.4")


def _add_errors(app: FastAPI) -> None:
    """Give every error one shape; none of the caller's is a 5xx."""

    @app.exception_handler(InputError)
    async def bad_input(_: Request, error: InputError) -> JSONResponse:
        if isinstance(error, UnknownLabelError):
            return JSONResponse(failure(f"unknown_{error.kind}", str(error), error.suggestions), 404)
        return JSONResponse(failure("bad_request", str(error)), 400)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()
        said = "; ".join(f"{'.'.join(str(p) for p in one['loc'][1:]) or 'body'}: {one['msg']}" for one in found[:5])
        return JSONResponse(failure("invalid", said), 422)

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        code = {404: "not_found", 405: "method", 413: "too_large"}.get(error.status_code, "http")
        return JSONResponse(failure(code, error.detail), error.status_code, headers=error.headers)

    @app.exception_handler(BusyError)
    async def busy(_: Request, __: BusyError) -> JSONResponse:
        return JSONResponse(failure("busy", "too many requests wait; try again"), 503, headers={"retry-after": "1"})

    @app.exception_handler(OutOfTimeError)
    async def late(_: Request, __: OutOfTimeError) -> JSONResponse:
        return JSONResponse(failure("timeout", "this took too long; ask for less"), 504)
