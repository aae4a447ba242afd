"""What an objective is: a loss of the facts' rows and of one statistic of all rows, as named terms.

An objective is a frozen dataclass. Its fields, declared by `option`, become keyword arguments of `fit` and flags of
the command line; registering the class is all it takes to add one.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding

from staypositive.models import BilinearModel
from staypositive.objectives.statistics import Candidates, Statistic
from staypositive.options import check_options

ENOUGH_FACTS = 50
"""Validation facts from which a posterior is worth fitting."""


class Defaults(NamedTuple):
    """What an objective wants of model and optimiser unless the user says otherwise."""

    bound: str
    init_scale: float | None
    accumulator: float
    monitor: str | None = None
    """What picks its best epoch: None lets the data decide. Scores that are no log-odds are judged by ranks."""


class LogisticForm(NamedTuple):
    """Σ softplus(−l·(φ+ψ)) over examples of sign l + `penalty`·|Σ φ|^`power` + `decay`/2 · ‖weights‖², per step.

    Compiled steps compute this; an objective that has this form is served by them.
    """

    penalty: float | None = None
    """None for a loss without the term `penalty`."""
    power: int = 1
    decay: float = 0.0


@dataclass(frozen=True)
class Batch:
    """One step's view of the model: the rows that the step touches, and what it needs to know of all others.

    `heads`, `relations` and `tails` are positions in the tables below, not global ids. The rows are the distinct ones
    of the examples, or all rows: for an objective that touches all, or with `present` to tell them apart.
    """

    heads: Tensor
    relations: Tensor
    tails: Tensor
    n_facts: int
    """The first examples, this number of them, are facts; the rest, if any, stand for what is false."""
    entity_weights: Tensor
    relation_weights: Tensor
    entity_rows: Tensor
    relation_rows: Tensor
    batches: int
    """The number of batches per epoch: a penalty divided by it counts once per epoch."""
    key: Tensor
    """What decides all that this step draws, such as its dropout masks (see `staypositive.models.hashing`)."""
    prepared: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    """What the objective prepared for these facts, each of shape (n_facts,); `weight` is what each fact counts."""
    present: tuple[Tensor, Tensor] | None = None
    """For tables with rows beyond the examples': a column of ones for the examples' own and zeros, of each table."""
    statistic: Tensor | None = None
    """S or G of all entity rows, where `entity_rows` has not all of them."""
    n_whole: int | None = None
    """The number of facts in the whole batch, where these are the share of one process."""
    fact_rows: tuple[Tensor, Tensor, Tensor] | None = None
    """The examples' heads, relations and tails, where they were gathered beforehand."""

    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows of the examples' heads, relations and tails, each of shape (examples, width)."""
        return self.fact_rows or (
            embedding(self.heads, self.entity_rows),
            embedding(self.relations, self.relation_rows),
            embedding(self.tails, self.entity_rows),
        )

    def summed_rows(self) -> tuple[Tensor, Tensor]:
        """Return entity and relation rows with the sums of the examples' distinct rows, or of all in all scope."""
        if self.statistic is not None:
            return self.statistic[None], self.relation_rows
        if self.present is None:
            return self.entity_rows, self.relation_rows
        return self.entity_rows * self.present[0], self.relation_rows * self.present[1]

    def all_entities(self) -> Candidates:
        if self.statistic is not None:
            return Candidates(self.entity_rows, self.statistic)
        return Candidates.of(self.entity_rows, len(self.heads))

    def all_relations(self) -> Candidates:
        return Candidates.of(self.relation_rows, len(self.heads))

    def logits(self, model: BilinearModel) -> Tensor:
        """Return φ + ψ of the examples, with the model's dropout."""
        return model.score_rows_with_dropout(*self.rows(), self.key) + model.prior_score

    def weighted(self, losses: Tensor) -> Tensor:
        """Return losses of the facts, or of copies of them one after another, each times its fact's weight."""
        weight = self.prepared.get("weight")
        return losses if weight is None else losses * weight.repeat(len(losses) // len(weight))


class Objective(ABC):
    """A loss. Subclasses are frozen dataclasses, registered in `OBJECTIVES`."""

    name: ClassVar[str]
    defaults: ClassVar[Defaults]
    averages: ClassVar[bool] = False
    """Whether its terms are means over the batch, rather than sums."""
    has_log_odds: ClassVar[bool] = True
    """Whether its loss reads φ + ψ as log-odds, so that the prior score ψ has a meaning."""
    target_score: ClassVar[float | None] = None
    """The score that facts are trained towards, where the loss states one."""
    averaged_options: ClassVar[tuple[str, ...]] = ()
    """Options of which an ensemble has the mean of its members', by weight."""
    statistic_terms: ClassVar[frozenset[str]] = frozenset()
    """Its terms that depend on the statistic alone: of several processes, each computes the same."""
    search_space: ClassVar[dict[str, Any]] = {"learning_rate": {"low": 0.03, "high": 1.0, "log": True}}
    """What `tune` searches beside dim and dropout: lists of values, or ranges."""
    paper_grid: ClassVar[dict[str, Any]] = {}
    """The grid of the paper's appendix, if it has one; the bound is 5 and the power 1 throughout."""

    def __init_subclass__(cls) -> None:
        # Compiled steps must not compute the loss of a parent for a child that has terms of its own.
        if "terms" in vars(cls) and "logistic_form" not in vars(cls):
            cls.logistic_form = Objective.logistic_form  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        check_options(self, owner=f" (an option of {self.name})")

    @property
    def statistic(self) -> Statistic:
        """What the loss needs of the rows beyond its facts' own."""
        return Statistic.NONE

    @property
    def touches_all_rows(self) -> bool:
        """Whether a step needs every row of both tables, rather than the examples' rows."""
        return self.statistic is Statistic.ROWS or (self.statistic is Statistic.GRAM and self.spread_interval == 1)

    @property
    def spread_interval(self) -> int:
        """The number of steps after which rows outside the batches take their part of the statistic's gradient."""
        return 1

    @property
    def is_reciprocal(self) -> bool:
        """Whether each fact is learnt from backwards too, as (t, r + |R|, h): an option of some."""
        return bool(getattr(self, "reciprocal", False))

    @property
    def weight_per_triple(self) -> float | None:
        """The weight w0 of a triple that is no fact, where the loss gives each the same relative to each fact."""
        return None

    @property
    def negatives_per_fact(self) -> int:
        """The number of negatives drawn for each fact: 0 is the point of this library."""
        return 0

    def logistic_form(self, batches: int) -> LogisticForm | None:
        """Return the loss as compiled steps compute it, given the batches per epoch; None where they cannot."""
        return None

    def prepare(self, facts: Tensor, n_entities: int, n_relations: int) -> dict[str, Tensor]:
        """Return numbers for each of all facts, shape (n,), that steps will need; `n_relations` counts rows."""
        return {}

    def examples(self, facts: Tensor, n_entities: int, keys: Tensor) -> Tensor:
        """Return the triples, by global ids, that some steps learn from: by default their facts alone.

        `facts` has shape (steps, n, 3) and `keys` (steps,); the result (steps, m, 3), each step's facts first.
        """
        return facts

    def preferred_calibrator(self, labels: int, facts: int) -> str | None:
        """Return the calibrator that measured best for this objective; None where none can be fitted.

        Validation has this number of triples, if any is labelled false (else `labels` is 0), and of facts among them.
        """
        return "platt" if labels else None

    @abstractmethod
    def terms(self, model: BilinearModel, batch: Batch) -> dict[str, Tensor]:
        """Return the named terms whose sum is the loss of the batch."""


def n3_penalty(
    weight: float, model: BilinearModel, *rows: Tensor, weights: Sequence[Tensor | None] = (None, None, None)
) -> Tensor:
    """Return weight · mean over the facts of Σ |number|³ over their rows (Lacroix et al. 2018).

    `weights` weigh the facts, for each of the kinds of rows; None weighs all alike.
    """
    cubes = [model.moduli(part).pow(3) for part in rows]
    sums = [
        cube.sum() if own is None else (cube.sum(-1) * own).sum() for cube, own in zip(cubes, weights, strict=True)
    ]
    return torch.stack(sums).sum() * (weight / len(rows[0]))


def l2_penalty(weight: float, batch: Batch) -> Tensor:
    """Return weight/2 · (‖entities‖² + ‖relations‖²), divided so that it counts once per epoch."""
    total = batch.entity_weights.square().sum() + batch.relation_weights.square().sum()
    return total * (weight / 2 / batch.batches)
