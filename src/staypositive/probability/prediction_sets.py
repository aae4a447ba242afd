"""Conformal prediction sets: answers that hold the true one with a given probability, calibrated on held-out facts.

The nonconformity score of an answer is ½ ln k − z: z is its z-score over all entities, (φ − q·m)/√(qᵀCq), and k the
mean fourth power of those, the query's kurtosis: where scores have a long tail, a high z says less. An answer is in
the set of coverage c when its nonconformity is at most the ⌈(n+1)c⌉-th of n held-out facts. If the query is
exchangeable with those, the set holds the true answer with probability at least c (Vovk et al. 2005).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from staypositive.errors import InputError
from staypositive.models import RowMoments, Scorer
from staypositive.probability.null_distribution import SIDES, Floats, Ints
from staypositive.typed import fits

SCORES = 2**31  # computed at most to fit, beyond those of 1,000 facts
PIECE = 2**24  # scores held at once
FEWEST = 10  # held-out facts
ENOUGH = 100  # held-out facts from which a relation has thresholds of its own
ROUNDING = 1e-9  # the largest difference of two values, relative to 1, that counts as rounding


@dataclass(frozen=True)
class Conformal:
    """Nonconformity scores of held-out facts, sorted, by side and, where there are enough, by relation.

    `rest` are those of all relations without enough: what the sets of these hold is their own promise, too.
    """

    pooled: dict[str, Floats]
    own: dict[tuple[str, int], Floats]
    rest: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def fit(cls, scorer: Scorer, facts: Ints) -> Conformal:
        if len(facts) < FEWEST:
            raise InputError(f"prediction sets need at least {FEWEST} held-out facts, and there are {len(facts)}")
        nonconformity = Nonconformity(scorer)
        facts = facts[:: -(-len(facts) // max(1000, SCORES // scorer.n_entities))]
        relations, counts = np.unique(facts[:, 1], return_counts=True)
        enough = relations[counts >= ENOUGH]
        is_rest = ~np.isin(facts[:, 1], enough)
        pooled, own, rest = {}, {}, {}
        for side in SIDES:
            values = nonconformity.of_facts(facts, side)
            pooled[side] = np.sort(values)
            if is_rest.sum() >= FEWEST:
                rest[side] = np.sort(values[is_rest])
            for relation in enough.tolist():
                own[side, relation] = np.sort(values[facts[:, 1] == relation])
        return cls(pooled, own, rest)

    def threshold(self, side: str, relation: int, coverage: float, per_relation: bool = True) -> float:
        """Return the nonconformity up to which answers belong to the set; infinite where facts are too few."""
        if not fits(coverage, float) or not 0 < coverage < 1:
            raise InputError(f"coverage is a probability between 0 and 1, got {coverage!r:.80}")
        values = self._values(side, relation, per_relation)
        place = math.ceil((len(values) + 1) * coverage)
        if (place - 1) / (len(values) + 1) >= coverage:  # the product was rounded up past a whole number
            place -= 1
        return math.inf if place > len(values) else float(values[place - 1])

    def entry(self, side: str, relation: int, nonconformity: Floats, per_relation: bool = True) -> Floats:
        """Return the coverages above which answers of this nonconformity belong to the set; inverts `threshold`.

        The k-th held-out value is the first to reach it, and ⌈(n+1)c⌉ ≥ k just when c > (k−1)/(n+1).
        """
        values = self._values(side, relation, per_relation)
        return np.asarray(np.searchsorted(values, nonconformity - ROUNDING, side="left") / (len(values) + 1))

    def _values(self, side: str, relation: int, per_relation: bool) -> Floats:
        rest = self.rest.get(side, self.pooled[side])
        return self.own.get((side, relation), rest) if per_relation else self.pooled[side]


def within(nonconformity: Floats | Tensor, limit: Floats | Tensor | float) -> Any:
    """Return which values are at most the limit, or equal to it but for rounding."""
    return nonconformity <= limit + ROUNDING


class Nonconformity:
    """Half the logarithm of a query's kurtosis, less an answer's z-score; both over all entities."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer.exact().asked()
        self.moments = RowMoments.of(self.scorer.entity_rows)

    def of_facts(self, facts: Ints, side: str) -> Floats:
        """Return the nonconformity of each fact's own answer on one side."""
        pieces = torch.as_tensor(facts, device=self.scorer.device).split(max(1, PIECE // self.scorer.n_entities))
        found = [self.of_all(piece, side).gather(1, piece[:, [SIDES[side]]])[:, 0] for piece in pieces]
        return np.asarray(torch.cat(found).cpu().numpy(), dtype=np.float64)

    @torch.no_grad()
    def of_all(self, facts: Tensor, side: str) -> Tensor:
        """Return the nonconformity of every entity as an answer on one side of some triples, shape (n, |E|)."""
        queries = self.scorer.queries(facts, side)
        z = self.moments.z_scores(queries, queries @ self.scorer.entity_rows.T)
        kurtosis = z.square().square().mean(1, keepdim=True)
        return kurtosis.clamp(min=1.0).log() / 2 - z
