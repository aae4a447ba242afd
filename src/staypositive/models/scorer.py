"""`Scorer`: a trained model's answers, whatever its relations' directions."""

from __future__ import annotations

import torch
from torch import Tensor

from staypositive.models.contract import BilinearModel, evaluating
from staypositive.models.moments import LinearMap


class Scorer:
    """A model's answers, with its rows formed once: what ranking and prediction use.

    With reciprocal relations a score is the mean of both directions, or, for `asked`, that of the asked one alone.
    """

    def __init__(self, model: BilinearModel, *, asked: bool = False) -> None:
        self.model, self.is_asked = model, asked
        with evaluating(model):
            self.entity_rows = model.entity_rows().detach()
            self.relation_rows = model.relation_rows().detach()

    def asked(self) -> Scorer:
        """Return the scorer that ranking uses: of the asked direction."""
        return Scorer(self.model, asked=True) if self.model.reciprocal and not self.is_asked else self

    @property
    def device(self) -> torch.device:
        """Where scores are computed."""
        return self.entity_rows.device

    @property
    def n_entities(self) -> int:
        """How many entities an answer is chosen from."""
        return len(self.entity_rows)

    def triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Return φ of triples given by ids, shape (n,)."""
        model, head_rows, tail_rows = self.model, self.entity_rows[heads], self.entity_rows[tails]
        scores = model.score_rows(head_rows, self.relation_rows[relations], tail_rows)
        if model.reciprocal and not self.is_asked:
            backwards = self.relation_rows[relations + model.n_relations]
            scores = (scores + model.score_rows(tail_rows, backwards, head_rows)) / 2
        return scores

    def tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Return φ of every tail for each (head, relation), shape (n, |E|): one matrix product."""
        return self.tail_queries(heads, relations) @ self.entity_rows.T

    def heads(self, relations: Tensor, tails: Tensor) -> Tensor:
        """Return φ of every head for each (relation, tail), shape (n, |E|)."""
        return self.head_queries(relations, tails) @ self.entity_rows.T

    def relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Return φ of every relation for each (head, tail), shape (n, |R|)."""
        model, head_rows, tail_rows = self.model, self.entity_rows[heads], self.entity_rows[tails]
        own = self.relation_rows[: model.n_relations]
        scores = model.relation_query(head_rows, tail_rows) @ own.T
        if model.reciprocal and not self.is_asked:
            backwards = self.relation_rows[model.n_relations :]
            scores = (scores + model.relation_query(tail_rows, head_rows) @ backwards.T) / 2
        return scores

    def forms(self, relation: int) -> tuple[LinearMap, LinearMap]:
        """Return what turns head rows into tail queries for a relation, and tail rows into head queries."""
        model, row = self.model, self.relation_rows[relation]
        if not model.reciprocal or self.is_asked:
            return lambda rows: model.tail_query(rows, row), lambda rows: model.head_query(rows, row)
        back = self.relation_rows[relation + model.n_relations]
        return (
            lambda rows: (model.tail_query(rows, row) + model.head_query(rows, back)) / 2,
            lambda rows: (model.head_query(rows, row) + model.tail_query(rows, back)) / 2,
        )

    def tail_queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Return q with φ = q · tail row, for each (head, relation), shape (n, entity width)."""
        model, rows = self.model, self.entity_rows[heads]
        queries = model.tail_query(rows, self.relation_rows[relations])
        if model.reciprocal and not self.is_asked:
            queries = (queries + model.head_query(rows, self.relation_rows[relations + model.n_relations])) / 2
        return queries

    def head_queries(self, relations: Tensor, tails: Tensor) -> Tensor:
        """Return q with φ = q · head row, for each (relation, tail), shape (n, entity width)."""
        model, rows = self.model, self.entity_rows[tails]
        if not model.reciprocal:
            return model.head_query(rows, self.relation_rows[relations])
        queries = model.tail_query(rows, self.relation_rows[relations + model.n_relations])
        if not self.is_asked:
            queries = (queries + model.head_query(rows, self.relation_rows[relations])) / 2
        return queries

    def relation_gradients(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Return dφ of (head, ·, tail) by the relation's rows, both of them side by side where it has two."""
        model, head_rows, tail_rows = self.model, self.entity_rows[heads], self.entity_rows[tails]
        own = model.relation_query(head_rows, tail_rows)
        if not model.reciprocal or self.is_asked:
            return own
        return torch.cat([own, model.relation_query(tail_rows, head_rows)], dim=-1) / 2
