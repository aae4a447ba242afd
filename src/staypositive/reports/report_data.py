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
from staypositive.inference import Predictor, score_statistics

if TYPE_CHECKING:
    import pandas as pd

    from staypositive.run import Run

MOST_JUDGED = 20_000  # triples of a split that densities are drawn from


@dataclass
class ReportData:
    """A run, the split its quality is shown on, and how much is drawn and listed."""

    run: Run
    split: str | None
    completeness: float | None = None
    points: int = 3000
    seed: int = 0
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def graph(self) -> KnowledgeGraph:
        return self.run.graph

    @cached_property
    def predictor(self) -> Predictor:
        return self.run.predictor.assuming(self.completeness)

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
    def statistics(self) -> pd.DataFrame:
        """Score statistics by relation, most facts first."""
        rows = score_statistics(self.predictor)
        return rows[rows["relation"] != "(all)"].sort_values("facts", ascending=False, kind="stable")

    @property
    def ranks(self) -> Ranks:
        """Ranks of both sides of each fact of the split: tail queries first, then head queries."""
        assert self.split is not None
        return self.run.ranks[self.split]

    def probabilities(self, triples: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probabilities of triples, facts too, as if they were not in the graph; NaN where not fitted."""
        return sigmoid(self.predictor.log_odds(triples))
