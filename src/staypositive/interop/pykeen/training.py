"""Training in PyKEEN without negative sampling: our objectives on the rows of PyKEEN's own models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from pykeen.models import ERModel
from pykeen.regularizers import Regularizer
from pykeen.training import TrainingCallback, TrainingLoop
from pykeen.triples import CoreTriplesFactory
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from staypositive.errors import SettingError
from staypositive.interop.pykeen.rows import RowView
from staypositive.models import resolve_prior_score
from staypositive.models.hashing import step_keys
from staypositive.objectives import Batch, SecondMoment, StayPositive, build_objective, objective_options


class ClosedFormTrainingLoop(TrainingLoop):
    """A training loop whose loss is one of our objectives; the model's own loss is not used, its regularisers are.

    Keywords beyond PyKEEN's are the objective's options; `prior_score`, `prior` or `closed_world` for ψ; `dropout`.
    """

    objective_name: ClassVar[str]

    def __init__(
        self,
        model: ERModel,
        triples_factory: CoreTriplesFactory,
        *,
        prior_score: float | None = None,
        prior: float | None = None,
        closed_world: str | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        known = objective_options(self.objective_name)
        options = {name: kwargs.pop(name) for name in known if name in kwargs}
        inverse = model.use_inverse_triples
        if "reciprocal" in known and options.setdefault("reciprocal", inverse) != inverse:
            raise SettingError(
                f"reciprocal is {options['reciprocal']}, but the triples factory was made with "
                f"create_inverse_triples={inverse}; leave reciprocal out, and the factory decides"
            )
        if kwargs.get("loss_weighter") is not None:
            raise SettingError(f"{type(self).__name__} has no loss for a loss_weighter to weigh; leave it out")
        super().__init__(model, triples_factory, **kwargs)
        if options.get("gram_update_interval", 1) != 1:
            raise SettingError("gram_update_interval needs an engine of our own; a PyKEEN step updates all rows")
        self.objective = build_objective(self.objective_name, **options)
        density = triples_factory.num_triples / (model.num_entities**2 * triples_factory.real_num_relations)
        score = resolve_prior_score(prior_score, prior, closed_world, density=density)
        self.view = RowView(model, prior_score=score, dropout=dropout)
        self.batches, self.steps = 1, 0

    def _create_training_data_loader(
        self, triples_factory: CoreTriplesFactory, *, sampler: str | None, batch_size: int, drop_last: bool,
        **kwargs: Any,
    ) -> DataLoader[dict[str, Tensor]]:  # fmt: skip
        if sampler is not None:
            raise SettingError(f"{type(self).__name__} learns from all facts in random order, not by {sampler!r}")
        kwargs.pop("shuffle", None)
        kwargs["pin_memory"] = kwargs.get("pin_memory", False) and self.device.type == "cuda"
        facts = triples_factory._add_inverse_triples_if_necessary(triples_factory.mapped_triples)
        prepared = self.objective.prepare(facts, self.model.num_entities, self.model.num_relations)
        held = _Batches({"facts": facts, **prepared}, batch_size, drop_last)
        self.batches = len(held)
        return DataLoader(held, sampler=held, batch_size=None, **kwargs)

    @staticmethod
    def _get_batch_size(batch: dict[str, Tensor]) -> int:
        return len(batch["facts"])

    def _process_batch(
        self, batch: dict[str, Tensor], start: int, stop: int, label_smoothing: float = 0.0,
        slice_size: int | None = None,
    ) -> Tensor:  # fmt: skip
        if label_smoothing or slice_size is not None:
            raise SettingError(f"{type(self).__name__} has no labels to smooth and no scores to slice")
        if (start, stop) != (0, len(batch["facts"])):
            raise SettingError("a closed form belongs to a whole batch; take a smaller batch_size, not sub-batches")
        prepared = {name: values.to(self.device) for name, values in batch.items()}
        facts = prepared.pop("facts")
        key = step_keys(torch.initial_seed(), self.steps, 1, facts.device)[0]
        self.steps += 1
        terms = self.objective.terms(self.view.algebra, self._rows_of(facts, prepared, key))
        loss: Tensor = torch.stack(list(terms.values())).sum() + self.model.collect_regularization_term()
        return loss

    def _rows_of(self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor) -> Batch:
        """Return what the objective sees of some facts, shape (n, 3): their distinct rows, or every row."""
        heads, relations, tails = facts.unbind(1)
        entity_ids = relation_ids = None
        if not self.objective.touches_all_rows:
            entity_ids, positions = torch.unique(torch.cat([heads, tails]), return_inverse=True)
            heads, tails = positions.split(len(heads))
            relation_ids, relations = torch.unique(relations, return_inverse=True)
        rows = self.view.entity_rows(entity_ids, plain=False), self.view.relation_rows(relation_ids, plain=False)
        return Batch(heads, relations, tails, len(facts), *rows, *rows, self.batches, key, prepared)

    def _slice_size_search(self, **_: Any) -> int:
        raise MemoryError("this model does not fit in memory with this batch_size; take a smaller one")


class StayPositiveTrainingLoop(ClosedFormTrainingLoop):
    """The paper's objective: facts, and a penalty on the sum of all possible scores (Theorem 1)."""

    objective_name = StayPositive.name


