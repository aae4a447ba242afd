"""The background of a query: mean and deviation of its scores over the answers that could be, in closed form.

A wrong but sensible answer of (h, r, ?) comes from the entities that training facts have as tails of r, its *range*.
Over any set of entities the scores q · t of a query have mean q·m and variance qᵀCq, m and C being the mean and
covariance of the set's rows. So a score becomes a z-score, z = (φ − μ)/σ, close to N(0, 1) for wrong answers,
whatever the query. Heads are treated alike over the relation's *domain*. No negative is drawn or labelled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.graph import KnowledgeGraph
from staypositive.models import RowMoments, Scorer, score_moments

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
QueryMoments = tuple[Tensor, Tensor]
"""Mean and standard deviation of queries' scores over a set, shape (n,) each."""

SHRINK = 10.0
"""So many entities of the whole graph count in each range's spread: few rows leave most directions without any."""

SMALL_RANGE = 1000
"""Ranges up to this size are looked at member by member, since so few answers make no bell of z-scores."""
RIVALS = 4096
"""Other answers looked at for each relation, about."""


@dataclass(frozen=True)
class Features:
    """What is known of some triples, in parallel arrays: scores and z-scores of both sides."""

    relations: Ints
    tail_scores: Floats
    head_scores: Floats
    tail_z: Floats
    head_z: Floats
    correlations: Floats
    """The correlation of both z over the background of the triple's relation."""

    def __len__(self) -> int:
        return len(self.relations)

    def select(self, keep: NDArray[np.bool_]) -> Features:
        """Return the features of the triples that the mask keeps."""
        return Features(**{field.name: getattr(self, field.name)[keep] for field in fields(self)})

    @property
    def combined_z(self) -> Floats:
        """Both sides in one: their sum, scaled to deviation 1 over the background."""
        return np.asarray((self.tail_z + self.head_z) / np.sqrt(2 + 2 * self.correlations))


