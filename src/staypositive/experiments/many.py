"""Training many settings on one graph: side by side in a pack where the GPU can, one after the other elsewhere.

The loop is the one of `staypositive.training.loop`, for several runs: validate, keep the best epoch, stop a run that
no longer improves. Runs that have stopped leave the pack.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from staypositive.errors import InputError, StayPositiveError
from staypositive.graph import KnowledgeGraph
from staypositive.models import BilinearModel, BlockModel
from staypositive.objectives import NegativeSampling, StayPositive
from staypositive.run.fitting import blank_model, new_engine, new_model, new_optimiser, training_facts
from staypositive.run.measuring import Measure
from staypositive.run.settings import Settings
from staypositive.training import AdaGrad, Engine
from staypositive.training.fused import why_not
from staypositive.training.fused_gpu import FusedGpuEngine, PackedRun, PackedRuns

PACK = 64
"""Runs side by side, at most."""


@dataclass(frozen=True)
class Schedule:
    """How long runs train, and when they are looked at."""

    epochs: int
    validate_every: int
    patience: int | None = None
    min_gain: float = 0.0
    """The relative gain from which a validation counts as better, for patience alone."""
    halvings: tuple[tuple[int, float], ...] = ()
    """Epochs after which only the best share of runs that train side by side goes on, with that share."""


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


class _Runs(Protocol):
    """Several runs that go through an epoch together."""

    def run_epoch(self) -> None: ...

    def finite(self) -> list[bool]: ...

    def keep(self, chosen: Sequence[int]) -> None: ...


def train_many(
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
    outcomes: list[Outcome | None] = [None] * len(settings)
    for group in side_by_side(settings, device):
        found = [
            Outcome(settings[i], model)
            for i, model in zip(group, _models(graph, settings, group, device), strict=True)
        ]
        facts = training_facts(graph, found[0].model, device)
        _train_group(_start(found, facts), found, schedule, measure, progress or (lambda _: None))
        for i, outcome in zip(group, found, strict=True):
            outcomes[i] = outcome
    return [outcome for outcome in outcomes if outcome is not None]


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


def _start(found: list[Outcome], facts: Tensor) -> _Runs:
    """Pack the runs if the GPU's engine serves them; else give each an engine of its own."""
    first = found[0]
    optimiser = new_optimiser(first.model, first.settings)
    reason = why_not(FusedGpuEngine, first.model, first.settings.objective, optimiser)
    if facts.device.type != "cuda" or reason or first.settings.engine == "reference":
        return _InTurn([new_engine(outcome.model, outcome.settings, facts) for outcome in found])
    members = []
    for outcome in found:
        model, objective, stepper = (
            outcome.model,
            outcome.settings.objective,
            new_optimiser(outcome.model, outcome.settings),
        )
        assert isinstance(model, BlockModel)
        assert isinstance(objective, StayPositive | NegativeSampling)
        assert isinstance(stepper, AdaGrad)
        members.append(PackedRun(model, objective, stepper, outcome.settings.seed))
    return _Pack(PackedRuns(members, facts, first.settings.batch_size))


class _Pack:
    def __init__(self, pack: PackedRuns) -> None:
        self.pack = pack

    def run_epoch(self) -> None:
        self.pack.run_epoch()

    def finite(self) -> list[bool]:
        return torch.isfinite(self.pack.totals).all(1).tolist()

    def keep(self, chosen: Sequence[int]) -> None:
        self.pack.keep(chosen)


class _InTurn:
    def __init__(self, engines: list[Engine]) -> None:
        self.engines = engines
        self.terms: list[Tensor] = []

    def run_epoch(self) -> None:
        self.terms = [torch.stack(list(engine.run_epoch().values())) for engine in self.engines]

    def finite(self) -> list[bool]:
        return [bool(torch.isfinite(terms).all()) for terms in self.terms]

    def keep(self, chosen: Sequence[int]) -> None:
        self.engines = [self.engines[run] for run in chosen]


def _train_group(
    runs: _Runs, found: list[Outcome], schedule: Schedule, measure: Measure, progress: Callable[[int], Any]
) -> None:
    active = list(found)
    best: dict[int, dict[str, Tensor]] = {}
    shares = dict(schedule.halvings)
    for epoch in range(1, schedule.epochs + 1):
        start = time.perf_counter()
        runs.run_epoch()
        finite = runs.finite()  # waits for the device
        for outcome in active:
            outcome.seconds += (time.perf_counter() - start) / len(active)
            outcome.epochs = epoch
        due = epoch % schedule.validate_every == 0 or epoch == schedule.epochs
        stay = []
        for number, outcome in enumerate(active):
            if not finite[number]:
                outcome.diverged = True
                continue
            if due:
                _look(outcome, measure, best, schedule.min_gain)
            limit = schedule.patience and schedule.patience * schedule.validate_every
            if not (limit and outcome.mark[0] and epoch - outcome.mark[0] >= limit):
                stay.append(number)
        stay = _best_of(active, stay, math.ceil(shares.get(epoch, 1.0) * len(found)))
        progress(len(stay) + (len(active) - len(stay)) * (schedule.epochs - epoch + 1))
        if len(stay) < len(active):
            active = [active[number] for number in stay]
            if not active:
                break
            runs.keep(stay)
    for outcome in found:
        if id(outcome) in best:
            outcome.model.load_state_dict(best[id(outcome)])
        outcome.model.float()


def _best_of(active: list[Outcome], stay: list[int], count: int) -> list[int]:
    """Return those of the runs that stay which are among the `count` best, in their order."""
    best = sorted(stay, key=lambda number: active[number].best_value, reverse=True)[:count]
    return sorted(best)


def _look(outcome: Outcome, measure: Measure, best: dict[int, dict[str, Tensor]], min_gain: float) -> None:
    outcome.model.eval()
    try:
        value = measure(outcome.model)
    except StayPositiveError:  # scores that are not finite
        value = -math.inf
    outcome.model.train()
    outcome.curve.append((outcome.epochs, value))
    mark = outcome.mark[1]
    if value > (mark + min_gain * abs(mark) if math.isfinite(mark) else mark):
        outcome.mark = (outcome.epochs, value)
    if value > outcome.best_value:
        outcome.best_epoch, outcome.best_value = outcome.epochs, value
        best[id(outcome)] = {name: weight.detach().clone() for name, weight in outcome.model.state_dict().items()}
