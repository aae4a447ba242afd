"""`create_app`: a run becomes a web service; each verb of the query service is one endpoint of its API."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response

from staypositive.errors import InputError, UnknownLabelError
from staypositive.run import Run
from staypositive.service import schemas as s
from staypositive.service.batching import BatchQueue, WorkQueue
from staypositive.service.guard import LOOPBACK, Guard, Metrics, failure
from staypositive.service.limits import MOST_QUICK, Limits
from staypositive.service.query_service import QueryService, Question
from staypositive.version import __version__

_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PLACES = {"index.html": "/", "docs.html": "/docs"}
_CODES = {404: "not_found", 405: "method", 413: "too_large", 503: "busy"}
QUICK = (
    ("POST", "/score", "questions", "score"),
    ("POST", "/prediction-set", "questions", "prediction_set"),
    ("POST", "/explain", "questions", "explain"),
    ("GET", "/entities", "entities", "entities"),
    ("GET", "/similar", "entities", "similar"),
    ("GET", "/facts", "entities", "facts"),
    ("GET", "/neighbourhood", "entities", "neighbourhood"),
    ("GET", "/relations", "relations", "relations"),
    ("GET", "/run", "run", "about"),
)
"""Method, path, tag and verb of what waits with single questions; what is long has a queue of its own."""
LONG = (("GET", "/stats", "relations", "stats"), ("POST", "/discover", "relations", "discover"))
FAILURES = (400, 401, 404, 408, 413, 421, 422, 503, 504)


def create_app(
    run: Run, *, limits: Limits | None = None, token: str | None = None, hosts: Collection[str] = ()
) -> FastAPI:
    """Return the ASGI app that serves a run: API, explorer, health and metrics.

    With a `token` everything but the page and the health checks wants it; without one only requests to loopback
    names, and to `hosts`, are answered.
    """
    limits = limits or Limits()
    service, metrics = QueryService(run, limits.body_bytes), Metrics()
    questions, work = BatchQueue(service, limits), WorkQueue("work", limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.warming = asyncio.create_task(questions.run(service.warm))
        yield
        questions.close()
        work.close()

    summary = f"Answers from a {run.settings.model} trained on {run.graph.name}, with probabilities."
    app = FastAPI(
        title="staypositive", version=__version__, summary=summary, docs_url=None, redoc_url=None, lifespan=lifespan,
        exception_handlers={InputError: _bad_input, RequestValidationError: _invalid, HTTPException: _refused},
    )  # fmt: skip
    app.include_router(_router(service, questions, work))
    for file in sorted((Path(__file__).parent / "assets").iterdir()):
        place = _PLACES.get(file.name, f"/assets/{file.name}")
        app.get(place, include_in_schema=False)(_page(file))
    _add_checks(app, questions, work, metrics)
    paths = {path for route in app.routes if (path := getattr(route, "path", ""))}
    app.add_middleware(Guard, limits=limits, metrics=metrics, token=token, hosts=LOOPBACK.union(hosts), paths=paths)
    return app


def _router(service: QueryService, questions: BatchQueue, work: WorkQueue) -> APIRouter:
    """Return the API's endpoints; quick ones wait in `questions`, long ones in `work`."""
    bearer = Security(HTTPBearer(auto_error=False, description="Where the service was started with a token."))
    failures: dict[int | str, dict[str, Any]] = {status: {"model": s.Failure} for status in FAILURES}
    router = APIRouter(prefix="/api", responses=failures, dependencies=[bearer])

    # The busiest endpoint writes its answer as it is: that it keeps to its schema, tests make sure, not each request.
    @router.post("/predict", tags=["questions"], response_model=s.Answers)
    async def predict(asked: s.PredictIn) -> JSONResponse:
        """Answer (h, r, ?), (?, r, t) or (h, ?, t), best first; or judge a whole triple."""
        question, sizes = Question(asked.query(), asked), None
        missing = question.query.missing
        if asked.coverages and missing in ("head", "tail"):
            answers, sizes = await questions.run(service.with_coverages, question)
        else:
            answers = await questions.ask(question)
        completeness, note = service.completeness(asked.completeness), service.predictor.note(asked.query())
        body = {"missing": missing, "completeness": completeness, "note": note}
        return JSONResponse(body | {"answers": answers, "set_sizes": sizes})

    @router.post("/predict/batch", tags=["questions"], response_model=s.BatchAnswers)
    async def predict_batch(asked: s.BatchIn) -> JSONResponse:
        """Answer many questions at once; one that cannot be asked fails them all, and is named."""
        queue = work if len(asked.queries) * asked.top > MOST_QUICK else questions
        return await queue.run(service.answer_batch, asked)

    for queue, endpoints in ((questions, QUICK), (work, LONG)):
        for method, path, tag, verb in endpoints:
            router.add_api_route(path, _endpoint(service, verb, queue), methods=[method], tags=[tag])
    return router


def _endpoint(service: QueryService, verb: str, queue: WorkQueue) -> Callable[..., Awaitable[Any]]:
    """Return a coroutine function like a verb of the service, which is called in the queue's thread."""

    @wraps(getattr(service, verb))
    async def endpoint(**given: Any) -> Any:
        return await queue.run(partial(getattr(service, verb), **given))

    endpoint.__signature__ = inspect.signature(getattr(service, verb), eval_str=True)  # type: ignore[attr-defined]
    return endpoint


def _page(path: Path) -> Callable[[], Awaitable[Response]]:
    """Return the endpoint of one file, which is read once: there is no path to wander off on."""
    content, kind = path.read_bytes(), f"{_KINDS[path.suffix]}; charset=utf-8"

    async def page() -> Response:
        return Response(content, headers={"content-type": kind, "cache-control": "no-cache"})

    return page


def _add_checks(app: FastAPI, questions: BatchQueue, work: WorkQueue, metrics: Metrics) -> None:
    @app.get("/health", tags=["checks"])
    async def health() -> s.State:
        """The process lives."""
        return s.State(status="ok")

    @app.get("/ready", tags=["checks"], responses={503: {"model": s.State, "description": "Not yet."}})
    async def ready(response: Response) -> s.State:
        """The run is loaded and warm."""
        warming = getattr(app.state, "warming", None)
        if warming is None or not warming.done() or warming.exception() is not None:
            response.status_code = 503
            return s.State(status="starting")
        return s.State(status="ok")

    @app.get("/metrics", tags=["checks"], response_class=PlainTextResponse)
    async def prometheus() -> PlainTextResponse:
        """Counts and times in Prometheus's text format."""
        waiting = questions.waiting + work.waiting
        gauges = (
            ("staypositive_waiting", "gauge", "Requests that wait for the model.", waiting),
            ("staypositive_question_batches_total", "counter", "Times the model was asked.", questions.batches),
            ("staypositive_questions_total", "counter", "Questions answered in batches.", questions.answered),
        )
        return PlainTextResponse(metrics.text(gauges), media_type="text/plain; version=0.0.4")


async def _bad_input(_: Request, error: InputError) -> JSONResponse:
    if isinstance(error, UnknownLabelError):
        return failure(404, f"unknown_{error.kind}", str(error), error.suggestions)
    return failure(400, "bad_request", str(error))


async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
    found = error.errors()[:5]
    said = "; ".join(f"{'.'.join(str(p) for p in one['loc'][1:]) or 'body'}: {one['msg']}" for one in found)
    return failure(422, "invalid", said)


async def _refused(_: Request, error: HTTPException) -> JSONResponse:
    headers = dict(error.headers) if error.headers else None
    return failure(error.status_code, _CODES.get(error.status_code, "http"), error.detail, headers=headers)
