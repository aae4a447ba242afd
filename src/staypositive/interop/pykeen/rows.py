"""A PyKEEN model's representations as the rows of one of our models: so every closed form here is ours.

PyKEEN holds a model as representations, tensors by entity or relation, and an interaction that scores them. For six
interactions the representations, flattened and put side by side, are rows of a model of ours with equal scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pykeen.models import ERModel
from pykeen.nn import modules
from pykeen.nn.representation import Representation
from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models import TABLES, BilinearModel, build_model
from staypositive.objectives import Batch

INTERACTIONS: dict[str, type[modules.Interaction]] = {
    "distmult": modules.DistMultInteraction,
    "simple": modules.SimplEInteraction,
    "complex": modules.ComplExInteraction,
    "hole": modules.HolEInteraction,
    "rescal": modules.RESCALInteraction,
    "cp": modules.CPInteraction,
}
"""PyKEEN's interactions that are linear in head, relation and tail, by the name of the model here."""


@dataclass(frozen=True)
class Layout:
    """Which model of ours scores the rows, and what its relation rows are multiplied by."""

    model: str
    relation_factor: float = 1.0

    def algebra(self, entity_width: int, n_entities: int, n_relations: int, **settings: float) -> BilinearModel:
        """Return the model that fits rows of this width, without weights: it has formulas alone."""
        blocks = TABLES[self.model].entity_blocks if self.model in TABLES else 1
        with torch.device("meta"):
            return build_model(
                self.model, n_entities, n_relations, entity_width // blocks, bound="identity", **settings
            )


def layout_named(name: str) -> Layout:
    """Return the layout of a model that PyKEEN calls so."""
    if name not in INTERACTIONS:
        raise SettingError(f"expected one of PyKEEN's models {', '.join(INTERACTIONS)}, got {name!r}")
    if name == "simple" and not _halves_cross(INTERACTIONS[name]()):
        return Layout("distmult", relation_factor=0.5)
    return Layout(name)


def layout_of(model: ERModel) -> Layout:
    """Return the layout of a PyKEEN model by its interaction; one that is not linear in its rows is an error."""
    interaction: Any = getattr(model, "interaction", None)
    if type(interaction) is modules.ClampedInteraction:
        if interaction.clamp_score is not None:
            raise SettingError(
                f"scores clamped to {interaction.clamp_score} are not linear in the rows, so that no closed form "
                "holds; build the model with clamp_score=None, or set model.interaction.clamp_score = None"
            )
        interaction = interaction.base
    for name, kind in INTERACTIONS.items():
        if type(interaction) is kind:
            return layout_named(name)
    raise SettingError(
        f"expected a PyKEEN model that is linear in head, relation and tail ({', '.join(INTERACTIONS)}), "
        f"got {type(model).__name__} with {type(interaction).__name__}"
    )


def _halves_cross(interaction: modules.Interaction) -> bool:
    """Whether a head's first half meets a tail's second, as SimplE has it.

    In PyKEEN 1.11 each half meets its like, which makes SimplE two DistMults side by side, each of weight ½; so look.
    """
    one, none = torch.ones(1), torch.zeros(1)
    return bool(interaction((one, none), (one, one), (none, one)) != 0)


class RowView:
    """The rows of a live PyKEEN model, with gradients, and the model of ours that scores them (`algebra`)."""

    def __init__(self, model: ERModel, *, prior_score: float = 0.0, dropout: float = 0.0) -> None:
        self.model, self.layout = model, layout_of(model)
        with torch.no_grad():
            width = _row(model.entity_representations, torch.zeros(1, dtype=torch.long, device=model.device)).shape[1]
        sizes = width, model.num_entities, model.num_relations
        self.algebra = self.layout.algebra(*sizes, prior_score=prior_score, dropout=dropout)

    def entity_rows(self, ids: Tensor | None = None, *, plain: bool = True) -> Tensor:
        """Return the rows of these entities, or of all; unless `plain`, the model's own regularisers see them."""
        return _row(self.model.entity_representations, ids, plain)

    def relation_rows(self, ids: Tensor | None = None, *, plain: bool = True) -> Tensor:
        """Return the rows of these relations, by PyKEEN's ids, or of all."""
        return self.layout.relation_factor * _row(self.model.relation_representations, ids, plain)

    def batch(
        self, facts: Tensor, every_row: bool, batches: int, key: Tensor, prepared: dict[str, Tensor], plain: bool
    ) -> Batch:
        """Return what an objective sees of some facts, shape (n, 3): their distinct rows, or every row."""
        heads, relations, tails = facts.unbind(1)
        entity_ids = relation_ids = None
        if not every_row:
            entity_ids, positions = torch.unique(torch.cat([heads, tails]), return_inverse=True)
            heads, tails = positions.split(len(heads))
            relation_ids, relations = torch.unique(relations, return_inverse=True)
        entity_rows = self.entity_rows(entity_ids, plain=plain)
        relation_rows = self.relation_rows(relation_ids, plain=plain)
        return Batch(
            heads, relations, tails, len(facts), entity_rows, relation_rows, entity_rows, relation_rows, batches, key,
            prepared,
        )  # fmt: skip


def _row(representations: Sequence[Representation], ids: Tensor | None, plain: bool = True) -> Tensor:
    """Return representations side by side, each flattened, a complex one as its real parts, then its imaginary."""
    parts = [_formed(own, ids) if plain else own(ids) for own in representations]
    return torch.cat([flat_real(part.flatten(1)) for part in parts], dim=1)


def _formed(representation: Representation, ids: Tensor | None) -> Tensor:
    """Return a representation as it is scored, without dropout and without telling its regulariser."""
    values: Tensor = representation._plain_forward(ids)
    return values if representation.normalizer is None else representation.normalizer(values)


def flat_real(part: Tensor) -> Tensor:
    """Return complex numbers as real parts, then imaginary ones; real numbers as they are."""
    return torch.cat([part.real, part.imag], dim=1) if part.is_complex() else part
