"""Training loops for PyKEEN that draw no negative: our objectives on the rows of PyKEEN's own models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from pykeen.models import ERModel
from pykeen.training import TrainingLoop
from pykeen.triples import CoreTriplesFactory
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from staypositive.errors import SettingError
from staypositive.interop.pykeen.rows import RowView
from staypositive.models import resolve_prior_score
from staypositive.models.hashing import step_keys
from staypositive.objectives import SecondMoment, StayPositive, build_objective, objective_options


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
        if "reciprocal" in known and options.setdefault("reciprocal", model.use_inverse_triples) != (
            model.use_inverse_triples
        ):
            raise SettingError(
                f"reciprocal is {options['reciprocal']}, but the triples factory was made with "
                f"create_inverse_triples={model.use_inverse_triples}; leave reciprocal out, and the factory decides"
            )
        if kwargs.get("loss_weighter") is not None:
            raise SettingError(f"{type(self).__name__} has no loss for a loss_weighter to weigh; leave it out")
        super().__init__(model, triples_factory, **kwargs)
        if options.get("gram_update_interval", 1) != 1:
            raise SettingError("gram_update_interval needs an engine of our own; a PyKEEN step spreads at once")
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
        held = _Facts(
            {"facts": facts, **self.objective.prepare(facts, self.model.num_entities, self.model.num_relations)}
        )
        loader = DataLoader(held, sampler=_Shuffled(len(facts), batch_size, drop_last), batch_size=None, **kwargs)
        self.batches = len(loader)
        return loader

    @staticmethod
    def _get_batch_size(batch: dict[str, Tensor]) -> int:
        return len(batch["facts"])

    def _process_batch(
        self,
        batch: dict[str, Tensor],
        start: int,
        stop: int,
        label_smoothing: float = 0.0,
        slice_size: int | None = None,
    ) -> Tensor:
        if label_smoothing or slice_size is not None:
            raise SettingError(f"{type(self).__name__} has no labels to smooth and no scores to slice")
        if (start, stop) != (0, len(batch["facts"])):
            raise SettingError("a closed form belongs to a whole batch; take a smaller batch_size, not sub-batches")
        prepared = {name: values.to(self.device) for name, values in batch.items()}
        facts = prepared.pop("facts")
        key = step_keys(torch.initial_seed(), self.steps, 1, facts.device)[0]
        self.steps += 1
        seen = self.view.batch(facts, self.objective.touches_all_rows, self.batches, key, prepared, plain=False)
        terms = self.objective.terms(self.view.algebra, seen)
        loss: Tensor = torch.stack(list(terms.values())).sum() + self.model.collect_regularization_term()
        return loss

    def _slice_size_search(self, **_: Any) -> int:
        raise MemoryError("this model does not fit in memory with this batch_size; take a smaller one")


class StayPositiveTrainingLoop(ClosedFormTrainingLoop):
    """The paper's objective: facts, and a penalty on the sum of all possible scores (Theorem 1)."""

    objective_name = StayPositive.name


class SecondMomentTrainingLoop(ClosedFormTrainingLoop):
    """Least squares over every triple there is, by the sum of all squared scores in closed form.

    Heads are asked for through PyKEEN's inverse triples where the factory makes them, else explicitly.
    """

    objective_name = SecondMoment.name


class _Facts(Dataset[dict[str, Tensor]]):
    """Facts, and what the objective prepared for each, fetched a batch at a time."""

    def __init__(self, columns: dict[str, Tensor]) -> None:
        self.columns = columns

    def __getitem__(self, chosen: Tensor) -> dict[str, Tensor]:
        return {name: values[chosen] for name, values in self.columns.items()}

    def __len__(self) -> int:
        return len(self.columns["facts"])


class _Shuffled(Sampler[Tensor]):
    """The numbers of the facts of each batch, in an order of its own each epoch."""

    def __init__(self, count: int, batch_size: int, drop_last: bool) -> None:
        self.count, self.batch_size = count - count % batch_size if drop_last else count, batch_size
        self.total = count

    def __iter__(self) -> Iterator[Tensor]:
        yield from torch.randperm(self.total)[: self.count].split(self.batch_size)

    def __len__(self) -> int:
        return -(-self.count // self.batch_size)
