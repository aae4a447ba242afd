"""The training loop: epochs, validation, the best epoch kept, early stopping, a history.

The loop is handed an engine, a `validate` callable and a `Checkpointer`; it knows neither graphs nor files.
Several runs side by side, and one run over several processes, are the same loop.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from staypositive.errors import DivergedError, RunError, SettingError, StoppedError
from staypositive.models import BilinearModel
from staypositive.training.engine import Engine
from staypositive.training.state import State

log = logging.getLogger(__name__)

Validate = Callable[[BilinearModel], dict[str, float]]

MONITORS = {"mrr": True, "nll": False, "posterior": False}
"""Metrics an epoch can be chosen by, and whether larger is better; `posterior` is the NLL that it expects."""


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch did: mean loss terms per fact, the mean of all possible scores after it, validation if done."""

    epoch: int
    seconds: float
    terms: dict[str, float]
    mean_score: float
    validation: dict[str, float] = field(default_factory=dict)
    is_best: bool = False

    def flat(self) -> dict[str, float | int]:
        terms = {f"loss_{name}": value for name, value in self.terms.items()}
        checks = {f"valid_{name}": value for name, value in self.validation.items()}
        return {"epoch": self.epoch, "seconds": self.seconds, **terms, "mean_score": self.mean_score, **checks}


@dataclass(frozen=True)
class TrainingResult:
    """The history of a training and the epoch whose weights the model now has."""

    history: tuple[EpochRecord, ...]
    best_epoch: int
    stopped: str
    """Why training ended: `epochs` (all done), `patience` (no gain), `diverged`, `interrupted` or `dropped`."""

    @property
    def seconds(self) -> float:
        """Training time, validation excluded."""
        return sum(record.seconds for record in self.history)


@dataclass(frozen=True)
class TrainingState:
    """Where a training stands after an epoch: all that it takes to resume as if it had never stopped.

    The weights to go back to from a bad epoch are the engine's own here, since an epoch that ended badly is not kept.
    """

    engine: State
    best_weights: State
    """Those of the best validated epoch; empty before the first."""
    history: tuple[EpochRecord, ...]


class Checkpointer(Protocol):
    """Puts the state of a training aside, and knows what was put aside before."""

    def load(self) -> TrainingState | None:
        """Return the state to resume from; None to begin at the beginning."""

    def is_due(self, epoch: int) -> bool:
        """Whether the state after this epoch is worth keeping."""

    def save(self, state: TrainingState) -> None:
        """Keep a state in place of the last one, or raise `RunError` and leave that as it is."""


class Callback:
    """Told how training goes; override what is of interest."""

    def on_start(self, epochs: int) -> None:
        """Training begins, with this maximum number of epochs."""

    def on_resume(self, history: tuple[EpochRecord, ...]) -> None:
        """Training resumes from a checkpoint, these epochs being done; comes after `on_start`."""

    def on_epoch(self, record: EpochRecord) -> None:
        """An epoch has ended."""

    def on_end(self, result: TrainingResult) -> None:
        """Training has ended; the model has its best weights."""


