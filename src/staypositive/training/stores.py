"""Row stores: where a step's rows come from, and where their gradients go.

A store fetches the rows of a batch with what the objective must know of all others, says by which tensors the loss is
to be differentiated, and takes those gradients back to the tables. Every store leads to the same steps, to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from staypositive.models.contract import wide
from staypositive.objectives import Batch, Statistic
from staypositive.training.state import State, copy_into
from staypositive.training.task import TrainingTask


class Fetched(NamedTuple):
    """A batch with its rows, and the tensors by which its loss is to be differentiated."""

    batch: Batch
    leaves: Sequence[Tensor]
    entity_ids: Tensor | None
    """The entities of the batch's rows; None for all."""
    relation_ids: Tensor | None
    masks: AbstractContextManager[None] = nullcontext()
    """What to enter while the loss is computed, so that dropout masks are those of the whole batch."""


class RowStore:
    """The whole tables in this process; a step differentiates by the rows that it touches."""

    reuses_graph: ClassVar[bool] = False
    """Whether `push` differentiates again through the rows of the batch."""
    takes_all_relations: ClassVar[bool] = False
    """Whether a step takes all relations, whatever it takes of the entities."""

    def __init__(self, task: TrainingTask) -> None:
        self.task, self.model, self.objective, self.optimiser = task, task.model, task.objective, task.optimiser
        self.shared = task.model.shared()

    @property
    def whole(self) -> bool:
        """Whether a step takes whole tables, rather than the distinct rows of its examples."""
        return self.objective.touches_all_rows

    def fetch(self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor) -> Fetched:
        """Gather the rows that a step on some facts touches; `key` has shape (1,)."""
        examples = self.objective.examples(facts[None], self.model.n_entities, key)[0]
        heads, relations, tails = examples.unbind(1)
        entity_ids = relation_ids = None
        if not self.whole:
            entity_ids, positions = torch.unique(torch.cat([heads, tails]), return_inverse=True)
            heads, tails = positions.split(len(heads))
        if not (self.whole or self.takes_all_relations):
            relation_ids, relations = torch.unique(relations, return_inverse=True)
        weights = leaf(self.model.entities, entity_ids), leaf(self.model.relations, relation_ids)
        batch = self.batch_of((heads, relations, tails), len(facts), weights, prepared, key)
        return Fetched(batch, (*weights, *self.shared.values()), entity_ids, relation_ids)

    def batch_of(
        self,
        positions: tuple[Tensor, Tensor, Tensor],
        n_facts: int,
        weights: tuple[Tensor, Tensor],
        prepared: dict[str, Tensor],
        key: Tensor,
    ) -> Batch:
        """Form rows from the weights of entities and relations, as the loss sees them."""
        rows = self.model.form_entity_rows(weights[0]), self.model.form_relation_rows(weights[1])
        return Batch(*positions, n_facts, *weights, *rows, self.task.batches, key[0], prepared)

    def share(self, terms: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return what this process counts of each term."""
        return terms

    def collect(
        self, terms: dict[str, Tensor], gradients: Sequence[Tensor]
    ) -> tuple[dict[str, Tensor], Sequence[Tensor]]:
        """Return terms and gradients as all processes have them together."""
        return terms, gradients

    def push(self, fetched: Fetched, gradients: Sequence[Tensor]) -> None:
        """Update the tables, given the gradients by the leaves."""
        of_entities, *others = gradients
        self.optimiser.update("entities", fetched.entity_ids, of_entities)
        self.push_others(fetched.relation_ids, others)

    def push_others(self, relation_ids: Tensor | None, gradients: Sequence[Tensor]) -> None:
        """Update the relations, and the tables beside them, which every step touches whole."""
        ids = {"relations": relation_ids, **dict.fromkeys(self.shared)}
        for table, gradient in zip(ids, gradients, strict=True):
            self.optimiser.update(table, ids[table], wide(gradient))

    def mean_score(self) -> float:
        return float(self.model.mean_score())

    def state(self) -> State:
        """Return what the next step depends on beside model and optimiser."""
        return {}

    def restore(self, state: State) -> None:
        """Put back what `state` returned."""


class WholeTables(RowStore):
    """Takes the same steps on whole tables, so that no shape depends on which rows a step touches.

    A row without gradient stays as it is (AdaGrad only), so only sums over the examples' rows must leave out others.
    """

    @property
    def whole(self) -> bool:
        return True

    def fetch(self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor) -> Fetched:
        """Tell the examples' own rows from all others."""
        fetched = super().fetch(facts, prepared, key)
        batch = fetched.batch
        here = [rows.new_zeros(len(rows), 1) for rows in (batch.entity_rows, batch.relation_rows)]
        here[0].index_fill_(0, batch.heads, 1).index_fill_(0, batch.tails, 1)
        here[1].index_fill_(0, batch.relations, 1)
        return fetched._replace(batch=replace(batch, present=(here[0], here[1])))


class GramRows(RowStore):
    """For exact steps on G: differentiates by the rows of the facts and by G, not through all rows.

    The loss sees the entities that a batch does not hold through G = EᵀE only, so ∂L/∂E is E(∂L/∂G + ∂L/∂Gᵀ) plus
    what the facts' own rows got: two products of |E| × width² each, and no other pass but the optimiser's.
    """

    def fetch(self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor) -> Fetched:
        """Gather the rows of the facts, and G."""
        fetched = super().fetch(facts, prepared, key)
        batch = fetched.batch
        rows = batch.entity_rows.detach()
        heads, tails = (rows[ids].requires_grad_() for ids in (batch.heads, batch.tails))
        gram = Statistic.GRAM.of(rows).requires_grad_()
        fact_rows = heads, batch.relation_rows.index_select(0, batch.relations), tails
        leaves = (heads, tails, gram, batch.relation_weights, *self.shared.values())
        return fetched._replace(batch=replace(batch, statistic=gram, fact_rows=fact_rows), leaves=leaves)

    def push(self, fetched: Fetched, gradients: Sequence[Tensor]) -> None:
        """Spread the gradient of G over all rows, and add those of the facts' own."""
        of_heads, of_tails, of_gram, *others = gradients
        batch = fetched.batch
        of_rows = Statistic.GRAM.spread(batch.entity_rows.detach(), of_gram)
        of_rows.index_add_(0, batch.heads, of_heads).index_add_(0, batch.tails, of_tails)
        self.optimiser.update("entities", None, through_bound(batch.entity_rows, batch.entity_weights, of_rows))
        self.push_others(None, others)


class GramInterval(RowStore):
    """For tables too large for two products per step: steps that change their facts' rows only.

    Those rows take the whole gradient, that through G included, and G follows them exactly, by their old and new
    outer products. For the others ∂L/∂G adds up, and every `spread_interval` steps they take it at once.
    """

    reuses_graph = takes_all_relations = True
    gram: Tensor
    pending: Tensor
    """∂L/∂G of the steps since rows were last spread to."""
    taken: Tensor
    """What each row has taken of that already, shape (|E|, row width)."""
    steps = 0

    def fetch(self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor) -> Fetched:
        """Gather the rows of the facts, all relations, and G as it has followed the steps."""
        if self.steps == 0:
            self._form_gram()
        self.steps += 1
        fetched, gram = super().fetch(facts, prepared, key), self.gram.requires_grad_()
        own, *others = fetched.leaves
        return fetched._replace(batch=replace(fetched.batch, statistic=gram), leaves=(own, gram, *others))

    def push(self, fetched: Fetched, gradients: Sequence[Tensor]) -> None:
        """Update the batch's rows, and let G follow them."""
        of_own, of_gram, *others = gradients
        batch, ids = fetched.batch, fetched.entity_ids
        old, through_gram = batch.entity_rows, Statistic.GRAM.spread(batch.entity_rows.detach(), of_gram)
        self.gram = self.gram.detach()
        of_own += through_bound(old, batch.entity_weights, through_gram)
        self.taken[ids] += through_gram
        self.pending += of_gram
        self.push_others(None, others)
        self.optimiser.update("entities", ids, of_own)
        with torch.no_grad():
            new = self.model.entity_rows(ids)
            self.gram += new.T @ new - old.T @ old
        if self.steps % self.objective.spread_interval == 0:
            self._spread()

    def state(self) -> State:
        """Return G and what is pending, once there has been a step."""
        return {"gram": self.gram, "pending": self.pending, "taken": self.taken} if self.steps else {}

    def restore(self, state: State) -> None:
        """Put back G as it was, rounding included."""
        self.steps = int(state["steps"])
        if self.steps:
            self._form_gram()
            copy_into(self.state(), state)

    def _spread(self) -> None:
        weights = leaf(self.model.entities)
        rows = self.model.form_entity_rows(weights)
        left = Statistic.GRAM.spread(rows.detach(), self.pending) - self.taken
        self.optimiser.update("entities", None, through_bound(rows, weights, left))
        self._form_gram()

    @torch.no_grad()
    def _form_gram(self) -> None:
        rows = self.model.entity_rows()
        self.gram = Statistic.GRAM.of(rows)
        self.pending, self.taken = torch.zeros_like(self.gram), torch.zeros_like(rows)


def leaf(table: Tensor, ids: Tensor | None = None) -> Tensor:
    """Return rows of a table, or all, as a leaf of the graph of autograd."""
    return wide(table.detach() if ids is None else table.detach()[ids]).requires_grad_()


def through_bound(rows: Tensor, weights: Tensor, gradient: Tensor) -> Tensor:
    """Return what a gradient of rows means for the weights that they are formed from."""
    return torch.autograd.grad(rows, weights, gradient, retain_graph=True)[0]
