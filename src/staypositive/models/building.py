"""Models built by name, and ensembles of trained ones: a weighted sum of bilinear models is a bilinear model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from staypositive.errors import SettingError
from staypositive.models.block import TABLES, BlockModel, Table
from staypositive.models.contract import BilinearModel, ModelOptions
from staypositive.models.hole import HolE
from staypositive.models.rescal import Ntn, Rescal, Tucker
from staypositive.models.transe import TransE

MODELS: dict[str, Table | Callable[..., BilinearModel]] = {
    **TABLES, "rescal": Rescal, "hole": HolE, "ntn": Ntn, "tucker": Tucker, "transe": TransE
}  # fmt: skip
"""Every model by its name: a block model's table of terms, or a class. A new entry is a new model everywhere."""
ENSEMBLE = "ensemble"
MOST_WEIGHT = 1e6


def build_model(name: str, n_entities: int, n_relations: int, dim: int, **settings: Any) -> BilinearModel:
    """Build a model by name, with weights still zero: `initialise` draws them.

    >>> build_model("complex", n_entities=10, n_relations=2, dim=8).entities.shape
    torch.Size([10, 16])
    """
    kind = Ensemble if name == ENSEMBLE else MODELS.get(name)
    if kind is None:
        raise SettingError(f"expected a model among {', '.join(MODELS)}, got {name!r}")
    if isinstance(kind, Table):
        return BlockModel(n_entities, n_relations, dim, table=kind, **settings)
    return kind(n_entities, n_relations, dim, **settings)


def options_class(name: str) -> type[ModelOptions]:
    """Return the class that holds a model's own options."""
    found: type[ModelOptions] = getattr(MODELS.get(name), "options", ModelOptions)
    return found


class Ensemble(BilinearModel):
    """φ = Σ weight · φ of each member. Made by `combine_models` of trained models, not trained itself.

    `members` says each member's `model`, `weight`, and what else builds it. Rows, queries and tables are the members'
    side by side, so all that is derived from queries holds for the sum as it does for one model. A member itself
    holds only the tables that its relations share.
    """

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        dim: int,
        *,
        members: Sequence[Mapping[str, Any]],
        **settings: Any,
    ) -> None:
        if not members:
            raise SettingError("an ensemble needs members")
        built = [_without_tables(**member) for member in members]
        self.weights = [member["weight"] for member in members]  # before the parent asks for widths
        if not all(type(weight) in (int, float) and 0 < weight <= MOST_WEIGHT for weight in self.weights):
            raise SettingError(f"members' weights are positive numbers up to {MOST_WEIGHT:g}, got {self.weights}")
        self.entity_widths = [member.entity_width() for member in built]
        self.relation_widths = [member.relation_width() for member in built]
        self.rows_are_free = all(member.rows_are_free for member in built)
        super().__init__(n_entities, n_relations, dim, **settings)
        if any(member.reciprocal != self.reciprocal for member in built):
            raise SettingError("models with reciprocal relations cannot be in one ensemble with models without")
        self.stated = tuple(dict(member) for member in members)
        self.members = nn.ModuleList(built)
        with torch.no_grad():
            self.entity_row_widths = [part.shape[-1] for part in self._formed_entities(self.entities[:1])]
            self.relation_row_widths = [part.shape[-1] for part in self._formed_relations(self.relations[:1])]

    def entity_width(self) -> int:
        return sum(self.entity_widths)

    def relation_width(self) -> int:
        return sum(self.relation_widths)

    def max_score(self) -> float:
        return 1.0  # the members apply their own bounds

    def form_entity_rows(self, weights: Tensor) -> Tensor:
        return torch.cat(self._formed_entities(weights), dim=-1)

    def form_relation_rows(self, weights: Tensor) -> Tensor:
        return torch.cat(self._formed_relations(weights), dim=-1)

    def unbounded(self, rows: Tensor) -> Tensor:
        return torch.cat(self._each("unbounded", rows.split(self.entity_widths, dim=-1)), dim=-1)

    def directions(self, rows: Tensor) -> Tensor:
        """Return the members' directions side by side, scaled so that similarities are their weighted mean."""
        parts, total = self._each("directions", self._of_entities(rows)), sum(self.weights)
        scaled = [math.sqrt(weight / total) * part for weight, part in zip(self.weights, parts, strict=True)]
        return torch.cat(scaled, dim=-1)

    def tail_query(self, head_rows: Tensor, relation_rows: Tensor) -> Tensor:
        return self._queries("tail_query", self._of_entities(head_rows), self._of_relations(relation_rows))

    def head_query(self, tail_rows: Tensor, relation_rows: Tensor) -> Tensor:
        return self._queries("head_query", self._of_entities(tail_rows), self._of_relations(relation_rows))

    def relation_query(self, head_rows: Tensor, tail_rows: Tensor) -> Tensor:
        return self._queries("relation_query", self._of_entities(head_rows), self._of_entities(tail_rows))

    def largest_score(self, head_rows: Tensor, relation_rows: Tensor, tail_rows: Tensor) -> Tensor:
        heads, tails = self._of_entities(head_rows), self._of_entities(tail_rows)
        bounds = self._each("largest_score", heads, self._of_relations(relation_rows), tails)
        return torch.stack([weight * bound for weight, bound in zip(self.weights, bounds, strict=True)]).sum(0)

    def extra_settings(self) -> dict[str, Any]:
        return {"members": [dict(member) for member in self.stated]}

    def _formed_entities(self, weights: Tensor) -> list[Tensor]:
        return self._each("form_entity_rows", weights.split(self.entity_widths, dim=-1))

    def _formed_relations(self, weights: Tensor) -> list[Tensor]:
        return self._each("form_relation_rows", weights.split(self.relation_widths, dim=-1))

    def _of_entities(self, rows: Tensor) -> Sequence[Tensor]:
        return torch.split(rows, self.entity_row_widths, dim=-1)

    def _of_relations(self, rows: Tensor) -> Sequence[Tensor]:
        return torch.split(rows, self.relation_row_widths, dim=-1)

    def _each(self, method: str, *parts: Sequence[Tensor]) -> list[Tensor]:
        """Call a method of each member with its parts of the arguments."""
        return [getattr(member, method)(*own) for member, *own in zip(self.members, *parts, strict=True)]

    def _queries(self, method: str, *parts: Sequence[Tensor]) -> Tensor:
        found = zip(self.weights, self._each(method, *parts), strict=True)
        return torch.cat([weight * query for weight, query in found], dim=-1)


