"""What the sections of a report share, computed once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from staypositive.evaluation import Ranks, sigmoid
from staypositive.graph import KnowledgeGraph
from staypositive.graph.knowledge_graph import Split
from staypositive.inference import ExpectedCount, Predictor, expected_counts
from staypositive.models import logit

if TYPE_CHECKING:
    from staypositive.run import Run

MOST_JUDGED = 20_000  # triples of a split that densities are drawn from


@dataclass
class ReportData:
    """A run, the split its quality is shown on, and how much is drawn and listed."""

    run: Run
    split: str | None
    prior: float | None = None
    samples: int = 20_000
    points: int = 3000
    seed: int = 0
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def graph(self) -> KnowledgeGraph:
        return self.run.graph

    @cached_property
    def predictor(self) -> Predictor:
        return self.run.predictor

    @cached_property
    def held(self) -> Split:
        """The triples that quality is shown on, evenly spaced where there are too many."""
        assert self.split is not None
        own = self.graph.split(self.split)
        if len(own) <= MOST_JUDGED:
            return own
        kept = np.linspace(0, len(own) - 1, MOST_JUDGED).astype(np.int64)
        return own.take(np.isin(np.arange(len(own)), kept))

    @cached_property
    def expected(self) -> list[ExpectedCount]:
        return expected_counts(self.predictor, prior=self.prior, samples=self.samples, seed=self.seed)

    @property
    def ranks(self) -> Ranks:
        """Ranks of both sides of each fact of the split: tail queries first, then head queries."""
        assert self.split is not None
        return self.run.ranks[self.split]

    def probabilities(self, triples: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return probabilities, each at the prior of its relation."""
        shifts = np.array([logit(expected.prior) for expected in self.expected]) - logit(self.predictor.base_prior)
        return sigmoid(self.predictor.triple_logits(triples) + shifts[triples[:, 1]])
