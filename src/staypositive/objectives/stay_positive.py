"""The paper's objective: facts alone, and a closed-form penalty on the sum of all possible scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torch.nn.functional import softplus

from staypositive.models import BilinearModel
from staypositive.objectives.objective import Batch, Defaults, LogisticForm, Objective
from staypositive.objectives.statistics import Statistic
from staypositive.options import Applies, option

_PENALISED = Applies("a penalty_weight above 0", "penalty_weight", lambda own: own.penalty_weight > 0)


@dataclass(frozen=True)
class StayPositive(Objective):
    """Σ softplus(−(φ+ψ)) over the facts + λ·|Σ φ|^p over all triples of the scope (equations 2 and 3).

    The sum of all scores is the score of the summed rows (Theorem 1). In batch scope it runs over the entities and
    relations of the batch, each counted once. `weighting="paper"` adds the whole penalty to each batch;
    `"authors"` divides it by the number of batches, as the authors' code does. For a scalar any p-norm is |x|, so
    `power=2` means the square, as in that code.
    """

    name: ClassVar[str] = "stay-positive"
    defaults: ClassVar[Defaults] = Defaults(bound="tanh", init_scale=None, accumulator=0.1)
    statistic = Statistic.SUM
    statistic_terms: ClassVar[frozenset[str]] = frozenset({"penalty"})
    search_space: ClassVar[dict[str, Any]] = Objective.search_space | {
        "penalty_weight": {"low": 1e-4, "high": 1.0, "log": True},
        "prior_score": {"low": -4.0, "high": 0.0},
    }
    paper_grid: ClassVar[dict[str, Any]] = {
        "learning_rate": (0.1, 0.01, 0.001, 0.0001),
        "penalty_weight": (0.1, 0.001),
        "dim": (100, 200),
        "dropout": (0.0, 0.4),
        "prior_score": (-3.0, -2.0, -1.0, 0.0),
    }

    penalty_weight: float = option(0.1, "weight λ of the penalty on the sum of all scores", least=0)
    power: int = option(1, "1 for |sum|, 2 for its square", choices=(1, 2), applies=_PENALISED)
    scope: str = option(
        "batch",
        "sum over the batch's entities and relations, or over all",
        choices=("batch", "all"),
        applies=_PENALISED,
    )
    weighting: str = option(
        "authors",
        "penalty whole in each batch (paper) or divided by the number of batches (authors)",
        choices=("paper", "authors"),
        applies=_PENALISED,
    )

    @property
    def touches_all_rows(self) -> bool:
        """All scope sums over every row."""
        return self.scope == "all"

    def logistic_form(self, batches: int) -> LogisticForm:
        return LogisticForm(penalty=self.weight(batches), power=self.power)

    def weight(self, batches: int) -> float:
        """Return what the penalty of one batch is multiplied by, given the number of batches per epoch."""
        return self.penalty_weight / (batches if self.weighting == "authors" else 1)

    def terms(self, model: BilinearModel, batch: Batch) -> dict[str, Tensor]:
        entities, relations = batch.summed_rows()
        total = model.sum_rows(entities, relations, entities)
        size = total.abs() if self.power == 1 else total.square()
        return {
            "facts": batch.weighted(softplus(-batch.logits(model))).sum(),
            "penalty": self.weight(batch.batches) * size,
        }
