"""The contract of every model: linear in head, relation and tail, so that three queries define everything.

A *row* holds one entity's or relation's parameters after the bound, or features formed from them; a *query* is the
vector q in row space with `score = q · row` for the missing argument. A subclass says how queries are formed; scores
and the sum of all scores (Theorem 1) are derived here, once.

Shapes: `...` is any number of leading axes, equal or broadcastable between arguments. Scores are φ, without the prior
score ψ; `logit = score + ψ` feeds losses and probabilities.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from staypositive.errors import SettingError
from staypositive.models.hashing import keep_mask
from staypositive.models.moments import sum_of_squared_scores
from staypositive.options import check_options

BOUNDS = ("tanh", "identity")
Draw = Callable[[Tensor, float, torch.Generator], None]
INSIDE = 0.999  # largest entry of a row that weights are sought for: they stay where tanh still has a slope


@dataclass(frozen=True)
class ModelOptions:
    """What a model takes beyond the settings that all models share: fields, declared by `option`."""

    def __post_init__(self) -> None:
        check_options(self)


class BilinearModel(nn.Module, ABC):
    """Two tables of weights, and the algebra that every bilinear model shares.

    A parameter that a subclass adds is a table too; each training step updates all its rows.

    With `reciprocal` each relation r has a second row, number r + |R|, for the facts read backwards: (t, r + |R|, h).
    A triple then has two scores, and its score is their mean; ranking uses the asked direction, and of the other
    `backward_weight` times as much.

    `bound="tanh"` keeps each row entry in (-1, 1) and scales scores to fill (-score_bound, score_bound), the paper's
    practical consideration; `bound="identity"` leaves weights as they are, at scale 1.
    """

    entities: nn.Parameter
    relations: nn.Parameter

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        dim: int,
        *,
        bound: str = "tanh",
        score_bound: float = 5.0,
        prior_score: float = 0.0,
        dropout: float = 0.0,
        reciprocal: bool = False,
        backward_weight: float = 0.0,
    ) -> None:
        super().__init__()
        if min(n_entities, n_relations, dim) < 1:
            sizes = f"{n_entities}, {n_relations} and {dim}"
            raise SettingError(f"entities, relations and dim must be at least 1, got {sizes}")
        if bound not in BOUNDS:
            raise SettingError(f"expected a bound among {', '.join(BOUNDS)}, got {bound!r}")
        if not score_bound > 0 or not math.isfinite(score_bound):
            raise SettingError(f"score_bound (I) must be a positive number, got {score_bound}")
        if not math.isfinite(prior_score):
            raise SettingError(f"prior_score (ψ) must be a finite number, got {prior_score}")
        if not 0 <= dropout < 1:
            raise SettingError(f"dropout must lie in [0, 1), got {dropout}")
        if not 0 <= backward_weight <= 1:
            raise SettingError(f"backward_weight must lie in [0, 1], got {backward_weight}")
        self.n_entities, self.n_relations, self.dim = n_entities, n_relations, dim
        self.bound, self.score_bound = bound, float(score_bound)
        self.prior_score, self.dropout, self.reciprocal = float(prior_score), float(dropout), bool(reciprocal)
        self.backward_weight = float(backward_weight)
        self.scale = self.score_bound / self.max_score() if bound == "tanh" else 1.0
        self.entities = nn.Parameter(torch.zeros(n_entities, self.entity_width()))
        self.relations = nn.Parameter(torch.zeros(n_relations * (1 + self.reciprocal), self.relation_width()))

    options: ClassVar[type[ModelOptions]] = ModelOptions
    """What its constructor takes beyond the common settings, and keeps as attributes of the same names."""
    rows_are_free: bool = True
    """Whether any vector within the bound is some entity's row: then a new one's can be solved for."""

    # -- must define --------------------------------------------------------------------------------------------

    @abstractmethod
    def max_score(self) -> float:
        """Return the largest unscaled |score| when every row entry lies in [-1, 1]."""

    @abstractmethod
    def tail_query(self, head_rows: Tensor, relation_rows: Tensor) -> Tensor:
        """Return q with `score = q · tail_row`, shape (..., entity row width); the scale is in it."""

    @abstractmethod
    def head_query(self, tail_rows: Tensor, relation_rows: Tensor) -> Tensor: ...

    @abstractmethod
    def relation_query(self, head_rows: Tensor, tail_rows: Tensor) -> Tensor: ...

    # -- may override -------------------------------------------------------------------------------------------

    def entity_width(self) -> int:
        """Return the number of an entity's weights."""
        return self.dim

    def relation_width(self) -> int:
        return self.dim

    def bounded(self, weights: Tensor) -> Tensor:
        rows = wide(weights)
        return torch.tanh(rows) if self.bound == "tanh" else rows

    def unbounded(self, rows: Tensor) -> Tensor:
        """Return the weights whose bounded rows these are; entries at or beyond the bound come to lie inside it."""
        return torch.atanh(rows.clamp(-INSIDE, INSIDE)) if self.bound == "tanh" else rows

    def form_entity_rows(self, weights: Tensor) -> Tensor:
        return self.bounded(weights)

    def form_relation_rows(self, weights: Tensor) -> Tensor:
        return self.bounded(weights)

    def summands(self, head_rows: Tensor, relation_rows: Tensor, tail_rows: Tensor) -> Tensor:
        """Return the products that a score is the sum of, along the last axis: what dropout acts on."""
        return self.tail_query(head_rows, relation_rows) * tail_rows

    def largest_score(self, head_rows: Tensor, relation_rows: Tensor, tail_rows: Tensor) -> Tensor:
        """Return a bound on |φ| over all rows whose entries have at most these absolute values."""
        return self.summands(head_rows, relation_rows, tail_rows).abs().sum(-1)

    def moduli(self, rows: Tensor) -> Tensor:
        """Return the moduli that N3 cubes: of complex or quaternion numbers, or by default of the entries."""
        return rows.abs()

    def directions(self, rows: Tensor) -> Tensor:
        """Return entity rows at length 1."""
        return torch.nn.functional.normalize(rows, dim=-1)

    def extra_settings(self) -> dict[str, Any]:
        """Return the constructor's arguments beyond the common ones: by default the model's options."""
        return {option.name: getattr(self, option.name) for option in fields(self.options)}

    # -- derived, written once ----------------------------------------------------------------------------------

    def initialise(
        self, generator: torch.Generator, init_scale: float | None = None, draw: Draw | None = None
    ) -> None:
        """Draw both tables uniformly from ±init_scale, by default 6/√dim as the authors' code does.

        `draw` fills a table, given its limit: by default all of it at once.
        """
        limit = 6 / math.sqrt(self.dim) if init_scale is None else init_scale
        for table in (self.entities, self.relations):
            (draw or draw_uniform)(table, limit, generator)

    def shared(self) -> dict[str, nn.Parameter]:
        return {name: table for name, table in self.named_parameters() if name not in ("entities", "relations")}

    def settings(self) -> dict[str, Any]:
        """Return what builds this model again, without its weights."""
        names = ["n_entities", "n_relations", "dim", "bound", "score_bound", "prior_score", "dropout", "reciprocal"]
        names += ["backward_weight"] if self.backward_weight else []
        return {name: getattr(self, name) for name in names} | self.extra_settings()

    def entity_rows(self, ids: Tensor | None = None) -> Tensor:
        return self.form_entity_rows(self.entities if ids is None else self.entities[ids])

    def relation_rows(self, ids: Tensor | None = None) -> Tensor:
        return self.form_relation_rows(self.relations if ids is None else self.relations[ids])

    def score_rows(self, head_rows: Tensor, relation_rows: Tensor, tail_rows: Tensor) -> Tensor:
        return (self.tail_query(head_rows, relation_rows) * tail_rows).sum(-1)

    def score_rows_with_dropout(
        self, head_rows: Tensor, relation_rows: Tensor, tail_rows: Tensor, key: int | Tensor
    ) -> Tensor:
        """Return φ with dropout on the products before the sum; plain φ in evaluation mode or at dropout 0.

        Rows have shape (n, width); `key` decides the mask (see `staypositive.models.hashing`).
        """
        if not self.training or self.dropout == 0:
            return self.score_rows(head_rows, relation_rows, tail_rows)
        parts = self.summands(head_rows, relation_rows, tail_rows)
        keep = keep_mask(key, len(parts), parts.shape[-1], self.dropout, parts.device)
        return (parts * keep).sum(-1) / (1 - self.dropout)

    def score(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        head_rows, tail_rows = self.entity_rows(heads), self.entity_rows(tails)
        scores = self.score_rows(head_rows, self.relation_rows(relations), tail_rows)
        if not self.reciprocal:
            return scores
        return (scores + self.score_rows(tail_rows, self.relation_rows(relations + self.n_relations), head_rows)) / 2

    def logit(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        return self.score(heads, relations, tails) + self.prior_score  # φ + ψ, the paper's φ_M′

    def sum_rows(self, head_rows: Tensor, relation_rows: Tensor, tail_rows: Tensor) -> Tensor:
        """Return Σ φ over heads × relations × tails among these rows: the score of the summed rows (Theorem 1)."""
        return self.score_rows(head_rows.sum(-2), relation_rows.sum(-2), tail_rows.sum(-2))

    def sum_of_squares(self, head_gram: Tensor, relation_rows: Tensor, tail_gram: Tensor) -> Tensor:
        """Return Σ φ² over heads × relations × tails, given the Gram matrices Σ h hᵀ and Σ t tᵀ."""
        maps = [(partial(self.tail_query, relation_rows=r), partial(self.head_query, relation_rows=r))
                for r in relation_rows[:, None]]  # fmt: skip
        return torch.stack([sum_of_squared_scores(*both, head_gram, tail_gram) for both in maps]).sum()

    def mean_score(self) -> Tensor:
        """Return the mean of φ over all |E|²|R| triples, without enumerating them."""
        entities, relations = self.entity_rows().mean(0), self.relation_rows().mean(0)
        return self.score_rows(entities, relations, entities)


def wide(rows: Tensor) -> Tensor:
    """Return rows in 32 bits where they are kept in 16."""
    return rows.float() if rows.dtype == torch.bfloat16 else rows


@torch.no_grad()
def draw_uniform(table: Tensor, limit: float, generator: torch.Generator) -> None:
    drawn = torch.rand(table.shape, generator=generator, dtype=table.dtype, device=generator.device)
    table.copy_(drawn.mul_(2).sub_(1).mul_(limit))  # in place: a table may take half the memory there is


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode without gradients, and put the old mode back."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)
