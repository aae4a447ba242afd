"""`Scorer`: a trained model's answers, whatever its relations' directions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from staypositive.models.contract import BilinearModel, evaluating
from staypositive.models.moments import LinearMap, RowMoments, ScoreMoments, score_moments


class Scorer:
    """A model's answers, with its rows formed once: what ranking and prediction use.

    With reciprocal relations a triple has two scores, as it is asked for and backwards. Its score is their mean, or,
    for `asked`, that of the asked direction and the model's `backward_weight` times the other.

    `exact` computes in 64 bits, from the weights on: what remains of rounding is so small that answers can be told
    from ties whatever the processor, the number of threads or the batch (see `inference.ordering`).
    """

    def __init__(self, model: BilinearModel, *, asked: bool = False, exact: bool = False) -> None:
        self.model, self.is_asked, self.is_exact = model, asked, exact
        self.algebra = _in_double(model) if exact else model
        with evaluating(model):
            entities, relations = (table.double() if exact else table for table in (model.entities, model.relations))
            self.entity_rows = self.algebra.form_entity_rows(entities).detach()
            self.relation_rows = self.algebra.form_relation_rows(relations).detach()
        self.own, self.backward = 1.0, 0.0  # weights of the asked direction and of the other
        if model.reciprocal:
            self.own, self.backward = (1.0, model.backward_weight) if asked else (0.5, 0.5)

    def asked(self) -> Scorer:
        """Return the scorer that ranking uses: of the asked direction, with the same rows."""
        if self.is_asked or not self.model.reciprocal:
            return self
        return self._changed(is_asked=True, own=1.0, backward=self.model.backward_weight)

    def swapped(self) -> Scorer:
        """Return the scorer whose scores of tails are this one's of heads; they differ with reciprocal relations."""
        return self._changed(own=self.backward, backward=self.own) if self.model.reciprocal else self

    def exact(self) -> Scorer:
        return self if self.is_exact else Scorer(self.model, asked=self.is_asked, exact=True)

    def with_entity_rows(self, rows: Tensor) -> Scorer:
        return self._changed(entity_rows=rows)

    @property
    def device(self) -> torch.device:
        return self.entity_rows.device

    @property
    def n_entities(self) -> int:
        return len(self.entity_rows)

    def triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Return φ of triples given by ids, shape (n,)."""
        sides = self.entity_rows[heads], self.entity_rows[tails]

        def score(backward: bool) -> Tensor:
            return self.algebra.score_rows(sides[backward], self._of(relations, backward), sides[not backward])

        return self._mixed(score)

    def tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Return φ of every tail for each (head, relation), shape (n, |E|): one matrix product."""
        return self._queries(self.entity_rows[heads], relations, of_tails=True) @ self.entity_rows.T

    def heads(self, relations: Tensor, tails: Tensor) -> Tensor:
        return self.swapped()._queries(self.entity_rows[tails], relations, of_tails=False) @ self.entity_rows.T

    def relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Return φ of every relation for each (head, tail), shape (n, |R|)."""
        sides, n = (self.entity_rows[heads], self.entity_rows[tails]), self.model.n_relations

        def score(backward: bool) -> Tensor:
            queries = self.algebra.relation_query(sides[backward], sides[not backward])
            return queries @ self.relation_rows[backward * n : (1 + backward) * n].T

        return self._mixed(score)

    def pairs(self, heads: Tensor | None, relation: int, tails: Tensor | None) -> Tensor:
        """Return φ of all pairs of heads × tails by one relation, as tails are asked for, shape (heads, tails).

        None stands for all entities. Queries are formed for the side that has fewer.
        """
        rows = self.entity_rows
        head_rows, tail_rows = (rows if ids is None else rows[ids] for ids in (heads, tails))
        to_tails, to_heads = self.forms(relation)
        if len(head_rows) <= len(tail_rows):
            return to_tails(head_rows) @ tail_rows.T
        return head_rows @ to_heads(tail_rows).T

    def queries(self, triples: Tensor, side: str) -> Tensor:
        """Return q with φ = q · row of the `side` ("head" or "tail") of each triple, shape (n, entity width)."""
        heads, relations, tails = triples.unbind(1)
        if side == "tail":
            return self._queries(self.entity_rows[heads], relations, of_tails=True)
        asked = self.swapped()  # heads are asked for by the backward reading
        return asked._queries(self.entity_rows[tails], relations, of_tails=False)

    def forms(self, relation: int) -> tuple[LinearMap, LinearMap]:
        """Return what turns head rows into tail queries for a relation, and tail rows into head queries."""
        of = partial(self._queries, relations=relation)
        return partial(of, of_tails=True), partial(of, of_tails=False)

    def moments(self, relation: int, heads: RowMoments, tails: RowMoments) -> ScoreMoments:
        return score_moments(*self.forms(relation), heads, tails)

    def relation_gradients(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Return dφ of (head, ·, tail) by the relation's rows, both of them side by side where it has two."""
        model, head_rows, tail_rows = self.algebra, self.entity_rows[heads], self.entity_rows[tails]
        own = model.relation_query(head_rows, tail_rows)
        if not self.backward:
            return own
        return torch.cat([self.own * own, self.backward * model.relation_query(tail_rows, head_rows)], dim=-1)

    def _queries(self, rows: Tensor, relations: Tensor | int, of_tails: bool) -> Tensor:
        def ask(backward: bool) -> Tensor:
            query = self.algebra.tail_query if of_tails != backward else self.algebra.head_query
            return query(rows, self._of(relations, backward))

        return self._mixed(ask)

    def _of(self, relations: Tensor | int, backward: bool) -> Tensor:
        return self.relation_rows[relations + backward * self.model.n_relations]

    def _mixed(self, read: Callable[[bool], Tensor]) -> Tensor:
        """Return Σ weight · read(is backward) over the two readings of a fact; one without weight is not formed."""
        if not self.own or not self.backward:
            return read(not self.own)
        return self.own * read(False) + self.backward * read(True)

    def _changed(self, **attributes: object) -> Scorer:
        other = copy.copy(self)
        vars(other).update(attributes)
        return other


def _in_double(model: BilinearModel) -> BilinearModel:
    """Return a twin for rows in 64 bits: it shares the tables of entities and relations, and owns the rest."""
    tables = (model.entities, model.relations)
    twin = copy.deepcopy(model, {id(table): table for table in tables})
    for table in twin.shared().values():
        table.data = table.data.double()
    return twin
