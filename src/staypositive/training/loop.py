"""The training loop: epochs, validation, the best epoch kept, early stopping, a history.

The loop is handed an engine, a `validate` callable and a `Checkpointer`; it knows neither graphs nor files.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from staypositive.errors import DivergedError, RunError, SettingError, StoppedError
from staypositive.models import BilinearModel, evaluating
from staypositive.training.engine import Engine
from staypositive.training.state import State

log = logging.getLogger(__name__)

Validate = Callable[[BilinearModel], dict[str, float]]

MONITORS = {"mrr": True, "nll": False, "posterior": False}
"""Metrics an epoch can be chosen by, and whether larger is better; `posterior` is the NLL that it expects."""


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch did: mean loss terms a fact, the mean of all possible scores after it, validation if done."""

    epoch: int
    seconds: float
    terms: dict[str, float]
    mean_score: float
    validation: dict[str, float] = field(default_factory=dict)
    is_best: bool = False

    def flat(self) -> dict[str, float | int]:
        """Return the record as one row of a table."""
        terms = {f"loss_{name}": value for name, value in self.terms.items()}
        checks = {f"valid_{name}": value for name, value in self.validation.items()}
        return {"epoch": self.epoch, "seconds": self.seconds, **terms, "mean_score": self.mean_score, **checks}


@dataclass(frozen=True)
class TrainingResult:
    """The history of a training and the epoch whose weights the model now has."""

    history: tuple[EpochRecord, ...]
    best_epoch: int
    stopped: str
    """Why training ended: `epochs` (all done), `patience` (no improvement), `diverged`, or `interrupted`."""

    @property
    def seconds(self) -> float:
        """Training time, validation excluded."""
        return sum(record.seconds for record in self.history)


@dataclass(frozen=True)
class TrainingState:
    """Where a training stands after an epoch: all that it takes to go on as if it had never stopped.

    The weights to go back to from a bad epoch are the engine's own here, since an epoch that ended badly is not kept.
    """

    engine: State
    best_weights: State
    """Those of the best validated epoch; empty before the first."""
    history: tuple[EpochRecord, ...]


class Checkpointer(Protocol):
    """Puts the state of a training aside, and knows what was put aside before."""

    def load(self) -> TrainingState | None:
        """Return the state to go on from; None to begin at the beginning."""

    def is_due(self, epoch: int) -> bool:
        """Whether the state after this epoch is worth keeping."""

    def save(self, state: TrainingState) -> None:
        """Keep a state in place of the last one, or raise `RunError` and leave that as it is."""


class Callback:
    """Told how training goes; override what is of interest."""

    def on_start(self, epochs: int) -> None:
        """Training begins, of at most so many epochs."""

    def on_resume(self, history: tuple[EpochRecord, ...]) -> None:
        """Training goes on from a checkpoint, these epochs being done; comes after `on_start`."""

    def on_epoch(self, record: EpochRecord) -> None:
        """An epoch has ended."""

    def on_end(self, result: TrainingResult) -> None:
        """Training has ended; the model has its best weights."""


class _BestWeights:
    """The weights of the best epoch so far."""

    def __init__(self, model: BilinearModel, monitor: str) -> None:
        if monitor not in MONITORS:
            raise SettingError(f"expected a metric to monitor among {', '.join(MONITORS)}, got {monitor!r}")
        self.model, self.monitor, self.larger = model, monitor, MONITORS[monitor]
        self.epoch, self.value = 0, -math.inf if self.larger else math.inf
        self.weights: State = {}

    def offer(self, epoch: int, value: float) -> bool:
        if not (value > self.value if self.larger else value < self.value):
            return False
        self.epoch, self.value = epoch, value
        self.weights = _copied(self.model.state_dict())
        return True

    def resume(self, state: TrainingState) -> None:
        best = [record for record in state.history if record.is_best]
        if best:
            self.epoch, self.value = best[-1].epoch, best[-1].validation[self.monitor]
            now = self.model.state_dict()
            self.weights = {name: weight.to(now[name], copy=True) for name, weight in state.best_weights.items()}

    def restore(self) -> None:
        if self.weights:
            self.model.load_state_dict(self.weights)


class _LastWeights:
    """The weights after the last epoch that ended well, to go back to from one that did not."""

    def __init__(self, model: BilinearModel) -> None:
        self.model = model
        self.weights = _copied(model.state_dict())

    def keep(self) -> None:
        for name, weight in self.model.state_dict().items():
            self.weights[name].copy_(weight)

    def restore(self) -> None:
        self.model.load_state_dict(self.weights)


