"""Models: the contract, the block family, RESCAL, HolE, NTN's bilinear layer, TuckER and squared TransE."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from staypositive.errors import SettingError
from staypositive.models.block import TABLES, BlockModel, Table, Term
from staypositive.models.contract import BOUNDS, BilinearModel, ModelOptions, evaluating
from staypositive.models.ensemble import ENSEMBLE, Ensemble, combine
from staypositive.models.hole import HolE
from staypositive.models.moments import LinearMap, RowMoments, ScoreMoments, score_moments
from staypositive.models.ntn import Ntn
from staypositive.models.prior import CLOSED_WORLD, logit, resolve_prior_score
from staypositive.models.rescal import Rescal
from staypositive.models.scorer import Scorer
from staypositive.models.transe import TransE
from staypositive.models.tucker import Tucker

MODELS: dict[str, Table | Callable[..., BilinearModel]] = {
    **TABLES,
    "rescal": Rescal,
    "hole": HolE,
    "ntn": Ntn,
    "tucker": Tucker,
    "transe": TransE,
}
"""Every model by its name: a block model's table of terms, or a class. A new entry is a new model everywhere."""


def build_model(name: str, n_entities: int, n_relations: int, dim: int, **settings: Any) -> BilinearModel:
    """Build a model by name, with weights still zero: `initialise` draws them.

    >>> build_model("complex", n_entities=10, n_relations=2, dim=8).entities.shape
    torch.Size([10, 16])
    """
    if name == ENSEMBLE:
        return Ensemble(n_entities, n_relations, dim, build=build_model, **settings)
    if name not in MODELS:
        raise SettingError(f"expected a model among {', '.join(MODELS)}, got {name!r}")
    kind = MODELS[name]
    if isinstance(kind, Table):
        return BlockModel(n_entities, n_relations, dim, table=kind, **settings)
    return kind(n_entities, n_relations, dim, **settings)


def options_class(name: str) -> type[ModelOptions]:
    """Return the class that holds a model's own options."""
    found: type[ModelOptions] = getattr(MODELS.get(name), "options", ModelOptions)
    return found


def model_options(name: str) -> dict[str, dataclasses.Field[Any]]:
    """Return a model's own options by name, each with default, type and what `option` declares."""
    return {field.name: field for field in dataclasses.fields(options_class(name))}


def combine_models(
    models: Sequence[BilinearModel],
    names: Sequence[str],
    weights: Sequence[float] | None = None,
    backward_weight: float = 0.0,
) -> BilinearModel:
    """Return models of the same entities and relations as one, each by its name and weight, by default 1."""
    return combine(models, names, [1.0] * len(models) if weights is None else weights, backward_weight, build_model)


__all__ = [
    "BOUNDS", "CLOSED_WORLD", "ENSEMBLE", "MODELS", "TABLES", "BilinearModel", "BlockModel", "Ensemble", "HolE",
    "LinearMap", "ModelOptions", "Ntn", "Rescal", "RowMoments", "ScoreMoments", "Scorer", "Table", "Term", "TransE",
    "Tucker", "build_model", "combine_models", "evaluating", "logit", "model_options", "options_class",
    "resolve_prior_score", "score_moments",
]  # fmt: skip
