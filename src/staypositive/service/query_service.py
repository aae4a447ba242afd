"""`QueryService`: the verbs of a run with everything kept at hand, as plain calls that a worker thread makes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache, reduce
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from starlette.responses import JSONResponse

from staypositive import inference
from staypositive.errors import InputError
from staypositive.evaluation import sigmoid
from staypositive.graph import SPLITS
from staypositive.inference import Found, Query, encode_query
from staypositive.models import logit
from staypositive.run import Run
from staypositive.service import limits
from staypositive.service import schemas as s
from staypositive.version import __version__

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Record = dict[str, Any]
LEAST_COMPLETE, MOST_COMPLETE, POINTS = 0.5, 0.995, 100  # what the explorer can move between, at least; points on it
MOST_KEPT = 32  # tables of score statistics that are kept for who asks again


class Question(NamedTuple):
    """One query as it waits for the model, and how it is to be answered."""

    query: Query
    options: s.Options = s.Options()


class QueryService:
    """A run and the indices over it. Reading is all it does, so threads may share it.

    Verbs that return a schema are endpoints: their signatures and docstrings are the API's.
    """

    def __init__(self, run: Run, body_bytes: int = limits.Limits.body_bytes) -> None:
        self.run, self.graph, self.predictor, self.body_bytes = run, run.graph, run.predictor, body_bytes
        self.index = inference.FactIndex(run.graph)
        self.search = inference.LabelSearch(run.graph.entities.labels, self.index.degrees.tolist())
        self.explainer = inference.Explainer(self.predictor, self.index)
        self._statistics = lru_cache(MOST_KEPT)(self._count)

    def warm(self) -> None:
        """Form what first requests would wait for."""
        first = self._triple(self.graph.train.facts[0].tolist())
        query = Query(first["head"], first["relation"], None)
        self.answer_all([Question(query, s.Options(exclude_known=True, candidates="range"))])
        self.similar(first["head"], 1)
        if self.has_sets:
            self.run.conformal  # noqa: B018  # formed and kept

    def about(self) -> s.About:
        """What is served: graph, model, and the completeness of the graph that probabilities assume."""
        settings = self.run.settings
        return s.About(
            name=self.graph.name, graph=self.graph.counts(), model=settings.model, objective=settings.objective.name,
            dim=settings.dim, completeness=self.completeness(None), shifts=self._shifts,
            no_probability=self.run.why_no_probability(), prediction_sets=self.has_sets, version=__version__,
            example=s.Triple(**self._triple(self.graph.train.facts[0].tolist())),
            limits={"top": limits.MOST_TOP, "queries": limits.MOST_QUERIES, "body_bytes": self.body_bytes},
        )  # fmt: skip

    def completeness(self, asked: float | None) -> float | None:
        """Return the completeness that probabilities assume, asked for or the run's; None where there are none."""
        posterior = self.run.posterior
        return None if posterior is None else posterior.completeness if asked is None else asked

    @cached_property
    def _shifts(self) -> list[tuple[float, float]]:
        """What each completeness adds to log-odds, evenly in its own log-odds, the run's among them."""
        if self.run.posterior is None:
            return []
        own = self.run.posterior.completeness
        low, high = min(logit(LEAST_COMPLETE), logit(own) - 1), max(logit(MOST_COMPLETE), logit(own) + 1)
        shares = sorted({own, *sigmoid(np.linspace(low, high, POINTS)).tolist()})
        return [(share, 0.0 if share == own else self._shift(share)) for share in shares]

    def answer_all(self, questions: Sequence[Question], whole: bool = False) -> list[Any]:
        """Answer questions, those of a kind together; the answer to one that cannot be asked is an `InputError`.

        They come from many requests, and none spoils another; if `whole`, nothing is answered beside a wrong one.
        """
        results: list[Any] = [[] for _ in questions]
        kinds: dict[tuple[Any, ...], list[int]] = {}  # what those answered in one matrix product share
        for place, (query, own) in enumerate(questions):
            try:
                encode_query(query, self.graph)
            except InputError as error:
                results[place] = error
                if whole:
                    return results
            else:
                kind = query.missing, own.exclude_known, own.exclude_self, own.candidates
                kinds.setdefault(kind, []).append(place)
        for places in kinds.values():
            answers: Sequence[Any]
            try:
                answers = self._answer_kind([questions[place] for place in places])
            except InputError as error:
                answers = [error] * len(places)
            for place, answer in zip(places, answers, strict=True):
                results[place] = answer
        return results

    def answer_batch(self, asked: s.BatchIn) -> JSONResponse:
        """Return the answer to a batch, written in this thread, so that other requests do not wait meanwhile.

        The first question that cannot be asked ends it, and the rest costs nothing.
        """
        results = self.answer_all([Question(query.query(), asked) for query in asked.queries], whole=True)
        for place, found in enumerate(results):
            if isinstance(found, InputError):
                found.args = (f"query {place}: {found}",)
                raise found
        return JSONResponse({"completeness": self.completeness(asked.completeness), "results": results})

    def _answer_kind(self, questions: Sequence[Question]) -> list[list[Record]]:
        shared = questions[0].options
        tops = [question.options.top for question in questions]
        found = self.predictor.find(
            [question.query for question in questions], top=max(tops), exclude_known=shared.exclude_known,
            exclude_self=shared.exclude_self, candidates=shared.candidates,
        )  # fmt: skip
        shifts = np.array([self._shift(question.options.completeness) for question in questions])
        records = self._records(found, shifts[found.rows[:, 0]])
        counts = np.bincount(found.rows[:, 0], minlength=len(questions)).tolist()
        rest = iter(records)
        return [list(islice(rest, count))[:top] for count, top in zip(counts, tops, strict=True)]

    def _shift(self, completeness: float | None) -> float:
        """Return what another completeness adds to log-odds; the order of answers is the same at any."""
        posterior = self.run.posterior
        if posterior is None or completeness is None:
            return 0.0
        return posterior.assuming(completeness).offset - posterior.offset

    def _triple(self, ids: Sequence[int]) -> Record:
        entities, (head, relation, tail) = self.graph.entities, ids
        return {"head": entities[head], "relation": self.graph.relations[relation], "tail": entities[tail]}

    def _records(self, found: Found, shift: Floats | float) -> list[Any]:
        """Return answers by label with all that the model says of them, in the order given."""
        triples, log_odds = found.rows[:, 2:], found.log_odds + shift
        columns = (
            triples,
            found.rows[:, 1] + 1,
            log_odds,
            sigmoid(log_odds),
            found.scores,
            self.predictor.is_known(triples),
        )
        fitted = self.run.posterior is not None
        return [
            {
                **self._triple(ids),
                "rank": rank,
                "probability": chance if fitted and not known else None,
                "log_odds": odds if fitted else None,
                "score": score,
                "known": known,
                "entry_coverage": None,
            }
            for ids, rank, odds, chance, score, known in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def score(self, asked: s.ScoreIn) -> s.Triples:
        """Judge whole triples: probability, log-odds, score, and whether each is known."""
        found = self.predictor.find([Query(one.head, one.relation, one.tail) for one in asked.triples])
        triples = self._records(found, self._shift(asked.completeness))
        return s.Triples(completeness=self.completeness(asked.completeness), triples=triples)

    def explain(self, asked: s.ExplainIn) -> s.Explanation:
        """The training facts that support a triple most.

        A fact's support is how far a small training step that raises its score would raise the triple's: the product
        of both scores' gradients in the rows they share, over that of the triple with itself.
        """
        triple = asked.head, asked.relation, asked.tail
        found = inference.explain_triple(self.predictor, self.explainer, *triple, asked.top)
        return s.Explanation(facts=_rows(found))

    @cached_property
    def has_sets(self) -> bool:
        try:
            return self.run.conformal is not None
        except InputError:
            return False

    def _entries(self, query: Query, per_relation: bool = True) -> Floats:
        return inference.entry_coverages(self.predictor, self.run.conformal, query, per_relation=per_relation)

    def with_coverages(self, question: Question) -> tuple[list[Record], list[int] | None]:
        """Answer one question, with the coverages at which sets hold each answer, and the sets' sizes at 1–99%.

        Without held-out facts enough there are neither.
        """
        (answers,) = self.answer_all([question])
        if isinstance(answers, InputError):
            raise answers
        if not self.has_sets:
            return answers, None
        entries = self._entries(question.query)
        for record in answers:
            entry = float(entries[self.graph.entities.id(record[question.query.missing])])
            record["entry_coverage"] = entry if math.isfinite(entry) else None
        return answers, np.searchsorted(np.sort(entries), np.arange(1, 100) / 100).tolist()

    def prediction_set(self, asked: s.PredictionSetIn) -> s.PredictionSet:
        """Give new answers of (h, r, ?) or (?, r, t) that hold the true one with the probability `coverage`."""
        query = asked.query()
        entries = self._entries(query, asked.per_relation)
        found = self.predictor.find([query], top=len(entries), exclude_known=True)
        entered = entries[found.rows[:, 2 if query.missing == "head" else 4]]
        inside = np.flatnonzero(entered < asked.coverage)
        best = inside[: asked.top]
        answers = self._records(found.select(best), self._shift(asked.completeness))
        for answer, entry in zip(answers, entered[best].tolist(), strict=True):
            answer["entry_coverage"] = entry
        completeness = self.completeness(asked.completeness)
        return s.PredictionSet(coverage=asked.coverage, completeness=completeness, size=len(inside), answers=answers)

    def entities(self, search: s.Search = "", top: s.Top = 10) -> s.Entities:
        """Find entities by what is typed of their labels; without a text, the best connected ones."""
        degrees = self.index.degrees
        ids = self.search.find(search, top) if search.strip() else np.argsort(-degrees, kind="stable")[:top].tolist()
        return s.Entities(entities=[s.Entity(entity=self.graph.entities[i], facts=int(degrees[i])) for i in ids])

    def similar(self, entity: s.EntityName, top: s.Top = 10) -> s.Similar:
        """The entities whose rows point the same way, by cosine."""
        return s.Similar(entities=_rows(self.predictor.similar(entity, top)))

    def facts(self, entity: s.EntityName, relation: s.Label | None = None, top: s.Top = 100) -> s.Facts:
        """What the graph states of an entity, as head or as tail, with the split that states it."""
        rows, facts = self.index.rows_of(self.graph.entities.id(entity)), self.index.facts
        if relation is not None:
            rows = rows[facts[rows, 1] == self.graph.relations.id(relation)]
        rows = rows[np.argsort(facts[rows, 1], kind="stable")]
        found: list[Any] = [
            {**self._triple(facts[row].tolist()), "split": SPLITS[self.index.splits[row]]} for row in rows[:top]
        ]
        return s.Facts(total=len(rows), facts=found)

    def neighbourhood(self, entity: s.EntityName, top: s.Neighbours = 20) -> s.Neighbourhood:
        """The entity, its best-connected neighbours, relations in turn, and the facts among them."""
        found = self.index.neighbourhood(self.graph.entities.id(entity), top)
        places = {entity: place for place, entity in enumerate(found.entities.tolist())}
        edges = [(places[h], self.graph.relations[r], places[t]) for h, r, t in found.facts.tolist()]
        entities = [self.graph.entities[i] for i in places]
        return s.Neighbourhood(entities=entities, edges=edges, left_out=found.left_out)

    def relations(self) -> s.Relations:
        """All relations with their facts, and the sizes of their training domain and range."""
        return self._relations

    @cached_property
    def _relations(self) -> s.Relations:
        names, members = self.graph.relations, self.predictor.null_distribution.members
        counts = np.bincount(self.index.facts[:, 1], minlength=len(names)).tolist()
        rows = zip(names, counts, members["head"], members["tail"], strict=True)
        found = [s.Relation(relation=r, facts=n, heads=len(h), tails=len(t)) for r, n, h, t in rows]
        return s.Relations(relations=found)

    def stats(self, threshold: s.Probability = 0.5, completeness: s.Completeness = None) -> s.ScoreStatistics:
        """Mean and standard deviation of all |E|² scores of each relation, exactly; how many new facts to expect."""
        rows = self._statistics(threshold, completeness)
        return s.ScoreStatistics(threshold=threshold, completeness=self.completeness(completeness), rows=rows)

    def _count(self, threshold: float, completeness: float | None) -> Any:
        return _rows(inference.score_statistics(self.predictor.assuming(completeness), threshold=threshold))

    def discover(self, asked: s.DiscoverIn) -> s.Triples:
        """New triples of some relations that reach a probability, most likely first; by score where there is none."""
        wanted = dict.fromkeys(self.graph.relations.id(name) for name in asked.relations)
        relations, most = self._relations.relations, limits.MOST_PAIRS
        pairs = sum(relations[i].heads * relations[i].tails for i in wanted)
        if pairs > most:
            raise InputError(f"that is {pairs:,} pairs, and {most:,} are the most; ask for fewer relations")
        least = asked.min_probability if self.run.posterior else None
        found = inference.discover(
            self.predictor.assuming(asked.completeness), min_probability=least, relations=wanted, most=asked.top,
            progress=limits.stop_if_late,
        )  # fmt: skip
        best = reduce(lambda before, now: before.merged(now, most=asked.top), found, inference.Discovery.nothing(-1))
        ranks = np.arange(len(best.triples))
        rows = np.column_stack([np.zeros_like(ranks), ranks, best.triples])
        triples = self._records(Found(rows, best.scores, best.logits), 0.0)
        return s.Triples(completeness=self.completeness(asked.completeness), triples=triples)


def _rows(frame: Any) -> Any:
    return frame.to_dict("records")