class RunInTraining:
    """One run as the loop sees it: its history, its best epoch, and why it ended."""

    def __init__(self, model: BilinearModel, monitor: str, min_gain: float, *, keep_last: bool) -> None:
        if monitor not in MONITORS:
            raise SettingError(f"expected a metric to monitor among {', '.join(MONITORS)}, got {monitor!r}")
        self.model, self.monitor, self.sign = model, monitor, 1 if MONITORS[monitor] else -1
        self.history: list[EpochRecord] = []
        self.best_epoch, self.best_value = 0, -math.inf
        """The best validated epoch, and its metric with the sign by which larger is better."""
        self.best_weights: State = {}
        self.min_gain, self.gain_epoch, self.gain_value = min_gain, 0, -math.inf
        self.last_weights = _copied(model.state_dict()) if keep_last else {}
        self.stopped = ""

    def resume(self, state: TrainingState) -> None:
        """Take up the history and the best weights of a checkpoint, once the model has its weights."""
        self._keep_last()
        self.history = list(state.history)
        now = self.model.state_dict()
        self.best_weights = {name: weight.to(now[name], copy=True) for name, weight in state.best_weights.items()}
        for record in self.history:
            if record.validation:
                self._gain(record.epoch, self.sign * record.validation[self.monitor])
            if record.is_best:
                self.best_epoch, self.best_value = record.epoch, self.sign * record.validation[self.monitor]

    def take(self, record: EpochRecord, validate: Validate | None) -> None:
        """Add an epoch, validated if it is due; one that diverged ends the run and is left out."""
        if not all(math.isfinite(value) for value in (*record.terms.values(), record.mean_score)):
            self.stopped = "diverged"
            self.diverged = record
            if self.last_weights:
                self.model.load_state_dict(self.last_weights)
            return
        self._keep_last()
        if validate is not None:
            metrics = validate(self.model)
            value = self.sign * metrics[self.monitor]
            record = replace(record, validation=metrics, is_best=bool(value > self.best_value))
            self._gain(record.epoch, value)
            if record.is_best:
                self.best_epoch, self.best_value = record.epoch, value
                self.best_weights = _copied(self.model.state_dict())
        self.history.append(record)

    def _keep_last(self) -> None:
        for name, weight in self.model.state_dict().items() if self.last_weights else ():
            self.last_weights[name].copy_(weight)

    def _gain(self, epoch: int, value: float) -> None:
        before = self.gain_value
        if value > (before + self.min_gain * abs(before) if math.isfinite(before) else before):
            self.gain_epoch, self.gain_value = epoch, value

    def result(self) -> TrainingResult:
        """Leave the model with its best weights, if any epoch was validated."""
        if self.best_weights:
            self.model.load_state_dict(self.best_weights)
        return TrainingResult(tuple(self.history), self.best_epoch or len(self.history), self.stopped)


def train(engine: Engine, epochs: int, *, callbacks: Sequence[Callback] = (), **options: Any) -> TrainingResult:
    """Train one run and leave the model with the weights of the best validated epoch (else the last).

    Options are those of `start_runs` and `train_runs`. A non-finite loss raises `DivergedError` whose `run` is the
    result so far; the model then has its best weights, or those of the last epoch that ended well.
    """
    runs = start_runs(engine, options.pop("monitor", "mrr"), keep_last=options.pop("keep_last", True))
    (result,) = train_runs(engine, epochs, runs=runs, callbacks=callbacks, **options)
    for callback in callbacks:
        callback.on_end(result)
    if result.stopped == "diverged":
        raise DivergedError(_advice(runs[0].diverged), run=result)
    if result.stopped == "interrupted":
        raise StoppedError(f"training was stopped after epoch {len(result.history)} of {epochs}", run=result)
    return result


def start_runs(
    engine: Engine, monitor: str, min_gain: float = 0.0, *, keep_last: bool = False
) -> list[RunInTraining]:
    """Return the runs of an engine before their first epoch.

    `min_gain` is the share by which a metric must improve to count for patience; with `keep_last` a run that diverges
    goes back to the weights of the epoch before, at the price of a copy of them.
    """
    return [RunInTraining(model, monitor, min_gain, keep_last=keep_last) for model in engine.models]


