"""Training many settings on one graph: side by side in a pack where the GPU can, one after the other elsewhere.

The loop is the one of `staypositive.training.loop`, for several runs: validate, keep the best epoch, stop a run that
no longer improves. Runs that have stopped leave the pack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from staypositive.errors import InputError, StayPositiveError
from staypositive.graph import KnowledgeGraph
from staypositive.models import BilinearModel
from staypositive.run import Settings, new_model, training_task
from staypositive.run.fitting import blank_model
from staypositive.run.measuring import Measure
from staypositive.training import Engine, RunInTraining, build_pack, start_runs
from staypositive.training import train_runs as train_engine

PACK = 64
"""Runs side by side, at most."""


@dataclass(frozen=True)
class Schedule:
    """How long runs train, and when they are looked at."""

    epochs: int
    validate_every: int
    patience: int | None = None
    min_gain: float = 0.0
    """The relative gain from which a validation counts as better for patience; the best is kept from any gain."""
    halvings: tuple[tuple[int, float], ...] = ()
    """Epochs after which only the best share of runs that train side by side continues, with that share."""


@dataclass
class Outcome:
    """What became of one run; its model has the weights of the best epoch."""

    settings: Settings
    model: BilinearModel
    best_epoch: int = 0
    best_value: float = -math.inf
    """Of the measure, larger is better."""
    epochs: int = 0
    diverged: bool = False
    mark: tuple[int, float] = (0, -math.inf)
    """Epoch and value of the last gain that patience counts."""
    curve: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0
    """This run's share of the time that its pack trained."""


def train_runs(
    graph: KnowledgeGraph,
    settings: Sequence[Settings],
    schedule: Schedule,
    measure: Measure,
    device: torch.device,
    progress: Callable[[int], Any] | None = None,
) -> list[Outcome]:
    """Train each setting and return outcomes in the same order; `progress` is told of epochs that are done with."""
    if graph.train.fact_weights is not None:
        raise InputError(
            f"{graph.name} weighs its facts by a confidence, and runs side by side count all facts alike; "
            "train it with `fit`, or load it without that column"
        )
    outcomes: dict[int, Outcome] = {}
    for group in side_by_side(settings, device):
        chosen = [settings[i] for i in group]
        models = list(_models(graph, settings, group, device))
        facts = training_task(graph, chosen[0], models[0]).facts
        tasks = [
            replace(training_task(graph, one, model), facts=facts) for one, model in zip(chosen, models, strict=True)
        ]
        runs = _train_group(build_pack(chosen[0].engine, tasks), schedule, measure, progress or (lambda _: None))
        outcomes |= {i: _outcome(settings[i], run) for i, run in zip(group, runs, strict=True)}
    return [outcomes[i] for i in range(len(settings))]


def _models(
    graph: KnowledgeGraph, settings: Sequence[Settings], group: list[int], device: torch.device
) -> Iterable[BilinearModel]:
    """Build the models of a group; those that start alike share the drawing of their start."""
    starts: dict[Any, BilinearModel] = {}
    for i in group:
        one = settings[i]
        start = (one.model, one.dim, one.model_options, one.seed, one.init_scale, one.objective.defaults.init_scale)
        if start not in starts:
            starts[start] = new_model(graph, one).to(device)
        with device:
            model = blank_model(graph, one)
        model.load_state_dict(starts[start].state_dict())
        yield model.to(getattr(torch, one.precision))


def side_by_side(settings: Sequence[Settings], device: torch.device) -> Iterable[list[int]]:
    """Return the numbers of settings that may go side by side."""
    groups: dict[Any, list[int]] = {}
    for number, one in enumerate(settings):
        together = (
            (one.model, one.dim, one.batch_size, one.bound, one.optimiser, one.precision, one.accumulator,
             type(one.objective), one.objective.negatives_per_fact, one.objective.touches_all_rows,
             getattr(one.objective, "power", 0))
            if device.type == "cuda" else number
        )  # fmt: skip
        groups.setdefault(together, []).append(number)
    for group in groups.values():
        for start in range(0, len(group), PACK):
            yield group[start : start + PACK]


def _train_group(
    engine: Engine, schedule: Schedule, measure: Measure, progress: Callable[[int], Any]
) -> list[RunInTraining]:
    runs, shares, left = start_runs(engine, "mrr", schedule.min_gain), dict(schedule.halvings), 0

    def validate(model: BilinearModel) -> dict[str, float]:
        model.eval()
        try:
            return {"mrr": measure(model)}
        except StayPositiveError:  # scores that are not finite
            return {"mrr": -math.inf}
        finally:
            model.train()

    def drop(epoch: int, active: Sequence[RunInTraining]) -> list[int]:
        nonlocal left
        progress(len(active))
        left += schedule.epochs * (len(runs) if epoch == 1 else 0) - len(active)
        return beyond_best(active, math.ceil(shares.get(epoch, 1.0) * len(runs)))

    train_engine(
        engine, schedule.epochs, runs=runs, validate=validate, validate_every=schedule.validate_every,
        patience=schedule.patience, drop=drop,
    )  # fmt: skip
    progress(left)
    return runs


def beyond_best(active: Sequence[RunInTraining], count: int) -> list[int]:
    """Return the places of the runs that have not ended and are not among the `count` best of them, best first."""
    places = [place for place, run in enumerate(active) if not run.stopped]
    return sorted(places, key=lambda place: active[place].best_value, reverse=True)[count:]


def _outcome(settings: Settings, run: RunInTraining) -> Outcome:
    run.model.float()
    curve = [(record.epoch, record.validation["mrr"]) for record in run.history if record.validation]
    return Outcome(
        settings, run.model, run.best_epoch, run.best_value, len(run.history), run.stopped == "diverged",
        (run.gain_epoch, run.gain_value), curve, sum(record.seconds for record in run.history),
    )  # fmt: skip
