"""`Predictor`: answers by label, each with a probability, a score and whether it is known already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.errors import InputError
from staypositive.evaluation import DEFAULT_MEMORY, sigmoid
from staypositive.graph import KnowledgeGraph
from staypositive.inference.ordering import Floats, Ints, best_of_each
from staypositive.inference.queries import PARTS, Asking, Limits, Query, encode_query, require_top
from staypositive.models import Scorer, logit
from staypositive.probability import Calibrator, FeatureCalibrator, Nonconformity, NullDistribution

if TYPE_CHECKING:
    import pandas as pd

BYTES_PER_ANSWER = 160  # scores, features and log-odds, while questions are answered


class Predictor:
    """A graph, its model's scorer and a calibrator, if there is one.

    Answers are computed in 64 bits and come in the order of `inference.ordering`.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        scorer: Scorer,
        calibrator: Calibrator | None = None,
        null_distribution: NullDistribution | None = None,
    ) -> None:
        self.graph, self.scorer, self.calibrator = graph, scorer.exact(), calibrator
        self._given_null = null_distribution
        self._asking = {part: Asking(part, graph, self.scorer) for part in PARTS}

    # -- what users ask -----------------------------------------------------------------------------------------

    def predict(
        self, head: str | None = None, relation: str | None = None, tail: str | None = None, **options: Any
    ) -> pd.DataFrame:
        """Answer (h, r, ?), (?, r, t) or (h, ?, t), best first, or judge one whole triple; options as in `answer`."""
        query = Query(head, relation, tail)
        wanted = [query.missing] if query.missing else list(PARTS)
        return self.answer([query], **options)[[*wanted, "probability", "score", "known"]]

    def answer(self, queries: Sequence[Query], *, prior: float | None = None, **options: Any) -> pd.DataFrame:
        """Answer many queries in one table: query number, triple, rank, probability, score, known.

        `prior` replaces the share of true triples that the probabilities assume; no retraining is needed. Other
        options are those of `find`.
        """
        return self.table(*self.find(queries, **options), prior)

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
    ) -> tuple[Ints, Floats]:
        """Return the best answers by ids, rows (query, rank, head, relation, tail) in order, and their scores.

        `candidates` limits the answers to a list of labels, or to `"range"`: the entities that training facts have
        in the asked position of the relation. `exclude_known` leaves out facts of any split, `exclude_self` the
        entity that is asked about.
        """
        limits = Limits(top, exclude_known, exclude_self, candidates)
        kinds = np.array([query.missing for query in queries])
        given = np.array([encode_query(query, self.graph) for query in queries], dtype=np.int64).reshape(-1, 3)
        whole = np.flatnonzero(kinds == "")
        found = [np.column_stack([whole, np.zeros_like(whole), given[whole]])]
        scores = [self.score(given[whole])]
        for part, asking in self._asking.items():
            rows = np.flatnonzero(kinds == part)
            chunk = max(1, memory // (BYTES_PER_ANSWER * len(asking.vocabulary)))
            for start in range(0, len(rows), chunk):
                piece = rows[start : start + chunk]
                best, values = self._best(asking, given[piece], limits)
                best[:, 0] = piece[best[:, 0]]
                found.append(best)
                scores.append(values)
                if progress is not None:
                    progress(len(piece))
        rows, values = np.concatenate(found), np.concatenate(scores)
        order = np.lexsort((rows[:, 1], rows[:, 0]))
        return rows[order], values[order]

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

    # -- from scores to probabilities ---------------------------------------------------------------------------

    @property
    def base_prior(self) -> float:
        """The share of true triples that the probabilities assume: the calibrator's, else σ(ψ)."""
        own = self.calibrator
        return float(sigmoid(self.scorer.model.prior_score)) if own is None else own.base_prior

    def logits(self, scores: Floats, prior: float | None = None) -> Floats:
        """Return calibrated log-odds of scores φ; another prior adds logit(new) − logit(base)."""
        logits: Floats = np.asarray(scores, dtype=np.float64) + self.scorer.model.prior_score
        return self.at_prior(logits if self.calibrator is None else self.calibrator.apply(logits), prior)

    def triple_logits(self, triples: Ints, scores: Floats | None = None, prior: float | None = None) -> Floats:
        """Return calibrated log-odds of triples given by ids; their scores, if they are known already, save time."""
        if isinstance(self.calibrator, FeatureCalibrator):
            return self.at_prior(self.calibrator.apply_features(self.null_distribution.features(triples)), prior)
        return self.logits(self.score(triples) if scores is None else scores, prior)

    def pair_logits(
        self, heads: Tensor | None, relation: int, tails: Tensor | None, prior: float | None = None
    ) -> Floats:
        """Return `triple_logits` of all pairs of heads × tails, tails changing fastest; None stands for all entities.

        Only for calibrators that look at null distributions.
        """
        assert isinstance(self.calibrator, FeatureCalibrator)
        features = self.null_distribution.pair_features(heads, relation, tails)
        return self.at_prior(self.calibrator.apply_features(features), prior)

    def at_prior(self, logits: Floats, prior: float | None) -> Floats:
        return logits if prior is None else logits + logit(prior) - logit(self.base_prior)

    def score_at(self, probability: float, prior: float | None = None) -> float:
        """Return the lowest score φ whose probability is at least this; ±inf where every or no score has it."""
        if not 0 < probability < 1:
            raise InputError(f"a threshold is a probability between 0 and 1, got {probability}")
        if isinstance(self.calibrator, FeatureCalibrator):
            raise InputError(
                f"with {self.calibrator.name}, a probability is not one score for all triples; calibrate with platt, "
                "isotonic, temperature or beta for this"
            )
        aim = logit(probability)

        def reaches(score: float) -> bool:
            return bool(self.logits(np.array([score]), prior)[0] >= aim)

        low, high = -1e6, 1e6  # calibrators never fall as scores rise
        if reaches(low):
            return -np.inf
        if not reaches(high):
            return np.inf
        while high - low > 1e-9 * max(1.0, abs(high)):
            middle = (low + high) / 2
            low, high = (low, middle) if reaches(middle) else (middle, high)
        return high

    def score(self, triples: Ints) -> Floats:
        with torch.no_grad():
            values = self.scorer.triples(*torch.as_tensor(triples, device=self.scorer.device).unbind(1))
        return np.asarray(values.cpu().numpy(), dtype=np.float64)

    def is_known(self, triples: Ints) -> NDArray[np.bool_]:
        asked = torch.as_tensor(triples, device=self.scorer.device)
        found: NDArray[np.bool_] = self._asking["tail"].known.holds(asked, asked[:, 2:])[:, 0].cpu().numpy()
        return found

    # -- how it is done -----------------------------------------------------------------------------------------

    def _best(self, asking: Asking, given: Ints, limits: Limits) -> tuple[Ints, Floats]:
        """Return rows (query, rank, head, relation, tail) of the best answers of one kind, and their scores."""
        asked = torch.as_tensor(given, device=self.scorer.device)
        with torch.no_grad():
            scores = asking.scores(asked)
            log_odds = self._answer_logits(asking, asked, scores)
            if limits.candidates is not None:
                log_odds.masked_fill_(~asking.allowed(asked, limits.candidates), -torch.inf)
            if limits.exclude_known:
                log_odds[asking.known.of(asked)] = -torch.inf
            if limits.exclude_self and asking.part != "relation":
                log_odds.scatter_(1, asked[:, [2 - asking.column]], -torch.inf)
            query, answer = best_of_each(log_odds, scores, limits.top)
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        triples = given[query]
        triples[:, asking.column] = answer
        return np.column_stack([query, rank, triples]), scores.cpu().numpy()[query, answer]

    def _answer_logits(self, asking: Asking, asked: Tensor, scores: Tensor) -> Tensor:
        """Return what orders the answers of some questions as their probabilities do, shape (n, answers).

        Calibrators of scores never fall as scores rise: scores give the order.
        """
        if not isinstance(self.calibrator, FeatureCalibrator):
            return scores.clone()
        if asking.part == "relation":
            triples = asked.repeat_interleave(scores.shape[1], dim=0)
            triples[:, 1] = torch.arange(scores.shape[1], device=asked.device).repeat(len(asked))
            return torch.as_tensor(self.triple_logits(triples.cpu().numpy())).view_as(scores).to(scores)
        found = torch.empty_like(scores)
        for relation in asked[:, 1].unique().tolist():
            own = (asked[:, 1] == relation).nonzero()[:, 0]
            if asking.part == "tail":
                logits = torch.as_tensor(self.pair_logits(asked[own, 0], relation, None)).view(len(own), -1)
            else:
                logits = torch.as_tensor(self.pair_logits(None, relation, asked[own, 2])).view(-1, len(own)).T
            found[own] = logits.to(scores)
        return found

    def table(self, found: Ints, scores: Floats, prior: float | None) -> pd.DataFrame:
        """Return rows (query, rank, head, relation, tail) by label, with probability, score and whether known."""
        import pandas as pd

        triples = found[:, 2:]
        return pd.DataFrame(
            {
                "query": found[:, 0],
                **self.labels(triples),
                "rank": found[:, 1] + 1,
                "probability": sigmoid(self.triple_logits(triples, scores, prior)),
                "score": scores,
                "known": self.is_known(triples),
            }
        )

    def labels(self, triples: Ints) -> dict[str, list[str]]:
        words = (self.graph.entities, self.graph.relations, self.graph.entities)
        return {part: [own[i] for i in ids.tolist()] for part, own, ids in zip(PARTS, words, triples.T, strict=True)}

    @cached_property
    def null_distribution(self) -> NullDistribution:
        return self._given_null or NullDistribution(self.graph, self.scorer)

    @cached_property
    def nonconformity(self) -> Nonconformity:
        return Nonconformity(self.scorer)

    @cached_property
    def _directions(self) -> Tensor:
        return self.scorer.algebra.directions(self.scorer.entity_rows)
