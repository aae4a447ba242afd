"""One epoch over the facts. An engine owns the steps; the loop around it knows epochs alone.

`ReferenceEngine` is the definition: plain autograd on the rows that a step touches. A faster engine must take the
same steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models import BilinearModel
from staypositive.models.hashing import step_keys
from staypositive.objectives import Batch, Objective
from staypositive.training.optimisers import RowOptimiser
from staypositive.training.state import State, copy_into, under, within


class Engine(ABC):
    """What the loop drives."""

    model: BilinearModel

    @abstractmethod
    def run_epoch(self) -> dict[str, Tensor]:
        """Go once through all facts; return each term's mean a fact, on the device.

        A step whose loss is not finite changes nothing, and makes the mean of its term not finite.
        """

    def state(self) -> State:
        """Return all that the next epoch depends on: weights, the optimiser's state, where the random draws stand.

        The tensors may be the engine's own: keep a copy of them, not them.
        """
        raise SettingError(f"{type(self).__name__} cannot put its state aside, so it cannot train with a checkpoint")

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, by this engine or by one that was built alike."""
        raise SettingError(f"{type(self).__name__} cannot go on from a checkpoint")


class ReferenceEngine(Engine):
    """Autograd, step by step.

    Facts stay on the model's device; shuffling, sampling, distinct rows and updates all happen there, and nothing
    waits for the device within an epoch.
    """

    def __init__(
        self,
        model: BilinearModel,
        objective: Objective,
        optimiser: RowOptimiser,
        facts: Tensor,
        batch_size: int,
        seed: int,
    ) -> None:
        if batch_size < 1:
            raise SettingError(f"the batch size must be at least 1, got {batch_size}")
        self.model, self.objective, self.optimiser = model, objective, optimiser
        self.facts, self.batch_size, self.seed = facts, batch_size, seed
        self.n_facts, self.batches = len(facts), -(-len(facts) // batch_size)
        self.prepared = objective.prepare(facts, model.n_entities, len(model.relations))
        self.generator = torch.Generator(facts.device).manual_seed(seed)
        self.steps = 0
        self.between_steps: Callable[[], None] = _nothing
        """Called after every step; not a part of the state."""

    @property
    def passes_over_all(self) -> bool:
        """Whether a step takes whole tables, rather than the distinct rows of its examples."""
        return self.objective.touches_all_rows

    def set_sample_weights(self, weights: Tensor) -> None:
        """Let each fact's loss count so much, beside what the objective makes of it itself."""
        own = self.prepared.get("weight")
        self.prepared["weight"] = weights if own is None else own * weights

    def share_cores(self, is_crowded: bool) -> None:
        """Hear whether other programs use the cores; an engine may use fewer where that changes no result."""

    def run_epoch(self) -> dict[str, Tensor]:
        """Shuffle, then step through the batches; the last one may be short."""
        self.model.train()
        totals: dict[str, Tensor] = {}
        for facts, prepared in self.epoch_batches():
            share = len(facts) if self.objective.averages else 1
            for name, term in self.step(facts, prepared).items():
                totals[name] = totals.get(name, 0) + term * share
            self.between_steps()
        return {name: total / self.n_facts for name, total in totals.items()}

    def epoch_batches(self) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """Yield the facts of each step in a new order, and what the objective prepared for them."""
        order = torch.randperm(len(self.facts), generator=self.generator, device=self.facts.device)
        for chosen in order.split(self.batch_size):
            yield self.facts[chosen], self.prepared_for(chosen)

    def state(self) -> State:
        """Return weights, the optimiser's state, the shuffler's, and the number of steps, which all hashes go by."""
        return {
            **under("model", self.model.state_dict()),
            **under("optimiser", self.optimiser.state()),
            "generator": self.generator.get_state(),
            "steps": torch.tensor(self.steps),
        }

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken; tables stay where they are in memory."""
        copy_into(under("model", self.model.state_dict()), state)
        self.optimiser.restore(within("optimiser", state))
        self.generator.set_state(state["generator"])
        self.steps = int(state["steps"])

    def prepared_for(self, chosen: Tensor) -> dict[str, Tensor]:
        """Return what the objective prepared for some facts, by their numbers."""
        return {name: values[chosen] for name, values in self.prepared.items()}

    def step(self, facts: Tensor, prepared: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Take one step on some facts, shape (n, 3); return the terms of its loss before the step."""
        key = step_keys(self.seed, self.steps, 1, facts.device)
        self.steps += 1
        return self._step(facts, prepared or {}, key)

    def _step(self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor) -> dict[str, Tensor]:
        batch, entity_ids, relation_ids = self._batch(facts, prepared, key)
        terms = self.objective.terms(self.model, batch)
        loss = torch.stack(list(terms.values())).sum()
        shared = self.model.shared()
        gradients = torch.autograd.grad(loss, (batch.entity_weights, batch.relation_weights, *shared.values()))
        finite = torch.isfinite(loss)  # stays on the device: a bad step is masked, not waited for
        self.optimiser.begin_step(batch.key)
        touched = {"entities": entity_ids, "relations": relation_ids, **dict.fromkeys(shared)}
        for (table, ids), gradient in zip(touched.items(), gradients, strict=True):
            gradient = _wide(gradient)
            self.optimiser.update(table, ids, torch.where(finite, gradient, torch.zeros_like(gradient)))
        return {name: term.detach() for name, term in terms.items()}

    def _batch(
        self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor
    ) -> tuple[Batch, Tensor | None, Tensor | None]:
        """Gather the rows that the step touches; None stands for all rows."""
        model, objective = self.model, self.objective
        heads, relations, tails = objective.examples(facts[None], model.n_entities, key)[0].unbind(1)
        entity_ids = relation_ids = None
        if not self.passes_over_all:
            entity_ids, positions = torch.unique(torch.cat([heads, tails]), return_inverse=True)
            heads, tails = positions.split(len(heads))
            relation_ids, relations = torch.unique(relations, return_inverse=True)
        entity_weights = leaf(model.entities, entity_ids)
        relation_weights = leaf(model.relations, relation_ids)
        batch = Batch(
            heads=heads,
            relations=relations,
            tails=tails,
            n_facts=len(facts),
            entity_weights=entity_weights,
            relation_weights=relation_weights,
            entity_rows=model.form_entity_rows(entity_weights),
            relation_rows=model.form_relation_rows(relation_weights),
            batches=self.batches,
            key=key[0],
            prepared=prepared,
        )
        return batch, entity_ids, relation_ids


class WholeTableEngine(ReferenceEngine):
    """Takes the reference steps on whole tables, so that no shape depends on which rows a step touches.

    A row without gradient stays as it is (AdaGrad alone), so only sums over the examples' rows must leave out others.
    """

    @property
    def passes_over_all(self) -> bool:
        """Always."""
        return True

    def _batch(
        self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor
    ) -> tuple[Batch, Tensor | None, Tensor | None]:
        batch, *ids = super()._batch(facts, prepared, key)
        here = [rows.new_zeros(len(rows), 1) for rows in (batch.entity_rows, batch.relation_rows)]
        here[0].index_fill_(0, batch.heads, 1).index_fill_(0, batch.tails, 1)
        here[1].index_fill_(0, batch.relations, 1)
        return replace(batch, present=(here[0], here[1])), ids[0], ids[1]


def _nothing() -> None:
    """Do nothing between steps."""


def leaf(table: Tensor, ids: Tensor | None = None) -> Tensor:
    """Return rows as a leaf of the graph."""
    return _wide(table.detach() if ids is None else table.detach()[ids]).requires_grad_()


def _wide(rows: Tensor) -> Tensor:
    """Return rows in 32 bits where they are kept in 16."""
    return rows.float() if rows.dtype == torch.bfloat16 else rows
