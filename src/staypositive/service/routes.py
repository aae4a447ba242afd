"""The HTTP API: each verb of the library is one endpoint."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Security
from fastapi.security import HTTPBearer
from starlette.responses import JSONResponse, Response

from staypositive.service import schemas as s
from staypositive.service.batching import Lane, QuestionLane
from staypositive.service.limits import (
    MOST_LABEL,
    MOST_NEIGHBOURS,
    MOST_QUERIES,
    MOST_QUICK,
    MOST_SAMPLES,
    MOST_TOP,
)
from staypositive.service.query_service import Desk, Job
from staypositive.version import __version__

EntityName = Annotated[str, Query(min_length=1, max_length=MOST_LABEL, description="Label of an entity.")]
TopQuery = Annotated[int, Query(ge=1, le=MOST_TOP)]
PriorQuery = Annotated[float | None, Query(gt=0, lt=1, description="Share of true triples to assume.")]
FAILURES: dict[int | str, dict[str, Any]] = {
    code: {"model": s.Failure, "description": text}
    for code, text in {
        400: "It cannot be asked so.",
        401: "A token is needed.",
        404: "The graph has no such label; near ones are suggested.",
        408: "The body did not come in time.",
        413: "The body is too large.",
        421: "Asked under a strange host name.",
        422: "A value is missing, of the wrong kind or out of bounds.",
        503: "Too many requests wait; come back in a second.",
        504: "It took too long.",
    }.items()
}


def build_router(desk: Desk, questions: QuestionLane, work: Lane) -> APIRouter:
    """Return the endpoints; quick ones go through `questions`, long ones through `work`."""
    bearer = Security(HTTPBearer(auto_error=False, description="Where the service was started with a token."))
    router = APIRouter(prefix="/api", responses=FAILURES, dependencies=[bearer])
    _add_questions(router, desk, questions, work)
    _add_entities(router, desk, questions)
    _add_relations(router, desk, work)

    @router.get("/run", tags=["run"])
    async def about() -> s.About:
        """What is served: graph, model, calibration, and the prior that probabilities assume."""
        run, has_sets = desk.run, await questions.run(lambda: desk.has_sets)
        return s.About(
            name=desk.graph.name, graph=desk.graph.counts(), model=run.settings.model,
            objective=run.settings.objective.name, dim=run.settings.dim,
            calibration=run.calibrator.name if run.calibrator else None, base_prior=desk.predictor.base_prior,
            prediction_sets=has_sets, 
            example=s.TripleIn(**desk.fact(desk.graph.train.facts[0])), version=__version__,
            limits={"top": MOST_TOP, "queries": MOST_QUERIES, "body_bytes": questions.limits.body_bytes},
        )  # fmt: skip

    return router


def _add_questions(router: APIRouter, desk: Desk, questions: QuestionLane, work: Lane) -> None:
    lane = questions

    # The busiest endpoint writes its answer as it is: that it keeps to its schema, tests make sure, not each request.
    @router.post("/predict", tags=["questions"], response_model=s.Answers)
    async def predict(asked: s.PredictIn) -> JSONResponse:
        """Answer (h, r, ?), (?, r, t) or (h, ?, t), best first; or judge a whole triple."""
        job, sizes = _job(asked, asked), None
        missing = job.query.missing
        if asked.coverages and missing in ("head", "tail"):
            answers, sizes = await lane.run(desk.with_coverages, job)
        else:
            answers = await lane.ask(job)
        prior = desk.prior(asked.prior)
        return JSONResponse({"missing": missing, "prior": prior, "answers": answers, "set_sizes": sizes})

    @router.post("/predict/batch", tags=["questions"], response_model=s.BatchAnswers)
    async def predict_batch(asked: s.BatchIn) -> Response:
        """Answer many questions at once; one that cannot be asked fails them all, and is named."""
        jobs = [_job(query, asked) for query in asked.queries]
        way: Lane = work if len(jobs) * asked.top > MOST_QUICK else questions
        body = await way.run(desk.batch_body, jobs, asked.prior)
        return Response(body, media_type="application/json")

    @router.post("/score", tags=["questions"])
    async def score(asked: s.ScoreIn) -> s.Triples:
        """Judge whole triples: probability, log-odds, score, and whether each is known."""
        triples = [(one.head, one.relation, one.tail) for one in asked.triples]
        judged = await lane.run(desk.judge, triples, asked.prior)
        return s.Triples(prior=desk.prior(asked.prior), triples=[s.Answer(**one) for one in judged])

    @router.post("/answer-set", tags=["questions"])
    async def prediction_set(asked: s.AnswerSetIn) -> s.AnswerSet:
        """Give new answers of (h, r, ?) or (?, r, t) that hold the true one with the probability `coverage`."""
        size, answers = await lane.run(
            desk.prediction_set, asked.query(), asked.coverage, asked.per_relation, asked.top, asked.prior
        )
        return s.AnswerSet(
            coverage=asked.coverage, prior=desk.prior(asked.prior), size=size,
            answers=[s.Answer(**one) for one in answers],
        )  # fmt: skip

    @router.post("/support", tags=["questions"])
    async def support(asked: s.SupportIn) -> s.SupportOut:
        """The training facts that support a triple most.

        A fact's support is how far a small training step that raises its score would raise the triple's: the product
        of both scores' gradients in the rows they share, over that of the triple with itself.
        """
        facts = await lane.run(desk.support, asked.head, asked.relation, asked.tail, asked.top)
        return s.SupportOut(facts=[s.Supporter(**fact) for fact in facts])


def _job(query: s.QueryIn, options: s.Options) -> Job:
    return Job(
        query.query(), options.top, options.exclude_known, options.exclude_self, options.candidates, options.prior
    )


def _add_entities(router: APIRouter, desk: Desk, lane: QuestionLane) -> None:
    @router.get("/entities", tags=["entities"])
    async def entities(
        search: Annotated[str, Query(max_length=MOST_LABEL, description="What labels should hold.")] = "",
        top: TopQuery = 10,
    ) -> s.Entities:
        """Find entities by what is typed of their labels; without a text, the best connected ones."""
        return s.Entities(entities=[s.Entity(**one) for one in await lane.run(desk.entities, search, top)])

    @router.get("/similar", tags=["entities"])
    async def similar(entity: EntityName, top: TopQuery = 10) -> s.Similar:
        """The entities whose rows point the same way, by cosine."""
        return s.Similar(entities=[s.SimilarEntity(**one) for one in await lane.run(desk.similar, entity, top)])

    @router.get("/facts", tags=["entities"])
    async def facts(
        entity: EntityName,
        relation: Annotated[str | None, Query(min_length=1, max_length=MOST_LABEL)] = None,
        top: TopQuery = 100,
    ) -> s.Facts:
        """What the graph states of an entity, as head or as tail, with the split that states it."""
        total, found = await lane.run(desk.facts_of, entity, relation, top)
        return s.Facts(total=total, facts=[s.Fact(**fact) for fact in found])

    @router.get("/neighbourhood", tags=["entities"])
    async def neighbourhood(
        entity: EntityName, top: Annotated[int, Query(ge=1, le=MOST_NEIGHBOURS)] = 20
    ) -> s.NeighbourhoodOut:
        """The entity, its best-connected neighbours, relations in turn, and the facts among them."""
        return s.NeighbourhoodOut(**await lane.run(desk.neighbourhood, entity, top))


def _add_relations(router: APIRouter, desk: Desk, lane: Lane) -> None:
    @router.get("/relations", tags=["relations"])
    async def relations() -> s.Relations:
        """All relations with their facts, and the sizes of their training domain and range."""
        return s.Relations(relations=[s.Relation(**one) for one in desk.relations])

    @router.get("/census", tags=["relations"])
    async def score_statistics(
        threshold: Annotated[float, Query(gt=0, lt=1)] = 0.5,
        prior: PriorQuery = None,
        samples: Annotated[int, Query(ge=1, le=MOST_SAMPLES)] = 10_000,
    ) -> s.ScoreStatistics:
        """Mean and standard deviation of all |E|² scores of each relation, exactly; how many are likely."""
        rows = await lane.run(desk.score_statistics, threshold, prior, samples, lane.deadline())
        return s.ScoreStatistics(
            threshold=threshold, prior=desk.prior(prior), samples=samples, rows=[s.CensusRow(**row) for row in rows]
        )

    @router.post("/discover", tags=["relations"])
    async def discover(asked: s.DiscoverIn) -> s.Triples:
        """New triples of some relations that reach a probability, most likely first."""
        found = await lane.run(
            desk.discover, asked.relations, asked.min_probability, asked.prior, asked.top, lane.deadline()
        )
        return s.Triples(prior=desk.prior(asked.prior), triples=[s.Answer(**one) for one in found])