def train_runs(
    engine: Engine,
    epochs: int,
    *,
    runs: Sequence[RunInTraining],
    validate: Validate | None = None,
    validate_every: int = 10,
    patience: int | None = None,
    callbacks: Sequence[Callback] = (),
    checkpointer: Checkpointer | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    drop: Callable[[int, Sequence[RunInTraining]], Iterable[int]] = lambda epoch, active: (),
) -> list[TrainingResult]:
    """Train the runs that `start_runs` made for some epochs; each ends with the weights of its best validated epoch.

    `patience` ends a run after this number of validations without improvement. `checkpointer` keeps the state of a
    single run now and then and at the end, and training resumes from what it has kept. `should_stop` is asked after
    each epoch; where it says yes, the state is kept and training ends. `drop` names those of the active runs, by
    their places, that are to end after an epoch.
    """
    if epochs < 1 or validate_every < 1 or (patience is not None and patience < 1):
        raise SettingError("epochs, validate_every and patience must each be at least 1")
    done = _resume(engine, runs, checkpointer)
    for callback in callbacks:
        callback.on_start(epochs)
        if done:
            callback.on_resume(tuple(runs[0].history))

    def why_stop(run: RunInTraining) -> str:
        if patience is not None and run.gain_epoch and done - run.gain_epoch >= patience * validate_every:
            return "patience"
        return "epochs" if done >= epochs else ""

    active = list(runs)
    while active := _still_active(engine, active, why_stop):
        done += 1
        is_due = done % validate_every == 0 or done == epochs
        for run, record in zip(active, _epoch(engine, done), strict=True):
            run.take(record, validate if is_due else None)
            for callback in callbacks if not run.stopped else ():
                callback.on_epoch(run.history[-1])
        for place in drop(done, active):
            active[place].stopped = active[place].stopped or "dropped"
        if len(runs) == 1 and runs[0].stopped:
            break
        is_asked = should_stop()
        if checkpointer is not None and (is_asked or why_stop(runs[0]) or checkpointer.is_due(done)):
            (run,) = runs
            _keep(checkpointer, TrainingState(engine.state(), run.best_weights, tuple(run.history)), must=is_asked)
        if is_asked:
            for run in active:
                run.stopped = "interrupted"
    return [run.result() for run in runs]


def _still_active(
    engine: Engine, active: list[RunInTraining], why_stop: Callable[[RunInTraining], str]
) -> list[RunInTraining]:
    """Return the runs that have not ended, and have the engine continue with these."""
    for run in active:
        run.stopped = run.stopped or why_stop(run)
    stay = [place for place, run in enumerate(active) if not run.stopped]
    if 0 < len(stay) < len(active):
        engine.keep(stay)
    return [active[place] for place in stay]


def _resume(engine: Engine, runs: Sequence[RunInTraining], checkpointer: Checkpointer | None) -> int:
    """Put back what was kept, if anything was; return the number of epochs done."""
    state = None if checkpointer is None else checkpointer.load()
    if state is None:
        return 0
    (run,) = runs
    engine.restore(state.engine)
    run.resume(state)
    return len(state.history)


def _keep(checkpointer: Checkpointer, state: TrainingState, *, must: bool) -> None:
    """Keep the state. A disk that is full now is no reason to lose what is still in memory, unless it must go."""
    try:
        checkpointer.save(state)
    except RunError as error:
        if must:
            raise
        log.warning("%s; training continues, and the last checkpoint stays as it was", error)


def _epoch(engine: Engine, epoch: int) -> list[EpochRecord]:
    """Go once through the facts; of several runs, each has an equal share of the time."""
    start = time.perf_counter()
    found = engine.run_epoch()
    means = [{name: float(mean) for name, mean in terms.items()} for terms in found]  # waits for the device
    seconds = (time.perf_counter() - start) / len(found)
    return [
        EpochRecord(epoch, seconds, terms, score) for terms, score in zip(means, engine.mean_scores(), strict=True)
    ]


def _advice(record: EpochRecord) -> str:
    culprits = [name for name, value in record.terms.items() if not math.isfinite(value)] or ["mean score"]
    return (
        f"the loss became NaN or infinite in epoch {record.epoch} (in: {', '.join(culprits)}). What was trained "
        "before is kept. Try a smaller learning rate, a smaller penalty weight, or the tanh bound"
    )


def _copied(weights: State) -> State:
    return {name: weight.detach().clone() for name, weight in weights.items()}
