"""`Desk`: the verbs of a run with everything kept at hand, as plain calls that a worker thread makes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError
from staypositive.evaluation import sigmoid
from staypositive.graph import SPLITS
from staypositive.inference import (
    Discovery,
    Explainer,
    FactIndex,
    LabelSearch,
    Query,
    discover,
    entry_coverages,
    explain_triple,
)
from staypositive.inference.queries import encode_query
from staypositive.inference.statistics import score_statistics
from staypositive.run import Run
from staypositive.service.limits import MOST_PAIRS, MOST_SCORED

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]
Record = dict[str, Any]
MOST_CENSUSES = 32
COVERAGES = np.arange(1, 100) / 100


@dataclass(frozen=True)
class Job:
    """One question as it waits for the model."""

    query: Query
    top: int = 10
    exclude_known: bool = False
    exclude_self: bool = False
    candidates: str | tuple[str, ...] | None = None
    prior: float | None = None

    @property
    def kind(self) -> tuple[Any, ...]:
        """What jobs must share to be answered in one matrix product."""
        return self.query.missing, self.exclude_known, self.exclude_self, self.candidates


class Desk:
    """A run and the indices over it. Reading is all it does, so threads may share it."""

    def __init__(self, run: Run) -> None:
        self.run, self.graph, self.predictor = run, run.graph, run.predictor
        self.facts = FactIndex(run.graph)
        self.search = LabelSearch(run.graph.entities.labels, self.facts.degrees.tolist())
        self.support_index = Explainer(self.predictor, self.facts)
        self._censuses: dict[tuple[float, float | None, int], list[Record]] = {}

    def warm(self) -> None:
        """Form what first requests would wait for."""
        first = self.graph.train.facts[0]
        head, relation = self.graph.entities[int(first[0])], self.graph.relations[int(first[1])]
        self.answer_all([Job(Query(head, relation, None), exclude_known=True, candidates="range")])
        self.similar(head, 1)
        if self.has_sets:
            self.run.conformal  # noqa: B018  # formed and kept

    def prior(self, prior: float | None) -> float:
        """Return the prior that probabilities assume."""
        return self.predictor.base_prior if prior is None else prior

    # -- questions ----------------------------------------------------------------------------------------------

    def answer_all(self, jobs: Sequence[Job]) -> list[list[Record] | InputError]:
        """Answer questions of many requests, those of a kind together; one that cannot be asked spoils no other."""
        results: list[list[Record] | InputError] = [[] for _ in jobs]
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for place, job in enumerate(jobs):
            try:
                encode_query(job.query, self.graph)
                kinds.setdefault(job.kind, []).append(place)
            except InputError as error:
                results[place] = error
        for places in kinds.values():
            own = [jobs[place] for place in places]
            try:
                answers: Sequence[list[Record] | InputError] = self._answer_kind(own)
            except InputError as error:
                answers = [error] * len(own)
            for place, answer in zip(places, answers, strict=True):
                results[place] = answer
        return results

    def answer_batch(self, jobs: Sequence[Job]) -> list[list[Record]]:
        """Answer the questions of one request; the first that cannot be asked ends it, and the rest costs nothing."""
        answers: list[list[Record]] = []
        try:
            for job in jobs:
                encode_query(job.query, self.graph)
                answers.append([])
            for place, found in enumerate(self.answer_all(jobs)):
                if isinstance(found, InputError):
                    answers = answers[:place]
                    raise found
                answers[place] = found
        except InputError as error:
            error.args = (f"query {len(answers)}: {error}",)
            raise
        return answers

    def batch_body(self, jobs: Sequence[Job], prior: float | None) -> bytes:
        """Return the answer to a batch as it is sent: written here, so that other requests do not wait meanwhile."""
        answers = {"prior": self.prior(prior), "results": self.answer_batch(jobs)}
        return json.dumps(answers, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")

    def _answer_kind(self, jobs: Sequence[Job]) -> list[list[Record]]:
        first = jobs[0]
        found, scores = self.predictor.find(
            [job.query for job in jobs], top=max(job.top for job in jobs), exclude_known=first.exclude_known,
            exclude_self=first.exclude_self, candidates=first.candidates,
        )  # fmt: skip
        records = self.records(found[:, 2:], scores)
        cuts = np.searchsorted(found[:, 0], np.arange(len(jobs) + 1)).tolist()
        return [
            self._at_prior(records[start : min(stop, start + job.top)], job.prior)
            for job, start, stop in zip(jobs, cuts[:-1], cuts[1:], strict=True)
        ]

    def records(self, triples: Ints, scores: NDArray[np.float64]) -> list[Record]:
        """Return triples by label with log-odds at the run's own prior, score and whether known; no ranks yet."""
        entities, relations = self.graph.entities, self.graph.relations
        log_odds = self.predictor.triple_logits(triples, scores).tolist()
        columns = zip(
            triples.tolist(), log_odds, scores.tolist(), self.predictor.is_known(triples).tolist(), strict=True
        )
        return [
            {"head": entities[h], "relation": relations[r], "tail": entities[t], "log_odds": odds, "score": score,
             "known": known}
            for (h, r, t), odds, score, known in columns
        ]  # fmt: skip

    def _at_prior(self, records: list[Record], prior: float | None) -> list[Record]:
        """Number answers, and give them the probability that they have at a prior."""
        odds = self.predictor.at_prior(np.array([record["log_odds"] for record in records]), prior)
        chances = sigmoid(odds).tolist()
        return [
            record | {"rank": rank, "log_odds": own, "probability": chance, "entry_coverage": None}
            for rank, (record, own, chance) in enumerate(zip(records, odds.tolist(), chances, strict=True), 1)
        ]

    def judge(self, triples: Sequence[tuple[str, str, str]], prior: float | None) -> list[Record]:
        """Return what the model says of whole triples, in the order given."""
        ids = np.array([encode_query(Query(*triple), self.graph) for triple in triples], dtype=np.int64)
        return [
            record | {"rank": 1} for record in self._at_prior(self.records(ids, self.predictor.score(ids)), prior)
        ]

    # -- prediction sets --------------------------------------------------------------------------------------------

    @cached_property
    def has_sets(self) -> bool:
        """Whether held-out facts are enough for prediction sets."""
        try:
            return self.run.conformal is not None
        except InputError:
            return False

    def entries(self, query: Query, per_relation: bool = True) -> NDArray[np.float64]:
        """Return the coverage above which sets hold each entity."""
        return entry_coverages(self.predictor, self.run.conformal, query, per_relation=per_relation)

    def with_coverages(self, job: Job) -> tuple[list[Record], list[int] | None]:
        """Answer one question, with the coverages at which sets hold each answer, and the sets' sizes at 1–99%.

        Without held-out facts enough there are neither.
        """
        (answers,) = self.answer_all([job])
        if isinstance(answers, InputError):
            raise answers
        if not self.has_sets:
            return answers, None
        entries = self.entries(job.query)
        side = job.query.missing
        for record in answers:
            entry = float(entries[self.graph.entities.id(record[side])])
            record["entry_coverage"] = entry if np.isfinite(entry) else None
        return answers, np.searchsorted(np.sort(entries), COVERAGES, side="left").tolist()

    def prediction_set(
        self, query: Query, coverage: float, per_relation: bool, top: int, prior: float | None
    ) -> tuple[int, list[Record]]:
        """Return the size of an prediction set and its most likely answers."""
        entries = self.entries(query, per_relation)
        found, scores = self.predictor.find([query], top=len(entries), exclude_known=True)
        entered = entries[found[:, 2 if query.missing == "head" else 4]]
        inside = np.flatnonzero(entered < coverage)
        best = inside[:top]
        records = self._at_prior(self.records(found[best, 2:], scores[best]), prior)
        for record, entry in zip(records, entered[best].tolist(), strict=True):
            record["entry_coverage"] = entry
        return len(inside), records

    # -- entities -----------------------------------------------------------------------------------------------

    def entities(self, typed: str, top: int) -> list[Record]:
        """Return the entities whose labels hold a text; the best connected ones for an empty text."""
        found = (
            self.search.find(typed, top)
            if typed.strip()
            else np.argsort(-self.facts.degrees, kind="stable")[:top].tolist()
        )
        return [{"entity": self.graph.entities[i], "facts": int(self.facts.degrees[i])} for i in found]

    def similar(self, entity: str, top: int) -> list[Record]:
        """Return the entities most like one."""
        return _rows(self.predictor.similar(entity, top))

    def facts_of(self, entity: str, relation: str | None, top: int) -> tuple[int, list[Record]]:
        """Return how many facts an entity has, and some of them."""
        rows = self.facts.rows_of(self.graph.entities.id(entity))
        if relation is not None:
            rows = rows[self.facts.facts[rows, 1] == self.graph.relations.id(relation)]
        rows = rows[np.argsort(self.facts.facts[rows, 1], kind="stable")]
        return len(rows), [
            self.fact(self.facts.facts[row]) | {"split": SPLITS[self.facts.splits[row]]} for row in rows[:top]
        ]

    def fact(self, fact: Ints) -> Record:
        """Return a fact given by ids by its labels."""
        head, relation, tail = fact.tolist()
        graph = self.graph
        return {"head": graph.entities[head], "relation": graph.relations[relation], "tail": graph.entities[tail]}

    def neighbourhood(self, entity: str, top: int) -> Record:
        """Return the small graph around an entity."""
        found = self.facts.neighbourhood(self.graph.entities.id(entity), top)
        places = {int(entity): place for place, entity in enumerate(found.entities)}
        return {
            "entities": [self.graph.entities[i] for i in found.entities.tolist()],
            "edges": [(places[h], self.graph.relations[r], places[t]) for h, r, t in found.facts.tolist()],
            "left_out": found.left_out,
        }

    def support(self, head: str, relation: str, tail: str, top: int) -> list[Record]:
        """Return the training facts that support a triple most."""
        return _rows(explain_triple(self.predictor, self.support_index, head, relation, tail, top))

    # -- relations ----------------------------------------------------------------------------------------------

    @cached_property
    def relations(self) -> list[Record]:
        """Every relation with its facts, and the sizes of its training domain and range."""
        facts = np.bincount(self.facts.facts[:, 1], minlength=len(self.graph.relations)).tolist()
        heads, tails = (
            np.bincount(np.unique(self.graph.train.facts[:, [1, side]], axis=0)[:, 0], minlength=len(facts)).tolist()
            for side in (0, 2)
        )
        names = self.graph.relations.labels
        return [
            {"relation": names[i], "facts": facts[i], "heads": heads[i], "tails": tails[i]} for i in range(len(names))
        ]

    def score_statistics(
        self, threshold: float, prior: float | None, samples: int, tick: Callable[[int], None]
    ) -> list[Record]:
        """Return the moments of all triples by relation, kept for who asks again; `tick` may stop it in between."""
        drawn = samples * len(self.graph.relations)
        if drawn > MOST_SCORED:
            raise InputError(f"samples × relations is at most {MOST_SCORED:,}, got {drawn:,}; ask for fewer samples")
        asked = threshold, prior, samples
        if asked not in self._censuses:
            found = score_statistics(self.predictor, threshold=threshold, prior=prior, samples=samples, progress=tick)
            if len(self._censuses) >= MOST_CENSUSES:
                self._censuses.clear()
            self._censuses[asked] = _rows(found)
        return self._censuses[asked]

    def discover(
        self, names: Sequence[str], least: float, prior: float | None, top: int, tick: Callable[[int], None]
    ) -> list[Record]:
        """Return new triples of some relations, most likely first; `tick` may stop the search between relations."""
        wanted = dict.fromkeys(self.graph.relations.id(name) for name in names)
        pairs = sum(self.relations[i]["heads"] * self.relations[i]["tails"] for i in wanted)
        if pairs > MOST_PAIRS:
            raise InputError(f"that is {pairs:,} pairs, and {MOST_PAIRS:,} are the most; ask for fewer relations")
        found = discover(
            self.predictor, min_probability=least, prior=prior, relations=wanted, most=top, progress=tick
        )
        best = reduce(lambda before, now: before.merged(now, top), found, Discovery.nothing(-1))
        return self._at_prior(self.records(best.triples, best.scores), prior)


def _rows(frame: pd.DataFrame) -> list[Record]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