def _without_tables(model: str, weight: float, **settings: Any) -> BilinearModel:
    """Return a member without its own tables, for what it does with rows."""
    if model == ENSEMBLE:
        raise SettingError("an ensemble cannot be a member of another; name its members")
    member = build_model(model, 1, 1, **settings)
    del member.entities, member.relations
    return member


@torch.no_grad()
def combine_models(
    models: Sequence[BilinearModel],
    names: Sequence[str],
    weights: Sequence[float] | None = None,
    backward_weight: float = 0.0,
) -> BilinearModel:
    """Return models of the same entities and relations as one, each by its name and weight, by default 1."""
    if not models:
        raise SettingError("an ensemble takes models, and there are none")
    weights = [1.0] * len(models) if weights is None else weights
    first, sizes = models[0], {(model.n_entities, model.n_relations) for model in models}
    if len(sizes) > 1:
        raise SettingError("models of one ensemble have the same entities and relations")
    members = []
    for model, name, weight in zip(models, names, weights, strict=True):
        of_all = ("n_entities", "n_relations", "backward_weight")  # the ensemble's own
        own = {key: value for key, value in model.settings().items() if key not in of_all}
        members.append({"model": name, "weight": float(weight), **own})
    ensemble = Ensemble(
        first.n_entities,
        first.n_relations,
        sum(model.dim for model in models),
        members=members,
        bound="identity",
        reciprocal=first.reciprocal,
        backward_weight=backward_weight,
        prior_score=sum(weight * model.prior_score for model, weight in zip(models, weights, strict=True)),
    ).to(first.entities)
    for model, name, member in zip(models, names, ensemble.members, strict=True):
        if type(model) is not type(member) or getattr(model, "table", None) != getattr(member, "table", None):
            raise SettingError(f"a model of the ensemble is said to be {name}, and is not")
    ensemble.entities.copy_(torch.cat([model.entities for model in models], dim=1))
    ensemble.relations.copy_(torch.cat([model.relations for model in models], dim=1))
    for number, model in enumerate(models):
        for name, table in model.shared().items():
            ensemble.shared()[f"members.{number}.{name}"].copy_(table)
    return ensemble.eval()
