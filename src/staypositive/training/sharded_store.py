"""Rows that are spread over processes: which process has which, and how a step's rows travel.

Rows are dealt like cards: entity e lives with process e mod N, at place e div N. Ids follow first use, so that the
frequent entities come first; contiguous ranges would leave most of the work to process 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from staypositive.models.hashing import masks_at
from staypositive.objectives import Statistic
from staypositive.training.stores import Fetched, RowStore, leaf, through_bound
from staypositive.training.task import TrainingTask
from staypositive.training.world import World


class Share(NamedTuple):
    """Which of a batch's facts a process takes.

    One that is left without any (a last batch may be short) computes the first fact's loss, to be counted 0.
    """

    own: slice
    counted: int
    facts: int
    """The number of facts in the whole batch."""

    @classmethod
    def of(cls, world: World, facts: int) -> Share:
        first, end = (facts * rank // world.size for rank in (world.rank, world.rank + 1))
        return cls(slice(first, end) if end > first else slice(0, 1), end - first, facts)


class RowExchange:
    """One step's traffic in rows: this process asks for some entities, and answers for its own.

    `touched` are the places of its own rows that anybody asked for, each once, in order.
    """

    touched: Tensor

    def __init__(self, world: World, ids: Tensor) -> None:
        """Ask for entities, given by distinct ids."""
        self.world = world
        owners = ids % world.size
        self.order = torch.argsort(owners, stable=True)
        sends = torch.bincount(owners, minlength=world.size)
        self.receives, self.sends = world.counts("rows", sends), [int(count) for count in sends.tolist()]
        places = (ids[self.order] // world.size).to(torch.int32)
        self.asked = world.exchange("rows", places, self.sends, self.receives).long()
        self.touched, self.slots = torch.unique(self.asked, return_inverse=True)

    def fetch(self, table: Tensor) -> Tensor:
        """Return the rows asked for, in the order of their ids, from this process's part of a table."""
        found = self.world.exchange("rows", table[self.asked], self.receives, self.sends)
        rows = torch.empty_like(found)
        rows[self.order] = found
        return rows

    def give_back(self, gradient: Tensor) -> Tensor:
        """Send gradients of the rows asked for to their owners; return the sums for `touched`, from all processes."""
        returned = self.world.exchange("rows", gradient[self.order], self.sends, self.receives)
        return returned.new_zeros(len(self.touched), returned.shape[1]).index_add_(0, self.slots, returned)


class ShardedRows(RowStore):
    """The part of the entity table that this process has; relations and facts are everybody's.

    Shuffling, dropout masks and negatives are hashes of places in the whole batch, so that the steps do not depend on
    the number of processes, but for rounding. A step moves the rows of its examples and their gradients, the
    gradients of the relations, and the statistic of all rows: each process adds up its own, one all-reduce adds up
    the processes, and the loss's gradient by it says what every row must take.
    """

    def __init__(self, task: TrainingTask) -> None:
        super().__init__(task)
        assert task.world is not None
        self.world, self.statistic = task.world, task.objective.statistic

    def fetch(self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor) -> Fetched:
        """Ask their owners for the rows of this process's share of the facts; relations are the whole batch's."""
        examples = self.objective.examples(facts[None], self.model.n_entities, key)[0]
        self.part = Share.of(self.world, len(facts))
        places = torch.arange(len(examples), device=facts.device).view(-1, len(facts))[:, self.part.own].flatten()
        heads, relations, tails = examples[places].unbind(1)
        entity_ids, positions = torch.unique(torch.cat([heads, tails]), return_inverse=True)
        relation_ids = None
        if not self.whole:
            relation_ids = torch.unique(examples[:, 1])
            relations = torch.searchsorted(relation_ids, relations.contiguous())
        self.exchange = RowExchange(self.world, entity_ids)
        self.own_ids = None if self.whole else self.exchange.touched
        self.own_weights = leaf(self.model.entities, self.own_ids)
        self.own_rows = self.model.form_entity_rows(self.own_weights)
        weights = leaf(self.exchange.fetch(self.model.entities.detach())), leaf(self.model.relations, relation_ids)
        where = positions[: len(heads)], relations, positions[len(heads) :]
        own_prepared = {name: values[self.part.own] for name, values in prepared.items()}
        n_facts = len(places) * len(facts) // len(examples)
        batch = replace(self.batch_of(where, n_facts, weights, own_prepared, key), n_whole=self.part.facts)
        leaves = (*weights, *self.shared.values())
        if self.statistic is not Statistic.NONE:
            total = self.world.all_reduce("sums", self.statistic.of(self.own_rows.detach())).requires_grad_()
            batch, leaves = replace(batch, statistic=total), (*leaves, total)
        return Fetched(batch, leaves, self.own_ids, relation_ids, masks_at(places))

    def share(self, terms: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return parts that add up to each term over all processes."""
        part, objective = self.part, self.objective
        of_facts = part.counted / part.facts if objective.averages else float(part.counted > 0)
        each = 1 / self.world.size
        return {
            name: term * (each if name in objective.statistic_terms else of_facts) for name, term in terms.items()
        }

    def collect(
        self, terms: dict[str, Tensor], gradients: Sequence[Tensor]
    ) -> tuple[dict[str, Tensor], Sequence[Tensor]]:
        """Add up, over the processes, the terms and all gradients but those of the fetched rows: one message."""
        of_entities, *others = gradients
        parts = [*others, *terms.values()]
        flat = self.world.all_reduce("gradients", torch.cat([part.reshape(-1).to(of_entities) for part in parts]))
        found = flat.split([part.numel() for part in parts])
        summed = [own.view_as(part) for own, part in zip(found, parts, strict=True)]
        return dict(zip(terms, summed[len(others) :], strict=True)), [of_entities, *summed[: len(others)]]

    def push(self, fetched: Fetched, gradients: Sequence[Tensor]) -> None:
        """Return the rows' gradients to their owners, and spread the statistic's over this process's rows."""
        of_entities, *others = gradients
        returned = self.exchange.give_back(of_entities)
        if self.statistic is not Statistic.NONE:
            of_rows = self.statistic.spread(self.own_rows.detach(), others.pop())
            gradient = through_bound(self.own_rows, self.own_weights, of_rows)
            whole = self.own_ids is None
            returned = gradient.index_add(0, self.exchange.touched, returned) if whole else gradient + returned
        self.optimiser.update("entities", self.own_ids, returned)
        self.push_others(fetched.relation_ids, others)

    @torch.no_grad()
    def mean_score(self) -> float:
        model = self.model
        entities = self.world.all_reduce("mean", model.entity_rows().sum(0)) / model.n_entities
        return float(model.score_rows(entities, model.relation_rows().mean(0), entities))
