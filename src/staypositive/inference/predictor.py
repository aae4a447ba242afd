"""`Predictor`: answers by label, each with a probability, a score and whether it is known already.

There is one probability: how likely it is that a triple which is not in the graph is true (see
`probability.triple_posterior`). Answers are ordered by it, known ones by what it would be if they were not known.
Calibrators for labelled splits answer another question: how likely a triple is among those like the labelled ones.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.errors import InputError
from staypositive.evaluation import DEFAULT_MEMORY, sigmoid
from staypositive.graph import KnowledgeGraph
from staypositive.inference.ordering import Floats, Ints, best_first, best_of_each
from staypositive.inference.queries import PARTS, Asking, Limits, Query, encode_query, require_top
from staypositive.models import Scorer, logit
from staypositive.probability import (
    SIDES,
    Calibrator,
    Evidence,
    FeatureCalibrator,
    Labelled,
    Nonconformity,
    NullDistribution,
    TriplePosterior,
)

if TYPE_CHECKING:
    import pandas as pd

SHORTLIST = 1000
"""Answers to a question that are judged: the best by score, and all that have a fact with the entity asked about."""
BYTES_PER_ANSWER, BYTES_PER_JUDGED = 32, 2000  # while questions are answered


class Found(NamedTuple):
    """Answers by ids, in order: rows (query, rank, head, relation, tail), with scores and log-odds of being true."""

    rows: Ints
    scores: Floats
    log_odds: Floats

    def select(self, keep: NDArray[Any]) -> Found:
        return Found(self.rows[keep], self.scores[keep], self.log_odds[keep])


class Predictor:
    """A graph, its model's scorer, and what turns scores into probabilities, as far as it could be fitted.

    Answers are computed in 64 bits and come in the order of `inference.ordering`.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        scorer: Scorer,
        calibrator: Calibrator | None = None,
        null_distribution: NullDistribution | None = None,
        posterior: TriplePosterior | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        self.graph, self.scorer, self.calibrator, self.posterior = graph, scorer.exact(), calibrator, posterior
        self._given_null, self._given_evidence = null_distribution, evidence
        self._asking = {part: Asking(part, graph, self.scorer) for part in PARTS}

    def assuming(self, completeness: float | None) -> Predictor:
        """Return the same with probabilities that assume another share of all true facts in the graph."""
        if completeness is None:
            return self
        if self.posterior is None:
            raise InputError("there are no probabilities that a completeness could change, only scores")
        other = copy.copy(self)
        other.posterior = self.posterior.assuming(completeness)
        return other

    @property
    def assumed(self) -> float:
        """The share of all true facts that the graph is taken to have; NaN where there are no probabilities."""
        return float("nan") if self.posterior is None else self.posterior.completeness

    # -- what users ask -----------------------------------------------------------------------------------------

    def predict(
        self, head: str | None = None, relation: str | None = None, tail: str | None = None, **options: Any
    ) -> pd.DataFrame:
        """Answer (h, r, ?), (?, r, t) or (h, ?, t), best first, or judge one whole triple; options as in `answer`."""
        query = Query(head, relation, tail)
        left_out = ["query", "rank", *(part for part in PARTS if query.missing and part != query.missing)]
        found = self.answer([query], **options).drop(columns=left_out)
        found.attrs["note"] = self.note(query)
        return found

    def answer(self, queries: Sequence[Query], **options: Any) -> pd.DataFrame:
        """Answer many queries in one table: query number, triple, rank, probability, score, known.

        Known facts have no probability. Where none could be fitted, there is no such column, and scores give the
        order.
        """
        return self.table(self.find(queries, **options))

    def find(
        self,
        queries: Sequence[Query],
        *,
        top: int = 10,
        exclude_known: bool = False,
        exclude_self: bool = False,
        candidates: str | Iterable[str] | None = None,
        memory: int = DEFAULT_MEMORY,
        progress: Callable[[int], Any] | None = None,
    ) -> Found:
        """Return the best answers by ids.

        `candidates` limits the answers to a list of labels, or to `"range"`: the entities that training facts have
        in the asked position of the relation. `exclude_known` leaves out facts of any split, `exclude_self` the
        entity that is asked about.
        """
        limits = Limits(top, exclude_known, exclude_self, candidates)
        kinds = np.array([query.missing for query in queries])
        given = np.array([encode_query(query, self.graph) for query in queries], dtype=np.int64).reshape(-1, 3)
        whole = np.flatnonzero(kinds == "")
        judged = given[whole]
        rows = np.column_stack([whole, np.zeros_like(whole), judged])
        found = [Found(rows, self.score(judged), self.log_odds(judged))]
        for part, asking in self._asking.items():
            rows = np.flatnonzero(kinds == part)
            judged_each = min(self._listed(asking, top), len(asking.vocabulary))
            chunk = max(1, memory // (BYTES_PER_ANSWER * len(asking.vocabulary) + BYTES_PER_JUDGED * judged_each))
            for start in range(0, len(rows), chunk):
                piece = rows[start : start + chunk]
                best = self._best(asking, given[piece], limits)
                best.rows[:, 0] = piece[best.rows[:, 0]]
                found.append(best)
                if progress is not None:
                    progress(len(piece))
        every = Found(
            np.concatenate([part.rows for part in found]),
            np.concatenate([part.scores for part in found]),
            np.concatenate([part.log_odds for part in found]),
        )
        return every.select(np.lexsort((every.rows[:, 1], every.rows[:, 0])))

    def similar(self, entity: str, top: int = 10) -> pd.DataFrame:
        """Return the entities whose rows point the same way, by cosine similarity."""
        import pandas as pd

        require_top(top)
        own = self.graph.entities.id(entity)
        likeness = self._directions @ self._directions[own]
        likeness[own] = -torch.inf
        _, best = best_of_each(likeness[None], likeness[None], top)
        labels = [self.graph.entities[i] for i in best.tolist()]
        return pd.DataFrame({"entity": labels, "similarity": likeness.cpu().numpy()[best]})

    def note(self, query: Query) -> str | None:
        """Return what should be said before the answers to a question: that no fact has its entity in that role."""
        if query.missing not in SIDES:
            return None
        given = "head" if query.missing == "tail" else "tail"
        (ids,), (entity, relation) = [encode_query(query, self.graph)], (getattr(query, given), query.relation)
        facts = self.graph.facts()
        own = facts[facts[:, SIDES[given]] == ids[SIDES[given]], 1]
        if (own == ids[1]).any():
            return None
        usual = [
            self.graph.relations[r] for r in np.argsort(-np.bincount(own), kind="stable")[:3] if (own == r).any()
        ]
        said = f"its relations as {given} are {', '.join(usual)}" if usual else f"it is never a {given}"
        return f"no fact has {entity} as {given} of {relation}; {said}"

    # -- from scores to probabilities ---------------------------------------------------------------------------

    def log_odds(self, triples: Ints) -> Floats:
        """Return the log-odds that triples, taken as not in the graph, are true, shape (n,); NaN where not fitted."""
        if self.posterior is None:
            return np.full(len(triples), np.nan)
        return self.posterior.log_odds(self.evidence, triples)

    @property
    def base_prior(self) -> float:
        """The share of true triples among labelled ones: the calibrator's, else σ(ψ)."""
        own = self.calibrator
        return float(sigmoid(self.scorer.model.prior_score)) if own is None else own.base_prior

    def logits(self, scores: Floats) -> Floats:
        """Return log-odds of scores φ by the calibrator, if there is one, of scores."""
        logits: Floats = np.asarray(scores, dtype=np.float64) + self.scorer.model.prior_score
        return logits if self.calibrator is None else self.calibrator.apply(logits)

    def labelled_log_odds(self, triples: Ints, prior: float | None = None) -> Floats:
        """Return the calibrator's log-odds: of being true, among triples like those of the labelled split.

        Another share of true triples, `prior`, adds logit(new) − logit(base).
        """
        if isinstance(self.calibrator, Labelled):
            if self.posterior is None:
                raise InputError("labels correct the probabilities of unknown triples, and there are none")
            features = self.evidence.features(triples)
            log_odds = self.posterior.of_features(features, triples)
            found = self.calibrator.apply_evidence(log_odds, features, triples[:, 1])
        elif isinstance(self.calibrator, FeatureCalibrator):
            found = self.calibrator.apply_features(self.null_distribution.features(triples))
        else:
            found = self.logits(self.score(triples))
        return found if prior is None else found + logit(prior) - logit(self.base_prior)

    def score(self, triples: Ints) -> Floats:
        with torch.no_grad():
            values = self.scorer.triples(*torch.as_tensor(triples, device=self.scorer.device).unbind(1))
        return np.asarray(values.cpu().numpy(), dtype=np.float64)

    def is_known(self, triples: Ints) -> NDArray[np.bool_]:
        asked = torch.as_tensor(triples, device=self.scorer.device)
        found: NDArray[np.bool_] = self._asking["tail"].known.holds(asked, asked[:, 2:])[:, 0].cpu().numpy()
        return found

    # -- how it is done -----------------------------------------------------------------------------------------

    def _listed(self, asking: Asking, top: int) -> int:
        """Return how many answers to each question are judged at least: all where more are wanted."""
        return SHORTLIST if top <= SHORTLIST else len(asking.vocabulary)

    def _best(self, asking: Asking, given: Ints, limits: Limits) -> Found:
        """Return the best answers of one kind, by the place of their question in `given`."""
        asked = torch.as_tensor(given, device=self.scorer.device)
        with torch.no_grad():
            scores = asking.scores(asked)
            if limits.candidates is not None:
                scores.masked_fill_(~asking.allowed(asked, limits.candidates), -torch.inf)
            if limits.exclude_known:
                scores[asking.known.of(asked)] = -torch.inf
            if limits.exclude_self and asking.part != "relation":
                scores.scatter_(1, asked[:, [2 - asking.column]], -torch.inf)
            by_score = limits.top if self.posterior is None else self._listed(asking, limits.top)
            query, answer = best_of_each(scores, scores, by_score)
            if self.posterior is not None and asking.part != "relation":
                query, answer = self._with_linked(given[:, 2 - asking.column], query, answer, scores)
            points: Floats = scores.cpu().numpy()[query, answer]
        triples = given[query]
        triples[:, asking.column] = answer
        log_odds = self.log_odds(triples)
        if self.posterior is not None:
            order = best_first(log_odds, points, answer, query)
            query, triples, points, log_odds = query[order], triples[order], points[order], log_odds[order]
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        return Found(np.column_stack([query, rank, triples]), points, log_odds).select(rank < limits.top)

    def _with_linked(self, entities: Ints, query: Ints, answer: Ints, scores: Tensor) -> tuple[Ints, Ints]:
        """Add the answers that have a fact with the entity asked about: those facts may say more than scores do."""
        owner, linked = self.evidence.links.neighbours(entities)
        allowed = (scores[owner, linked] > -torch.inf).cpu().numpy()
        width = scores.shape[1]
        every = np.union1d(query * width + answer, owner[allowed] * width + linked[allowed])
        return every // width, every % width

    def table(self, found: Found) -> pd.DataFrame:
        """Return answers by label; `attrs` say which completeness of the graph the probabilities assume."""
        import pandas as pd

        triples = found.rows[:, 2:]
        known = self.is_known(triples)
        table = pd.DataFrame(
            {
                "query": found.rows[:, 0],
                **self.labels(triples),
                "rank": found.rows[:, 1] + 1,
                "probability": np.where(known, np.nan, sigmoid(found.log_odds)),
                "score": found.scores,
                "known": known,
            }
        )
        if self.posterior is None:
            return table.drop(columns="probability")
        table.attrs["completeness"] = self.assumed
        return table

    def labels(self, triples: Ints) -> dict[str, list[str]]:
        words = (self.graph.entities, self.graph.relations, self.graph.entities)
        return {part: [own[i] for i in ids.tolist()] for part, own, ids in zip(PARTS, words, triples.T, strict=True)}

    @cached_property
    def evidence(self) -> Evidence:
        return self._given_evidence or Evidence(self.graph.facts(), self.scorer, len(self.graph.relations))

    @cached_property
    def null_distribution(self) -> NullDistribution:
        return self._given_null or NullDistribution(self.graph, self.scorer)

    @cached_property
    def nonconformity(self) -> Nonconformity:
        return Nonconformity(self.scorer)

    @cached_property
    def _directions(self) -> Tensor:
        return self.scorer.algebra.directions(self.scorer.entity_rows)
