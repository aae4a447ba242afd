"""What a run folder claims, checked before it is believed: anybody may have written it, hashes and all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from staypositive.errors import RunError
from staypositive.graph import KnowledgeGraph
from staypositive.models import BilinearModel, build_model
from staypositive.probability import FEATURES, Calibrator, FeatureCalibrator, Features, Labelled
from staypositive.typed import fits, misfit_of

MOST_ENTRY, MOST_SCORE = 2.0**30, 2.0**40
"""The largest row entry and the largest score that weights may lead to, about 10⁹ and 10¹²: far from what is trained.

Scores are computed in 32 bits, up to 3·10³⁸. Variances square them, and covariances sum squared entries over all
entities: with these limits, and 10⁹ entities, 10³³ at most.
"""


def outline(name: str, settings: Mapping[str, Any]) -> BilinearModel:
    """Build a model without its weights: shapes cost nothing, however large they are said to be."""
    with torch.device("meta"):
        return build_model(name, **settings)


def filled_model(name: str, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> BilinearModel:
    """Build a model and give it its weights, once they are known to be its own, and numbers."""
    wanted = {key: tuple(weight.shape) for key, weight in outline(name, settings).state_dict().items()}
    given = {key: tuple(weight.shape) for key, weight in weights.items()}
    if wanted != given:
        raise RunError(f"a model of these settings has weights of shape {wanted}, and these are {given}")
    for key, weight in weights.items():
        if not weight.is_floating_point():
            raise RunError(f"the weights of {key} are not finite numbers, but {weight.dtype}")
    model = build_model(name, **settings)
    model.load_state_dict(dict(weights))
    require_bounded(model)
    model.eval()
    return model


@torch.no_grad()
def require_bounded(model: BilinearModel, entities: Tensor | None = None) -> None:
    """Refuse weights that are not finite, or that lead to scores which 32 bits cannot hold, squared ones included.

    `entities` are the largest weights of any entity in size, by coordinate, where the model has not all of them.
    """
    tables = dict(model.named_parameters())
    largest = {name: largest_weights(table) for name, table in tables.items()}
    largest |= {} if entities is None else {"entities": entities}
    for name, sizes in largest.items():
        if not bool(torch.isfinite(sizes).all()):
            raise RunError(f"the weights of {name} are not finite numbers of 32 bits")
    of_entities = model.form_entity_rows(largest["entities"]).abs().double()  # a larger weight has a larger row
    of_relations = largest_weights(model.relation_rows()).double()
    entry = max(float(of_entities.max()), float(of_relations.max()))
    most = float(model.largest_score(of_entities, of_relations, of_entities))
    score = 2 * most + abs(model.prior_score)  # both directions
    if not entry <= MOST_ENTRY or not score <= MOST_SCORE:
        raise RunError(
            f"its weights are too large to compute with: rows have entries up to {entry:.3g} and scores reach up to "
            f"{score:.3g}, and {MOST_ENTRY:.3g} and {MOST_SCORE:.3g} are the most"
        )


def largest_weights(table: Tensor) -> Tensor:
    """Return the largest size of an entry in each column of a table."""
    low, high = (table.float() if table.dtype == torch.bfloat16 else table).aminmax(dim=0)
    return torch.maximum(-low, high)


def require_whole(parts: Any) -> None:
    """Refuse parts that are not what their names say, or do not fit together."""
    graph, model = parts.graph, parts.model
    wrong = misfit_of(parts) or next(filter(None, map(misfit_of, (graph, *parts.history, *graph.sources))), "")
    if wrong or not fits(parts.metrics, dict[str, dict[str, Any]]):
        raise RunError(wrong or "metrics are tables, one per split")
    if (model.n_entities, model.n_relations) != (len(graph.entities), len(graph.relations)):
        raise RunError(
            f"the model knows {model.n_entities} entities and {model.n_relations} relations, "
            f"the graph {len(graph.entities)} and {len(graph.relations)}"
        )
    if parts.calibrator is not None:
        require_calibrator(parts.calibrator, graph)
    if parts.posterior is not None:
        wrong = parts.posterior.misfit(len(graph.relations))
        if wrong:
            raise RunError(f"the posterior {wrong}")
        if parts.posterior.judged is not None:
            require_calibrator(parts.posterior.judged, graph)


def require_calibrator(calibrator: Calibrator, graph: KnowledgeGraph) -> None:
    """Refuse a calibrator that gives anything but numbers: it is tried on scores of all sizes, its own among them."""
    wrong = misfit_of(calibrator)
    if wrong or not 0 < calibrator.base_prior < 1:
        raise RunError(f"the calibrator {calibrator.name} {wrong or 'has a prior that is no probability'}")
    scores = np.concatenate([np.linspace(-60, 60, 61), np.clip(_numbers(calibrator.as_dict()), -60, 60)])
    with np.errstate(all="ignore"):
        if isinstance(calibrator, Labelled):
            evidence = np.tile(scores[:, None], len(FEATURES))
            given = calibrator.apply_evidence(scores, evidence, np.arange(len(scores)) % len(graph.relations))
        elif isinstance(calibrator, FeatureCalibrator):
            relations = np.arange(len(scores)) % len(graph.relations)
            features = Features(relations, scores, scores, scores, scores, np.zeros(len(scores)))
            given = calibrator.apply_features(features)
        else:
            given = calibrator.apply(scores)
    if given.shape != scores.shape or not np.isfinite(given).all():
        raise RunError(f"the calibrator {calibrator.name} does not give a finite number for every score")


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [number for part in value for number in _numbers(part)]
    return [float(value)] if isinstance(value, int | float) else []