class SecondMomentTrainingLoop(ClosedFormTrainingLoop):
    """Least squares over every possible triple, by the sum of all squared scores in closed form.

    Heads are predicted through PyKEEN's inverse triples where the factory makes them, else explicitly.
    """

    objective_name = SecondMoment.name


class _Batches(Dataset[dict[str, Tensor]]):
    """Facts with what the objective prepared for each, by their numbers; and those numbers, shuffled, by batches."""

    def __init__(self, columns: dict[str, Tensor], batch_size: int, drop_last: bool) -> None:
        self.columns, self.batch_size, self.total = columns, batch_size, len(columns["facts"])
        self.used = self.total - self.total % batch_size if drop_last else self.total

    def __getitem__(self, chosen: Tensor) -> dict[str, Tensor]:
        return {name: values[chosen] for name, values in self.columns.items()}

    def __iter__(self) -> Iterator[Tensor]:
        yield from torch.randperm(self.total)[: self.used].split(self.batch_size)

    def __len__(self) -> int:
        return -(-self.used // self.batch_size)


class StayPositiveRegularizer(Regularizer):
    """weight · |Σ φ|^power over all triples of a model: the score of its summed rows (Theorem 1), once per batch.

    PyKEEN shows a regulariser one tensor at a time; this one needs the model, so `bind` it, or let the training
    callback `stay-positive` do so.
    """

    def __init__(self, weight: float = 0.1, power: int = 1, **kwargs: Any) -> None:
        super().__init__(weight=weight, **kwargs)
        self.power = StayPositive(power=power).power
        self.view: RowView | None = None

    def bind(self, model: ERModel) -> StayPositiveRegularizer:
        """Penalise this model's scores from now on; return the regulariser."""
        self.view = RowView(model)
        if all(module is not self for module in model.modules()):
            model.weight_regularizers.append(self.to(model.device))
        return self

    def forward(self, x: Tensor) -> Tensor:
        return x.new_zeros(())

    def update(self, *tensors: Tensor) -> None:
        """Ignore what passes through one representation."""

    def pop_regularization_term(self) -> Tensor:
        if self.view is None:
            raise SettingError(
                "the stay-positive regulariser does not know its model; add callbacks='stay-positive' to "
                "training_kwargs, or call bind(model)"
            )
        entities, relations = self.view.entity_rows(), self.view.relation_rows()
        penalty: Tensor = self.weight * self.view.algebra.sum_rows(entities, relations, entities).abs() ** self.power
        return penalty


class StayPositiveTrainingCallback(TrainingCallback):
    """Binds the model's stay-positive regulariser as training begins; where it has none, adds one of this weight."""

    def __init__(self, weight: float = 0.1, power: int = 1) -> None:
        super().__init__()
        self.weight, self.power = weight, power

    def register_training_loop(self, training_loop: TrainingLoop) -> None:
        super().register_training_loop(training_loop)
        model = training_loop.model
        own = [module for module in model.modules() if isinstance(module, StayPositiveRegularizer)]
        for regularizer in own or [StayPositiveRegularizer(self.weight, self.power)]:
            regularizer.bind(model)
