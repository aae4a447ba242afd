"""The second-moment step: autograd on the batch's rows and on G alone.

The loss sees the entities that a batch does not hold through G = EᵀE only. So a step differentiates by the rows of
its facts and by G, and ∂L/∂E is E(∂L/∂G + ∂L/∂Gᵀ) plus what the facts' own rows got.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import embedding

from staypositive.models import BilinearModel
from staypositive.objectives import Objective, SecondMoment
from staypositive.objectives.statistics import Candidates, gram_is_less_work, spread
from staypositive.training.engine import ReferenceEngine, leaf
from staypositive.training.state import State, copy_into


class MomentEngine(ReferenceEngine):
    """Takes the reference steps with two products of |E| × width² each, and no other pass but the optimiser's."""

    @staticmethod
    def serves(model: BilinearModel, objective: Objective, batch_size: int) -> bool:
        """Return whether steps are exact second-moment ones for which G is less work than enumeration."""
        is_exact = isinstance(objective, SecondMoment) and objective.touches_all_rows
        return is_exact and gram_is_less_work(batch_size, model.n_entities, model.entity_width())

    def _step(self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor) -> dict[str, Tensor]:
        objective = self.objective
        assert isinstance(objective, SecondMoment)
        batch, _, _ = self._batch(facts, prepared, key)
        rows = batch.entity_rows.detach()
        heads, tails = (rows[ids].requires_grad_() for ids in (batch.heads, batch.tails))
        gram = (rows.T @ rows).requires_grad_()
        terms = objective.terms_of_rows(
            self.model, batch, heads, batch.relation_rows.index_select(0, batch.relations), tails,
            Candidates(rows, gram), Candidates.of(batch.relation_rows, len(facts)),
        )  # fmt: skip
        shared = self.model.shared()
        of_heads, of_tails, of_gram, of_relations, *of_shared = _gradients(
            terms, heads, tails, gram, batch.relation_weights, *shared.values()
        )
        of_rows = spread(rows, of_gram)
        of_rows.index_add_(0, batch.heads, of_heads).index_add_(0, batch.tails, of_tails)
        self.optimiser.begin_step(batch.key)
        self.optimiser.update("entities", None, _through_bound(batch.entity_rows, batch.entity_weights, of_rows))
        for table, gradient in zip(("relations", *shared), (of_relations, *of_shared), strict=True):
            self.optimiser.update(table, None, gradient)
        return {name: term.detach() for name, term in terms.items()}


class SpreadEngine(ReferenceEngine):
    """For graphs whose table is too large for two products a step: steps that change their facts' rows alone.

    Those rows take the whole gradient, that through G included, and G follows them exactly, by their old and new
    outer products. For the others ∂L/∂G adds up, and every `gram_update_interval` steps they take it at once.
    """

    _FORMED: ClassVar[frozenset[str]] = frozenset({"gram", "pending", "taken"})

    gram: Tensor
    pending: Tensor
    """∂L/∂G of the steps since rows were last spread to."""
    taken: Tensor
    """What each row has taken of that already, shape (|E|, row width)."""

    def state(self) -> State:
        """Return the reference engine's state, and G and what is pending once there has been a step."""
        formed = {} if self.steps == 0 else {name: getattr(self, name) for name in self._FORMED}
        return super().state() | formed

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken; G goes on as it was, rounding included."""
        super().restore(state)
        if self.steps:
            self._form_gram()
            copy_into({name: getattr(self, name) for name in self._FORMED}, state)

    def _step(self, facts: Tensor, prepared: dict[str, Tensor], key: Tensor) -> dict[str, Tensor]:
        model, objective = self.model, self.objective
        assert isinstance(objective, SecondMoment)
        if self.steps == 1:
            self._form_gram()
        batch, ids, _ = self._batch(facts, prepared, key)
        all_relations = leaf(model.relations)
        relation_rows, gram = model.form_relation_rows(all_relations), self.gram.requires_grad_()
        terms = objective.terms_of_rows(
            model, batch, embedding(batch.heads, batch.entity_rows), embedding(facts[:, 1], relation_rows),
            embedding(batch.tails, batch.entity_rows), Candidates(batch.entity_rows, gram),
            Candidates.of(relation_rows, len(facts)),
        )  # fmt: skip
        shared = model.shared()
        of_own, of_gram, *others = _gradients(terms, batch.entity_weights, gram, all_relations, *shared.values())
        self.gram, through_gram = gram.detach(), spread(batch.entity_rows.detach(), of_gram)
        of_own += _through_bound(batch.entity_rows, batch.entity_weights, through_gram)
        self.taken[ids] += through_gram
        self.pending += of_gram
        self.optimiser.begin_step(batch.key)
        for table, gradient in zip(("relations", *shared), others, strict=True):
            self.optimiser.update(table, None, gradient)
        self.optimiser.update("entities", ids, of_own)
        with torch.no_grad():
            old, new = batch.entity_rows, model.entity_rows(ids)
            self.gram += new.T @ new - old.T @ old
        if self.steps % objective.gram_update_interval == 0:
            self._spread()
        return {name: term.detach() for name, term in terms.items()}

    def _spread(self) -> None:
        """Let every row take what has been pending."""
        weights = leaf(self.model.entities)
        rows = self.model.form_entity_rows(weights)
        left = spread(rows.detach(), self.pending) - self.taken
        self.optimiser.update("entities", None, _through_bound(rows, weights, left))
        self._form_gram()

    @torch.no_grad()
    def _form_gram(self) -> None:
        rows = self.model.entity_rows()
        self.gram = rows.T @ rows
        self.pending, self.taken = torch.zeros_like(self.gram), torch.zeros_like(rows)


def _through_bound(rows: Tensor, weights: Tensor, gradient: Tensor) -> Tensor:
    """Return what a gradient of rows means for the weights that they are formed from."""
    return torch.autograd.grad(rows, weights, gradient, retain_graph=True)[0]


def _gradients(terms: dict[str, Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
    """Return the gradients of the terms' sum; zeros where that is not finite, so that a bad step changes nothing."""
    loss = torch.stack(list(terms.values())).sum()
    finite = torch.isfinite(loss)
    found = torch.autograd.grad(loss, inputs, retain_graph=True)
    return tuple(torch.where(finite, part, torch.zeros_like(part)) for part in found)
