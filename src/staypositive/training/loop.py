"""The training loop: epochs, validation, the best epoch kept, early stopping, a history.

The loop is handed an engine and a `validate` callable; it knows neither graphs nor files.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from staypositive.errors import DivergedError, SettingError
from staypositive.models import BilinearModel, evaluating
from staypositive.training.engine import Engine

Validate = Callable[[BilinearModel], dict[str, float]]

MONITORS = {"mrr": True, "nll": False}
"""Metrics an epoch can be chosen by, and whether larger is better."""


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
    """Why training ended: `epochs` (all done), `patience` (no improvement), or `diverged`."""

    @property
    def seconds(self) -> float:
        """Training time, validation excluded."""
        return sum(record.seconds for record in self.history)


class Callback:
    """Told how training goes; override what is of interest."""

    def on_start(self, epochs: int) -> None:
        """Training begins, of at most so many epochs."""

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
        self.weights: dict[str, Tensor] = {}

    def offer(self, epoch: int, value: float) -> bool:
        if not (value > self.value if self.larger else value < self.value):
            return False
        self.epoch, self.value = epoch, value
        self.weights = {name: weight.detach().clone() for name, weight in self.model.state_dict().items()}
        return True

    def restore(self) -> None:
        if self.weights:
            self.model.load_state_dict(self.weights)


class _LastWeights:
    """The weights after the last epoch that ended well, to go back to from one that did not."""

    def __init__(self, model: BilinearModel) -> None:
        self.model = model
        self.weights = {name: weight.detach().clone() for name, weight in model.state_dict().items()}

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
) -> TrainingResult:
    """Train for some epochs and leave the model with the weights of the best validated one (else the last).

    `patience` stops after so many validations without improvement. A non-finite loss raises `DivergedError` whose
    `run` is the result so far; the model then has its best weights, or those of the last epoch that ended well.
    """
    if epochs < 1 or validate_every < 1 or (patience is not None and patience < 1):
        raise SettingError("epochs, validate_every and patience must each be at least 1")
    best, last = _BestWeights(engine.model, monitor), _LastWeights(engine.model)
    history: list[EpochRecord] = []
    stopped = "epochs"
    for callback in callbacks:
        callback.on_start(epochs)
    for epoch in range(1, epochs + 1):
        record = _epoch(engine, epoch)
        if not all(math.isfinite(value) for value in (*record.terms.values(), record.mean_score)):
            stopped = "diverged"
            last.restore()
            break
        last.keep()
        if validate is not None and (epoch % validate_every == 0 or epoch == epochs):
            record = _validated(record, validate, best)
        history.append(record)
        for callback in callbacks:
            callback.on_epoch(record)
        if patience is not None and best.epoch and epoch - best.epoch >= patience * validate_every:
            stopped = "patience"
            break
    best.restore()
    result = TrainingResult(tuple(history), best.epoch or len(history), stopped)
    for callback in callbacks:
        callback.on_end(result)
    if stopped == "diverged":
        raise DivergedError(_advice(record), run=result)
    return result


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
