"""Fold-in: the row of an entity that a trained model has never seen, by one least-squares solve.

With all other rows fixed, a bilinear score is linear in the new row e: φ = q · e, q the query that the fact's other
two parts form. So the minimiser of the second-moment loss, (1−φ)² − w0·φ² + w0·Σφ² over all answers of each fact's
query, for e by itself, with N3 and the asking for relations replaced by a ridge, solves a linear system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models import BilinearModel, evaluating

CHUNK = 8192


class Reading(NamedTuple):
    """One of the two ways to read a fact as a question and its answer.

    `ask` turns given rows into queries for the answer, `back` answer rows into queries for the given one; `offset` is
    added to a relation's id to find its row.
    """

    ask: Callable[[Tensor, Tensor], Tensor]
    back: Callable[[Tensor, Tensor], Tensor]
    given: int
    answer: int
    offset: int


def readings(model: BilinearModel) -> tuple[Reading, Reading]:
    """Return how training reads facts: the tail is asked for, then the head, by a backward relation if any."""
    forward = Reading(model.tail_query, model.head_query, 0, 2, 0)
    if model.reciprocal:
        return forward, Reading(model.tail_query, model.head_query, 2, 0, model.n_relations)
    return forward, Reading(model.head_query, model.tail_query, 2, 0, 0)


class FoldIn:
    """A trained model and its training facts, ready to give rows to new entities.

    For a new entity's row e, over both readings of its facts, this minimises

        Σ as the answer (τ−q·e)² + Σ as the given one [(τ−q·e)² − w0·(q·e)² + w0·Σ_t (q_e·t)²]
        + w0·Σ (q·e)² over the queries of all training facts + ridge · mean τ² · |e|² / (mean square of row entries).

    `targets` is τ by relation row: 1 for a model that was trained by least squares, and `mean_fact_scores` otherwise.
    The ridge is thus free of units: 1 weighs a typical row as much as a fact that is missed altogether.
    """

    def __init__(
        self, model: BilinearModel, facts: Tensor, targets: Tensor, *, unobserved_weight: float, ridge: float
    ) -> None:
        if not unobserved_weight >= 0:
            raise SettingError(f"unobserved_weight must not be negative, got {unobserved_weight}")
        if not ridge > 0:
            raise SettingError(f"ridge must be above 0, so that few facts decide a row, got {ridge}")
        self.model, self.targets, self.w0 = model, targets.double(), unobserved_weight
        with evaluating(model):
            rows, self.relations = model.entity_rows().double(), model.relation_rows().double()
            self.gram = rows.T @ rows
            size = self.targets.square().mean() / rows.square().mean().clamp(min=1e-12)
            self.shared = torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device) * ridge * size
            for *_, queries in _queries(model, rows, self.relations, facts):
                self.shared += self.w0 * (queries.T @ queries)
        self.rows = rows

    def row(self, entity: int, facts: Tensor, rows: Tensor) -> Tensor:
        """Return the row of an entity from its facts by ids; `rows` holds those of the entities it meets there.

        It is the exact minimiser, which may lie outside a model's bound: `model.unbounded` brings it back.
        """
        matrix, wanted = self.shared.clone(), torch.zeros_like(self.shared[0])
        with torch.no_grad():
            for reading in readings(self.model):
                for own, other, weight in (
                    (reading.answer, reading.given, 1.0),
                    (reading.given, reading.answer, 1.0 - self.w0),
                ):
                    mine = facts[facts[:, own] == entity]
                    ids = mine[:, 1] + reading.offset
                    form = reading.ask if own == reading.answer else reading.back
                    queries = form(rows[mine[:, other]], self.relations[ids])
                    matrix += weight * queries.T @ queries
                    wanted += queries.T @ self.targets[ids]
                    if own == reading.given:
                        matrix += self.w0 * self._answers(reading, ids)
            row: Tensor = torch.linalg.solve(matrix, wanted)
        return row

    def _answers(self, reading: Reading, ids: Tensor) -> Tensor:
        """Return A with eᵀAe = Σ φ² over all trained entities as answers of e's queries: Σ Z G Zᵀ, with φ = eᵀZt."""
        total = torch.zeros_like(self.gram)
        for relation, count in zip(*torch.unique(ids, return_counts=True), strict=True):
            row = self.relations[relation]
            total += count * reading.back(reading.back(self.gram, row).mT, row)
        return total


def mean_fact_scores(model: BilinearModel, facts: Tensor) -> Tensor:
    """Return the mean score of each relation row's training facts, or of all facts for a relation without any."""
    with evaluating(model):
        rows, relations = model.entity_rows().double(), model.relation_rows().double()
        total, count = torch.zeros(2, len(relations), dtype=rows.dtype, device=rows.device)
        for reading, piece, ids, queries in _queries(model, rows, relations, facts):
            total.index_add_(0, ids, (queries * rows[piece[:, reading.answer]]).sum(-1))
            count.index_add_(0, ids, torch.ones_like(ids, dtype=rows.dtype))
    return torch.where(count > 0, total / count.clamp(min=1), total.sum() / count.sum())


def _queries(
    model: BilinearModel, rows: Tensor, relations: Tensor, facts: Tensor
) -> Iterator[tuple[Reading, Tensor, Tensor, Tensor]]:
    """Yield the queries that training asked about facts, in pieces: reading, facts, ids of relation rows, queries."""
    for reading in readings(model):
        for piece in facts.split(CHUNK):
            ids = piece[:, 1] + reading.offset
            yield reading, piece, ids, reading.ask(rows[piece[:, reading.given]], relations[ids])
