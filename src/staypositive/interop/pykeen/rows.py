"""A PyKEEN model's representations as rows of one of our models, so that every closed form here holds for it.

PyKEEN holds a model as representations, tensors by entity or relation, and an interaction that scores them. For six
interactions the representations, flattened and put side by side, are rows of a model of ours with equal scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from pykeen.models import ERModel
from pykeen.nn import modules
from pykeen.nn.representation import Representation
from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models import TABLES, BilinearModel, build_model

INTERACTIONS: dict[str, type[modules.Interaction]] = {
    "distmult": modules.DistMultInteraction,
    "simple": modules.SimplEInteraction,
    "complex": modules.ComplExInteraction,
    "hole": modules.HolEInteraction,
    "rescal": modules.RESCALInteraction,
    "cp": modules.CPInteraction,
}
"""PyKEEN's interactions that are linear in head, relation and tail, by the name of the model here."""


class Layout(NamedTuple):
    """Which model of ours scores the rows, and what its relation rows are multiplied by."""

    model: str
    relation_factor: float = 1.0

    def build(self, entity_width: int, n_entities: int, n_relations: int, **settings: Any) -> BilinearModel:
        """Return the model that fits entity rows of this width."""
        blocks = TABLES[self.model].entity_blocks if self.model in TABLES else 1
        return build_model(self.model, n_entities, n_relations, entity_width // blocks, bound="identity", **settings)


def layout_named(name: str) -> Layout:
    """Return the layout of a model that PyKEEN calls so."""
    if name not in INTERACTIONS:
        raise SettingError(f"expected one of PyKEEN's models {', '.join(INTERACTIONS)}, got {name!r}")
    if name == "simple":
        # In PyKEEN 1.11 each half of a head meets its like, rather than a tail's other half, which makes SimplE two
        # DistMults side by side, each of weight 1/2; so look.
        one, none = torch.ones(1), torch.zeros(1)
        if INTERACTIONS[name]()((one, none), (one, one), (none, one)) == 0:
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


class RowView:
    """The rows of a live PyKEEN model, with gradients, and the model of ours that scores them (`algebra`)."""

    def __init__(self, model: ERModel, *, prior_score: float = 0.0, dropout: float = 0.0) -> None:
        self.model, self.layout = model, layout_of(model)
        with torch.no_grad():
            width = self.entity_rows(torch.zeros(1, dtype=torch.long, device=model.device)).shape[1]
        sizes = width, model.num_entities, model.num_relations
        with torch.device("meta"):  # formulas alone, no weights
            self.algebra = self.layout.build(*sizes, prior_score=prior_score, dropout=dropout)

    def entity_rows(self, ids: Tensor | None = None, *, plain: bool = True) -> Tensor:
        """Return the rows of these entities, or of all; unless `plain`, the model's own regularisers see them."""
        return _row(self.model.entity_representations, ids, plain)

    def relation_rows(self, ids: Tensor | None = None, *, plain: bool = True) -> Tensor:
        """Return the rows of these relations, by PyKEEN's ids, or of all."""
        return self.layout.relation_factor * _row(self.model.relation_representations, ids, plain)


def _row(representations: Sequence[Representation], ids: Tensor | None, plain: bool) -> Tensor:
    """Return representations side by side, each flattened; plain ones without dropout, unseen by regularisers."""
    parts = []
    for own in representations:
        formed = own._plain_forward(ids) if plain else own(ids)
        if plain and own.normalizer is not None:
            formed = own.normalizer(formed)
        parts.append(flat_real(formed.flatten(1)))
    return torch.cat(parts, dim=1)


def flat_real(part: Tensor) -> Tensor:
    """Return complex numbers as real parts, then imaginary ones; real numbers as they are."""
    return torch.cat([part.real, part.imag], dim=1) if part.is_complex() else part
