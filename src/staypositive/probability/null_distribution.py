"""The null distribution of a query: mean and standard deviation of its scores over in-range answers, in closed form.

A wrong but sensible answer of (h, r, ?) comes from the entities that training facts have as tails of r, its *range*
(for heads: its *domain*). Over any set of entities the scores q · t of a query have mean q·m and variance qᵀCq, m and
C being the mean and covariance of the set's rows. So a score becomes a z-score, z = (φ − μ)/σ, close to N(0, 1) for
wrong answers, whatever the query. No negative is drawn or labelled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.graph import KnowledgeGraph
from staypositive.models import RowMoments, Scorer

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Value = TypeVar("Value")
SIDES = {"tail": 2, "head": 0}  # the sides of a triple that can be asked for, with their columns
SHRINK = 10.0  # weight, in entities, of all entities' covariance in each range's: few rows leave directions empty
SMALL_RANGE = 1000  # the largest range that is looked at member by member: z-scores of few answers are not normal
CANDIDATES = 4096  # about, in range, looked at per relation
KEPT_BYTES = 2**28  # of moments, at most


@dataclass(frozen=True)
class Features:
    """Scores and z-scores of both sides of some triples; the correlation of both z over the null distribution."""

    relations: Ints
    tail_scores: Floats
    head_scores: Floats
    tail_z: Floats
    head_z: Floats
    correlations: Floats

    def __len__(self) -> int:
        return len(self.relations)

    def select(self, keep: NDArray[np.bool_]) -> Features:
        return Features(**{field.name: getattr(self, field.name)[keep] for field in fields(self)})

    @property
    def combined_z(self) -> Floats:
        """The sum of both sides' z, scaled to standard deviation 1 over the null distribution."""
        return np.asarray((self.tail_z + self.head_z) / np.sqrt(2 + 2 * self.correlations))


class NullDistribution:
    """The moments of every relation's range and domain, formed when first asked for."""

    def __init__(self, graph: KnowledgeGraph, scorer: Scorer) -> None:
        self.graph, self.scorer = graph, scorer.asked()
        rows = self.scorer.entity_rows
        self._moments: Cache[RowMoments] = Cache(rows.element_size() * rows.shape[1] ** 2)
        self._correlations: dict[int, float] = {}

    @cached_property
    def members(self) -> dict[str, list[Tensor]]:
        """The entities of every relation's domain (`head`) and range (`tail`)."""
        facts = torch.as_tensor(self.graph.train.facts, device=self.scorer.device)
        found = {}
        for side, column in SIDES.items():
            pairs = torch.unique(facts[:, [1, column]], dim=0)
            counts = torch.bincount(pairs[:, 0], minlength=len(self.graph.relations))
            found[side] = list(pairs[:, 1].split(counts.tolist()))
        return found

    @cached_property
    def whole(self) -> RowMoments:
        return RowMoments.of(self.scorer.entity_rows)

    def moments(self, side: str, relation: int) -> RowMoments:
        """Return the moments of a relation's range (`tail`) or domain (`head`), with covariances shrunk (`SHRINK`).

        For a set of one entity they are those of all: where there is one answer, wrong ones come from anywhere.
        """

        def form() -> RowMoments:
            members = self.members[side][relation]
            if len(members) < 2:
                return self.whole
            own, share = RowMoments.of(self.scorer.entity_rows[members]), len(members) / (len(members) + SHRINK)
            return RowMoments(own.count, own.mean, share * own.covariance + (1 - share) * self.whole.covariance)

        return self._moments.get((side, relation), form)

    @torch.no_grad()
    def features(self, triples: Ints) -> Features:
        asked = torch.as_tensor(triples, device=self.scorer.device)
        found = torch.zeros(5, len(triples), dtype=torch.float64, device=self.scorer.device)
        for relation in np.unique(triples[:, 1]).tolist():
            own = (asked[:, 1] == relation).nonzero()[:, 0]
            for row, (side, column) in enumerate(SIDES.items()):
                queries = self.scorer.queries(asked[own], side)
                scores = (queries * self.scorer.entity_rows[asked[own, column]]).sum(-1)
                found[row, own] = scores.double()
                found[2 + row, own] = self.moments(side, relation).z_scores(queries, scores).double()
            found[4, own] = self.correlation(relation)
        return Features(triples[:, 1].copy(), *found.cpu().numpy())

    def candidates_in_range(self, facts: Ints) -> Features:
        """Return the features of other tails that held-out facts could have, where a relation's range is small.

        These are the members of its range that are not known to be true in training or validation: all of them or,
        of a relation with many facts, evenly spaced ones, moving on from fact to fact.
        """
        parts = [np.empty((0, 3), dtype=np.int64)]
        for relation in np.unique(facts[:, 1]).tolist():
            span = self.members["tail"][relation].cpu().numpy()
            if not 1 < len(span) <= SMALL_RANGE:
                continue
            heads = facts[facts[:, 1] == relation, 0]
            each = min(len(span), max(1, CANDIDATES // len(heads)))
            strides = np.arange(each) * len(span) // each
            places = (np.arange(len(heads))[:, None] + strides) % len(span)
            own = np.full((places.size, 3), relation, dtype=np.int64)
            own[:, 0], own[:, 2] = np.repeat(heads, each), span[places.ravel()]
            parts.append(own)
        found, keys = np.concatenate(parts), self.graph.keys
        return self.features(found[~np.isin(keys(found), keys(self.graph.facts("train", "valid")))])

    def correlation(self, relation: int) -> float:
        """Return how both z of a relation correlate over domain × range.

        A score is mean + head's part + tail's part + interaction. The tail's z has the tail's part and the
        interaction, the head's z the head's part and the interaction: the interaction is what they share.
        """
        if relation not in self._correlations:
            found = self.scorer.moments(relation, self.moments("head", relation), self.moments("tail", relation))
            both = (found.of_tails + found.interaction) * (found.of_heads + found.interaction)
            std = both.clamp(min=0).sqrt().clamp(min=1e-24)
            self._correlations[relation] = min(1.0, float(found.interaction / std))
        return self._correlations[relation]


class Cache(Generic[Value]):
    """Values by side and relation, formed when first asked for; all go at `KEPT_BYTES`. Threads may share it."""

    def __init__(self, bytes_each: int) -> None:
        self._most, self._values = max(16, KEPT_BYTES // bytes_each), dict[tuple[str, int], Value]()

    def get(self, key: tuple[str, int], form: Callable[[], Value]) -> Value:
        found = self._values.get(key)
        if found is None:  # held by name too: another thread may clear the store at any time
            found = form()
            if len(self._values) >= self._most:
                self._values.clear()
            self._values[key] = found
        return found
