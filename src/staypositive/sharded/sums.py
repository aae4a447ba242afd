"""What an objective must know of rows that live elsewhere: one sum of them, or their Gram matrix, or nothing.

Stay-positive sees all other rows through S = Σ rows, second-moment through G = Σ row rowᵀ. Each process adds up its
own rows, one all-reduce adds up the processes, and the loss's slope by S or G says what every row must take of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding

from staypositive.errors import SettingError
from staypositive.models import BilinearModel
from staypositive.objectives import Batch, NegativeSampling, Objective, SecondMoment, StayPositive
from staypositive.objectives.statistics import Candidates, spread
from staypositive.sharded.world import World

Terms = dict[str, Tensor]


class Share(NamedTuple):
    """Which of a batch's facts a process takes.

    One that is left without any (a last batch may be short) computes the first fact's loss, to be counted 0.
    """

    own: slice
    counted: int
    facts: int
    """How many facts the whole batch has."""

    @classmethod
    def of(cls, world: World, facts: int) -> Share:
        """Return this process's share."""
        first, end = (facts * rank // world.size for rank in (world.rank, world.rank + 1))
        return cls(slice(first, end) if end > first else slice(0, 1), end - first, facts)


class RowSums(ABC):
    """How an objective is computed by shares of each batch's facts."""

    def __init__(self, objective: Objective, world: World) -> None:
        self.objective, self.world = objective, world

    @abstractmethod
    def of(self, rows: Tensor) -> Tensor:
        """Return what a process's own rows, shape (n, width), add to the sum over all."""

    @abstractmethod
    def terms(self, model: BilinearModel, batch: Batch, total: Tensor, share: Share) -> Terms:
        """Return this process's part of each term: over all processes they add up to the term."""

    @abstractmethod
    def slope(self, own: Tensor) -> Tensor:
        """Return the whole loss's slope by the total, given that of this process's part."""

    @abstractmethod
    def spread(self, rows: Tensor, slope: Tensor) -> Tensor:
        """Return what the slope by the total means for own rows, shape (n, width)."""


class FirstMoment(RowSums):
    """Stay-positive: S = Σ rows, a vector. The penalty needs no fact, so every process knows it, and its slope."""

    def of(self, rows: Tensor) -> Tensor:
        """Return Σ rows."""
        return rows.sum(0)

    def terms(self, model: BilinearModel, batch: Batch, total: Tensor, share: Share) -> Terms:
        """Return the share's `facts`, and an equal part of the `penalty`."""
        first = torch.zeros_like(batch.heads[:1])
        of_sum = replace(
            batch, heads=first, relations=first, tails=first, n_facts=1, entity_rows=total[None], prepared={}
        )
        facts = self.objective.terms(model, batch)["facts"]
        penalty = self.objective.terms(model, of_sum)["penalty"]  # the sum of one row, S, is the sum of all
        return {"facts": facts * bool(share.counted), "penalty": penalty / self.world.size}

    def slope(self, own: Tensor) -> Tensor:
        """Every process's part is the same, so that nothing has to be sent."""
        return own * self.world.size

    def spread(self, rows: Tensor, slope: Tensor) -> Tensor:
        """Each row is a summand."""
        return slope.expand_as(rows)


class SecondMoments(RowSums):
    """Second-moment: G = Σ row rowᵀ, a matrix, and its slope, to which every process's facts contribute."""

    def of(self, rows: Tensor) -> Tensor:
        """Return Σ row rowᵀ."""
        return rows.T @ rows

    def terms(self, model: BilinearModel, batch: Batch, total: Tensor, share: Share) -> Terms:
        """Return the share's terms; means over it count as much as it has of the batch."""
        objective = self.objective
        assert isinstance(objective, SecondMoment)
        heads, tails = embedding(batch.heads, batch.entity_rows), embedding(batch.tails, batch.entity_rows)
        relations = embedding(batch.relations, batch.relation_rows)
        answers = Candidates(batch.entity_rows, total), Candidates.of(batch.relation_rows, len(batch.heads))
        whole = replace(batch, n_facts=share.facts)
        found = objective.terms_of_rows(model, whole, heads, relations, tails, *answers)
        return {name: term * (share.counted / share.facts) for name, term in found.items()}

    def slope(self, own: Tensor) -> Tensor:
        """Add up the processes' slopes: a second matrix to send."""
        return self.world.all_reduce("sums", own.contiguous())

    def spread(self, rows: Tensor, slope: Tensor) -> Tensor:
        """Return rows · (∂L/∂G + ∂L/∂Gᵀ)."""
        return spread(rows, slope)


class NoSums(RowSums):
    """Negative sampling: other rows are unknown but for those drawn, which have to be fetched."""

    def of(self, rows: Tensor) -> Tensor:
        """Nothing is added up."""
        return rows.new_zeros(0)

    def terms(self, model: BilinearModel, batch: Batch, total: Tensor, share: Share) -> Terms:
        """Return the share's `facts` and `negatives`."""
        found = self.objective.terms(model, batch)
        return {name: term * bool(share.counted) + total.sum() for name, term in found.items()}

    def slope(self, own: Tensor) -> Tensor:
        """There is none."""
        return own

    def spread(self, rows: Tensor, slope: Tensor) -> Tensor:
        """Nothing comes of nothing."""
        return torch.zeros_like(rows)


def row_sums(objective: Objective, world: World) -> RowSums:
    """Return how an objective is computed by shares; an error where nothing but whole tables would do."""
    if isinstance(objective, StayPositive):
        return FirstMoment(objective, world)
    if isinstance(objective, SecondMoment) and objective.touches_all_rows:
        return SecondMoments(objective, world)
    if isinstance(objective, NegativeSampling) and not objective.touches_all_rows:
        return NoSums(objective, world)
    raise SettingError(
        f"{objective.name} cannot be sharded with these options: sharded training takes stay-positive, second-moment "
        "with gram_update_interval 1, and negative-sampling without l2; train in one process instead"
    )
