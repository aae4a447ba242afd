"""Several runs of one graph as one: their models joined, with weights chosen on validation facts.

Models of different kinds, settings or seeds err differently, and the weighted sum of their scores errs less than any
of them (Caruana et al. 2004 choose such weights as here). It is a bilinear model again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from staypositive.errors import InputError, SettingError
from staypositive.evaluation import Progress
from staypositive.models import ENSEMBLE, BilinearModel, ModelOptions, combine_models
from staypositive.objectives import ENOUGH_FACTS
from staypositive.run.measuring import Measure, validation_measure
from staypositive.run.provenance import provenance
from staypositive.run.run import Run
from staypositive.run.settings import Settings
from staypositive.version import __version__

CHOICES = ("mrr", "posterior")
MOST_FACTS = 3000
"""Validation facts that are looked at, unless said otherwise."""
STEPS = (0.5, 0.3, 0.15)
"""How far towards one of the models the weights may move at once."""
ROUNDS = 8
OTHER_FACTS = (
    ", with other facts; a file is split by --split-seed, and by --seed where that is not given: give the same to all"
)
BACKWARD = (0.15, 0.3, 0.5)
"""Weights of the backward reading that are tried, where relations are reciprocal."""


@dataclass(frozen=True)
class Choice:
    """How models are joined, and what that gives by the measure that chose."""

    weights: tuple[float, ...]
    """One per model, of sum 1; 0 leaves it out."""
    backward_weight: float = 0.0
    value: float = 0.0
    alone: tuple[float, ...] = ()
    """What each model gives by itself."""


def build_ensemble(
    runs: Sequence[Run],
    *,
    weights: Sequence[float] | None = None,
    backward_weight: float | None = None,
    choose: str = "mrr",
    most_facts: int | None = MOST_FACTS,
    progress: Progress | None = None,
) -> Run:
    """Return runs of the same graph and objective as one run, without a calibrator.

    `weights` are the members', or else chosen by validation facts: by their `mrr`, or by the NLL that the `posterior`
    expects. A member whose weight comes out as 0 is left out. With weights, `backward_weight` may be given too.
    """
    _require_alike(runs)
    if choose not in CHOICES:
        raise SettingError(f"weights are chosen by {' or '.join(CHOICES)}, got {choose!r}")
    if most_facts is not None and most_facts < 1:
        raise SettingError(f"at least one validation fact is looked at, got {most_facts}")
    graph, models, names = runs[0].graph, [run.model for run in runs], [run.settings.model for run in runs]
    if weights is not None:
        chosen = Choice(_shares(weights, len(runs)), backward_weight or 0.0)
    elif backward_weight is not None:
        raise SettingError("backward_weight is chosen with the weights; give both or neither")
    else:
        count, least = len(graph.valid.facts), ENOUGH_FACTS if choose == "posterior" else 1
        if count < least:
            said = f"choosing weights by {choose} takes {least} validation facts, and {graph.name} has {count}"
            raise InputError(f"{said}: give the weights")
        chosen = choose_weights(models, names, validation_measure(graph, most_facts, choose), progress)
    model = joined_model(models, names, chosen)
    origin = provenance(graph, model.entities.device, __version__) | {
        "members": _members(runs, chosen.weights),
        "backward_weight": chosen.backward_weight,
        "weights_chosen_by": "given" if weights is not None else choose,
    }
    if weights is None:
        origin["validation"] = {"alone": list(chosen.alone), "joined": chosen.value}
    return Run(graph, model, _settings(runs, chosen.weights, model.dim), (), 0, origin)


def choose_weights(
    models: Sequence[BilinearModel], names: Sequence[str], measure: Measure, progress: Progress | None = None
) -> Choice:
    """Choose weights step by step: of all steps towards one of the models, take the best, until none gains.

    Then the weight of the backward reading is chosen. `progress` is told of each joined model that was measured.
    """

    def measured(weights: tuple[float, ...], backward: float = 0.0) -> float:
        value = measure(joined_model(models, names, Choice(weights, backward)))
        if progress:
            progress(1)
        return value

    corners = [tuple(float(place == other) for other in range(len(models))) for place in range(len(models))]
    alone = tuple(map(measured, corners))
    best = max(alone)
    weights = corners[alone.index(best)]
    for _ in range(ROUNDS):
        steps = [
            tuple((1 - step) * own + step * other for own, other in zip(weights, corner, strict=True))
            for corner in corners
            for step in STEPS
        ]
        tried = {moved: measured(moved) for moved in steps if moved != weights}
        moved = max(tried, key=tried.__getitem__)
        if tried[moved] <= best:
            break
        weights, best = moved, tried[moved]
    backward = 0.0
    if models[0].reciprocal:
        by_weight = {0.0: best} | {weight: measured(weights, weight) for weight in BACKWARD}
        backward = max(by_weight, key=by_weight.__getitem__)
        best = by_weight[backward]
    return Choice(weights, backward, best, alone)


def most_tries(count: int) -> int:
    """Return how many joined models are measured, at most, to choose the weights of this number of models."""
    return count + ROUNDS * count * len(STEPS) + len(BACKWARD)


def joined_model(models: Sequence[BilinearModel], names: Sequence[str], choice: Choice) -> BilinearModel:
    """Return the models that have a weight as one."""
    weights = choice.weights
    kept = [*compress(models, weights)], [*compress(names, weights)], [*filter(None, weights)]
    return combine_models(*kept, choice.backward_weight)


def _shares(weights: Sequence[float], count: int) -> tuple[float, ...]:
    given = [float(weight) for weight in weights]
    if len(given) != count:
        raise SettingError(f"there are {count} runs and {len(given)} weights")
    if not all(0 <= weight < float("inf") for weight in given) or not any(given):
        raise SettingError(f"weights are numbers from 0, not all of them 0, got {given}")
    scaled = [weight / max(given) for weight in given]  # the sum of large ones may be no number
    return tuple(weight / sum(scaled) for weight in scaled)


def _members(runs: Sequence[Run], weights: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {
            "weight": weight, "settings": run.settings.as_dict(), "best_epoch": run.best_epoch,
            "commit": run.provenance.get("commit", ""), "version": run.provenance.get("version", ""),
        }
        for run, weight in zip(runs, weights, strict=True)
    ]  # fmt: skip


def _settings(runs: Sequence[Run], weights: Sequence[float], dim: int) -> Settings:
    """Return the settings of the heaviest member; of equal weights, of the one whose settings come first as text."""
    ordered = sorted(zip(weights, runs, strict=True), key=lambda pair: (-pair[0], str(pair[1].settings.as_dict())))
    own = ordered[0][1].settings
    means = {
        name: sum(weight * getattr(run.settings.objective, name) for weight, run in ordered)
        for name in own.objective.averaged_options
    }
    objective: Any = own.objective
    return dataclasses.replace(
        own, objective=dataclasses.replace(objective, **means), model=ENSEMBLE, model_options=ModelOptions(), dim=dim
    )


def _require_alike(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise InputError("joining takes two runs or more")
    first = runs[0]
    for other in runs[1:]:
        if other.graph.fingerprint != first.graph.fingerprint:
            raise InputError(
                f"runs to be joined have the same graph: one is of {first.graph.name}, another of {other.graph.name}"
                + (OTHER_FACTS if other.graph.name == first.graph.name else "")
            )
        if other.settings.objective.name != first.settings.objective.name:
            raise InputError(
                f"runs to be joined were trained by the same objective, so that scores mean the same: one is by "
                f"{first.settings.objective.name}, another by {other.settings.objective.name}"
            )
        if other.model.reciprocal != first.model.reciprocal:
            raise InputError("runs with reciprocal relations cannot be joined with runs without")
