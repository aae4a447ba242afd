"""Steps by several processes, each with its share of the entity rows and of every batch's facts.

The steps are the reference engine's, to rounding: the same shuffling, dropout masks and negatives, which are hashes
of places in the whole batch. A step moves the rows of its examples and their gradients, the gradients of the
relations, which every process keeps, and what the objective must know of all rows (see `sums`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from staypositive.models import BilinearModel
from staypositive.models.dropout import masks_at
from staypositive.objectives import Batch, Objective
from staypositive.sharded.rows import RowExchange
from staypositive.sharded.sums import Share, row_sums
from staypositive.sharded.world import World
from staypositive.training import ReferenceEngine, RowOptimiser
from staypositive.training.engine import leaf


class ShardedEngine(ReferenceEngine):
    """The model's entity table has this process's rows alone; all else, the facts too, is everybody's."""

    def __init__(
        self,
        model: BilinearModel,
        objective: Objective,
        optimiser: RowOptimiser,
        facts: Tensor,
        batch_size: int,
        seed: int,
        world: World,
    ) -> None:
        super().__init__(model, objective, optimiser, facts, batch_size, seed)
        self.world, self.sums = world, row_sums(objective, world)

    @torch.no_grad()
    def mean_score(self) -> float:
        """Return the mean of φ over all triples, from one vector a process."""
        model = self.model
        entities = self.world.all_reduce("mean", model.entity_rows().sum(0)) / model.n_entities
        return float(model.score_rows(entities, model.relation_rows().mean(0), entities))

    def _step(self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor) -> dict[str, Tensor]:
        model, objective = self.model, self.objective
        examples = objective.examples(facts[None], model.n_entities, key)[0]
        share = Share.of(self.world, len(facts))
        places = torch.arange(len(examples), device=facts.device).view(-1, len(facts))[:, share.own].flatten()
        own_prepared = {name: values[share.own] for name, values in prepared.items()}
        batch, exchange, relation_ids = self._shared_batch(examples, places, own_prepared, key[0])
        own_ids = None if objective.touches_all_rows else exchange.touched
        own_weights = leaf(model.entities, own_ids)
        own_rows = model.form_entity_rows(own_weights)
        total = self.world.all_reduce("sums", self.sums.of(own_rows.detach())).requires_grad_()
        with masks_at(places):
            terms = self.sums.terms(model, batch, total, share)
        replicated = {"relations": batch.relation_weights, **model.shared()}
        loss = torch.stack(list(terms.values())).sum()
        of_entities, of_total, *of_rest = torch.autograd.grad(
            loss, (batch.entity_weights, total, *replicated.values())
        )
        sums, of_rest = self._add_up(terms, of_rest)
        gradient = _through(own_rows, own_weights, self.sums.spread(own_rows.detach(), self.sums.slope(of_total)))
        returned = exchange.give_back(of_entities)
        gradient = gradient.index_add(0, exchange.touched, returned) if own_ids is None else gradient + returned
        finite = torch.isfinite(torch.stack(list(sums.values())).sum())  # the same everywhere
        self.optimiser.begin_step(key[0])
        touched = {"entities": own_ids, "relations": relation_ids, **dict.fromkeys(model.shared())}
        for (table, ids), part in zip(touched.items(), (gradient, *of_rest), strict=True):
            self.optimiser.update(table, ids, torch.where(finite, part, torch.zeros_like(part)))
        return sums

    def _shared_batch(
        self, examples: Tensor, places: Tensor, prepared: dict[str, Tensor], key: Tensor
    ) -> tuple[Batch, RowExchange, Tensor | None]:
        """Gather the rows of the examples at these places; the relations are those of the whole batch, or all."""
        model = self.model
        heads, relations, tails = examples[places].unbind(1)
        entity_ids, positions = torch.unique(torch.cat([heads, tails]), return_inverse=True)
        relation_ids = None
        if not self.objective.touches_all_rows:
            relation_ids = torch.unique(examples[:, 1])
            relations = torch.searchsorted(relation_ids, relations.contiguous())
        exchange = RowExchange(self.world, entity_ids)
        entity_weights = leaf(exchange.fetch(model.entities.detach()))
        relation_weights = leaf(model.relations, relation_ids)
        batch = Batch(
            heads=positions[: len(heads)],
            relations=relations,
            tails=positions[len(heads) :],
            n_facts=len(places) // (1 + self.objective.negatives_per_fact),
            entity_weights=entity_weights,
            relation_weights=relation_weights,
            entity_rows=model.form_entity_rows(entity_weights),
            relation_rows=model.form_relation_rows(relation_weights),
            batches=self.batches,
            key=key,
            prepared=prepared,
        )
        return batch, exchange, relation_ids

    def _add_up(self, terms: dict[str, Tensor], gradients: list[Tensor]) -> tuple[dict[str, Tensor], list[Tensor]]:
        """Return terms and gradients summed over the processes: one vector to send."""
        parts = [*gradients, *(term.detach() for term in terms.values())]
        flat = self.world.all_reduce("relations", torch.cat([part.reshape(-1).to(gradients[0]) for part in parts]))
        found = flat.split([part.numel() for part in parts])
        summed = [own.view_as(part) for own, part in zip(found, parts, strict=True)]
        return dict(zip(terms, summed[len(gradients) :], strict=True)), summed[: len(gradients)]


def _through(rows: Tensor, weights: Tensor, gradient: Tensor) -> Tensor:
    """Return what a gradient of rows means for the weights that they are formed from."""
    return torch.autograd.grad(rows, weights, gradient)[0]