class NullDistribution:
    """The moments of every relation's range and domain, formed when first asked for."""

    def __init__(self, graph: KnowledgeGraph, scorer: Scorer) -> None:
        self.graph, self.scorer = graph, scorer.asked()
        width = self.scorer.entity_rows.shape[1]
        itemsize = self.scorer.entity_rows.element_size()
        self._moments: Kept[tuple[str, int], RowMoments] = Kept(_KEPT // (itemsize * width**2))
        self._of_all: Kept[tuple[str, int], QueryMoments] = Kept(_KEPT // (2 * itemsize * scorer.n_entities))
        self._correlations: dict[int, float] = {}

    @cached_property
    def members(self) -> dict[str, list[Tensor]]:
        """The entities of every relation's domain (`head`) and range (`tail`)."""
        facts = torch.as_tensor(self.graph.train.facts, device=self.scorer.device)
        return {side: _members(facts, column, len(self.graph.relations)) for side, column in _SIDES.items()}

    @cached_property
    def whole(self) -> RowMoments:
        """The moments of all entities' rows: |E|·d² products."""
        return RowMoments.of(self.scorer.entity_rows)

    def moments(self, side: str, relation: int) -> RowMoments:
        """Return the moments of a relation's range (`tail`) or domain (`head`), their spread a little the whole's."""

        def form() -> RowMoments:
            return _shrunk(self.scorer.entity_rows[self.members[side][relation]], self.whole)

        return self._moments.get((side, relation), form)

    @torch.no_grad()
    def features(self, triples: Ints) -> Features:
        """Return the features of triples given by ids."""
        asked = torch.as_tensor(triples, device=self.scorer.device)
        found = torch.zeros(5, len(triples), dtype=torch.float64, device=self.scorer.device)
        for relation in np.unique(triples[:, 1]).tolist():
            own = (asked[:, 1] == relation).nonzero()[:, 0]
            heads, relations, tails = asked[own].unbind(1)
            for row, (side, queries, answers) in enumerate(
                (
                    ("tail", self.scorer.tail_queries(heads, relations), tails),
                    ("head", self.scorer.head_queries(relations, tails), heads),
                )
            ):
                scores = (queries * self.scorer.entity_rows[answers]).sum(-1)
                found[row, own] = scores.double()
                found[2 + row, own] = self.moments(side, relation).z_scores(queries, scores).double()
            found[4, own] = self.correlation(relation)
        tail_scores, head_scores, tail_z, head_z, correlations = found.cpu().numpy()
        return Features(triples[:, 1].copy(), tail_scores, head_scores, tail_z, head_z, correlations)

    @torch.no_grad()
    def pair_features(self, heads: Tensor | None, relation: int, tails: Tensor | None) -> Features:
        """Return the features of all pairs of heads × tails, tails changing fastest; None stands for all entities."""
        to_tails, to_heads = self.scorer, self.scorer.swapped()
        values = []
        for side, scorer in (("tail", to_tails), ("head", to_heads)):
            scores = scorer.pairs(heads, relation, tails)
            mean, deviation = self._query_moments(side, heads if side == "tail" else tails, relation)
            shape = (-1, 1) if side == "tail" else (1, -1)
            values += [scores, (scores - mean.view(shape)) / deviation.view(shape)]
        tail_scores, tail_z, head_scores, head_z = (part.reshape(-1).double().cpu().numpy() for part in values)
        n = len(tail_scores)
        correlations = np.full(n, self.correlation(relation))
        return Features(np.full(n, relation), tail_scores, head_scores, tail_z, head_z, correlations)

    def _query_moments(self, side: str, given: Tensor | None, relation: int) -> QueryMoments:
        """Return mean and standard deviation of the scores of queries about some entities' tails, or heads.

        Those of all entities are formed once.
        """

        def of(entities: Tensor) -> QueryMoments:
            relations = torch.full_like(entities, relation)
            if side == "tail":
                queries = self.scorer.tail_queries(entities, relations)
            else:
                queries = self.scorer.head_queries(relations, entities)
            return self.moments(side, relation).of_scores(queries)

        if given is not None:
            return of(given)
        every = torch.arange(self.scorer.n_entities, device=self.scorer.device)
        return self._of_all.get((side, relation), lambda: of(every))

    def rivals(self, facts: Ints) -> Features:
        """Return the features of what else the tails of held-out facts could be, where a relation's range is small.

        These are the members of its range, all of them or, of a relation with many facts, every so-manieth in turn,
        that are not known to be true in training or validation.
        """
        parts = [np.empty((0, 3), dtype=np.int64)]
        for relation in np.unique(facts[:, 1]).tolist():
            span = self.members["tail"][relation].cpu().numpy()
            if not 1 < len(span) <= SMALL_RANGE:
                continue
            heads = facts[facts[:, 1] == relation, 0]
            each = min(len(span), max(1, RIVALS // len(heads)))
            strides = np.arange(each) * len(span) // each
            places = (np.arange(len(heads))[:, None] + strides) % len(span)
            own = np.full((places.size, 3), relation, dtype=np.int64)
            own[:, 0], own[:, 2] = np.repeat(heads, each), span[places.ravel()]
            parts.append(own)
        found = np.concatenate(parts)
        known = self.graph.keys(self.graph.facts("train", "valid"))
        return self.features(found[~np.isin(self.graph.keys(found), known)])

    def correlation(self, relation: int) -> float:
        """Return how both z of a relation correlate over domain × range.

        A score is grand mean + head's part + tail's part + interaction. The tail's z knows the tail's part and the
        interaction, the head's z the head's part and the interaction: the interaction is what they share.
        """
        if relation not in self._correlations:
            self._correlations[relation] = self._correlation(relation)
        return self._correlations[relation]

    def _correlation(self, relation: int) -> float:
        domain, span = self.moments("head", relation), self.moments("tail", relation)
        found = score_moments(*self.scorer.forms(relation), domain, span)
        spread = ((found.of_tails + found.interaction) * (found.of_heads + found.interaction)).clamp(min=0).sqrt()
        return min(1.0, float(found.interaction / spread.clamp(min=1e-24)))


class Kept(Generic[Key, Value]):
    """Values formed when first asked for; all are dropped once they are too many. Threads may share it."""

    def __init__(self, most: int) -> None:
        self._most, self._values = max(16, most), dict[Key, Value]()

    def get(self, key: Key, form: Callable[[], Value]) -> Value:
        """Return what is kept of a key, or form it."""
        found = self._values.get(key)
        if found is None:  # held by name too: another thread may clear the store at any time
            found = form()
            if len(self._values) >= self._most:
                self._values.clear()
            self._values[key] = found
        return found


_SIDES = {"head": 0, "tail": 2}
_KEPT = 2**28
"""Bytes of moments kept at most."""


def _members(facts: Tensor, column: int, n_relations: int) -> list[Tensor]:
    """Return the distinct entities that facts of each relation have in a column."""
    pairs = torch.unique(facts[:, [1, column]], dim=0)
    counts = torch.bincount(pairs[:, 0], minlength=n_relations)
    return list(pairs[:, 1].split(counts.tolist()))


def _shrunk(rows: Tensor, whole: RowMoments) -> RowMoments:
    """Return the mean of rows, and their covariance with that of SHRINK more of the whole's; of one row, the whole's.

    A range of one answer has no wrong ones: those come from anywhere.
    """
    count = len(rows)
    if count < 2:
        return whole
    own, share = RowMoments.of(rows), count / (count + SHRINK)
    return RowMoments(count, own.mean, share * own.covariance + (1 - share) * whole.covariance)
