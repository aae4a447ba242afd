"""What there is to train, whatever takes the steps."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models import BilinearModel, BlockModel
from staypositive.objectives import LogisticForm, Objective
from staypositive.training.facts import FactsInMemory, FactStream
from staypositive.training.optimisers import AdaGrad, RowOptimiser
from staypositive.training.world import World


@dataclass(frozen=True)
class TrainingTask:
    """What there is to train: a model by an objective, on facts in memory or on disk, here or over processes."""

    model: BilinearModel
    objective: Objective
    optimiser: RowOptimiser
    facts: Tensor | FactStream
    batch_size: int
    seed: int
    weights: Tensor | None = None
    """What each fact's loss counts; None: all alike."""
    world: World | None = None
    """The processes that share the entity table; None: it is whole in this one."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise SettingError(f"the batch size must be at least 1, got {self.batch_size}")

    @property
    def batches(self) -> int:
        return -(-len(self.facts) // self.batch_size)

    def source(self) -> FactsInMemory | FactStream:
        """Return the facts with what the objective prepares for each."""
        if isinstance(self.facts, FactStream):
            return self.facts
        prepared = self.objective.prepare(self.facts, self.model.n_entities, len(self.model.relations))
        if self.weights is not None:
            own = prepared.get("weight")
            prepared["weight"] = self.weights if own is None else own * self.weights
        return FactsInMemory(self.facts, prepared)

    def compiled(self) -> tuple[BlockModel, AdaGrad, LogisticForm]:
        """Return model, optimiser and loss as compiled steps take them, where `engines` found that they serve."""
        form = self.objective.logistic_form(self.batches)
        assert isinstance(self.model, BlockModel)
        assert isinstance(self.optimiser, AdaGrad)
        assert form is not None
        return self.model, self.optimiser, form
