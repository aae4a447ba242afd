"""The penalty on the sum of all scores as a PyKEEN regulariser, beside whatever loss and loop one has."""

from __future__ import annotations

from typing import Any

import torch
from pykeen.models import ERModel
from pykeen.regularizers import Regularizer
from pykeen.training import TrainingCallback, TrainingLoop
from torch import Tensor

from staypositive.errors import SettingError
from staypositive.interop.pykeen.rows import RowView
from staypositive.objectives import StayPositive


class StayPositiveRegularizer(Regularizer):
    """weight · |Σ φ|^power over all triples of a model: the score of its summed rows (Theorem 1), once a batch.

    PyKEEN shows a regulariser one tensor at a time; this one needs the model, so `bind` it, or let the training
    callback `stay-positive` do so.
    """

    def __init__(self, weight: float = 0.1, power: int = 1, **kwargs: Any) -> None:
        super().__init__(weight=weight, **kwargs)
        self.objective = StayPositive(penalty_weight=1.0, power=power, scope="all", weighting="paper")
        self.view: RowView | None = None

    def bind(self, model: ERModel) -> StayPositiveRegularizer:
        """Say whose scores are meant; the model collects the penalty from now on."""
        self.view = RowView(model)
        if all(module is not self for module in model.modules()):
            model.weight_regularizers.append(self.to(model.device))
        return self

    def forward(self, x: Tensor) -> Tensor:
        """A single tensor has no penalty."""
        return x.new_zeros(())

    def update(self, *tensors: Tensor) -> None:
        """What passes through one representation is of no interest."""

    def pop_regularization_term(self) -> Tensor:
        """Return the penalty of the model as it is."""
        if self.view is None:
            raise SettingError(
                "the stay-positive regulariser does not know its model; add callbacks='stay-positive' to "
                "training_kwargs, or call bind(model)"
            )
        any_fact = torch.zeros(1, 3, dtype=torch.long, device=self.weight.device)  # the penalty is of all scores
        batch = self.view.batch(any_fact, every_row=True, batches=1, key=any_fact.sum(), prepared={}, plain=True)
        penalty: Tensor = self.weight * self.objective.terms(self.view.algebra, batch)["penalty"]
        return penalty


class StayPositiveTrainingCallback(TrainingCallback):
    """Binds the model's stay-positive regulariser as training begins; where it has none, adds one of this weight."""

    def __init__(self, weight: float = 0.1, power: int = 1) -> None:
        super().__init__()
        self.weight, self.power = weight, power

    def register_training_loop(self, training_loop: TrainingLoop) -> None:
        """Bind."""
        super().register_training_loop(training_loop)
        model = training_loop.model
        own = [module for module in model.modules() if isinstance(module, StayPositiveRegularizer)]
        for regularizer in own or [StayPositiveRegularizer(self.weight, self.power)]:
            regularizer.bind(model)