def train(
    engine: Engine,
    epochs: int,
    *,
    validate: Validate | None = None,
    validate_every: int = 10,
    monitor: str = "mrr",
    patience: int | None = None,
    callbacks: Sequence[Callback] = (),
    checkpointer: Checkpointer | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> TrainingResult:
    """Train for some epochs and leave the model with the weights of the best validated one (else the last).

    `patience` stops after so many validations without improvement. A non-finite loss raises `DivergedError` whose
    `run` is the result so far; the model then has its best weights, or those of the last epoch that ended well.
    `checkpointer` keeps the state now and then and at the end, and training goes on from what it has kept.
    `should_stop` is asked after each epoch; where it says yes, the state is kept and `StoppedError` raised.
    """
    if epochs < 1 or validate_every < 1 or (patience is not None and patience < 1):
        raise SettingError("epochs, validate_every and patience must each be at least 1")
    best = _BestWeights(engine.model, monitor)
    history = _resume(engine, best, checkpointer)
    last = _LastWeights(engine.model)
    _begin(callbacks, epochs, history)

    def why_stop() -> str:
        if patience is not None and best.epoch and len(history) - best.epoch >= patience * validate_every:
            return "patience"
        return "epochs" if len(history) >= epochs else ""

    while not (stopped := why_stop()):
        record = _epoch(engine, len(history) + 1)
        if not all(math.isfinite(value) for value in (*record.terms.values(), record.mean_score)):
            stopped = "diverged"
            last.restore()
            break
        last.keep()
        if validate is not None and (record.epoch % validate_every == 0 or record.epoch == epochs):
            record = _validated(record, validate, best)
        history.append(record)
        for callback in callbacks:
            callback.on_epoch(record)
        is_asked = should_stop()
        if checkpointer is not None and (is_asked or why_stop() or checkpointer.is_due(record.epoch)):
            _keep(checkpointer, TrainingState(engine.state(), best.weights, tuple(history)), must=is_asked)
        if is_asked:
            stopped = "interrupted"
            break
    best.restore()
    result = TrainingResult(tuple(history), best.epoch or len(history), stopped)
    for callback in callbacks:
        callback.on_end(result)
    if stopped == "diverged":
        raise DivergedError(_advice(record), run=result)
    if stopped == "interrupted":
        raise StoppedError(f"training was stopped after epoch {len(history)} of {epochs}", run=result)
    return result


def _resume(engine: Engine, best: _BestWeights, checkpointer: Checkpointer | None) -> list[EpochRecord]:
    """Put back what was kept, if anything was; return the epochs done."""
    state = None if checkpointer is None else checkpointer.load()
    if state is None:
        return []
    engine.restore(state.engine)
    best.resume(state)
    return list(state.history)


def _begin(callbacks: Sequence[Callback], epochs: int, history: Sequence[EpochRecord]) -> None:
    for callback in callbacks:
        callback.on_start(epochs)
        if history:
            callback.on_resume(tuple(history))


def _keep(checkpointer: Checkpointer, state: TrainingState, *, must: bool) -> None:
    """Keep the state. A disk that is full now is no reason to lose what is still in memory, unless it must go."""
    try:
        checkpointer.save(state)
    except RunError as error:
        if must:
            raise
        log.warning("%s; training goes on, and the last checkpoint stays as it was", error)


def _epoch(engine: Engine, epoch: int) -> EpochRecord:
    start = time.perf_counter()
    means = {name: float(mean) for name, mean in engine.run_epoch().items()}  # reading them waits for the device
    seconds = time.perf_counter() - start
    with evaluating(engine.model):
        return EpochRecord(epoch, seconds, means, float(engine.model.mean_score()))


def _validated(record: EpochRecord, validate: Validate, best: _BestWeights) -> EpochRecord:
    metrics = validate(best.model)
    is_best = best.offer(record.epoch, metrics[best.monitor])
    return EpochRecord(record.epoch, record.seconds, record.terms, record.mean_score, metrics, is_best)


def _advice(record: EpochRecord) -> str:
    culprits = [name for name, value in record.terms.items() if not math.isfinite(value)] or ["mean score"]
    return (
        f"the loss became NaN or infinite in epoch {record.epoch} (in: {', '.join(culprits)}). What was trained "
        "before is kept. Try a smaller learning rate, a smaller penalty weight, or the tanh bound"
    )


def _copied(weights: State) -> State:
    return {name: weight.detach().clone() for name, weight in weights.items()}
