"""Several trained models as one: the weighted sum of bilinear models is a bilinear model.

Rows are the members' rows side by side, and so are queries. All that is derived from queries (ranks, sums over all
triples, moments, z-scores, prediction sets) holds for the sum as it does for one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from staypositive.errors import SettingError
from staypositive.models.contract import BilinearModel

JOINED = "joined"
MOST_WEIGHT = 1e6


class Joined(BilinearModel):
    """φ = Σ weight · φ of each member. Made by `join` of trained models, not trained itself.

    `members` says each member's `model`, `weight`, and what else builds it; `build` is what builds it. The tables are
    the members' side by side, so that members themselves hold those alone that all their relations share.
    """

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        dim: int,
        *,
        members: Sequence[Mapping[str, Any]],
        build: Callable[..., BilinearModel],
        **settings: Any,
    ) -> None:
        if not members:
            raise SettingError("a joined model needs members")
        built = [_algebra(build, **member) for member in members]
        self.weights = [member["weight"] for member in members]  # before the parent asks for widths
        if not all(type(weight) in (int, float) and 0 < weight <= MOST_WEIGHT for weight in self.weights):
            raise SettingError(f"members' weights are positive numbers up to {MOST_WEIGHT:g}, got {self.weights}")
        self.entity_widths = [member.entity_width() for member in built]
        self.relation_widths = [member.relation_width() for member in built]
        self.rows_are_free = all(member.rows_are_free for member in built)
        super().__init__(n_entities, n_relations, dim, **settings)
        if any(member.reciprocal != self.reciprocal for member in built):
            raise SettingError("models with reciprocal relations cannot be joined with models without")
        self.stated = tuple(dict(member) for member in members)
        self.members = nn.ModuleList(built)
        with torch.no_grad():
            self.entity_row_widths = [part.shape[-1] for part in self._entity_parts(self.entities[:1])]
            self.relation_row_widths = [part.shape[-1] for part in self._relation_parts(self.relations[:1])]

    def entity_width(self) -> int:
        """Those of the members, added up."""
        return sum(self.entity_widths)

    def relation_width(self) -> int:
        """Those of the members, added up."""
        return sum(self.relation_widths)

    def max_score(self) -> float:
        """The members' own bounds have been applied: there is no other."""
        return 1.0

    def form_entity_rows(self, weights: Tensor) -> Tensor:
        """Return the members' rows side by side, each by its own bound."""
        return torch.cat(self._entity_parts(weights), dim=-1)

    def form_relation_rows(self, weights: Tensor) -> Tensor:
        """Return the members' rows side by side."""
        return torch.cat(self._relation_parts(weights), dim=-1)

    def unbounded(self, rows: Tensor) -> Tensor:
        """Return weights by each member's own bound."""
        parts = zip(self._each, rows.split(self.entity_widths, dim=-1), strict=True)
        return torch.cat([member.unbounded(part) for member, part in parts], dim=-1)

    def directions(self, rows: Tensor) -> Tensor:
        """Return the members' directions side by side, so that likeness is the mean of theirs, by weight."""
        parts, total = zip(self._each, self.weights, self._of_entities(rows), strict=True), sum(self.weights)
        return torch.cat([math.sqrt(weight / total) * each.directions(part) for each, weight, part in parts], dim=-1)

    def tail_query(self, head_rows: Tensor, relation_rows: Tensor) -> Tensor:
        """Return the members' queries side by side."""
        return self._queries("tail_query", self._of_entities(head_rows), self._of_relations(relation_rows))

    def head_query(self, tail_rows: Tensor, relation_rows: Tensor) -> Tensor:
        """Return the members' queries side by side."""
        return self._queries("head_query", self._of_entities(tail_rows), self._of_relations(relation_rows))

    def relation_query(self, head_rows: Tensor, tail_rows: Tensor) -> Tensor:
        """Return the members' queries side by side."""
        return self._queries("relation_query", self._of_entities(head_rows), self._of_entities(tail_rows))

    def reach(self, head_rows: Tensor, relation_rows: Tensor, tail_rows: Tensor) -> Tensor:
        """Return the members' own, by weight."""
        heads, tails = self._of_entities(head_rows), self._of_entities(tail_rows)
        parts = zip(self._each, self.weights, heads, self._of_relations(relation_rows), tails, strict=True)
        return torch.stack([weight * member.reach(h, r, t) for member, weight, h, r, t in parts]).sum(0)

    def extra_settings(self) -> dict[str, Any]:
        """The members."""
        return {"members": [dict(member) for member in self.stated]}

    @property
    def _each(self) -> Iterator[BilinearModel]:
        return cast(Iterator[BilinearModel], iter(self.members))

    def _entity_parts(self, weights: Tensor) -> list[Tensor]:
        parts = zip(self._each, weights.split(self.entity_widths, dim=-1), strict=True)
        return [member.form_entity_rows(part) for member, part in parts]

    def _relation_parts(self, weights: Tensor) -> list[Tensor]:
        parts = zip(self._each, weights.split(self.relation_widths, dim=-1), strict=True)
        return [member.form_relation_rows(part) for member, part in parts]

    def _of_entities(self, rows: Tensor) -> tuple[Tensor, ...]:
        return torch.split(rows, self.entity_row_widths, dim=-1)

    def _of_relations(self, rows: Tensor) -> tuple[Tensor, ...]:
        return torch.split(rows, self.relation_row_widths, dim=-1)

    def _queries(self, name: str, left: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
        parts = zip(self._each, self.weights, left, right, strict=True)
        return torch.cat([weight * getattr(member, name)(a, b) for member, weight, a, b in parts], dim=-1)


def _algebra(build: Callable[..., BilinearModel], *, model: str, weight: float, **settings: Any) -> BilinearModel:
    """Return a member without its own tables, for what it does with rows."""
    if model == JOINED:
        raise SettingError("models that are joined already are not joined again; name their members")
    member = build(model, 1, 1, **settings)
    del member.entities, member.relations
    return member


@torch.no_grad()
def join(
    models: Sequence[BilinearModel],
    names: Sequence[str],
    weights: Sequence[float],
    backward_weight: float,
    build: Callable[..., BilinearModel],
) -> BilinearModel:
    """Return models of the same entities and relations as one, each by its name and weight."""
    if not models:
        raise SettingError("joining takes models, and there are none")
    first, sizes = models[0], {(model.n_entities, model.n_relations) for model in models}
    if len(sizes) > 1:
        raise SettingError("models to be joined have the same entities and relations")
    members = []
    for model, name, weight in zip(models, names, weights, strict=True):
        own = model.settings()
        own.pop("backward_weight", None)  # the joined model has one of its own
        del own["n_entities"], own["n_relations"]
        members.append({"model": name, "weight": float(weight), **own})
    joined = build(
        JOINED,
        first.n_entities,
        first.n_relations,
        sum(model.dim for model in models),
        members=members,
        bound="identity",
        reciprocal=first.reciprocal,
        backward_weight=backward_weight,
        prior_score=sum(weight * model.prior_score for model, weight in zip(models, weights, strict=True)),
    ).to(first.entities)
    assert isinstance(joined, Joined)
    for model, name, member in zip(models, names, joined.members, strict=True):
        if type(model) is not type(member) or getattr(model, "table", None) != getattr(member, "table", None):
            raise SettingError(f"a model to be joined is said to be {name}, and is not")
    joined.entities.copy_(torch.cat([model.entities for model in models], dim=1))
    joined.relations.copy_(torch.cat([model.relations for model in models], dim=1))
    for number, model in enumerate(models):
        for name, table in model.shared().items():
            joined.shared()[f"members.{number}.{name}"].copy_(table)
    return joined.eval()
