"""Conformal prediction sets: answers that hold the true one with a given probability, calibrated on facts.

How strange an answer is, is ½ ln k − z: z is its z-score over the whole graph's entities, (φ − q·m)/√(qᵀCq), and k
the mean fourth power of those, the query's kurtosis: where scores have a long tail, a high z says less. Held-out
facts show how strange true answers are; an answer is in the set of coverage c when it is no stranger than the
⌈(n+1)c⌉-th of n held-out ones. If the query is exchangeable with those, the set holds the true answer with
probability at least c (Vovk et al. 2005).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.errors import InputError
from staypositive.models import RowMoments, Scorer
from staypositive.typed import fits

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = Floats | Tensor

SCORES = 2**31
"""So many scores are computed at most to fit, beyond those of 1,000 facts."""
PIECE = 2**24
"""Scores held at once."""
ENOUGH = 100
"""Held-out facts from which a relation has thresholds of its own."""


@dataclass(frozen=True)
class Conformal:
    """How strange held-out answers are, sorted, by side and, where there are enough, by relation."""

    pooled: dict[str, Floats]
    own: dict[tuple[str, int], Floats]

    @classmethod
    def fit(cls, scorer: Scorer, facts: Ints) -> Conformal:
        """Look at both sides of held-out facts."""
        if len(facts) < 10:
            raise InputError(f"prediction sets need at least 10 held-out facts, and there are {len(facts)}")
        nonconformity = Strangeness(scorer)
        some = max(1000, SCORES // scorer.n_entities)
        facts = facts[:: -(-len(facts) // some)]
        pooled, own = {}, {}
        for side in ("tail", "head"):
            values = nonconformity.of_facts(facts, side)
            pooled[side] = np.sort(values)
            relations, counts = np.unique(facts[:, 1], return_counts=True)
            for relation in relations[counts >= ENOUGH].tolist():
                own[side, relation] = np.sort(values[facts[:, 1] == relation])
        return cls(pooled, own)

    def threshold(self, side: str, relation: int, coverage: float, per_relation: bool = True) -> float:
        """Return the nonconformity up to which answers belong to the set; infinite where facts are too few."""
        if not fits(coverage, float) or not 0 < coverage < 1:
            raise InputError(f"coverage is a probability between 0 and 1, got {coverage!r:.80}")
        values = self._values(side, relation, per_relation)
        place = math.ceil((len(values) + 1) * coverage)
        if (place - 1) / (len(values) + 1) >= coverage:  # the product was rounded up past a whole number
            place -= 1
        return math.inf if place > len(values) else float(values[place - 1])

    def entry(self, side: str, relation: int, strange: Floats, per_relation: bool = True) -> Floats:
        """Return the coverages above which answers of this nonconformity belong to the set; inverts `threshold`.

        The k-th held-out value is the first to reach it, and ⌈(n+1)c⌉ ≥ k just when c > (k−1)/(n+1).
        """
        values = self._values(side, relation, per_relation)
        return np.asarray(np.searchsorted(values, strange - ROUNDING, side="left") / (len(values) + 1))

    def _values(self, side: str, relation: int, per_relation: bool) -> Floats:
        own = self.own.get((side, relation)) if per_relation else None
        return self.pooled[side] if own is None else own


ROUNDING = 1e-9
"""How far two values may lie apart, relative to 1, that rounding alone tells apart."""


def within(strange: Values, limit: Values | float) -> Any:
    """Return which values are at most the limit, or equal to it but for rounding."""
    return strange <= limit + ROUNDING


class Strangeness:
    """Half the logarithm of a query's kurtosis, less an answer's z-score; both over all entities."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer.exact().asked()
        self.moments = RowMoments.of(self.scorer.entity_rows)

    def of_facts(self, facts: Ints, side: str) -> Floats:
        """Return how strange the true answers of one side of some facts are."""
        asked, column = torch.as_tensor(facts, device=self.scorer.device), 2 if side == "tail" else 0
        pieces = asked.split(max(1, PIECE // self.scorer.n_entities))
        found = [self.of_all(piece, side).gather(1, piece[:, [column]])[:, 0] for piece in pieces]
        values: Floats = torch.cat(found).double().cpu().numpy()
        return values

    @torch.no_grad()
    def of_all(self, facts: Tensor, side: str) -> Tensor:
        """Return how strange every entity is as an answer of one side of some triples, shape (n, |E|)."""
        heads, relations, tails = facts.unbind(1)
        scorer = self.scorer
        queries = scorer.tail_queries(heads, relations) if side == "tail" else scorer.head_queries(relations, tails)
        z = self.moments.z_scores(queries, queries @ scorer.entity_rows.T)
        kurtosis = z.square().square().mean(1, keepdim=True)
        return kurtosis.clamp(min=1.0).log() / 2 - z
