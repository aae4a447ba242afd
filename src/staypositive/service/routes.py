"""The HTTP API: each verb of the query service is one endpoint."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

from fastapi import APIRouter, Security
from fastapi.security import HTTPBearer
from starlette.responses import JSONResponse

from staypositive.service import schemas as s
from staypositive.service.batching import BatchQueue, WorkQueue
from staypositive.service.limits import MOST_QUICK
from staypositive.service.query_service import QueryService, Question

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
"""Method, path, tag and verb of what waits with single questions."""
LONG = (("GET", "/stats", "relations", "stats"), ("POST", "/discover", "relations", "discover"))
"""What has a queue of its own, and holds nobody up."""
FAILURES = (400, 401, 404, 408, 413, 421, 422, 503, 504)


def build_router(service: QueryService, questions: BatchQueue, work: WorkQueue) -> APIRouter:
    """Return the endpoints; quick ones wait in `questions`, long ones in `work`."""
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
        prior = service.prior(asked.prior)
        return JSONResponse({"missing": missing, "prior": prior, "answers": answers, "set_sizes": sizes})

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
